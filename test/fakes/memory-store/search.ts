import { phrasesOf, snippetOf, textOf } from "../../../src/store/search-text.ts";
import type { Disk, SyncPort } from "./disk.ts";

/** By how often the phrases stand there, which is near enough to a ranking. */
export const memorySearch =
  ({ sessions }: Disk): SyncPort<"search"> =>
  (query, { session: within, limit }) => {
    const phrases = phrasesOf(query.toLowerCase());
    const found = [...sessions.values()]
      .filter(({ session }) => within === undefined || session === within || session.startsWith(`${within}:`))
      .flatMap(({ session, entries }) => entries.map((entry) => ({ session, ...entry, said: textOf(entry) })))
      .map((entry) => ({ ...entry, hits: phrases.map((phrase) => entry.said.toLowerCase().split(phrase).length - 1) }));
    const all = found.filter(({ hits }) => hits.length > 0 && hits.every((n) => n > 0));
    const sum = (hits: number[]) => hits.reduce((a, b) => a + b, 0);
    return (all.length > 0 ? all : found.filter(({ hits }) => sum(hits) > 0))
      .toSorted((a, b) => sum(b.hits) - sum(a.hits) || b.at - a.at)
      .slice(0, limit)
      .map(({ session, seq, turn, at, said }) => ({ session, seq, turn, at, text: snippetOf(said, query) }));
  };
