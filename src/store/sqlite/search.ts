// Search in SQLite. A search first brings the index up to date, a bounded piece at a time. The index ends at its last row number, so there
// is nothing else to keep in step.
import type { DatabaseSync } from "node:sqlite";
import type { Fact } from "../../core/session.ts";
import type { Found, Search } from "../../core/store.ts";
import { undamaged } from "../rows.ts";
import { phrasesOf, saidIn, snippetOf, textOf } from "../search-text.ts";
import type { Thread } from "./thread.ts";

type FoundRow = { session: string; seq: number; turn: string; at: number; fact: string };
type SearchIndex = {
  /** Indexes the next entries; false: there are no more. */
  index(limit: number): boolean;
  search(query: string, session: string | null, limit: number): FoundRow[];
  /** Called before the entries of a session are deleted. */
  unindex(session: string): void;
  /** A transaction was undone: look again where the index ends. */
  reset(): void;
};

/** Entries in one transaction: the longest that a commit waits for the index. */
const INDEX_AT_ONCE = 500;

export function searchIndex(db: DatabaseSync): SearchIndex {
  // Not before they are used: a damaged index must not keep anybody from opening the file.
  let prepared: Statements | null = null;
  const sql = () => (prepared ??= prepare(db));
  let upTo: number | null = null;

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
    const { ranked, match } = sql();
    const wide = isWide(session);
    const ask = (how: string) => {
      const said = phrases.join(how);
      return (wide ? best(ranked.iterate(said, session), limit) : match.all(said, session, limit)).map(rowOf);
    };
    const all = ask(" AND ");
    return all.length > 0 || phrases.length === 1 ? all : ask(" OR ");
  }

  return {
    index,
    search,
    unindex: (session) => {
      sql().drop.run(session);
      upTo = null; // SQLite gives the highest row numbers again once they are free
    },
    reset: () => {
      upTo = null;
    },
  };
}

// `;` follows `:`, so the range is every key that begins with the given one and a colon.
const MATCH = `SELECT said.rowid, rank, e.session, e.seq, e.turn, e.at, e.fact FROM said JOIN entry e ON e.rowid = said.rowid
  WHERE said MATCH ?1 AND (?2 IS NULL OR e.session = ?2 OR (e.session >= ?2 || ':' AND e.session < ?2 || ';'))`;

type Statements = ReturnType<typeof prepare>;

function prepare(db: DatabaseSync) {
  return {
    last: db.prepare("SELECT rowid FROM said ORDER BY rowid DESC LIMIT 1"),
    next: db.prepare("SELECT rowid, fact FROM entry WHERE rowid > ? ORDER BY rowid LIMIT ?"),
    add: db.prepare("INSERT INTO said (rowid, text) VALUES (?, ?)"),
    drop: db.prepare("DELETE FROM said WHERE rowid IN (SELECT rowid FROM entry WHERE session = ?)"),
    sessions: db.prepare("SELECT max(rowid) count FROM session"),
    within: db.prepare("SELECT count(*) count FROM session WHERE key >= ?1 || ':' AND key < ?1 || ';'"),
    // Gives a rank only to what was said within the sessions, and reads the entry of each match for that.
    match: db.prepare(`${MATCH} ORDER BY bm25(said), said.rowid DESC LIMIT ?3`),
    // `ORDER BY rank` alone lets FTS5 sort: an entry is read when it is its turn. Three words in 100,000 entries took 6 ms instead of 17.
    ranked: db.prepare(`${MATCH} ORDER BY rank`),
  };
}

/** The first of rows that come by rank; of equal ones the newest first. However many are equal, few of them are held. */
function best(rows: Iterable<Record<string, unknown>>, limit: number): Record<string, unknown>[] {
  let found: Record<string, unknown>[] = [];
  const first = () => found.sort((a, b) => by("rank", a, b) || by("rowid", b, a)).slice(0, limit);
  for (const row of rows) {
    if (found.length >= limit && by("rank", row, found.at(-1)) > 0) break;
    found.push(row);
    if (found.length > 2 * limit) found = first();
  }
  return first();
}

const by = (name: string, a?: Record<string, unknown>, b?: Record<string, unknown>) =>
  Number(a?.[name]) - Number(b?.[name]);

const rowOf = ({ session, seq, turn, at, fact }: Record<string, unknown>): FoundRow => {
  return { session: String(session), seq: Number(seq), turn: String(turn), at: Number(at), fact: String(fact) };
};

export function searchPort({ file, readOnly, long, look }: Thread): Search {
  const foundOf = ({ fact, ...where }: FoundRow, query: string): Found => {
    const said = textOf(undamaged(`entry ${where.seq} of ${where.session} in ${file}`, (): Fact => JSON.parse(fact)));
    return { ...where, text: snippetOf(said, query) };
  };
  return (query, { session = null, limit }) =>
    long(async (write, closing) => {
      let more = !readOnly; // one that only looks finds what the owner's searches have taken in
      while (more) more = (await write("index", INDEX_AT_ONCE)) && !closing();
      const rows = await look("search", query, session, limit);
      return rows.map((row) => foundOf(row, query));
    });
}

/** A longer word also finds what begins with it: `deploy` finds "deployed". */
const quoted = (phrase: string) => (phrase.length > 2 ? `"${phrase}"*` : `"${phrase}"`);
