// Commits as statements: one alone, or a group of them.
import type { CommitRow } from "../rows.ts";
import { type ArrayType, binaryArray, type Scalar } from "./binary-array.ts";
import type { Query } from "./link.ts";

/** A commit, with what lists need of its state, and the entries that searches look in. */
export type PgCommit = CommitRow & { works: boolean; granted: boolean; length: number; said: number[] };

const NUMBERS = new Set(["version", "at", "length", "seq"]);
const FLAGS = new Set(["active", "works", "granted"]);
const typeOf = (name: string): ArrayType => (NUMBERS.has(name) ? "bigint" : FLAGS.has(name) ? "boolean" : "text");

const columnOf = <Name extends string>(rows: readonly Record<Name, Scalar>[], name: Name): Buffer =>
  binaryArray(
    typeOf(name),
    rows.map((row) => row[name]),
  );

const OWN = "SELECT FROM node WHERE id = $1::text FOR KEY SHARE";
const CREATE = `INSERT INTO session (key, owner, writer, version, active, works, granted, parent, created_at, updated_at, entries, title, state)
  SELECT $2::text, CASE WHEN $4::boolean THEN $1 END, $1, $3::bigint + 1, $4, $5, $6, $7, $8, $8, $9, $10, $11
  FROM own WHERE NOT EXISTS (SELECT FROM session WHERE key = $2)`;
const CHANGE = `UPDATE session SET owner = CASE WHEN $4::boolean THEN $1 END, writer = $1, version = $3::bigint + 1, active = $4,
  works = $5, granted = $6, parent = $7, updated_at = $8, entries = $9, title = CASE title WHEN '' THEN $10 ELSE title END, state = $11
  WHERE key = $2 AND version = $3 AND (owner IS NULL OR owner = $1) AND EXISTS (SELECT FROM own)`;
const TAKEN = "turn = r.turn, status = CASE WHEN r.turn IS NULL THEN 'withdrawn' ELSE 'taken' END";

/** One commit in one statement, with a part for each table that it adds to. It returns a row if it is done. If not, it has changed nothing,
 *  and `commit_group` says why. Alone in that function, which is eight statements, a commit took the server twice the time. */
export function commitQuery(commit: PgCommit): Query {
  const { node, session, version, active, works, granted, parent, at, length, title, state } = commit;
  const { entries, said, inputs, taken, told } = rowsOf([commit]);
  const values: unknown[] = [node, session, version, active, works, granted, parent, at, length, title, state];
  const list = <Name extends string>(rows: readonly Record<Name, Scalar>[], ...names: Name[]) =>
    names.map((name) => `$${values.push(columnOf(rows, name))}::${typeOf(name)}[]`).join(", ");
  const parts = new Map([["own", OWN]]);
  const isNew = inputs.length ? ` AND NOT EXISTS (SELECT FROM input WHERE id = ANY (${list(inputs, "id")}))` : "";
  parts.set("done", `${version === 0 ? CREATE : CHANGE}${isNew} RETURNING key`);
  const add = (name: string, into: string, rows: string) =>
    parts.set(name, `INSERT INTO ${into} SELECT key, r.* FROM done, unnest(${rows}) r`);
  if (entries.length)
    add("entries", "entry (session, seq, turn, at, fact)", list(entries, "seq", "turn", "at", "fact"));
  if (said.length) add("said", "said_queue (session, seq)", list(said, "seq"));
  const turns = new Map(taken.map(({ id, turn }) => [id, turn]));
  if (inputs.length) {
    const statusOf = (turn: string | null | undefined) =>
      turn === undefined ? "waiting" : turn === null ? "withdrawn" : "taken";
    const all = inputs.map((one) => ({ ...one, turn: turns.get(one.id) ?? null, status: statusOf(turns.get(one.id)) }));
    const rows = list(all, "id", "digest", "at", "status", "turn");
    add("inputs", "input (session, id, digest, at, status, turn)", rows);
  }
  for (const { id } of inputs) turns.delete(id);
  if (turns.size) {
    const rows = list(
      taken.filter(({ id }) => turns.has(id)),
      "id",
      "turn",
    );
    parts.set("taken", `UPDATE input i SET ${TAKEN} FROM done, unnest(${rows}) r (id, turn) WHERE i.id = r.id`);
  }
  if (told.length) add("told", "announcement (session, recipient, turn, at)", list(told, "to", "turn", "at"));
  const name = `${version === 0 ? "create" : "change"} ${[...parts.keys()].join(" ")}`;
  const text = `WITH ${[...parts].map(([part, sql]) => `${part} AS (${sql})`).join(", ")} SELECT 'done' verdict FROM done`;
  return { name, text, values };
}

const HEAD = ["session", "version", "active", "works", "granted", "parent", "at", "length", "title", "state"] as const;
const ENTRY = ["session", "seq", "turn", "at", "fact"] as const;
const SAID = ["session", "seq"] as const;
const INPUT = ["session", "id", "digest", "at"] as const;
const TAKE = ["id", "turn"] as const;
const TOLD = ["session", "to", "turn", "at"] as const;
const ARGUMENTS = [...HEAD, ...ENTRY, ...SAID, ...INPUT, ...TAKE, ...TOLD].map(
  (name, i) => `$${i + 2}::${typeOf(name)}[]`,
);
const GROUP = `SELECT commit_group($1::text, ${ARGUMENTS.join(", ")}) verdict`;

/** At most one commit of each session. */
export function groupQuery(node: string, group: readonly PgCommit[]): Query {
  const { entries, said, inputs, taken, told } = rowsOf(group);
  const values = [
    node,
    ...HEAD.map((name) => columnOf(group, name)),
    ...ENTRY.map((name) => columnOf(entries, name)),
    ...SAID.map((name) => columnOf(said, name)),
    ...INPUT.map((name) => columnOf(inputs, name)),
    ...TAKE.map((name) => columnOf(taken, name)),
    ...TOLD.map((name) => columnOf(told, name)),
  ];
  return { name: "commit", text: GROUP, values };
}

function rowsOf(group: readonly PgCommit[]) {
  return {
    entries: group.flatMap(({ session, entries }) => entries.map((entry) => ({ session, ...entry }))),
    said: group.flatMap(({ session, said }) => said.map((seq) => ({ session, seq }))),
    inputs: group.flatMap(({ session, at, accepted }) => accepted.map((input) => ({ session, at, ...input }))),
    taken: [...new Map(group.flatMap((one) => one.taken.map((input) => [input.id, input]))).values()], // the last one counts
    told: group.flatMap(({ session, at, announced }) => announced.map((one) => ({ session, at, ...one }))),
  };
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
const shape = (more: Partial<PgCommit>): PgCommit => {
  const entries = [{ seq: 1, turn: "", at: 0, fact: "" }];
  const none = { said: [], accepted: [], taken: [], announced: [] };
  return { ...NOBODY, version: 1, at: 0, length: 1, entries, ...none, ...more };
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
