// Connections to PostgreSQL. Reads take any of a few; each write goes through one of the lanes, which have a connection each.
//
// P1  No transaction waits for us: each write is one statement, and READ COMMITTED with locks in the order of keys is enough.
// P2  A write whose answer was lost may still be at work in its backend. Before anything else is read or written here, that backend is
//     ended and seen to be gone; what is read then is what landed.
// P3  A backend that ends while its commit waits for a synchronous replica makes the commit visible, although a failover may still lose
//     it. So after P2 another commit has to be answered first: the replica then has all that is before it in the log.
import { Socket } from "node:net";
import { Client, type ClientConfig, DatabaseError, Pool, types as pgTypes, type QueryResult, TypeOverrides } from "pg";
import { ConfigError, codeOf, messageOf, StoreFault } from "../../core/errors.ts";
import { backoff, onAbort, within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";

export type PgRow = Record<string, unknown>;
/** `name`: the statement is prepared once for each connection. */
export type Query = { name?: string; text: string; values?: unknown[] };
/** The process of the server behind a connection. A number may be given again, its start is not. */
type Backend = { pid: number; since: string };

/** PostgreSQL or the network is silent for longer than this: the connection is given up. */
const ANSWER_MS = 10_000;
/** Characters in a millisecond: what is large may take longer on its way, or it would be tried again for ever. */
const SLOWEST = 100;
const CONNECT_MS = 5_000;
/** A connection is idle for so long: TCP asks for a sign of life. Gateways forget one that is silent for some minutes. */
const PROBE_MS = 60_000;
const READERS = 4;
/** What a lost connection gets to end before whoever waits for that is refused. */
const ENDING_MS = 5_000;
const AGAIN_MS = { first: 20, most: 1_000 };
const FAREWELL_MS = 1_000;

const types = new TypeOverrides();
types.setTypeParser(pgTypes.builtins.INT8, Number);

export type Link = ReturnType<typeof openLink>;
/** One connection, for what must stay on one. */
export type Connection = {
  query(query: Query): Promise<PgRow[]>;
  backend: Backend;
  lost: Promise<void>;
  onNotification(listener: () => void): void;
  end(): Promise<void>;
};

export function openLink(url: string) {
  const where = placeOf(url);
  const settings: ClientConfig = {
    connectionString: url,
    types,
    application_name: "hermes",
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: PROBE_MS,
  };
  // They stay: a new one takes 10 ms, and knows no statement.
  const pool = new Pool({ ...settings, max: READERS, idleTimeoutMillis: 0, query_timeout: ANSWER_MS });
  pool.on("error", () => {}); // an idle one was lost; the next read takes another
  const suspects = new Set<Backend>();
  let settling: Promise<void> | null = null;
  const closing = new AbortController();

  const run = async (query: Query): Promise<PgRow[]> => {
    try {
      return (await pool.query<PgRow>(query)).rows;
    } catch (error) {
      throw faultOf(error, "no", where);
    }
  };

  /** P2. */
  async function settled(): Promise<void> {
    if (closing.signal.aborted) throw new StoreFault("no", `${where} is closed`);
    const until = clock.monotonic() + ENDING_MS;
    while (suspects.size > 0) {
      settling ??= settle([...suspects]).finally(() => {
        settling = null;
      });
      const done = settling.then(() => true); // not of those that came since
      if (!(await within(clock, until - clock.monotonic(), done, closing.signal)))
        throw new StoreFault(
          "no",
          `${where}: a lost connection does not end, or the replica does not answer; try again`,
        );
    }
  }

  async function settle(ended: readonly Backend[]): Promise<void> {
    for (const backend of ended) await gone(backend);
    await replicated();
    for (const backend of ended) suspects.delete(backend);
  }

  async function gone({ pid, since }: Backend): Promise<void> {
    const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz`;
    for (let tries = 0; (await run({ text: end, values: [pid, since] })).length > 0; tries++)
      await clock.sleep(backoff(tries, AGAIN_MS), closing.signal);
  }

  /** P3. */
  async function replicated(): Promise<void> {
    const connection = await connect();
    const release = onAbort(closing.signal, () => void connection.end());
    try {
      await connection.query({ text: "UPDATE owner SET epoch = epoch" });
    } catch (error) {
      if (isLost(error)) suspects.add(connection.backend); // it would wait on, and each one after it too
      throw faultOf(error, "no", where);
    } finally {
      release();
      void connection.end();
    }
  }

  /** `patient`: for questions that take as long as they take. */
  async function connect(patient = false): Promise<Connection> {
    const socket = new Socket();
    const client = new Client({ ...settings, stream: () => socket });
    const { promise: lost, resolve } = Promise.withResolvers<void>();
    client.on("error", () => resolve());
    client.on("end", () => resolve());
    const end = async () => {
      await within(clock, FAREWELL_MS, client.end()).catch(() => {});
      socket.destroy(); // a silent server does not
    };
    try {
      await client.connect();
      const who = `SELECT pid, backend_start::text since FROM pg_stat_activity WHERE pid = pg_backend_pid()`;
      const [row] = (await client.query<{ pid: number; since: string }>(who)).rows;
      if (!row) throw new Error("the server does not list our connection");
      const query = async (query: Query) => {
        const answer: QueryResult<PgRow> | QueryResult<PgRow>[] = await client.query<PgRow>({
          ...textsOf(query),
          ...(!patient && { query_timeout: ANSWER_MS + charsIn(query.values) / SLOWEST }),
        });
        return Array.isArray(answer) ? [] : answer.rows; // several statements, several answers
      };
      const onNotification = (listener: () => void) => void client.on("notification", listener);
      return { query, backend: row, lost, onNotification, end };
    } catch (error) {
      void end();
      throw faultOf(error, "no", where);
    }
  }

  return {
    where,
    connect,
    settled,
    /** What a backend was asked for may still land. */
    suspect: (backend: Backend) => void suspects.add(backend),
    async read(query: Query): Promise<PgRow[]> {
      await settled();
      return run(textsOf(query));
    },
    /** Asks each of the connections for reads what it will be asked: the first time takes ten times as long. */
    async warm(queries: readonly Query[]): Promise<void> {
      const ask = async () => {
        const client = await pool.connect();
        const lost = () => {}; // the query fails too
        client.on("error", lost);
        try {
          for (const query of queries) await client.query(query);
          client.release();
        } catch (error) {
          client.release(true);
          throw error;
        } finally {
          client.off("error", lost);
        }
      };
      await Promise.all(Array.from({ length: READERS }, ask));
    },
    async close(): Promise<void> {
      closing.abort("closed");
      await pool.end();
    },
  };
}

/** For people: never the password. */
function placeOf(url: string): string {
  try {
    const { hostname, port, pathname, searchParams } = new URL(url);
    return `PostgreSQL at ${searchParams.get("host") ?? hostname}${port && `:${port}`}${pathname}`;
  } catch {
    throw new ConfigError("store.url is not an address such as postgres://user:password@host:5432/hermes");
  }
}

/** PostgreSQL keeps every character of a text but one. Keys that contain it are found by nobody; what is JSON has it escaped. */
export const plainText = (text: string): string => (text.includes("\0") ? text.replaceAll("\0", "\ufffd") : text);

function textsOf(query: Query): Query {
  const clean = (value: unknown): unknown => {
    if (typeof value === "string") return plainText(value);
    return Array.isArray(value) ? value.map(clean) : value;
  };
  return query.values ? { ...query, values: query.values.map(clean) } : query;
}

const charsIn = (value: unknown): number => {
  if (typeof value === "string" || Buffer.isBuffer(value)) return value.length;
  return Array.isArray(value) ? value.reduce<number>((sum, one) => sum + charsIn(one), 0) : 0;
};

/** What no restart changes, by code: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const MISTAKES: Record<string, string> = {
  "28000": "refuses the user in store.url",
  "28P01": "refuses the user or the password in store.url",
  "3D000": "does not have the database in store.url: create it",
  "42501": "does not let the user in store.url do this: grant CREATE on the schema",
  "3F000": "has no schema to create tables in",
};

/** Whether the connection is of no more use after it, and a write may or may not have landed. */
export const isLost = (error: unknown): boolean =>
  !(error instanceof DatabaseError) || error.severity === "FATAL" || error.severity === "PANIC";

/** No restart will help. */
export const isMistake = (error: unknown): boolean => error instanceof StoreFault && codeOf(error.cause) in MISTAKES;

export function faultOf(error: unknown, landed: "no" | "unknown", where: string): StoreFault {
  if (error instanceof StoreFault) return error;
  // Several addresses were tried, and each has its own error.
  const text = error instanceof AggregateError ? error.errors.map(messageOf).join("; ") : messageOf(error);
  const mistake = MISTAKES[codeOf(error)];
  return new StoreFault(landed, mistake ? `${where} ${mistake}` : `${where}: ${text}`, { cause: error });
}
