// Converts bytes to text that is safe to show.
import { attempt } from "../../platform/attempt.ts";

const BOM = "\uFEFF";
const ODD = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Without characters that move a cursor, write the clipboard or reverse text. */
export const plain = (text: string): string =>
  text.replace(ODD, (char) => `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** For file names: no name can look like two lines. */
export const plainName = (name: string): string => plain(name).replaceAll("\n", "⟨U+000A⟩");

/** The text, and whether it began with a byte order mark; null if it is not UTF-8. */
export function decode(bytes: Uint8Array): { text: string; bom: string } | null {
  const all = attempt(() => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  if (all === undefined) return null;
  return all.startsWith(BOM) ? { text: all.slice(1), bom: BOM } : { text: all, bom: "" };
}

/** The type of a file that is not text, judged by its beginning; null if it is text. */
export function kindOf(head: Buffer): string | null {
  const known = BEGINNINGS.find(([magic]) => magic.test(head.toString("latin1")));
  if (known) return known[1];
  return head.includes(0) ? "a binary file" : null;
}

const BEGINNINGS: [RegExp, string][] = [
  [/^\x89PNG\r\n\x1a\n/, "a PNG image"],
  [/^\xff\xd8\xff/, "a JPEG image"],
  [/^GIF8[79]a/, "a GIF image"],
  [/^RIFF[^]{4}WEBP/, "a WebP image"],
  [/^%PDF-/, "a PDF document"],
  [/^(?:\xff\xfe|\xfe\xff)/, "UTF-16 text"],
];
/** How much of a file `kindOf` needs. */
export const HEAD_BYTES = 8_192;

export const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? "" : "s"}`;
export const linesIn = (text: string): number =>
  text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
