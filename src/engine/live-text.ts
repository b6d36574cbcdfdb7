// A text that grows while many read it, each from an own place. It is kept in pieces of one size: a word that is added
// copies none of them, and who is far behind takes one after the other. (One long text was flattened by V8 for each word
// that was sliced off it: 10 MB took 20 s and 900 MB.)

export type LiveText = { pieces: string[]; last: string };

/** Characters: at most 64 kB, whatever they are. */
export const PIECE = 16_384;

export const silence = (): LiveText => ({ pieces: [], last: "" });

/** In place. */
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

/** Half a character: the other half of it comes with it, so that each piece can be shown by itself. */
const endsInside = (text: string) => /[\uD800-\uDBFF]$/.test(text);
