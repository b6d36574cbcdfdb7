// Search in SQLite. A search first brings the index up to date, a bounded piece at a time; so does the thread when it is at rest. The index
// ends at its last row number, so there is nothing else to keep in step.
import type { DatabaseSync } from "node:sqlite";
import type { Fact } from "../../core/session.ts";
import type { Found, Search } from "../../core/store.ts";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { type EntryRow, entryRowOf, undamaged } from "../rows.ts";
import { phrasesOf, saidIn, snippetOf, textOf } from "../search-text.ts";
import type { Thread } from "./thread.ts";

type FoundRow = EntryRow & { session: string };

/** Entries in one transaction: the longest that a commit waits for the index. */
const INDEX_AT_ONCE = 500;
/** Of more matches, the newest get a rank. A rank takes 2 µs, and a common word is in a fifth of all entries. So where any word will do,
 *  the rare ones are looked for, which decide the rank. */
const MOST_RANKED = 500;
/** How long somebody in a hurry waits for what the process before us left unindexed. */
const LEFT_MS = 100;

export function searchIndex(db: DatabaseSync) {
  // Not before they are used: a damaged index must not keep anybody from opening the file.
  let prepared: Statements | null = null;
  const sql = () => (prepared ??= prepare(db));
  let upTo: number | null = null;

  /** Indexes the next entries; false: there are no more. */
  function index(limit: number): boolean {
    upTo ??= Number(sql().last.get()?.rowid ?? 0);
    const rows = sql().next.all(upTo, limit);
    for (const { rowid, fact } of rows) {
      const text = saidIn(String(fact));
      if (text) sql().add.run(Number(rowid), text);
      upTo = Number(rowid);
    }
    return rows.length === limit;
  }

  /** Whether most sessions are searched. */
  const isWide = (session: string | null): boolean =>
    session === null || 2 * Number(sql().within.get(session)?.count) > Number(sql().sessions.get()?.count);

  function search(query: string, session: string | null, limit: number): FoundRow[] {
    const phrases = phrasesOf(query).map(quoted);
    if (phrases.length === 0) return [];
    const { everywhere, inSessions, entry } = sql();
    const wide = isWide(session);
    const isWithin = (key: string) => session === null || key === session || key.startsWith(`${session}:`);
    const ask = (said: string) => {
      const matches = (wide ? everywhere.all(said) : inSessions.all(said, session)).sort(byRank);
      const found: FoundRow[] = [];
      for (const { rowid } of matches) {
        if (found.length === limit) break;
        const row = rowOf(entry.get(Number(rowid)) ?? {});
        if (isWithin(row.session)) found.push(row);
      }
      return found;
    };
    const all = ask(phrases.join(" AND "));
    return all.length > 0 || phrases.length === 1 ? all : ask((wide ? rarest(phrases) : phrases).join(" OR "));
  }

  /** As many as have few enough matches together; all, if each has too many. */
  function rarest(phrases: readonly string[]): string[] {
    const counted = phrases.map((phrase) => ({ phrase, count: Number(sql().count.get(phrase)?.count) }));
    let room = MOST_RANKED;
    const chosen = counted
      .filter(({ count }) => count > 0)
      .sort((a, b) => a.count - b.count)
      .filter(({ count }) => (room -= count) >= 0);
    return (chosen.length ? chosen : counted).map(({ phrase }) => phrase);
  }

  return {
    index,
    search,
    /** Called before the entries of a session are deleted. */
    unindex: (session: string) => {
      sql().drop.run(session);
      upTo = null; // SQLite gives the highest row numbers again once they are free
    },
    /** A transaction was undone: look again where the index ends. */
    reset: () => {
      upTo = null;
    },
  };
}

// `;` follows `:`, so the range is every key that begins with the given one and a colon.
const BELOW = "session >= ?2 || ':' AND session < ?2 || ';'";
const NEWEST = `ORDER BY rowid DESC LIMIT ${MOST_RANKED}`;

type Statements = ReturnType<typeof prepare>;

function prepare(db: DatabaseSync) {
  return {
    last: db.prepare("SELECT rowid FROM said ORDER BY rowid DESC LIMIT 1"),
    next: db.prepare("SELECT rowid, fact FROM entry WHERE rowid > ? ORDER BY rowid LIMIT ?"),
    add: db.prepare("INSERT INTO said (rowid, text) VALUES (?, ?)"),
    drop: db.prepare("DELETE FROM said WHERE rowid IN (SELECT rowid FROM entry WHERE session = ?)"),
    sessions: db.prepare("SELECT max(rowid) count FROM session"),
    within: db.prepare("SELECT count(*) count FROM session WHERE key >= ?1 || ':' AND key < ?1 || ';'"),
    everywhere: db.prepare(`SELECT rowid, rank FROM said WHERE said MATCH ?1 ${NEWEST}`),
    // With the `+`, the entries of the sessions are listed once. Without it FTS5 would look for each of them.
    inSessions: db.prepare(`SELECT rowid, rank FROM said WHERE said MATCH ?1 AND +rowid IN (
      SELECT rowid FROM entry WHERE session = ?2 UNION ALL SELECT rowid FROM entry WHERE ${BELOW}) ${NEWEST}`),
    count: db.prepare(`SELECT count(*) count FROM (SELECT 1 FROM said WHERE said MATCH ?1 LIMIT ${MOST_RANKED})`),
    entry: db.prepare("SELECT session, seq, turn, at, fact FROM entry WHERE rowid = ?"),
  };
}

/** The best first, of equal ones the newest. */
const byRank = (a: Record<string, unknown>, b: Record<string, unknown>) =>
  Number(a["rank"]) - Number(b["rank"]) || Number(b["rowid"]) - Number(a["rowid"]);

const rowOf = (row: Record<string, unknown>): FoundRow => ({ session: String(row["session"]), ...entryRowOf(row) });

export function searchPort({ file, readOnly, long, look }: Thread): Search {
  const foundOf = ({ fact, ...where }: FoundRow, query: string): Found => {
    const said = textOf(undamaged(`entry ${where.seq} of ${where.session} in ${file}`, (): Fact => JSON.parse(fact)));
    return { ...where, text: snippetOf(said, query) };
  };
  /** One for all who cannot wait for it. */
  let beside: Promise<void> | null = null;
  /** From then on the index is behind by a moment: the thread makes it at rest, and each search beside itself. */
  let isCurrent = false;
  return (query, { session = null, limit, soon = false }) =>
    long(async (write, closing) => {
      const index = async () => {
        let more = !readOnly; // one that only looks finds what the owner's searches have taken in
        while (more) more = (await write("index", INDEX_AT_ONCE)) && !closing();
      };
      if (soon) {
        const over = (made: boolean) => {
          beside = null;
          isCurrent ||= made;
        };
        beside ??= index().then(
          () => over(true),
          () => over(false), // the search says what is wrong
        );
        if (!isCurrent) await within(clock, LEFT_MS, beside);
      } else await index();
      const rows = await look("search", query, session, limit);
      return rows.map((row) => foundOf(row, query));
    });
}

/** A longer word also finds what begins with it: `deploy` finds "deployed". */
const quoted = (phrase: string) => (phrase.length > 2 ? `"${phrase}"*` : `"${phrase}"`);
