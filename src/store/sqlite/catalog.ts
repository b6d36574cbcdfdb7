// Lists for people and for those who want to be told: nothing here is part of a session's state.
import type { DatabaseSync } from "node:sqlite";
import type { Announcement, SessionPage, SessionPlace, SessionSummary } from "../../core/ports.ts";

export type Page = Required<Omit<SessionPage, "after">> & { after: SessionPlace | null };
export type AnnouncementPage = { dead: boolean; after: number; limit: number };
export type Next = Pick<Announcement, "attempts" | "due" | "error" | "dead"> | null;
/** `value` is JSON. */
export type NoteRow = { key: string; value: string; at: number };
export type Catalog = ReturnType<typeof createCatalog>;

export function createCatalog(db: DatabaseSync) {
  const columns = `key session, title, parent, active, state ->> '$.seq' entries, created_at createdAt,
    updated_at updatedAt`;
  const sql = {
    sessions: db.prepare(
      `SELECT ${columns} FROM session
       WHERE (updated_at, key) < (?, ?) AND (? = 0 OR parent IS NULL) AND (? = 0 OR active = 1)
         AND (? = '' OR instr(lower(title), lower(?)) > 0) AND key >= ? AND key < ?
       ORDER BY updated_at DESC, key DESC LIMIT ?`,
    ),
    summary: db.prepare(`SELECT ${columns} FROM session WHERE key = ?`),
    active: db.prepare(
      "SELECT key session, updated_at updatedAt FROM session WHERE active = 1 ORDER BY updated_at, rowid",
    ),
    children: db.prepare("SELECT key FROM session WHERE parent = ? ORDER BY rowid"),
    granted: db.prepare("SELECT key FROM session WHERE json_array_length(state, '$.grants') > 0 ORDER BY key"),
    retitle: db.prepare("UPDATE session SET title = ? WHERE key = ?"),
    announce: db.prepare("INSERT INTO announcement (recipient, session, turn, at) VALUES (?, ?, ?, ?)"),
    announcements: db.prepare(
      `SELECT id, recipient "to", session, turn, at, attempts, due, error, dead FROM announcement
       WHERE dead = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    note: db.prepare("SELECT value FROM note WHERE key = ?"),
    notes: db.prepare("SELECT key, value, at FROM note WHERE key >= ? AND key < ? ORDER BY key"),
    write: db.prepare(
      "INSERT INTO note VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at",
    ),
    erase: db.prepare("DELETE FROM note WHERE key = ?"),
    told: db.prepare("DELETE FROM announcement WHERE id = ?"),
    later: db.prepare("UPDATE announcement SET attempts = ?, due = ?, error = ?, dead = ? WHERE id = ?"),
  };
  return {
    sessions({ after, limit, top, active, titled, prefix }: Page): SessionSummary[] {
      const { updatedAt, session } = after ?? { updatedAt: Number.MAX_SAFE_INTEGER, session: "" };
      const wanted = [Number(top), Number(active), titled, titled, prefix, `${prefix}${LAST}`];
      return sql.sessions.all(updatedAt, session, ...wanted, limit).map(summaryOf);
    },
    summary(session: string): SessionSummary | null {
      const row = sql.summary.get(session);
      return row ? summaryOf(row) : null;
    },
    active: (): { session: string; updatedAt: number }[] =>
      sql.active.all().map(({ session, updatedAt }) => ({ session: String(session), updatedAt: Number(updatedAt) })),
    children: (parent: string): string[] => sql.children.all(parent).map(({ key }) => String(key)),
    granted: (): string[] => sql.granted.all().map(({ key }) => String(key)),
    retitle: (session: string, title: string): boolean => sql.retitle.run(title, session).changes === 1,
    announce: (to: string, session: string, turn: string, at: number) => sql.announce.run(to, session, turn, at),
    announcements: ({ dead, after, limit }: AnnouncementPage): Announcement[] =>
      sql.announcements.all(Number(dead), after, limit).map(announcementOf),
    note(key: string): string | null {
      const row = sql.note.get(key);
      return row ? String(row["value"]) : null;
    },
    notes: (prefix: string): NoteRow[] =>
      sql.notes
        .all(prefix, `${prefix}${LAST}`)
        .map((row) => ({ key: String(row["key"]), value: String(row["value"]), at: Number(row["at"]) })),
    write(key: string, value: string | null, at: number): null {
      if (value === null) sql.erase.run(key);
      else sql.write.run(key, value, at);
      return null;
    },
    announced(id: number, next: Next): null {
      if (next) sql.later.run(next.attempts, next.due, next.error, Number(next.dead), id);
      else sql.told.run(id);
      return null;
    },
  };
}

/** Comes after all that may follow a prefix. */
const LAST = "\u{10ffff}";

type Row = Record<string, unknown>;

const summaryOf = ({ session, title, parent, active, entries, createdAt, updatedAt }: Row): SessionSummary => ({
  session: String(session),
  title: String(title),
  parent: typeof parent === "string" ? parent : null,
  active: active === 1,
  entries: Number(entries),
  createdAt: Number(createdAt),
  updatedAt: Number(updatedAt),
});

const announcementOf = (row: Row): Announcement => ({
  id: Number(row["id"]),
  to: String(row["to"]),
  session: String(row["session"]),
  turn: String(row["turn"]),
  at: Number(row["at"]),
  attempts: Number(row["attempts"]),
  due: Number(row["due"]),
  error: String(row["error"]),
  dead: row["dead"] === 1,
});
