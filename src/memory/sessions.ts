// Earlier conversations as a memory: it stores nothing, because the store has everything.
import { createBounded } from "../core/bounded.ts";
import type { Clock } from "../core/ports.ts";
import { isChild } from "../core/session-key.ts";
import type { Found, Journal, Search } from "../core/store.ts";
import type { MemoryProvider, Whose } from "./provider.ts";
import { isAlone, scopeOf, searchedFrom } from "./scope.ts";

type Options = { journal: Pick<Journal, "entries">; search: Search; clock: Pick<Clock, "now"> };

const PASSAGES = 5;
/** More than are used: some belong to the conversation itself. */
const LOOKED_AT = 20;
const DAY_MS = 86_400_000;
const LONGEST_PASSAGE = 400;
const MOST_SESSIONS = 1_000;

export function createSessionsMemory({ journal, search, clock }: Options): MemoryProvider {
  const begunAt = createBounded<number>(MOST_SESSIONS);

  /** Most conversations over the API are alone in their scope and not a day old: there is nothing to search for. */
  async function hasNoNews({ scope, session }: Whose): Promise<boolean> {
    if (!isAlone(scope)) return false;
    // It can only have been deleted and begun again since, later: then a search finds nothing.
    const known = begunAt.get(session) ?? (await journal.entries(session, 0, 1))[0]?.at;
    if (known !== undefined) begunAt.set(session, known);
    return known === undefined || clock.now() - known <= DAY_MS;
  }

  return {
    name: "sessions",
    isAvailable: () => true,
    async prefetch(query, whose) {
      const words = wordsFor(query);
      // If several clients with their own keys share a conversation, the store does not know who said what.
      if (words.length === 0 || whose.scope !== scopeOf({ session: whose.session })) return "";
      if (await hasNoNews(whose)) return "";
      const searches = searchedFrom(whose.session).map((session) =>
        search(words.join(" "), { session, limit: LOOKED_AT, soon: true }),
      );
      const found = new Map((await Promise.all(searches)).flat().map((hit) => [`${hit.session} ${hit.seq}`, hit]));
      return [...found.values()]
        .filter((hit) => isNews(hit, whose, clock.now()))
        .slice(0, PASSAGES)
        .map(passage)
        .join("\n");
    },
  };
}

/** Excludes other scopes, whose keys may begin alike; texts that a model sent to a child; and the present
 *  conversation, most of which the model has anyway. */
function isNews({ session, at }: Found, whose: Whose, now: number): boolean {
  if (isChild(session) || scopeOf({ session }) !== whose.scope) return false;
  return session !== whose.session || now - at > DAY_MS;
}

const passage = ({ at, text }: Found): string =>
  `- ${new Date(at).toISOString().slice(0, 10)}: ${text.replaceAll(/\s+/g, " ").slice(0, LONGEST_PASSAGE)}`;

/** The longer words of a message, which say what it is about. Short words occur everywhere: searching 100,000 entries
 *  for six words took 75 ms, for three long ones 5. */
function wordsFor(query: string): string[] {
  const words = new Set(query.toLowerCase().match(/[\p{L}\p{N}\p{M}]+/gu));
  const telling = [...words]
    .filter((word) => !SMALL.has(word) && (word.length > 2 || /[^\x00-\x7f]|\d/.test(word)))
    .sort((a, b) => b.length - a.length);
  const long = telling.filter((word) => word.length >= LONG);
  return long.length > 0 ? long.slice(0, 3) : telling.slice(0, 2);
}

const LONG = 5;

const SMALL = new Set(
  (
    "the and for that this with you your yours are was were been being have has had does did doing will would " +
    "should could can may might must shall not but from they them their then than there here what when where " +
    "which who whom whose why how about into onto over under again more most some any all each other such only " +
    "own same too very just also now please tell say said know think want need like make made get got let use " +
    "used using its our ours his her hers him she one two out off don der die das und ist ein eine ich nicht " +
    "mit auf für les des est une pour que qui dans los las una por con para"
  ).split(" "),
);
