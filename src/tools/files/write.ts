// The `write_file` tool. Repeatable: a second run finds its own content and leaves it, or finds a file that the session
// does not know (after a crash it knows none) and refuses. Only `overwrite` writes again, as its name says.
import * as z from "zod";
import type { Tool, ToolCall, ToolResult } from "../../core/ports.ts";
import { readHead } from "../../platform/confined.ts";
import { HIDDEN } from "../../platform/redact.ts";
import { defineTool, failed, ok } from "../define.ts";
import { Content, type Files, gateOf, Path, reach, settled } from "./common.ts";
import { shortDiff } from "./edits.ts";
import { loadText } from "./load.ts";
import { diffOf, wholeOf } from "./preview.ts";
import { hashOf, isSame, type Mark } from "./seen.ts";
import { markOf, store } from "./store.ts";
import { count, decode, linesIn, plain } from "./text.ts";

const LONGEST = 5_000_000;
const LONGEST_COMPARED = 256 * 1024;

const Args = z.strictObject({
  path: Path.describe("Relative to the workspace, or absolute."),
  content: Content(LONGEST).describe("The whole file, exactly."),
  overwrite: z.boolean().optional().describe("Replace what is there although you have not read it as it is now."),
});
type Args = z.output<typeof Args>;

export const createWriteFile = (files: Files): Tool =>
  defineTool({
    name: "write_file",
    description: [
      "Writes a whole file, exactly as given (UTF-8); missing directories are made. Use patch to change parts of a file.",
      "A file that exists is replaced only if you have read it in this session and it has not changed since; overwrite: true replaces it anyway.",
      `Relative paths start in ${files.confine.workspace}. Outside of it, and for git's own files and shell startup files, the user is asked.`,
    ].join("\n"),
    args: Args,
    repeatable: true,
    // A file that is read in the same answer is read before or after the write, not during it.
    alone: true,
    judge: ({ path, content }, session) =>
      gateOf(files, {
        tool: "write_file",
        session,
        access: "write",
        paths: [path],
        preview: () => preview(files, path, content, session),
      }),
    run: (args, call) => settled(args.path, () => write(files, args, call)),
  });

async function preview(files: Files, path: string, content: string, session: string): Promise<string[]> {
  try {
    const real = await reach(files, path, "write", session);
    const now = await loadText(files.confine, real, path);
    return now ? diffOf(now.text, content) : wholeOf(content, "a new file");
  } catch {
    return wholeOf(content, "instead of a file that cannot be shown"); // not text, or too large
  }
}

async function write(files: Files, { path, content, overwrite }: Args, call: ToolCall): Promise<ToolResult> {
  const { session, signal } = call;
  const real = await reach(files, path, "write", session);
  const name = files.confine.shown(real);
  const bytes = Buffer.from(content);
  return await files.locked([real], async () => {
    signal.throwIfAborted();
    const now = await markOf(real, signal);
    const same = now?.mark.hash === hashOf(bytes);
    if (now && !same && !overwrite) {
      const problem = problemWith(files.marks.get(session, real), now.mark);
      if (problem) return failed(`Not written: ${name} ${problem}, or call again with overwrite: true.`);
    }
    if (now && !same && content.includes(HIDDEN))
      return failed(
        `Not written: the content has ${HIDDEN} in it, which stands for a secret that you were not shown and that would be lost. ` +
          `Change the other parts of ${name} with patch.`,
      );
    const before = now && !same ? await knownText(files.marks.get(session, real), now.mark, real) : null;
    if (!same) await store([{ real, bytes, before: now?.stat ?? null }]);
    const after = await markOf(real, signal);
    if (after) files.marks.set(session, real, after.mark);
    const size = `${count(linesIn(content), "line")}, ${count(bytes.length, "byte")}`;
    if (same) return ok(`${name} has exactly this content already (${size}).`);
    if (before === null) return ok(`${now ? "Replaced" : "Made"} ${name} (${size}).`);
    const { lines, removed, added } = shortDiff(before, content);
    return ok([`Replaced ${name} (${size}, +${added} −${removed}).`, ...lines.map(plain)].join("\n"));
  });
}

/** What a file of moderate size holds that the session has read as it is; null: it does not know it. A person sees by it what a
 *  write has changed, and the model is told nothing that it has not read. */
async function knownText(known: Mark | undefined, now: Mark, real: string): Promise<string | null> {
  if (!known || !isSame(known, now) || now.size > LONGEST_COMPARED) return null;
  const { bytes } = await readHead(real, LONGEST_COMPARED);
  const text = decode(bytes)?.text ?? null;
  return text?.includes("\0") ? null : text;
}

const problemWith = (known: Mark | undefined, now: Mark): string | null => {
  if (!known) return "exists and was not read in this session. Read it first";
  return isSame(known, now) ? null : "has changed since it was read in this session. Read it again";
};
