// The `read_file` tool.
import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import * as z from "zod";
import { distance } from "../../core/nearest.ts";
import type { Tool, ToolCall, ToolResult } from "../../core/ports.ts";
import { type ConfinedFile, openDir, openFile } from "../../platform/confined.ts";
import { defineTool, failed, ok } from "../define.ts";
import { type Files, gateOf, Path, reach, settled } from "./common.ts";
import type { Confine } from "./confine.ts";
import { eachChunk, READ_WHOLE } from "./store.ts";
import { count, HEAD_BYTES, kindOf, plain, plainName } from "./text.ts";
import { orNull } from "./trouble.ts";
import { walk } from "./walk.ts";

const LINES = 2_000;
const LONGEST_LINE = 2_000;
const LONGEST_TEXT = 100_000;
const MOST_ENTRIES = 500;
const MOST_SEEN = 100_000;

const Args = z.strictObject({
  path: Path.describe("Relative to the workspace, or absolute."),
  offset: z.int().min(1).optional().describe("First line to read; the first of the file is 1."),
  limit: z.int().min(1).max(LINES).optional().describe(`How many lines; at most and usually ${LINES}.`),
});
type Args = z.output<typeof Args>;

export const createReadFile = (files: Files): Tool =>
  defineTool({
    name: "read_file",
    description: [
      `Reads a text file: each line with its number and a tab before it, up to ${LINES} lines and ${LONGEST_TEXT} characters at once (offset and limit for more), lines cut at ${LONGEST_LINE} characters. A directory is listed.`,
      `Relative paths start in ${files.confine.workspace}, whatever directory the terminal is in. Files elsewhere need the user's approval.`,
    ].join("\n"),
    args: Args,
    repeatable: true,
    judge: ({ path }, session) => gateOf(files, { tool: "read_file", session, access: "read", paths: [path] }),
    run: (args, call) => settled(args.path, () => read(files, args, call)),
  });

async function read(files: Files, args: Args, call: ToolCall): Promise<ToolResult> {
  const real = await reach(files, args.path, "read", call.session);
  const name = files.confine.shown(real);
  const opened = await orNull(openFile(real));
  if (!opened) {
    const near = await similar(files.confine, real, call.signal);
    const hint = near.length > 0 ? ` Did you mean ${near.join(" or ")}?` : "";
    return failed(`There is no ${name}.${hint}`);
  }
  await using file = opened;
  if (file.stat.isDirectory()) return await list(real, name);
  if (await files.confine.isSecretTwin(file))
    return failed(`Not run: ${name} is another name of a file with credentials, which file tools never touch.`);

  const head = Buffer.alloc(HEAD_BYTES);
  const { bytesRead } = await file.handle.read(head, 0, HEAD_BYTES, 0);
  const kind = kindOf(head.subarray(0, bytesRead));
  if (kind) return failed(`${name} is ${kind} of ${file.stat.size} bytes, which cannot be shown as text.`);

  const { offset = 1, limit = LINES } = args;
  const seen = await look(file, offset, limit, call.signal);
  const { size, mtimeNs } = file.stat;
  files.marks.set(call.session, real, { size: Number(size), mtimeNs, hash: seen.hash });
  return ok(report(name, offset, seen));
}

type Seen = { lines: string[]; total: number | null; hash: string | null; notes: string[] };

async function look({ handle, stat }: ConfinedFile, offset: number, limit: number, signal: AbortSignal): Promise<Seen> {
  const size = Number(stat.size);
  const whole = size <= READ_WHOLE;
  const hash = createHash("sha256");
  const lines: string[] = [];
  const notes = new Set<string>();
  let line = 1;
  let bytes = 0;
  let chars = 0;
  let kept: Buffer[] = [];
  const full = () => lines.length >= limit || chars >= LONGEST_TEXT;
  const wanted = () => line >= offset && !full();
  const endLine = () => {
    if (wanted()) {
      const text = shownLine(Buffer.concat(kept), bytes, line === 1, notes);
      chars += text.length + 8;
      lines.push(text);
    }
    line += 1;
    bytes = 0;
    kept = [];
  };
  await eachChunk(handle, size, signal, (chunk) => {
    if (whole) hash.update(chunk);
    for (let from = 0; from < chunk.length; ) {
      const newline = chunk.indexOf(0x0a, from);
      const to = newline < 0 ? chunk.length : newline;
      // A character has at most four bytes.
      if (wanted() && bytes < LONGEST_LINE * 4) kept.push(Buffer.from(chunk.subarray(from, to)));
      bytes += to - from;
      if (newline >= 0) endLine();
      from = to + 1;
    }
    return whole || !full();
  });
  if (bytes > 0) endLine();
  return {
    lines,
    total: whole ? line - 1 : null,
    hash: whole ? hash.digest("hex") : null,
    notes: [...notes],
  };
}

