// What of an entry is searched, and what of a query is looked for: the same for every database.
import type { CallKind, EndKind, Fact, InputKind, RecoveryKind } from "../core/session.ts";

/** A damaged entry is `check`'s to report, not a reason to find nothing any more. */
export function saidIn(json: string): string {
  try {
    return textOf(JSON.parse(json));
  } catch {
    return "";
  }
}

/** What a person or a model said in it; empty: nothing. What tools print is not said by anybody. */
export function textOf(fact: Fact): string {
  switch (fact.kind) {
    case "accepted":
      return fact.input.task ? "" : fact.input.text;
    case "thought":
    case "cut":
      return fact.text;
    default:
      fact.kind satisfies InputKind | CallKind | RecoveryKind | EndKind | "forked" | "compacted";
  }
  return "";
}

const MOST_PHRASES = 32;

/** Words, and what stands in double quotes as one phrase: letters and digits only, so it is never syntax. */
export const phrasesOf = (query: string): string[] =>
  [...query.matchAll(/"([^"]*)"|[^"\s]+/g)]
    .flatMap(([whole, phrase]) => (phrase === undefined ? wordsOf(whole) : [wordsOf(phrase).join(" ")]))
    .filter((phrase) => phrase !== "")
    .slice(0, MOST_PHRASES);

export const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{N}\p{Co}\p{M}]+/gu) ?? [];

const AROUND = 200;

/** The part of a text around the first of the phrases. */
export function snippetOf(text: string, query: string): string {
  const low = text.toLowerCase();
  const places = phrasesOf(query).map((phrase) => low.indexOf(phrase.toLowerCase()));
  const at = Math.max(0, Math.min(...places.filter((place) => place >= 0), text.length));
  const from = at === text.length || at < AROUND ? 0 : at - AROUND / 2;
  const part = text.slice(from, from + 2 * AROUND).toWellFormed();
  return `${from > 0 ? "…" : ""}${part.trim()}${from + 2 * AROUND < text.length ? "…" : ""}`;
}
