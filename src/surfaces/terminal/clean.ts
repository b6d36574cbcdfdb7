// Text from models and tools, made safe for a terminal. Line by line: no line is joined, split or lost.
import { printable } from "../../platform/logline.ts";

/** Colours, titles, clipboard writes (ECMA-48). One that is not ended ends with its line. */
const SEQUENCES =
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\n\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?/g;
// What is not seen but acts. Joiners and marks of direction are part of ordinary words and emoji; overrides of direction
// can make a command read as another one.
const UNSEEN = /(?![\n\u200c-\u200f\u061c])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
/** Nearly all text has none of these. */
const ODD = /[^\n -~]/;
const TAB = "    ";

export const clean = (text: string): string =>
  ODD.test(text) ? text.replace(SEQUENCES, "").replace(UNSEEN, shown) : text;

/** For a pipe: it may end at a terminal too, or in a file, where everything else is to arrive as it was written. */
export const withoutControls = (text: string): string =>
  ODD.test(text) ? text.replace(SEQUENCES, "").replaceAll(/(?![\n\t])\p{Cc}/gu, "") : text;

/** For a place where there is room for one line only. */
export const oneLine = (text: string): string => clean(text).replaceAll(/\s+/g, " ").trim();

function shown(char: string): string {
  if (char === "\t") return TAB;
  return /\p{Cc}/u.test(char) ? "" : printable(char);
}
