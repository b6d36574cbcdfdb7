// A text that grows while many viewers read it, each from a place of its own. It is stored in pieces of one size: adding a word copies
// none of them, and a viewer that is far behind takes one piece after the other. (V8 flattened one long text for each word that was
// sliced off it: 10 MB took 20 s and 900 MB.)

export type LiveText = { pieces: string[]; last: string };

/** Characters: at most 64 kB, whatever they are. */
export const PIECE = 16_384;

export const silence = (): LiveText => ({ pieces: [], last: "" });

/** Changes `spoken` in place. */
export function add(spoken: LiveText, text: string): void {
  let rest = spoken.last + text;
  for (; rest.length >= PIECE; rest = rest.slice(PIECE)) spoken.pieces.push(rest.slice(0, PIECE));
  spoken.last = rest;
}

export const lengthOf = ({ pieces, last }: LiveText): number => pieces.length * PIECE + last.length;

export const wholeOf = ({ pieces, last }: LiveText): string => pieces.join("") + last;

/** What follows the first `from` characters: all of it, or the next piece. */
export function nextOf({ pieces, last }: LiveText, from: number): string {
  const at = Math.floor(from / PIECE);
  const piece = pieces[at];
  const text = (piece ?? last).slice(from % PIECE);
  return piece && endsInside(text) ? text + (pieces[at + 1] ?? last).slice(0, 1) : text;
}

/** The same of a text that has ended. */
export function nextIn(text: string, from: number): string {
  const next = text.slice(from, from + PIECE);
  return endsInside(next) ? text.slice(from, from + PIECE + 1) : next;
}

/** A piece never ends in the middle of a surrogate pair, so that it can be shown by itself. */
const endsInside = (text: string) => /[\uD800-\uDBFF]$/.test(text);
