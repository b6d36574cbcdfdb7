// One connection that is there as long as this process is. Its locks say so to others, and end with it.
//
// * The lock of the store: exclusive for one process that shares the store with nobody, shared for the members of a cluster. So a second
//   hermes is refused before it takes the store away from the first. What keeps the store right is the row of a node; this lock is for people
//   who start hermes twice.
// * The lock of a node: others see at once that it has died. Without it they would wait for the end of its lease.
import { clock } from "../../platform/clock.ts";
import { StoreInUse } from "../in-use.ts";
import { type Connection, faultOf, type Link } from "./link.ts";
import { LOCKS } from "./migrate.ts";

/** How long the connection of a process that was killed a moment ago may still be there. */
const GONE_MS = 3_000;
const AGAIN_MS = 200;
/** When the server is restarted, fails over, or is behind a proxy that is restarted, all nodes lose their connections at once. The first one
 *  that is back must not take the others for dead. */
const BACK_MS = 3_000;
/** A connection may be dead without either side being told. TCP alone notices after a quarter of an hour. */
const PING_MS = 5_000;

export type Presence = Awaited<ReturnType<typeof openPresence>>;

export async function openPresence(link: Link, member: boolean) {
  const leaving = new AbortController();
  const listeners = new Set<() => void>();
  const nodes = new Set<string>();
  let held = await connect();
  let since = Number.NEGATIVE_INFINITY;
  void keep();
  void ping();

  async function connect(): Promise<Connection> {
    const connection = await link.connect();
    try {
      await lockStore(connection, link.where, member);
      if (member) await listen(connection);
      for (const id of nodes) await lockNode(connection, id);
      return connection;
    } catch (error) {
      await connection.end();
      throw error;
    }
  }

  async function listen(connection: Connection): Promise<void> {
    const [row] = await connection.query({ text: "SELECT node_channel() channel" });
    await connection.query({ text: `LISTEN ${String(row?.["channel"])}` });
    connection.onNotification(() => {
      for (const listener of listeners) listener();
    });
  }

  /** The server was restarted, or the network cut us off: nobody else should think that the store is free, or that we are dead. */
  async function keep() {
    for (let lost = held.lost; !leaving.signal.aborted; ) {
      await lost;
      if (leaving.signal.aborted) return;
      link.suspect(held.backend); // a server that has not noticed keeps its locks
      await link
        .settled()
        .then(connect)
        .then(
          (connection) => {
            held = connection;
            since = clock.monotonic();
            ({ lost } = connection);
          },
          () => clock.sleep(AGAIN_MS, leaving.signal), // whoever has the store now has joined it, and our next commit will hear of that
        );
    }
  }

  async function ping() {
    while (!leaving.signal.aborted) {
      await clock.sleep(PING_MS, leaving.signal);
      const { query, end } = held;
      if (!leaving.signal.aborted) await query({ text: "SELECT 1" }).catch(end);
    }
  }

  return {
    member,
    /** Our node, if its connection is old enough that all who live have theirs too; else "". */
    witness: (): string => (clock.monotonic() - since < BACK_MS ? "" : ([...nodes].at(-1) ?? "")),
    /** From now on this process is that node. */
    async become(id: string): Promise<void> {
      nodes.add(id);
      await lockNode(held, id).catch((error: unknown) => {
        nodes.delete(id);
        throw faultOf(error, "no", link.where);
      });
    },
    async cease(id: string): Promise<void> {
      const unlock = { text: `SELECT pg_advisory_unlock(${LOCKS}, node_lock($1))`, values: [id] };
      if (nodes.delete(id)) await held.query(unlock).catch(() => {}); // a lost connection has lost its locks too
    },
    onHint(listener: () => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async close(): Promise<void> {
      leaving.abort();
      await held.end();
    },
  };
}

async function lockStore({ query }: Connection, where: string, member: boolean): Promise<void> {
  const shared = member ? "_shared" : "";
  const text = `SELECT pg_try_advisory_lock${shared}(${LOCKS}, hashtext(current_schema() || '/owner')) locked`;
  for (const until = clock.monotonic() + GONE_MS; ; await clock.sleep(50)) {
    const [row] = await query({ text });
    if (row?.["locked"] === true) return;
    if (clock.monotonic() > until)
      throw new StoreInUse(null, `Another hermes uses ${where}. Close it, or set another store.url.`);
  }
}

const lockNode = ({ query }: Connection, id: string) =>
  query({ text: `SELECT pg_try_advisory_lock(${LOCKS}, node_lock($1))`, values: [id] });
