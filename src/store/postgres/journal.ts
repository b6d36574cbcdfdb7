// The journal in PostgreSQL: states, entries and inputs.
import { type Journal, PAGE_CHARS } from "../../core/store.ts";
import { hasWork } from "../../core/turn.ts";
import { type CommitRow, entriesOf, entryRowOf, inputRowOf, rowOf, sessionOf, stateRowOf } from "../rows.ts";
import { textOf } from "../search-text.ts";
import type { Connections } from "./connections.ts";
import type { Query } from "./link.ts";

/** A commit, with what lists need of its state, and the entries that searches look in. */
export type PgCommit = CommitRow & { works: boolean; granted: boolean; length: number; said: number[] };

const LOAD = `SELECT key session, owner, writer, version, state, parent, created_at "createdAt", updated_at "updatedAt" FROM session WHERE key = $1`;
/** Counted before they are read: 1,000 entries of 10 MB each would not fit into memory. */
const PAGE = `SELECT seq, turn, at, fact FROM entry WHERE session = $1 AND seq > $2 AND seq <= (
  SELECT coalesce(max(seq) FILTER (WHERE chars <= $4), min(seq)) FROM (
    SELECT seq, sum(octet_length(fact)) OVER (ORDER BY seq) chars FROM (
      SELECT seq, fact FROM entry WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3) page) counted)
  ORDER BY seq`;
const TURN = "SELECT seq, turn, at, fact FROM entry WHERE turn = $1 ORDER BY seq";
const INPUT = "SELECT id, session, digest, at, status, turn FROM input";
const CHILDREN = "SELECT key FROM session WHERE parent = $1 ORDER BY number";

export function journalPort({ where, read, lanes }: Connections): Journal {
  return {
    load: async (session) => {
      const query = { name: "load", text: LOAD, values: [session] };
      const [row] = lanes.isBusy(session) ? await lanes.query(session, query) : await read(query);
      return row ? sessionOf(stateRowOf(row), where) : null;
    },
    commit: async (commit) => {
      const { state, entries } = commit;
      const said = entries.filter((entry) => textOf(entry) !== "").map(({ seq }) => seq);
      const more = { works: hasWork(state), granted: state.grants.length > 0, length: state.seq, said };
      return lanes.commit({ ...rowOf(commit), ...more });
    },
    entries: async (session, after, limit) => {
      const values = [session, after, limit, PAGE_CHARS];
      return entriesOf((await read({ name: "page", text: PAGE, values })).map(entryRowOf), where);
    },
    turn: async (id) => entriesOf((await read({ name: "turn", text: TURN, values: [id] })).map(entryRowOf), where),
    input: async (id) => {
      const [row] = await read({ name: "input", text: `${INPUT} WHERE id = $1`, values: [id] });
      return row ? inputRowOf(row) : null;
    },
    inputs: async (session) => (await read({ text: `${INPUT} WHERE session = $1`, values: [session] })).map(inputRowOf),
    children: async (parent) => (await read({ text: CHILDREN, values: [parent] })).map(({ key }) => String(key)),
  };
}

/** The arguments of `commit_group`, in its order. */
export function groupQuery(node: string, group: readonly PgCommit[]): Query {
  const entries = group.flatMap(({ session, entries }) => entries.map((entry) => ({ session, ...entry })));
  const said = group.flatMap(({ session, said }) => said.map((seq) => ({ session, seq })));
  const inputs = group.flatMap(({ session, at, accepted }) => accepted.map((input) => ({ session, at, ...input })));
  const taken = [...new Map(group.flatMap((one) => one.taken.map((input) => [input.id, input]))).values()]; // the last one counts
  const told = group.flatMap(({ session, at, announced }) => announced.map((one) => ({ session, at, ...one })));
  const values = [
    node,
    ...columns(group, "session", "version", "active", "works", "granted", "parent", "at", "length", "title", "state"),
    ...columns(entries, "session", "seq", "turn", "at", "fact"),
    ...columns(said, "session", "seq"),
    ...columns(inputs, "session", "id", "digest", "at"),
    ...columns(taken, "id", "turn"),
    ...columns(told, "session", "to", "turn", "at"),
  ];
  return { name: "commit", text: COMMIT, values };
}

const columns = <Of extends object>(rows: readonly Of[], ...names: (keyof Of)[]): unknown[][] =>
  names.map((name) => rows.map((row) => row[name]));

const TYPES =
  "text, text[], bigint[], boolean[], boolean[], boolean[], text[], bigint[], bigint[], text[], text[], " +
  "text[], bigint[], text[], bigint[], text[], text[], bigint[], text[], text[], text[], bigint[], text[], text[], " +
  "text[], text[], text[], bigint[]";
const COMMIT = `SELECT commit_group(${TYPES.split(", ")
  .map((type, i) => `$${i + 1}::${type}`)
  .join(", ")}) verdict`;
