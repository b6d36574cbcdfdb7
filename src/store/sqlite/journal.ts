// The journal in SQLite: states, entries and inputs.
import type { DatabaseSync } from "node:sqlite";
import { type CommitVerdict, type InputRow, type Journal, PAGE_CHARS } from "../../core/store.ts";
import {
  type CommitRow,
  type EntryRow,
  entriesOf,
  entryRowOf,
  inputRowOf,
  rowOf,
  type StateRow,
  sessionOf,
  stateRowOf,
} from "../rows.ts";
import type { Thread } from "./thread.ts";

// ── In the thread ─────────────────────────────────────────────────────────────────────────────────────

/** `newest`: the number of the newest node. */
export function journalTables(db: DatabaseSync, newest: () => number) {
  const sql = {
    version: db.prepare("SELECT version FROM session WHERE key = ?"),
    isKnown: db.prepare("SELECT 1 FROM input WHERE id = ?"),
    create: db.prepare(
      `INSERT INTO session (key, epoch, version, active, parent, created_at, updated_at, state, title)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    change: db.prepare(
      `UPDATE session SET epoch = ?, version = ?, active = ?, parent = ?, updated_at = ?, state = ?,
         title = CASE title WHEN '' THEN ? ELSE title END WHERE key = ?`,
    ),
    append: db.prepare("INSERT INTO entry (session, seq, turn, at, fact) VALUES (?, ?, ?, ?, ?)"),
    accept: db.prepare("INSERT INTO input (id, session, digest, at, status) VALUES (?, ?, ?, ?, 'waiting')"),
    take: db.prepare("UPDATE input SET status = ?, turn = ? WHERE id = ?"),
    announce: db.prepare("INSERT INTO announcement (recipient, session, turn, at) VALUES (?, ?, ?, ?)"),

    load: db.prepare(
      `SELECT key session, CASE WHEN active THEN CAST(epoch AS TEXT) END owner, epoch writer, version, state, parent, created_at createdAt,
         updated_at updatedAt FROM session WHERE key = ?`,
    ),
    entries: db.prepare("SELECT seq, turn, at, fact FROM entry WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"),
    turn: db.prepare("SELECT seq, turn, at, fact FROM entry WHERE turn = ? ORDER BY seq"),
    input: db.prepare("SELECT id, session, digest, at, status, turn FROM input WHERE id = ?"),
    inputs: db.prepare("SELECT id, session, digest, at, status, turn FROM input WHERE session = ?"),
    children: db.prepare("SELECT key FROM session WHERE parent = ? ORDER BY rowid"),
  };
  function commit(change: CommitRow): CommitVerdict {
    const { session, version, at, parent, state } = change;
    const active = change.active ? 1 : 0;
    const epoch = Number(change.node);
    if (!(epoch >= newest())) return "fenced";
    if (version !== (sql.version.get(session)?.["version"] ?? 0)) return "stale";
    const ids = new Set(change.accepted.map(({ id }) => id));
    if (ids.size < change.accepted.length) return "duplicate";
    for (const id of ids) if (sql.isKnown.get(id)) return "duplicate";

    if (version === 0) sql.create.run(session, epoch, 1, active, parent, at, at, state, change.title);
    else sql.change.run(epoch, version + 1, active, parent, at, state, change.title, session);
    for (const entry of change.entries) sql.append.run(session, entry.seq, entry.turn, entry.at, entry.fact);
    for (const { id, digest } of change.accepted) sql.accept.run(id, session, digest, at);
    for (const { id, turn } of change.taken) sql.take.run(turn === null ? "withdrawn" : "taken", turn, id);
    for (const { to, turn } of change.announced) sql.announce.run(to, session, turn, at);
    return "done";
  }

  return {
    commit,
    load(session: string): StateRow | null {
      const row = sql.load.get(session);
      return row ? stateRowOf(row) : null;
    },
    entries(session: string, after: number, limit: number): EntryRow[] {
      const page: EntryRow[] = [];
      let room = PAGE_CHARS;
      for (const row of sql.entries.iterate(session, after, limit)) {
        const entry = entryRowOf(row);
        room -= entry.fact.length;
        if (room < 0 && page.length) break;
        page.push(entry);
      }
      return page;
    },
    turn: (id: string): EntryRow[] => sql.turn.all(id).map(entryRowOf),
    input(id: string): InputRow | null {
      const row = sql.input.get(id);
      return row ? inputRowOf(row) : null;
    },
    inputs: (session: string): InputRow[] => sql.inputs.all(session).map(inputRowOf),
    children: (parent: string): string[] => sql.children.all(parent).map(({ key }) => String(key)),
  };
}

// ── In the process ────────────────────────────────────────────────────────────────────────────────────

/** `ownerOf`: of a session that is not at rest. */
export const journalPort = (
  { file, ask, write }: Thread,
  ownerOf: (session: string, writer: string) => string | null,
): Journal => ({
  load: async (session) => {
    const row = await ask("load", session);
    return row && sessionOf({ ...row, owner: row.owner && ownerOf(session, row.writer) }, file);
  },
  commit: async (change) => write("commit", rowOf(change)),
  entries: async (session, after, limit) => entriesOf(await ask("entries", session, after, limit), file),
  turn: async (id) => entriesOf(await ask("turn", id), file),
  input: (id) => ask("input", id),
  inputs: (session) => ask("inputs", session),
  children: (parent) => ask("children", parent),
});
