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

const OWN = "SELECT FROM node WHERE id = $1::text FOR KEY SHARE";
const CREATE = `INSERT INTO session (key, owner, writer, version, active, works, granted, parent, created_at, updated_at, entries, title, state)
  SELECT $2::text, CASE WHEN $4::boolean THEN $1 END, $1, $3::bigint + 1, $4, $5, $6, $7, $8, $8, $9, $10, $11
  FROM own WHERE NOT EXISTS (SELECT FROM session WHERE key = $2)`;
const CHANGE = `UPDATE session SET owner = CASE WHEN $4::boolean THEN $1 END, writer = $1, version = $3::bigint + 1, active = $4,
  works = $5, granted = $6, parent = $7, updated_at = $8, entries = $9, title = CASE title WHEN '' THEN $10 ELSE title END, state = $11
  WHERE key = $2 AND version = $3 AND (owner IS NULL OR owner = $1) AND EXISTS (SELECT FROM own)`;

/** One commit in one statement, with a part for each table that it adds to. It returns a row if it is done. If not, it has changed nothing,
 *  and `commit_group` says why. Alone in that function, which is eight statements, a commit took the server twice the time. */
export function commitQuery(commit: PgCommit): Query {
  const { entries, said, inputs, taken, told } = partsOf([commit]);
  const head = columns(
    [commit],
    "node",
    "session",
    "version",
    "active",
    "works",
    "granted",
    "parent",
    "at",
    "length",
    "title",
    "state",
  );
  const values: unknown[] = head.flat();
  const place = (value: unknown, type: string) => `$${values.push(value)}::${type}`;
  const rows = (types: string[], lists: unknown[][]) =>
    `unnest(${lists.map((list, i) => place(list, `${types[i]}[]`)).join(", ")})`;
  const parts = new Map([["own", OWN]]);
  const ids = inputs.map(({ id }) => id);
  const isNew = ids.length ? ` AND NOT EXISTS (SELECT FROM input WHERE id = ANY (${place(ids, "text[]")}))` : "";
  parts.set("done", `${commit.version === 0 ? CREATE : CHANGE}${isNew} RETURNING key`);
  if (entries.length) {
    const all = rows(["bigint", "text", "bigint", "text"], columns(entries, "seq", "turn", "at", "fact"));
    parts.set("entries", `INSERT INTO entry (session, seq, turn, at, fact) SELECT key, r.* FROM done, ${all} r`);
  }
  if (said.length) {
    const all = rows(["bigint"], columns(said, "seq"));
    parts.set("said", `INSERT INTO said_queue (session, seq) SELECT key, r.* FROM done, ${all} r`);
  }
  if (inputs.length) {
    const turns = new Map(taken.map(({ id, turn }) => [id, turn]));
    const became = ids.map((id) => turns.get(id) ?? null);
    const statuses = ids.map((id) => (turns.has(id) ? (turns.get(id) === null ? "withdrawn" : "taken") : "waiting"));
    const all = rows(
      ["text", "text", "bigint", "text", "text"],
      [...columns(inputs, "id", "digest", "at"), statuses, became],
    );
    parts.set(
      "inputs",
      `INSERT INTO input (session, id, digest, at, status, turn) SELECT key, r.* FROM done, ${all} r`,
    );
  }
  const before = taken.filter(({ id }) => !ids.includes(id));
  if (before.length) {
    const all = rows(["text", "text"], columns(before, "id", "turn"));
    const status = "CASE WHEN r.turn IS NULL THEN 'withdrawn' ELSE 'taken' END";
    parts.set(
      "taken",
      `UPDATE input i SET turn = r.turn, status = ${status} FROM done, ${all} r (id, turn) WHERE i.id = r.id`,
    );
  }
  if (told.length) {
    const all = rows(["text", "text", "bigint"], columns(told, "to", "turn", "at"));
    const text = `SELECT key, recipient, turn, at FROM done, ${all} WITH ORDINALITY r (recipient, turn, at, place) ORDER BY place`;
    parts.set("told", `INSERT INTO announcement (session, recipient, turn, at) ${text}`);
  }
  const name = `${commit.version === 0 ? "create" : "change"} ${[...parts.keys()].join(" ")}`;
  const text = `WITH ${[...parts].map(([part, sql]) => `${part} AS (${sql})`).join(", ")} SELECT 'done' verdict FROM done`;
  return { name, text, values };
}

const NOBODY = {
  session: "",
  node: "",
  active: false,
  works: false,
  granted: false,
  parent: null,
  title: "",
  state: "",
};
const ENTRY = { seq: 1, turn: "", at: 0, fact: "" };
const shape = (more: Partial<PgCommit>): PgCommit => {
  const none = { said: [], accepted: [], taken: [], announced: [] };
  return { ...NOBODY, version: 1, at: 0, length: 1, entries: [ENTRY], ...none, ...more };
};
const accepted = [{ id: "", digest: "" }];
/** What most commits are like: accepted, begun from the queue, answered, stopped. Nothing comes of them: they are of no node. */
export const SHAPES: readonly PgCommit[] = [
  shape({ version: 0, said: [1], accepted }),
  shape({ said: [1], accepted }),
  shape({ said: [1], taken: [{ id: "", turn: "" }] }),
  shape({ said: [1] }),
  shape({}),
];

function partsOf(group: readonly PgCommit[]) {
  return {
    entries: group.flatMap(({ session, entries }) => entries.map((entry) => ({ session, ...entry }))),
    said: group.flatMap(({ session, said }) => said.map((seq) => ({ session, seq }))),
    inputs: group.flatMap(({ session, at, accepted }) => accepted.map((input) => ({ session, at, ...input }))),
    taken: [...new Map(group.flatMap((one) => one.taken.map((input) => [input.id, input]))).values()], // the last one counts
    told: group.flatMap(({ session, at, announced }) => announced.map((one) => ({ session, at, ...one }))),
  };
}

/** The arguments of `commit_group`, in its order. */
export function groupQuery(node: string, group: readonly PgCommit[]): Query {
  const { entries, said, inputs, taken, told } = partsOf(group);
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
