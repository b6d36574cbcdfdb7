// The text of a notes file: entries separated by lines with "§". What a person wrote stays exactly as it is; a change
// touches only its own entry.

export type NotesChange =
  | { action: "add"; text: string }
  | { action: "replace"; find: string; text: string }
  | { action: "remove"; find: string };

/** `before`: the text that was replaced or removed. `unchanged`: the entry existed already. */
export type Changed = { source: string; before?: string; unchanged?: true };

/** A refusal that the caller can act on. Nothing was changed. */
export class Unfit extends Error {}

const LINE = /(^[ \t]*§[ \t]*\r?$)/m;

/** Entries as they are in the file, and the separators between them: every second piece is a separator. */
const piecesOf = (source: string): string[] => source.split(LINE);

export const entriesOf = (source: string): string[] =>
  piecesOf(source)
    .filter((_, at) => at % 2 === 0)
    .map((piece) => piece.trim())
    .filter(Boolean);

/** Counts as a person would: a letter with accents is one character, and so is a family emoji. */
export const lengthOf = (text: string): number =>
  [...(segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" })).segment(text)].length;
let segmenter: Intl.Segmenter | null = null; // some milliseconds of a start

/** `most`: limit of the whole text, in characters. */
export function changed(source: string, change: NotesChange, most: number): Changed {
  if (change.action === "remove") {
    const entry = find(source, change.find);
    return { source: without(source, entry), before: entry };
  }
  const text = fit(change.text);
  if (change.action === "replace") {
    const entry = find(source, change.find);
    if (text === entry) return { source, unchanged: true };
    const pieces = piecesOf(source);
    const at = placeOf(entry, pieces);
    const after = pieces.with(at, pieces[at]?.replace(entry, () => text) ?? "").join("");
    if (after.length > source.length) mustFit(after, source, most);
    return { source: after, before: entry };
  }
  if (entriesOf(source).includes(text)) return { source, unchanged: true };
  const kept = source.trimEnd();
  const after = `${kept && `${kept}\n§\n`}${text}\n`;
  mustFit(after, source, most);
  return { source: after };
}

function fit(given: string): string {
  const text = given.replaceAll(/\r\n?/g, "\n").trim();
  if (text === "") throw new Unfit("There is no text. Say what should be remembered.");
  if (LINE.test(text)) throw new Unfit('A line with only "§" ends an entry. Leave it out, or add two entries.');
  return text;
}

/** The one entry that contains this text, or equals it. */
function find(source: string, part: string): string {
  const wanted = part.trim();
  if (wanted === "") throw new Unfit("Say which entry is meant, by a part of its text that no other has.");
  const entries = entriesOf(source);
  if (entries.includes(wanted)) return wanted;
  const found = new Set(entries.filter((entry) => entry.includes(wanted)));
  const [first, ...others] = found;
  if (first === undefined) {
    const all = entries.map(line).join("\n");
    throw new Unfit(`No entry has "${line(wanted)}" in it. ${all ? `There are:\n${all}` : "There are none."}`);
  }
  if (others.length === 0) return first;
  throw new Unfit(
    `${found.size} entries have "${line(wanted)}" in them; give more of the one you mean:\n` +
      [...found].map(line).join("\n"),
  );
}

/** Removes the entry and one of the separators next to it. */
function without(source: string, entry: string): string {
  const pieces = piecesOf(source);
  const at = placeOf(entry, pieces);
  const left = pieces.toSpliced(at === pieces.length - 1 ? Math.max(0, at - 1) : at, 2).join("");
  return at === 0 ? left.replace(/^\r?\n/, "") : left;
}

const placeOf = (entry: string, pieces: readonly string[]) => pieces.findIndex((piece) => piece.trim() === entry);

/** Combining marks belong to one character, and could go on for ever. */
const MOST_UNITS = 8;

function mustFit(after: string, before: string, most: number): void {
  const huge = after.length > MOST_UNITS * most;
  const size = huge ? after.length : lengthOf(after.trim());
  if (size <= most) return;
  const now = lengthOf(before.trim());
  throw new Unfit(
    `It does not fit: ${count(now)} of ${count(most)} characters are used, this would make it ${count(size)}. ` +
      `Replace or remove an entry first. There are:\n${entriesOf(before).map(line).join("\n")}`,
  );
}

export const count = (n: number): string => n.toLocaleString("en");

/** Its beginning, on one line. */
const line = (text: string): string => {
  const flat = text.replaceAll(/\s+/g, " ");
  return flat.length > 80 ? `${flat.slice(0, 79).toWellFormed()}…` : flat;
};
