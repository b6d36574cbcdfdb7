// Shows a command to a person so that nothing in it can hide, move or colour anything else.

/** Control, format (bidirectional, zero-width), separator and unassigned characters, and unusual spaces. */
const HIDDEN = new RegExp(
  [
    /[^\P{C}\n\t]|[\p{Zl}\p{Zp}]|(?! )\p{Zs}/u,
    /[⟨⟩\u115F\u1160\u3164\uFFA0\u2800]|[\u{FE00}-\u{FE0E}]|[\u{E0100}-\u{E01EF}]/u,
  ]
    .map(({ source }) => source)
    .join("|"),
  "gu",
);
/** Combining marks that pile up on one letter cover the lines around them. */
const PILED = /(\p{M}{3})\p{M}+/gu;
const FAR = / {12,}/g;

/** Replaces every invisible character by `⟨U+200B⟩`, a tab by `⟨tab⟩`, a line end by `⟨line⟩` and a new line, and a
 *  long run of spaces by `⟨40 spaces⟩`. The brackets themselves are replaced too, so the marks cannot be forged. */
export const escapeForDisplay = (command: string): string =>
  command
    .replace(HIDDEN, mark)
    .replace(PILED, "$1⟨marks⟩")
    .replace(FAR, (spaces) => `⟨${spaces.length} spaces⟩`)
    .replaceAll("\t", "⟨tab⟩")
    .replaceAll("\n", "⟨line⟩\n");

/** The same on one line. */
export const escapeOnLine = (text: string): string => escapeForDisplay(text).replaceAll("⟨line⟩\n", "⟨line⟩ ");

const mark = (char: string): string => {
  const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return `⟨U+${code.padStart(4, "0")}⟩`;
};
