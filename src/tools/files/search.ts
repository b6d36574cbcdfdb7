// The `search_files` tool.
import { basename, dirname } from "node:path";
import * as z from "zod";
import type { Tool, ToolCall, ToolResult } from "../../core/ports.ts";
import { after, onAbort } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { openFile } from "../../platform/confined.ts";
import { type Glob, globOf } from "../../platform/glob.ts";
import { defineTool, failed, ok } from "../define.ts";
import { type Files, gateOf, Path, reach, settled } from "./common.ts";
import { type Matcher, patternMatcher, plainMatcher, splitLines } from "./matching.ts";
import { createSieve, inBatches, type Sieve, toRust } from "./ripgrep.ts";
import { count, HEAD_BYTES, kindOf, plain } from "./text.ts";
import { type FoundFile, walk } from "./walk.ts";

const RESULTS = 100;
const MOST_RESULTS = 1_000;
const LONGEST_LINE = 400;
const LONGEST_TEXT = 60_000;
const LARGEST_FILE = 10 * 1024 * 1024;
const MOST_ENTRIES = 500_000;
const LONGEST_MS = 30_000;

const Args = z.strictObject({
  pattern: z
    .string()
    .min(1)
    .max(1_000)
    .describe(
      'What to look for in each line: a JavaScript regular expression. With mode "names": a glob like *.ts or src/**/*.md.',
    ),
  path: Path.optional().describe("Directory or file to search; usually the workspace."),
  mode: z.enum(["content", "names"]).optional().describe("Usually content."),
  glob: z.string().min(1).max(500).optional().describe('Only files like this, for example "*.{ts,tsx}" or "src/**".'),
  literal: z.boolean().optional().describe("The pattern is plain text."),
  ignore_case: z.boolean().optional(),
  context: z.int().min(0).max(10).optional().describe("Lines to show before and after each match."),
  all: z.boolean().optional().describe("Also hidden files and those that .gitignore and .ignore leave out."),
  limit: z.int().min(1).max(MOST_RESULTS).optional().describe(`Results at most; usually ${RESULTS}.`),
});
type Args = z.output<typeof Args>;

export const createSearchFiles = (files: Files): Tool =>
  defineTool({
    name: "search_files",
    description: [
      `Searches files for lines that fit a pattern, or (mode "names") for files by name; in order of their paths, ${RESULTS} results unless limit says otherwise.`,
      "Results are path:line:text, paths relative to the workspace. Hidden and ignored files are left out unless all is true; binary files, files over 10 MB, links and .git always.",
    ].join("\n"),
    args: Args,
    repeatable: true,
    judge: ({ path = "." }, session) => gateOf(files, { tool: "search_files", session, access: "read", paths: [path] }),
    run: (args, call) => settled(args.path ?? ".", () => search(files, args, call)),
  });

async function search(files: Files, args: Args, call: ToolCall): Promise<ToolResult> {
  const { confine } = files;
  const real = await reach(files, args.path ?? ".", "read", call.session);
  const isFile = await isRegular(real);
  const base = isFile ? dirname(real) : real;
  // If a place is readable although it is forbidden (the session's outputs), everything in it is readable.
  const skip = confine.forbidden(base) ? () => false : confine.forbidden;
  const filter = args.glob === undefined ? null : globOf(args.glob);
  const only = async function* (): AsyncGenerator<FoundFile> {
    yield { real, path: [basename(real)] };
  };
  const budget = { entries: MOST_ENTRIES };
  const how = { budget, skip, all: args.all ?? false, top: confine.workspace, signal: call.signal };
  const found = chosen(isFile ? only() : walk(base, how), filter);
  const result =
    args.mode === "names" ? await names(files, args, found) : await contents(files, args, found, base, call);
  if (budget.entries > 0) return result;
  return { ...result, text: `${result.text}\n[only the first ${MOST_ENTRIES} entries were looked at: give a path]` };
}

async function isRegular(real: string): Promise<boolean> {
  await using file = await openFile(real);
  return file.stat.isFile();
}

async function* chosen(found: AsyncIterable<FoundFile>, filter: Glob | null): AsyncGenerator<FoundFile> {
  for await (const file of found) if (!filter || filter(file.path)) yield file;
}

async function names({ confine }: Files, { pattern, limit = RESULTS }: Args, found: AsyncIterable<FoundFile>) {
  const glob = globOf(pattern);
  const lines: string[] = [];
  let more = false;
  for await (const { real, path } of found) {
    if (!glob(path)) continue;
    more = lines.length >= limit;
    if (more) break;
    lines.push(confine.shown(real));
  }
  const head = lines.length === 0 ? `no file named ${plain(pattern)}` : count(lines.length, "file");
  return ok([`[${head}${more ? ", and more: narrow the pattern or raise limit" : ""}]`, ...lines].join("\n"));
}

