// The catalog in SQLite. It reads the journal's table of sessions, and removes sessions with all that is in them.
import type { DatabaseSync } from "node:sqlite";
import type { Catalog, Commit, CommitVerdict, SessionPage, SessionPlace, SessionSummary } from "../../core/store.ts";
import { behind, summaryOf } from "../rows.ts";
import type { Thread } from "./thread.ts";

type CatalogPage = Required<Omit<SessionPage, "after">> & { after: SessionPlace | null };
type Forgotten = Exclude<CommitVerdict, "duplicate">;

/** Sessions in one transaction: the longest that a commit waits for a prune. */
const PRUNE_AT_ONCE = 100;

/** `unindex` comes before a session's entries go. */
export function catalogTable(
  db: DatabaseSync,
  { newest, unindex }: { newest(): number; unindex(session: string): void },
) {
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
    retitle: db.prepare("UPDATE session SET title = ? WHERE key = ?"),
    granted: db.prepare("SELECT key FROM session WHERE json_array_length(state, '$.grants') > 0 ORDER BY key"),
    version: db.prepare("SELECT version FROM session WHERE key = ?"),
    // One whose memories have not been told of it is active, but it has no work.
    old: db.prepare(
      `SELECT key FROM session WHERE updated_at < ? AND key >= ? AND key < ? AND (active = 0 OR
         (state ->> '$.turn' IS NULL AND (state ->> '$.parked' OR json_array_length(state, '$.inbox') = 0))) LIMIT ?`,
    ),
    dropEntries: db.prepare("DELETE FROM entry WHERE session = ?"),
    dropInputs: db.prepare("DELETE FROM input WHERE session = ?"),
    dropSession: db.prepare("DELETE FROM session WHERE key = ?"),
  };

  function drop(key: string) {
    unindex(key);
    sql.dropEntries.run(key);
    sql.dropInputs.run(key);
    sql.dropSession.run(key);
  }

  return {
    sessions({ after, limit, top, active, titled, prefix }: CatalogPage): SessionSummary[] {
      const { updatedAt, session } = after ?? { updatedAt: Number.MAX_SAFE_INTEGER, session: "" };
      const wanted = [Number(top), Number(active), titled, titled, prefix, behind(prefix)];
      return sql.sessions.all(updatedAt, session, ...wanted, limit).map(summaryOf);
    },
    summary(session: string): SessionSummary | null {
      const row = sql.summary.get(session);
      return row ? summaryOf(row) : null;
    },
    retitle: (session: string, title: string): boolean => sql.retitle.run(title, session).changes === 1,
    granted: (): string[] => sql.granted.all().map(({ key }) => String(key)),
    forget(which: Pick<Commit, "session" | "node" | "version">): Forgotten {
      if (!(Number(which.node) >= newest())) return "fenced";
      if (which.version !== sql.version.get(which.session)?.["version"]) return "stale";
      drop(which.session);
      return "done";
    },
    prune(prefix: string, before: number, limit: number): number {
      const old = sql.old.all(before, prefix, behind(prefix), limit).map(({ key }) => String(key));
      for (const key of old) drop(key);
      return old.length;
    },
  };
}

export const catalogPort = ({ ask, write, long }: Thread): Catalog => ({
  sessions: ({ after = null, limit, top = false, active = false, titled = "", prefix = "" }) =>
    ask("sessions", { after, limit, top, active, titled, prefix }),
  summary: (session) => ask("summary", session),
  retitle: (session, title) => write("retitle", session, title),
  granted: () => ask("granted"),
  forget: ({ session, node, version }) => write("forget", { session, node, version }),
  prune: (prefix, before) =>
    long(async (write) => {
      for (let gone = 0; ; ) {
        const some = await write("prune", prefix, before, PRUNE_AT_ONCE);
        gone += some;
        if (some < PRUNE_AT_ONCE) return gone;
      }
    }),
});
