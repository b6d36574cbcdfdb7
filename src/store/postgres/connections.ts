// What the ports use of the connections to PostgreSQL.
import { StoreFault } from "../../core/errors.ts";
import { createLanes, type WriteLanes } from "./lanes.ts";
import { faultOf, type Link, type PgRow, type Query } from "./link.ts";

export type Connections = {
  /** The server and database, for people. */
  where: string;
  readOnly: boolean;
  read(query: Query): Promise<PgRow[]>;
  /** Beside the lanes, on any connection. If its answer is lost it may be done all the same: only for what may be done twice. */
  write(query: Query): Promise<PgRow[]>;
  /** On a connection of its own, however long it takes. */
  slow(query: Query): Promise<PgRow[]>;
  /** Prepares what is asked on the way of a message, and asks `reads` once. */
  warm(node: string, reads: readonly Query[]): Promise<void>;
  lanes: Omit<WriteLanes, "close" | "warm">;
  close(): Promise<void>;
};

export function openConnections(link: Link, readOnly: boolean): Connections {
  const lanes = createLanes(link);
  const { where } = link;
  let closing: Promise<void> | null = null;

  const refusal = (writes: boolean) => {
    if (closing) return `${where} is closed`;
    return writes && readOnly ? `${where} was opened to read only` : null;
  };
  const guarded =
    <Args extends unknown[], T>(work: (...args: Args) => Promise<T>, writes = false) =>
    (...args: Args): Promise<T> => {
      const why = refusal(writes);
      return why === null ? work(...args) : Promise.reject(new StoreFault("no", why));
    };

  async function slow(query: Query): Promise<PgRow[]> {
    const connection = await link.connect(true);
    try {
      return await connection.query(query);
    } catch (error) {
      throw faultOf(error, "no", where);
    } finally {
      await connection.end();
    }
  }

  return {
    where,
    readOnly,
    read: guarded(link.read),
    write: guarded(link.read, true),
    slow: guarded(slow),
    lanes: {
      commit: guarded(lanes.commit, true),
      query: guarded(lanes.query, true),
      isBusy: lanes.isBusy,
      doneAt: lanes.doneAt,
    },
    warm: guarded(async (node: string, reads: readonly Query[]) => {
      await Promise.all([lanes.warm(node), link.warm(reads)]);
    }, true),
    close: () => {
      closing ??= lanes.close().then(link.close);
      return closing;
    },
  };
}