function shownLine(bytes: Buffer, length: number, first: boolean, notes: Set<string>): string {
  let text = bytes.toString("utf8");
  if (first && text.startsWith("\uFEFF")) {
    text = text.slice(1);
    notes.add("begins with a byte order mark");
  }
  if (text.endsWith("\r") && bytes.length === length) {
    text = text.slice(0, -1);
    notes.add("CRLF line ends");
  }
  if (text.includes("\uFFFD")) notes.add("not everything is UTF-8: � stands for what is not");
  const cut = text.length > LONGEST_LINE ? text.slice(0, LONGEST_LINE) : text;
  const safe = plain(cut);
  if (safe !== cut) notes.add("control characters are shown as ⟨U+…⟩");
  return cut === text ? safe : `${safe} [… line of ${length} bytes, cut here]`;
}

function report(name: string, offset: number, { lines, total, notes }: Seen): string {
  const last = offset + lines.length - 1;
  const of = total === null ? "" : ` of ${total}`;
  const where =
    lines.length > 0
      ? `lines ${offset}-${last}${of}`
      : total === 0
        ? "empty"
        : `no line ${offset}${total === null ? "" : `, it has ${total}`}`;
  const more = lines.length > 0 && (total === null || last < total) ? `go on with offset ${last + 1}` : "";
  const head = [name, where, ...notes, more].filter(Boolean).join(" · ");
  return [`[${head}]`, ...lines.map((text, i) => `${offset + i}\t${text}`)].join("\n");
}

async function list(real: string, name: string): Promise<ToolResult> {
  await using dir = await openDir(real);
  const all = await dir.entries(MOST_SEEN);
  const lines: string[] = [];
  for (const entry of all.slice(0, MOST_ENTRIES)) {
    const size = entry.isFile() ? await dir.sizeOf(entry.name) : null;
    const mark = entry.isDirectory()
      ? "/"
      : entry.isSymbolicLink()
        ? " (link)"
        : size === null
          ? ""
          : ` (${size} bytes)`;
    lines.push(plainName(entry.name) + mark);
  }
  const left = all.length - lines.length;
  const head = `[${name === "." ? real : name} is a directory with ${count(all.length, "entry").replace("entrys", "entries")}]`;
  return ok([head, ...lines, ...(left > 0 ? [`[and ${left} more; use search_files]`] : [])].join("\n"));
}

const MOST_SUGGESTED = 3;
const MOST_LOOKED_AT = 5_000;

/** For a path that does not exist: similar names in the same directory, then files of this name elsewhere in the workspace. */
async function similar(confine: Confine, real: string, signal: AbortSignal): Promise<string[]> {
  const wanted = basename(real).toLowerCase();
  const furthest = Math.max(1, Math.floor(wanted.length / 4));
  const near = (await siblings(dirname(real)))
    .filter((name) => Math.abs(name.length - wanted.length) <= furthest)
    .map((name) => ({ name, far: distance(name.toLowerCase(), wanted) }))
    .filter(({ far }) => far <= furthest)
    .toSorted((a, b) => a.far - b.far)
    .map(({ name }) => join(dirname(real), name));
  if (near.length === 0) {
    const budget = { entries: MOST_LOOKED_AT };
    const how = { skip: confine.forbidden, all: false, top: confine.workspace, budget, signal };
    for await (const file of walk(confine.workspace, how)) {
      if (basename(file.real).toLowerCase() === wanted) near.push(file.real);
      if (near.length >= MOST_SUGGESTED) break;
    }
  }
  return near.slice(0, MOST_SUGGESTED).map(confine.shown);
}

async function siblings(real: string): Promise<string[]> {
  const opened = await orNull(openDir(real)).catch(() => null);
  if (!opened) return [];
  await using dir = opened;
  return (await dir.entries(MOST_LOOKED_AT)).map(({ name }) => name);
}
