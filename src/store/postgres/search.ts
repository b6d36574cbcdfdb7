// Search in PostgreSQL. A search first adds new entries to the index: commits only note which entries are new. The words are made here, so
// that no dictionary or locale of the server changes what is found.
//
// A search in some sessions adds what is new in those, and of the others a page now and then: when each search emptied the whole queue, a
// hundred at once did the same work, and the turns that waited for them came to a twentieth.
import type { Fact } from "../../core/session.ts";
import type { Found, Search } from "../../core/store.ts";
import { clock } from "../../platform/clock.ts";
import { undamaged } from "../rows.ts";
import { phrasesOf, saidIn, snippetOf, textOf, wordsOf } from "../search-text.ts";
import type { Connections } from "./connections.ts";
import type { PgRow } from "./link.ts";

const INDEX_AT_ONCE = 500;
/** Of one search in all sessions: what is left is found by the next one. */
const MOST_PAGES = 200;
/** How often a search in some sessions adds a page of the others. */
const OTHERS_MS = 1_000;
/** $2: a session's key or its first parts; null: all. */
const within = (session: string) =>
  `($2::text IS NULL OR ${session} = $2 OR (${session} >= $2 || ':' AND ${session} < $2 || ';'))`;
/** A tsvector has at most 1 MB, a word in it 2 KB, and a place in the text is at most 16,383. */
const MOST_WORDS = 16_000;
const LONGEST_WORD = 50;
/** All words of a page of entries in one statement. */
const NEXT = `SELECT q.session, q.seq, coalesce(e.fact, '') fact FROM said_queue q
  LEFT JOIN entry e ON e.session = q.session AND e.seq = q.seq WHERE ${within("q.session")} LIMIT $1`;
/** Of two searches that add the same entries, one finds the rows of the queue. */
const TAKE_IN = `WITH next AS (SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[]) n (session, seq, words)),
    queued AS (DELETE FROM said_queue q USING next n WHERE q.session = n.session AND q.seq = n.seq RETURNING q.session, q.seq)
  INSERT INTO said SELECT n.session, n.seq, n.words::tsvector FROM next n JOIN queued USING (session, seq)
  JOIN entry e USING (session, seq) ON CONFLICT DO NOTHING`;
const MATCH = `SELECT e.session, e.seq, e.turn, e.at, e.fact FROM said s JOIN entry e ON e.session = s.session AND e.seq = s.seq
  WHERE s.words @@ $1::tsquery AND ${within("s.session")}
  ORDER BY ts_rank_cd(s.words, $1::tsquery) DESC, e.at DESC, e.session, e.seq DESC LIMIT $3`;

export function searchPort({ where, readOnly, read, lanes }: Connections): Search {
  let othersAt = Number.NEGATIVE_INFINITY;

  async function takeIn(session: string | null): Promise<void> {
    for (let page = 0; page < MOST_PAGES; page++) if (!(await takeInPage(session))) break;
    if (session === null || clock.monotonic() < othersAt) return;
    othersAt = clock.monotonic() + OTHERS_MS;
    await takeInPage(null);
  }

  /** False: there is no more. */
  async function takeInPage(session: string | null): Promise<boolean> {
    const rows = await read({ text: NEXT, values: [INDEX_AT_ONCE, session] });
    const values = [
      rows.map((row) => row["session"]),
      rows.map(({ seq }) => seq),
      rows.map(({ fact }) => vectorOf(saidIn(String(fact)))),
    ];
    if (rows.length > 0) await lanes.query(session ?? "said", { text: TAKE_IN, values });
    return rows.length === INDEX_AT_ONCE;
  }

  const foundOf = (row: PgRow, query: string): Found => {
    const [session, seq] = [String(row["session"]), Number(row["seq"])];
    const fact = undamaged(`entry ${seq} of ${session} in ${where}`, (): Fact => JSON.parse(String(row["fact"])));
    return { session, seq, turn: String(row["turn"]), at: Number(row["at"]), text: snippetOf(textOf(fact), query) };
  };

  return async (query, { session = null, limit }) => {
    if (!readOnly) await takeIn(session);
    const phrases = phrasesOf(query).map(phraseQuery);
    if (phrases.length === 0) return [];
    const ask = async (how: string) =>
      (await read({ text: MATCH, values: [phrases.join(how), session, limit] })).map((row) => foundOf(row, query));
    const all = await ask(" & ");
    return all.length > 0 || phrases.length === 1 ? all : ask(" | ");
  };
}

/** As it is written in SQL: letters, digits and marks only, so nothing in it needs an escape. */
const lexeme = (word: string) =>
  `'${word.normalize("NFD").replaceAll(/\p{M}/gu, "").toLowerCase().slice(0, LONGEST_WORD)}'`;

function vectorOf(text: string): string {
  const places = new Map<string, number[]>();
  for (const [index, word] of wordsOf(text).slice(0, MOST_WORDS).entries()) {
    const name = lexeme(word);
    const at = places.get(name);
    if (at) at.push(index + 1);
    else places.set(name, [index + 1]);
  }
  return [...places].map(([name, at]) => (name === "''" ? "" : `${name}:${at.slice(0, 255).join(",")}`)).join(" ");
}

/** A longer word also finds what begins with it: `deploy` finds "deployed". */
function phraseQuery(phrase: string): string {
  const words = phrase.split(" ").map(lexeme);
  return `(${words.join(" <-> ")}${phrase.length > 2 ? ":*" : ""})`;
}
