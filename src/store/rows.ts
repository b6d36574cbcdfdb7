// What every database keeps, as rows: states, entries and notes are JSON, made and read here.
import { ConfigError, StoreFault } from "../core/errors.ts";
import { type Entry, type Fact, fresh, upgraded } from "../core/session.ts";
import type { Announcement, Commit, InputRow, SessionRow, SessionSummary } from "../core/store.ts";

export type EntryRow = { seq: number; turn: string; at: number; fact: string };
/** A Commit with its JSON already made, so that only strings and numbers leave this thread. */
export type CommitRow = Omit<Required<Commit>, "state" | "entries"> & { state: string; entries: EntryRow[] };
export type StateRow = Omit<SessionRow, "state"> & { state: string };

const STATE_VERSION = fresh.v;

/** Comes after every key that begins with `prefix`. */
export const behind = (prefix: string): string => `${prefix}\u{10ffff}`;

/** Of a note. What JSON.parse makes of such a text becomes that text again. */
export const jsonOf = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value));

/** `what`: for people, what cannot be read if `parse` throws. */
export function undamaged<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new StoreFault("no", `${what} is damaged; restore it from a backup`, { cause: error });
  }
}

export function rowOf({ state, entries, title = "", announced = [], ...rest }: Commit): CommitRow {
  return {
    ...rest,
    title,
    announced,
    state: JSON.stringify(state),
    entries: entries.map(({ seq, turn, at, ...fact }) => ({ seq, turn, at, fact: JSON.stringify(fact) })),
  };
}

/** `where`: the database, for people. */
export function sessionOf(row: StateRow, where: string): SessionRow {
  const state = undamaged(`session ${row.session} in ${where}`, (): { v: number } => JSON.parse(row.state));
  if (state.v > STATE_VERSION)
    throw new ConfigError(
      `session ${row.session} in ${where} was written by a newer hermes (state ${state.v}, ` +
        `this one knows ${STATE_VERSION}); install that version`,
    );
  return { ...row, state: upgraded(state) };
}

export const entriesOf = (rows: readonly EntryRow[], where: string): Entry[] =>
  rows.map(({ seq, turn, at, fact }) => ({
    seq,
    turn,
    at,
    ...undamaged(`entry ${seq} of turn ${turn} in ${where}`, (): Fact => JSON.parse(fact)),
  }));

/** As a database gives it. */
type JournalRow = Readonly<Record<string, unknown>>;
const textOrNull = (value: unknown) => (typeof value === "string" ? value : null);

export const stateRowOf = (row: JournalRow): StateRow => ({
  session: String(row["session"]),
  owner: textOrNull(row["owner"]),
  writer: String(row["writer"]),
  version: Number(row["version"]),
  state: String(row["state"]),
  parent: textOrNull(row["parent"]),
  createdAt: Number(row["createdAt"]),
  updatedAt: Number(row["updatedAt"]),
});

export const summaryOf = (row: JournalRow): SessionSummary => ({
  session: String(row["session"]),
  title: String(row["title"]),
  parent: textOrNull(row["parent"]),
  active: Boolean(row["active"]),
  entries: Number(row["entries"]),
  createdAt: Number(row["createdAt"]),
  updatedAt: Number(row["updatedAt"]),
});

export const announcementOf = (row: JournalRow): Announcement => ({
  id: Number(row["id"]),
  to: String(row["to"]),
  session: String(row["session"]),
  turn: String(row["turn"]),
  at: Number(row["at"]),
  attempts: Number(row["attempts"]),
  due: Number(row["due"]),
  error: String(row["error"]),
  dead: Boolean(row["dead"]),
});

export const entryRowOf = ({ seq, turn, at, fact }: JournalRow): EntryRow => {
  return { seq: Number(seq), turn: String(turn), at: Number(at), fact: String(fact) };
};

export const inputRowOf = ({ id, session, digest, at, status, turn }: JournalRow): InputRow => ({
  id: String(id),
  session: String(session),
  digest: String(digest),
  at: Number(at),
  status: status === "taken" || status === "withdrawn" ? status : "waiting",
  turn: textOrNull(turn),
});
