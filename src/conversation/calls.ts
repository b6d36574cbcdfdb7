// What a tool call is shown as: a line that says what it does, and the part of its arguments or result that a person wants to
// see. All of it comes from the journal, so a conversation that is opened again looks the same.
import { printedBefore } from "../core/run.ts";
import type { Acted } from "./updates.ts";

type Called = Pick<Acted, "tool" | "args"> & Partial<Pick<Acted, "outcome" | "text">>;
/** `edit`, `src/retry.ts`, `+2 −1`. Any but the name can be empty. */
export type CallHead = { name: string; about: string; counts: string };
/** `reason`: why it failed. `output`: what a command printed. `text`: anything else, shown only on demand. */
export type CallBody = { kind: "diff" | "list" | "output" | "reason" | "text"; lines: string[] };

const SHOWN_LINES: Record<CallBody["kind"], number> = { diff: 12, list: 12, output: 3, reason: 3, text: 0 };
const LONGEST_ABOUT = 200;
const NAMES: Record<string, string> = { patch: "edit", write_file: "write" };
const COMMANDS = new Set(["terminal", "process"]);
const BOXES: Record<string, string> = { "[ ]": "☐", "[~]": "◐", "[x]": "☑", "[-]": "☒" };

export function headOf(call: Called): CallHead {
  const name = NAMES[call.tool] ?? call.tool;
  switch (call.tool) {
    case "patch":
      return { name, about: placesOf(changesIn(call.args)), counts: countsOf(diffOf(call)) };
    case "write_file":
      return { name, about: preview(call.args), counts: replacedCounts(call) ?? countsOf(diffOf(call)) };
    case "todo": {
      const items = call.outcome === "ok" ? linesOf(call.text ?? "").filter(isItem) : [];
      const done = items.filter((line) => line.startsWith("[x]")).length;
      return { name, about: "", counts: items.length ? `${done} of ${items.length} done` : "" };
    }
    default: {
      const [, code] = (COMMANDS.has(call.tool) && /^\[exit (\d+) /.exec(call.text ?? "")) || [];
      return { name, about: preview(call.args), counts: code && code !== "0" ? `exit ${code}` : "" };
    }
  }
}

export function bodyOf(call: Acted): CallBody {
  const lines = linesOf(call.text);
  const diff = diffOf(call);
  if (diff.length) return { kind: "diff", lines: diff };
  const [, notes] = (COMMANDS.has(call.tool) && /^\[(.*)\]$/.exec(lines[0] ?? "")) || [];
  if (notes !== undefined)
    return { kind: "output", lines: printed(lines.slice(1), call.outcome === "ok" ? "" : notes) };
  const before = call.outcome === "cancelled" ? printedBefore(call.text) : "";
  if (before) return { kind: "output", lines: linesOf(before) };
  if (call.outcome !== "ok") return { kind: "reason", lines: call.outcome === "skipped" || !call.text ? [] : lines };
  if (call.tool === "todo" && lines.every(isItem))
    return { kind: "list", lines: lines.map((line) => `${BOXES[line.slice(0, 3)] ?? "☐"}${line.slice(3)}`) };
  return { kind: "text", lines };
}

/** Why a command was ended stands behind what it had printed; its exit code and time are in the line of the call. */
function printed(lines: string[], notes: string): string[] {
  const why = notes.replace(/^exit \d+ · [\d.]+ s(?: · )?/, "");
  const isNothing = lines.length === 1 && lines[0] === "(no output)";
  return [...(isNothing ? [] : lines), ...(why ? [`[${why}]`] : [])];
}

/** What is shown of a call without being asked for: of a change or a list the first lines, of output or a reason the last. */
export function excerptOf({ kind, lines }: CallBody): { shown: string[]; left: number; isBeginning: boolean } {
  const most = SHOWN_LINES[kind];
  const isBeginning = kind === "diff" || kind === "list";
  const shown = isBeginning ? lines.slice(0, most) : lines.slice(Math.max(0, lines.length - most));
  return { shown, left: most ? lines.length - shown.length : 0, isBeginning };
}

/** The argument that says most about a call, on one line. */
function preview(args: unknown): string {
  const line = Object.values(recordOf(args)).flatMap((value) => {
    const text = typeof value === "string" ? value.replaceAll(/\s+/g, " ").trim() : "";
    return text ? [text] : [];
  })[0];
  return line && line.length > LONGEST_ABOUT ? `${line.slice(0, LONGEST_ABOUT - 1)}…` : (line ?? "");
}

// ── Changes of files ──────────────────────────────────────────────────────────────────────────────────

type FileChangeShown = { path: string; diff: string[] };

/** What a call has changed, or would. Nothing of a call that failed. */
function diffOf({ tool, args, outcome, text = "" }: Called): string[] {
  if (outcome !== undefined && outcome !== "ok") return [];
  const told = linesOf(text).slice(1);
  if (tool === "write_file") {
    if (text.startsWith("Replaced ")) return told;
    const { content } = recordOf(args);
    return text.startsWith("Made ") && typeof content === "string" ? added(content) : [];
  }
  if (tool !== "patch") return [];
  const changes = changesIn(args);
  const isOne = changes.length === 1;
  // The result knows the numbers of the lines, but of a long change only a part.
  if (told.length && "edits" in recordOf(args) && !told.some((line) => line.startsWith("[… ")))
    return isOne ? told.slice(1) : told;
  return changes.flatMap(({ path, diff }) => (isOne ? diff : [path, ...diff]));
}

function changesIn(args: unknown): FileChangeShown[] {
  const { edits, diff } = recordOf(args);
  if (typeof diff === "string") return filesIn(linesOf(diff));
  const changes = new Map<string, string[]>();
  for (const edit of Array.isArray(edits) ? edits : []) {
    const { path, old_text: before, new_text: after } = recordOf(edit);
    if (typeof path !== "string" || typeof before !== "string" || typeof after !== "string") continue;
    changes.set(path, [...(changes.get(path) ?? []), ...difference(before.split("\n"), after.split("\n"))]);
  }
  return Array.from(changes, ([path, lines]) => ({ path, diff: lines }));
}

/** The files of a unified diff, without the lines that only name them. */
function filesIn(lines: readonly string[]): FileChangeShown[] {
  const files: FileChangeShown[] = [];
  for (const [i, line] of lines.entries()) {
    const next = lines[i + 1] ?? "";
    if (line.startsWith("--- ") && next.startsWith("+++ ")) {
      const path = next.startsWith("+++ /dev/null") ? line : next;
      files.push({
        path: path
          .slice(4)
          .replace(/^[ab]\//, "")
          .replace(/\t.*/, ""),
        diff: [],
      });
    } else if (!(line.startsWith("+++ ") && lines[i - 1]?.startsWith("--- ")) && /^[-+ @]/.test(line))
      files.at(-1)?.diff.push(line);
  }
  return files;
}

/** Without the lines that both begin and end with. */
function difference(before: readonly string[], after: readonly string[]): string[] {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  return [
    ...before.slice(head, before.length - tail).map((line) => `-${line}`),
    ...after.slice(head, after.length - tail).map((line) => `+${line}`),
  ];
}

const added = (content: string): string[] =>
  content === ""
    ? []
    : content
        .replace(/\n$/, "")
        .split("\n")
        .map((line) => `+${line}`);

function placesOf(changes: readonly FileChangeShown[]): string {
  const [first, ...others] = changes;
  return first && others.length === 0 ? first.path : first ? `${changes.length} files` : "";
}

function countsOf(diff: readonly string[]): string {
  const [more, less] = ["+", "-"].map((sign) => diff.filter((line) => line.startsWith(sign)).length);
  return [more && `+${more}`, less && `−${less}`].filter(Boolean).join(" ");
}

/** The result has the numbers also where it has only a part of the lines. */
const replacedCounts = ({ text = "" }: Called): string | undefined => {
  const [, more, less] = /^Replaced .*, \+(\d+) −(\d+)\)\.$/m.exec(text) ?? [];
  return more && less && [more !== "0" && `+${more}`, less !== "0" && `−${less}`].filter(Boolean).join(" ");
};

const linesOf = (text: string): string[] => text.trimEnd().split("\n");
const isItem = (line: string): boolean => line.slice(0, 3) in BOXES;
export const recordOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? { ...value } : {};
