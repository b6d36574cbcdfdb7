// The journal in PostgreSQL: states, entries and inputs.
import { type Journal, PAGE_CHARS } from "../../core/store.ts";
import { hasWork } from "../../core/turn.ts";
import { entriesOf, entryRowOf, inputRowOf, rowOf, sessionOf, stateRowOf } from "../rows.ts";
import { textOf } from "../search-text.ts";
import type { Connections } from "./connections.ts";
import type { Query } from "./link.ts";

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

const load = (session: string): Query => ({ name: "load", text: LOAD, values: [session] });
const page = (session: string, after: number, limit: number): Query => {
  return { name: "page", text: PAGE, values: [session, after, limit, PAGE_CHARS] };
};
const turn = (id: string): Query => ({ name: "turn", text: TURN, values: [id] });
const input = (id: string): Query => ({ name: "input", text: `${INPUT} WHERE id = $1`, values: [id] });
/** What is read on the way of a message. */
export const JOURNAL_READS: readonly Query[] = [load(""), page("", 0, 1), turn(""), input("")];

export function journalPort({ where, read, lanes }: Connections): Journal {
  return {
    load: async (session) => {
      const query = load(session);
      const [row] = lanes.isBusy(session) ? await lanes.query(session, query) : await read(query);
      return row ? sessionOf(stateRowOf(row), where) : null;
    },
    commit: async (commit) => {
      const { state, entries } = commit;
      const said = entries.filter((entry) => textOf(entry) !== "").map(({ seq }) => seq);
      const more = { works: hasWork(state), granted: state.grants.length > 0, length: state.seq, said };
      return lanes.commit({ ...rowOf(commit), ...more });
    },
    entries: async (session, after, limit) =>
      entriesOf((await read(page(session, after, limit))).map(entryRowOf), where),
    turn: async (id) => entriesOf((await read(turn(id))).map(entryRowOf), where),
    input: async (id) => {
      const [row] = await read(input(id));
      return row ? inputRowOf(row) : null;
    },
    inputs: async (session) => (await read({ text: `${INPUT} WHERE session = $1`, values: [session] })).map(inputRowOf),
    children: async (parent) => (await read({ text: CHILDREN, values: [parent] })).map(({ key }) => String(key)),
  };
}
