// What a conversation is called as long as nobody has named it.

const LONGEST = 60;

/** Of its first message: the first line, as much as fits on a line with others. */
export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0]?.replaceAll(/\s+/g, " ") ?? "";
  if (line.length <= LONGEST) return line;
  // Half a character would come back from the store as another one.
  const cut = line.slice(0, LONGEST - 1).replace(/[\ud800-\udbff]$/, "");
  return `${cut.trimEnd()}…`;
}
