// Parses unified diffs as models write them: line numbers in "@@" lines are hints, the content of the lines counts.
import type { Edit } from "./edits.ts";
import { Trouble } from "./trouble.ts";

/** All changes of one file. */
export type FilePatch = { path: string; kind: "edit" | "create" | "delete"; edits: Edit[] };

const NOWHERE = "/dev/null";
const HOW = "Write it like this:\n--- a/dir/file\n+++ b/dir/file\n@@ -3,2 +3,2 @@\n context\n-old line\n+new line";

export function parseDiff(diff: string): FilePatch[] {
  const lines = diff.replaceAll("\r\n", "\n").split("\n");
  if (lines.at(-1) === "") lines.pop();
  const patches: FilePatch[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (/^(?:rename|copy) (?:from|to) |^GIT binary patch|^Binary files /.test(line))
      throw new Trouble(`This cannot be done with a patch: ${line.slice(0, 200)}. Use the terminal tool.`);
    if (line.startsWith("@@"))
      throw new Trouble(`Line ${at + 1} of the diff is a change without "---" and "+++" lines. ${HOW}`);
    if (!isHeader(lines, at)) {
      at += 1;
      continue;
    }
    const patch = startOf(line, lines[at + 1] ?? "");
    at += 2;
    let shift = 0;
    while (lines[at]?.startsWith("@@")) {
      const hunk = readHunk(lines, at);
      patch.edits.push({ ...hunk.edit, line: hunk.edit.line + shift });
      shift += hunk.grown;
      at = hunk.end;
    }
    if (patch.edits.length === 0 && patch.kind === "edit")
      throw new Trouble(`The diff has no "@@" lines for ${patch.path}. ${HOW}`);
    patches.push(patch);
  }
  if (patches.length === 0) throw new Trouble(`This is not a unified diff. ${HOW}`);
  return patches;
}

const isHeader = (lines: string[], at: number) =>
  (lines[at]?.startsWith("--- ") && lines[at + 1]?.startsWith("+++ ")) ?? false;

function startOf(minus: string, plus: string): FilePatch {
  const [from = "", to = ""] = [minus, plus].map((line) => line.slice(4).split("\t")[0]?.trim());
  if (from === NOWHERE && to === NOWHERE) throw new Trouble("A part of the diff is from /dev/null to /dev/null.");
  const strip = (path: string, prefix: string) => (path.startsWith(prefix) ? path.slice(prefix.length) : path);
  const [a, b] = [strip(from, "a/"), strip(to, "b/")];
  if (from === NOWHERE) return { path: b, kind: "create", edits: [] };
  if (to === NOWHERE) return { path: a, kind: "delete", edits: [] };
  // It is git's prefix only if both paths have it; a directory may be called "a".
  if (a !== b && from !== to)
    throw new Trouble(`The diff turns ${from} into ${to}. A patch cannot rename; use the terminal tool.`);
  return { path: a === b ? a : from, kind: "edit", edits: [] };
}

function readHunk(lines: string[], start: number): { edit: Edit & { line: number }; grown: number; end: number } {
  const head = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(lines[start] ?? "");
  const [, line = "1", olds = "1", news = "1"] = head ?? [];
  const old: string[] = [];
  const fresh: string[] = [];
  let bare = { old: false, fresh: false };
  let at = start + 1;
  for (; at < lines.length; at++) {
    const text = lines[at] ?? "";
    const inside = head !== null && (old.length < Number(olds) || fresh.length < Number(news));
    if (!inside && (isHeader(lines, at) || text.startsWith("diff --git "))) break;
    if (text.startsWith("@@")) break;
    const [sign, rest] = [text.charAt(0), text.slice(1)];
    if (sign === "\\") {
      const last = (lines[at - 1] ?? "").charAt(0);
      bare = { old: bare.old || last !== "+", fresh: bare.fresh || last !== "-" };
    } else if (sign === " " || sign === "") {
      old.push(rest);
      fresh.push(rest);
    } else if (sign === "-") old.push(rest);
    else if (sign === "+") fresh.push(rest);
    else throw new Trouble(`Line ${at + 1} of the diff begins with neither " ", "-" nor "+": ${text.slice(0, 100)}`);
  }
  const block = (part: string[], isBare: boolean) => (part.length > 0 ? part.join("\n") + (isBare ? "" : "\n") : "");
  return {
    edit: { old: block(old, bare.old), new: block(fresh, bare.fresh), line: Number(line), lines: true },
    grown: fresh.length - old.length,
    end: at,
  };
}