async function contents(
  files: Files,
  args: Args,
  found: AsyncIterable<FoundFile>,
  base: string,
  call: ToolCall,
): Promise<ToolResult> {
  const pattern = patternOf(args);
  if (typeof pattern === "string") return failed(pattern);
  const { literal = false, ignore_case: ignoreCase = false } = args;
  await using matcher = literal && !ignoreCase ? plainMatcher(args.pattern) : patternMatcher(pattern);
  const rust = literal ? args.pattern : toRust(pattern);
  const { signal } = call;
  const { ripgrep } = files;
  const sieve = ripgrep && createSieve({ ripgrep, cwd: base, pattern: rust, literal, ignoreCase, signal });
  const tally: Tally = { lines: [], matches: 0, files: 0, chars: 0, skipped: 0 };

  let late = false;
  const stop = () => void matcher.stop();
  const release = onAbort(signal, stop);
  const inTime = after(clock, LONGEST_MS, () => {
    late = true;
    stop();
  });
  try {
    await collect(files, args, { found, matcher, sieve, late: () => late }, tally);
  } catch (error) {
    if (!late) throw error;
  } finally {
    inTime();
    release();
  }
  const notes = [
    tally.matches === 0
      ? "no match"
      : `${count(tally.matches, "match").replace("matchs", "matches")} in ${count(tally.files, "file")}`,
    isFull(tally, args) ? "there may be more: narrow the pattern or path, or raise limit" : "",
    late ? `stopped after ${LONGEST_MS / 1000} s: use a simpler pattern or a smaller path` : "",
    tally.skipped > 0 ? `${count(tally.skipped, "file")} over 10 MB or not readable left out` : "",
  ];
  return ok([`[${notes.filter(Boolean).join(" · ")}]`, ...tally.lines].join("\n"));
}

type Tally = { lines: string[]; matches: number; files: number; chars: number; skipped: number };
type Means = { found: AsyncIterable<FoundFile>; matcher: Matcher; sieve: Sieve | null; late(): boolean };

const isFull = ({ matches, chars }: Tally, { limit = RESULTS }: Args) => matches >= limit || chars >= LONGEST_TEXT;

async function collect(files: Files, args: Args, means: Means, tally: Tally): Promise<void> {
  for await (const batch of inBatches(means.found))
    for (const file of means.sieve ? await means.sieve(batch) : batch) {
      if (isFull(tally, args) || means.late()) return;
      const text = await textOf(files, file.real, tally);
      if (text === null) continue;
      const hits = await means.matcher.lines(text, (args.limit ?? RESULTS) - tally.matches);
      if (hits.length > 0) add(tally, files.confine.shown(file.real), splitLines(text), hits, args.context ?? 0);
    }
}

function add(tally: Tally, name: string, lines: string[], hits: number[], context: number): void {
  const hit = new Set(hits);
  const near = new Set(hits.flatMap((at) => Array.from({ length: 2 * context + 1 }, (_, i) => at - context + i)));
  const shown = [...near].filter((at) => at >= 0 && at < lines.length).toSorted((a, b) => a - b);
  for (const [i, at] of shown.entries()) {
    if (context > 0 && (i === 0 ? tally.files > 0 : shown[i - 1] !== at - 1)) tally.lines.push("--");
    const mark = hit.has(at) ? ":" : "-";
    const line = `${name}${mark}${at + 1}${mark}${cut(lines[at] ?? "")}`;
    tally.lines.push(line);
    tally.chars += line.length;
    if (hit.has(at)) tally.matches += 1;
    if (tally.chars >= LONGEST_TEXT) break;
  }
  tally.files += 1;
}

const cut = (line: string) =>
  line.length > LONGEST_LINE
    ? `${plain(line.slice(0, LONGEST_LINE))} [… ${line.length - LONGEST_LINE} more]`
    : plain(line);

/** Null if the file must not be read or is not text. */
async function textOf({ confine }: Files, real: string, tally: Tally): Promise<string | null> {
  try {
    await using file = await openFile(real);
    if (!file.stat.isFile() || (await confine.isSecretTwin(file))) return null;
    if (file.stat.size > LARGEST_FILE) {
      tally.skipped += 1;
      return null;
    }
    const bytes = await file.handle.readFile();
    return kindOf(bytes.subarray(0, HEAD_BYTES)) ? null : bytes.toString("utf8").replace(/^\uFEFF/, "");
  } catch {
    tally.skipped += 1;
    return null;
  }
}

function patternOf({ pattern, literal, ignore_case }: Args): RegExp | string {
  const source = literal ? pattern.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&") : pattern;
  const flags = ignore_case ? "i" : "";
  for (const more of ["u", ""])
    try {
      return new RegExp(source, flags + more);
    } catch (error) {
      if (more === "")
        return `The pattern is not a regular expression: ${String(error)}. Set literal: true for plain text.`;
    }
  return "";
}
