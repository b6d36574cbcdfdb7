// What a write would change, as a diff for the person who is asked.
import { createRedactor } from "../../platform/redact.ts";
import { escapeForDisplay } from "../../policy/display.ts";
import { shortDiff, toLf } from "./edits.ts";
import { count } from "./text.ts";

const MOST_LINES = 200;
/** Removed lines come first: they must not hide what would be written. */
const MOST_REMOVED = 20;
/** Room for one approval in a chat. */
const MOST_CHARACTERS = 4_000;
const INDENT = /^[-+ ]?[ \t]{0,40}/;

/** What the file holds may be a secret that whoever is asked must not see. */
export function diffOf(before: string, after: string): string[] {
  const { text } = createRedactor();
  const { lines: diff, removed } = shortDiff(toLf(before), toLf(after), Number.POSITIVE_INFINITY);
  const shown = diff.map((line) => (line.startsWith("+") ? line : text(line)));
  const more = removed - MOST_REMOVED;
  if (more <= 0) return shown;
  const at = diff.findIndex((line) => line.startsWith("-")) + MOST_REMOVED;
  return shown.toSpliced(at, more, `[… ${count(more, "more line")} removed]`);
}

export function wholeOf(content: string, what: string): string[] {
  const lines = toLf(content).replace(/\n$/, "").split("\n");
  return [`@@ ${what}, ${count(lines.length, "line")} @@`, ...lines.map((line) => `+${line}`)];
}

/** Line by line, so that line ends need no mark: each line says by its first sign what it is. */
export function showDiff(lines: readonly string[]): string {
  const shown: string[] = [];
  let room = MOST_CHARACTERS;
  for (const line of lines.slice(0, MOST_LINES)) {
    const [indent = ""] = INDENT.exec(line) ?? [];
    const visible = indent.replaceAll("\t", "    ") + escapeForDisplay(line.slice(indent.length));
    room -= visible.length + 1;
    if (room < 0) break;
    shown.push(visible);
  }
  const left = lines.length - shown.length;
  return [...shown, ...(left > 0 ? [`[… ${count(left, "more line")}]`] : [])].join("\n");
}
