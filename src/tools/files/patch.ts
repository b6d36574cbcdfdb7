// The `patch` tool. Not repeatable: an edit that is applied twice may add its lines twice, and of several files some
// may be done. "Outcome unknown" makes the model look.
import { setImmediate } from "node:timers/promises";
import * as z from "zod";
import type { Tool, ToolCall, ToolResult } from "../../core/ports.ts";
import { defineTool, failed, ok } from "../define.ts";
import { Content, type Files, gateOf, Path, reach, settled } from "./common.ts";
import { type FilePatch, parseDiff } from "./diff.ts";
import { applyEdit } from "./edits.ts";
import { LARGEST, loadText } from "./load.ts";
import { diffOf } from "./preview.ts";
import { hashOf, isSame, type Mark } from "./seen.ts";
import { type FileChange, store } from "./store.ts";
import { count, plain } from "./text.ts";
import { Trouble, troubleOf } from "./trouble.ts";

const MOST_FILES = 50;
const MOST_EDITS = 200;
const MOST_LINES = 200;

const Args = z.strictObject({
  diff: Content(2_000_000).optional().describe("A unified diff for one or more files. Context must match exactly."),
  edits: z
    .array(
      z.strictObject({
        path: Path,
        old_text: Content(1_000_000)
          .min(1, "is empty: use write_file for new files")
          .describe("Exactly as in the file, and only once in it."),
        new_text: Content(1_000_000),
        all: z.boolean().optional().describe("Replace every occurrence."),
      }),
    )
    .max(MOST_EDITS)
    .optional()
    .describe("Replacements, made in this order."),
});
type Args = z.output<typeof Args>;

export const createPatch = (files: Files): Tool =>
  defineTool({
    name: "patch",
    description: [
      "Changes parts of files: give either edits (exact text to replace) or diff (unified; also makes files from /dev/null and removes them to /dev/null).",
      "Either everything is changed, in all files, or nothing. Nothing is guessed: text must match exactly, without read_file's line numbers. A file that has changed since you read it must be read again first. Line ends (CRLF) are kept.",
      `Up to ${MOST_FILES} files of ${LARGEST / 1024 / 1024} MB. Paths as in write_file.`,
    ].join("\n"),
    args: Args,
    repeatable: false,
    alone: true,
    async judge(args, session) {
      try {
        const paths = patchesOf(args).map(({ path }) => path);
        return await gateOf(files, {
          tool: "patch",
          session,
          access: "write",
          paths,
          preview: async () => previewOf(args),
        });
      } catch (error) {
        return { gate: "refuse", result: `Not run: ${troubleOf(error, "patch")}` };
      }
    },
    run: (args, call) => settled("patch", () => patch(files, args, call)),
  });

function patchesOf({ diff, edits }: Args): FilePatch[] {
  if ((diff === undefined) === (edits === undefined || edits.length === 0))
    throw new Trouble("give either diff or edits, and not both.");
  const patches =
    diff !== undefined
      ? parseDiff(diff)
      : (edits ?? []).map(({ path, old_text, new_text, all }): FilePatch => {
          return { path, kind: "edit", edits: [{ old: old_text, new: new_text, all }] };
        });
  const wrong = patches.map(({ path }) => Path.safeParse(path)).find(({ success }) => !success);
  if (wrong?.error) throw new Trouble(`a path in the diff ${wrong.error.issues[0]?.message}`);
  if (new Set(patches.map(({ path }) => path)).size > MOST_FILES)
    throw new Trouble(`at most ${MOST_FILES} files at once.`);
  return patches;
}

const previewOf = ({ diff, edits = [] }: Args): string[] =>
  diff?.split("\n") ??
  edits.flatMap(({ path, old_text, new_text, all }) => [
    `@@ ${path}${all ? ", everywhere" : ""} @@`,
    ...diffOf(old_text, new_text).slice(1),
  ]);

type PatchTarget = { real: string; name: string; patches: FilePatch[] };
type Planned = { change: FileChange; known: boolean; report: string[] };

async function patch(files: Files, args: Args, { session, signal }: ToolCall): Promise<ToolResult> {
  const targets = new Map<string, PatchTarget>();
  for (const one of patchesOf(args)) {
    const real = await reach(files, one.path, "write", session);
    const target = targets.get(real) ?? { real, name: files.confine.shown(real), patches: [] };
    target.patches.push(one);
    targets.set(real, target);
  }
  return await files.locked([...targets.keys()], async () => {
    const planned: Planned[] = [];
    const problems: string[] = [];
    for (const target of targets.values()) {
      signal.throwIfAborted();
      try {
        planned.push(await plan(files, target, files.marks.get(session, target.real), signal));
      } catch (error) {
        problems.push(troubleOf(error, target.name));
      }
    }
    if (problems.length > 0) return failed(["Nothing was changed.", ...problems.slice(0, 5)].join("\n"));
    await store(planned.map(({ change }) => change));
    for (const { change, known } of planned) remember(files, session, change, known);
    const lines = planned.flatMap(({ report }) => report);
    const left = lines.length - MOST_LINES;
    const shown = lines.slice(0, MOST_LINES).map(plain);
    return ok(
      [`Changed ${count(planned.length, "file")}.`, ...shown, ...(left > 0 ? [`[… ${left} more lines]`] : [])].join(
        "\n",
      ),
    );
  });
}

/** The content that the file will have. Throws if the file does not match the patch. */
async function plan(
  { confine }: Files,
  { real, name, patches }: PatchTarget,
  mark: Mark | undefined,
  signal: AbortSignal,
): Promise<Planned> {
  const now = await loadText(confine, real, name);
  if (now && mark && !isSame(mark, now.mark))
    throw new Trouble(
      `${name} has changed since it was read in this session. Read it again, then patch what is there now.`,
    );
  let text = now?.text ?? null;
  const diffs: string[] = [];
  for (const { kind, edits } of patches) {
    if (kind === "create") {
      if (text !== null) throw new Trouble(`${name} exists already, so it cannot be made.`);
      text = edits.map((edit) => edit.new).join("");
      diffs.push(`@@ made, ${count(text.split("\n").length - 1, "line")} @@`);
      continue;
    }
    if (text === null) throw new Trouble(`There is no ${name}. Use write_file, or "--- /dev/null" in a diff.`);
    for (const edit of edits) {
      // A large file takes a while; let other work run.
      await setImmediate();
      signal.throwIfAborted();
      const edited = applyEdit(text, edit);
      if ("problem" in edited) throw new Trouble(`${name}: ${edited.problem}`);
      text = edited.text;
      diffs.push(...edited.diff);
    }
    if (kind === "delete" && text !== "")
      throw new Trouble(`${name} has more than the lines that the diff removes, so it is not removed.`);
    if (kind === "delete") {
      text = null;
      diffs.splice(0, diffs.length, "@@ removed @@");
    }
  }
  const bytes = text === null ? null : Buffer.from((now?.bom ?? "") + text);
  if (!now && bytes === null) throw new Trouble(`There is no ${name}.`);
  return {
    change: { real, bytes, before: now?.stat ?? null },
    known: !now || mark !== undefined,
    report: [name, ...diffs],
  };
}

/** A file that was never read still counts as not read: a patch shows only a part of it. */
function remember({ marks }: Files, session: string, { real, bytes }: FileChange, known: boolean): void {
  if (bytes === null) marks.delete(session, real);
  else if (known) marks.set(session, real, { size: bytes.length, mtimeNs: 0n, hash: hashOf(bytes) });
}
