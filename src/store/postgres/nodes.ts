// Nodes in PostgreSQL.
//
// * A lease is over by the clock of the server, never by that of a node.
// * A node that died is seen sooner: the lock that it held is free, in two looks, while we hold ours. This says nothing right after the
//   server has started or our own connection was lost: the others may not be back yet.
import { randomUUID } from "node:crypto";
import type { NodeRow, Nodes } from "../../core/store.ts";
import { clock } from "../../platform/clock.ts";
import type { Connections } from "./connections.ts";
import { JOURNAL_READS } from "./journal.ts";
import type { PgRow, Query } from "./link.ts";
import { LOCKS } from "./migrate.ts";
import { noteQuery } from "./notes.ts";
import type { Presence } from "./presence.ts";

const LEASE = "interval '5 seconds'";
const BETWEEN_LOOKS_MS = 150;
/** One that has the store for itself has no lease, and looks before each model call whether the store is still its own. A commit that was
 *  sent so short ago and done says the same as a look that took so long. Its row is not written: 200 sessions waited for each other. */
const FRESH_MS = 500;

const BEAT = `UPDATE node SET lease_until = clock_timestamp() + ${LEASE} WHERE id = $1 RETURNING leaving`;
const LOOK = "SELECT leaving FROM node WHERE id = $1";
const DEAD = `SELECT id, lease_until < clock_timestamp() expired FROM node WHERE lease_until < clock_timestamp()
  OR (clock_timestamp() > pg_postmaster_start_time() + interval '3 seconds' AND (SELECT is_locked(${LOCKS}, $1)) AND NOT is_locked(${LOCKS}, id))`;
const LIST = `SELECT id, address, version, leaving, (extract(epoch FROM lease_until) * 1000)::bigint lease_until,
  (SELECT count(*) FROM session WHERE active AND owner = node.id) sessions FROM node ORDER BY id`;
const OWNER = "SELECT n.id, n.address FROM session s JOIN node n ON n.id = s.owner WHERE s.key = $1";
const TAKE_LEASE = `INSERT INTO lease (name, node) SELECT $1, id FROM node WHERE id = $2 AND NOT leaving
  ON CONFLICT (name) DO UPDATE SET node = excluded.node
  WHERE lease.node = excluded.node OR NOT EXISTS (SELECT 1 FROM node WHERE id = lease.node) RETURNING 1`;

const ownerQuery = (session: string): Query => ({ name: "owner", text: OWNER, values: [session] });
const claimQuery = (id: string, most: number): Query => {
  return { name: "claim", text: "SELECT claim_sessions($1, $2) key", values: [id, most] };
};
const handOverQuery = (id: string, sessions: readonly string[]): Query => {
  return { name: "hand over", text: "SELECT free_sessions(ARRAY[$1], $2)", values: [id, [...sessions]] };
};

/** `presence`: none for a process that only looks. */
export function nodesPort({ read, write, warm, lanes }: Connections, presence: Presence | null): Nodes {
  const ids = (rows: PgRow[]) => rows.map(({ id }) => String(id));

  return {
    join: async ({ address, version }) => {
      const id = randomUUID();
      const member = presence?.member ?? false;
      if (member) await presence?.become(id); // before anybody can look for its lock
      const values = [id, address, version, !member];
      await lanes.query(id, { text: `SELECT join_node($1, $2, $3, $4, ${LEASE})`, values });
      const reads = [...JOURNAL_READS, noteQuery(""), ownerQuery(""), claimQuery(id, 0), handOverQuery(id, [])];
      warm(id, reads).catch(() => {}); // the first commit will say what is wrong
      return id;
    },
    beat: async (id) => {
      if (!presence?.member && clock.monotonic() - lanes.doneAt(id) < FRESH_MS) return "ok";
      const [row] = await (presence?.member
        ? write({ name: "beat", text: BEAT, values: [id] })
        : read({ name: "look", text: LOOK, values: [id] }));
      if (!row) return "gone";
      return row["leaving"] === true ? "leaving" : "ok";
    },
    drain: async (id) => {
      const rows = await write({ text: "UPDATE node SET leaving = true WHERE id = $1 RETURNING 1", values: [id] });
      if (rows.length === 1) await write({ text: "SELECT pg_notify(node_channel(), '')" });
      return rows.length === 1;
    },
    leave: async (id) => {
      await write({ text: "SELECT remove_nodes(ARRAY[$1])", values: [id] });
      await presence?.cease(id);
    },
    reap: async () => {
      const dead = await read({ name: "dead", text: DEAD, values: [presence?.witness() ?? ""] });
      if (dead.length === 0) return [];
      if (dead.some((row) => row["expired"] === false)) await clock.sleep(BETWEEN_LOOKS_MS);
      return ids(await write({ text: `SELECT reap_nodes($1, ${LOCKS}) id`, values: [ids(dead)] }));
    },
    claim: async (id, most) => {
      const rows = await write(claimQuery(id, Math.min(most, Number.MAX_SAFE_INTEGER)));
      return rows.map(({ key }) => String(key));
    },
    handOver: async (id, sessions) => {
      await write(handOverQuery(id, sessions));
    },
    list: async () => (await read({ text: LIST })).map(nodeOf),
    ownerOf: async (session) => {
      const [row] = await read(ownerQuery(session));
      return row ? { node: String(row["id"]), address: String(row["address"]) } : null;
    },
    lease: async (name, id) => (await write({ name: "lease", text: TAKE_LEASE, values: [name, id] })).length === 1,
    release: async (name, id) => {
      await write({ text: "DELETE FROM lease WHERE name = $1 AND node = $2", values: [name, id] });
    },
    onHint: (listener) => presence?.onHint(listener) ?? (() => {}),
  };
}

const nodeOf = (row: PgRow): NodeRow => ({
  id: String(row["id"]),
  address: String(row["address"]),
  version: String(row["version"]),
  leaving: row["leaving"] === true,
  leaseUntil: Number(row["lease_until"]),
  sessions: Number(row["sessions"]),
});
