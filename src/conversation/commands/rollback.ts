// `/rollback`: the last turns with what each changed; `/rollback 2`: what would become of the files; `/rollback 2 now`: back to
// before that turn, words and files together.
import { shortName } from "../../core/session-key.ts";
import { fenced } from "../export.ts";
import { type PastTurn, pastTurns, previewFiles, rollback } from "../rewind.ts";
import type { CommandContext, CommandResult } from "./command.ts";
import { oneLine } from "./shown.ts";

const LISTED = 10;
const MOST = 50;
const LONGEST = 80;
const NOTHING_TO_UNDO = "There is nothing to undo.";

export async function rollbackCommand(context: CommandContext, rest: string): Promise<CommandResult> {
  const [, number = "", now] = /^(\d{0,4})\s*(now)?$/i.exec(rest) ?? [];
  const count = Number(number);
  if ((rest && !count) || count > MOST) return { refused: `Say /rollback and a number from 1 to ${MOST}.` };
  if (!count) return list(context);
  return now ? goBack(context, count) : preview(context, count);
}

/** Also what `/undo` does. */
export async function goBack({ runtime, session, newSession }: CommandContext, count: number): Promise<CommandResult> {
  const back = await rollback(runtime, session, count, newSession);
  if (!back) return { text: NOTHING_TO_UNDO };
  const which = count === 1 ? "your last message" : "that message";
  const heading = `Back to before ${which}. All of it stays as ${shortName(session)}.`;
  return { open: { session: back.session, heading }, draft: back.undone.text, text: back.files };
}

async function list(context: CommandContext): Promise<CommandResult> {
  const { runtime, session, choose } = context;
  const turns = await pastTurns(runtime, session, LISTED);
  if (!turns.length) return { text: NOTHING_TO_UNDO };
  const rows = await Promise.all(
    turns.map(async ({ turn, input, changed }) => ({
      text: oneLine(input.text, LONGEST),
      files: changed ? await countOf(runtime.fileChanges({ session, turn })) : "no files",
    })),
  );
  if (!choose) {
    const lines = rows.map(({ text, files }, index) => `${index + 1}. ${text} (${files})`);
    return { text: `${lines.join("\n")}\n\n/rollback 2 shows what going back to before the second one would change.` };
  }
  const choices = rows.map(({ text, files }, index) => ({ value: String(index + 1), label: text, description: files }));
  const chosen = await choose("Back to before which message?", choices);
  return chosen === null ? {} : preview(context, Number(chosen));
}

/** The last line of a diffstat, or why there is none. */
const countOf = async (changes: Promise<{ summary: string }>) =>
  (await changes).summary.trim().split("\n").at(-1) ?? "";

async function preview({ runtime, session, surface }: CommandContext, count: number): Promise<CommandResult> {
  const turns = await pastTurns(runtime, session, count);
  const first = turns[count - 1];
  if (!first) return { refused: `There are only ${turns.length} turns in this conversation.` };
  const { summary, patch } = await previewFiles(runtime, session, turns);
  const order = `/rollback ${count} now`;
  const parts = [
    `To before: ${oneLine(first.input.text, LONGEST)}${others(turns)}`,
    summary || "No files are changed by that.",
    // As with /diff: a chat gets the names only.
    patch && surface !== "chat" ? fenced("diff", patch) : "",
    `${order} goes back. This conversation stays as it is, and /undo files brings the files of now again.`,
  ];
  return { text: parts.filter(Boolean).join("\n\n"), ...(surface !== "chat" && { draft: order }) };
}

const others = ({ length }: readonly PastTurn[]) =>
  length > 1 ? ` (and ${length - 1} later ${length === 2 ? "message" : "messages"})` : "";
