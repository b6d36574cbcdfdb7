// What a terminal does for the slash commands of conversation/commands.
import type { ListedSession, TerminalContext } from "../../conversation/commands/command.ts";
import { COMMAND_GROUPS, helpLine } from "../../conversation/commands/commands.ts";
import { exportFile } from "../../conversation/export.ts";
import type { Facts } from "../../conversation/facts.ts";
import { entriesOf } from "../../core/pages.ts";
import type { Runtime } from "../../core/runtime.ts";
import { isTerminal, shortName, TERMINAL } from "../../core/session-key.ts";
import { findSession } from "./find.ts";
import type { TalkOptions } from "./talk.ts";

type OpenTalk = Omit<TalkOptions, "mode" | "model" | "queuedAfterStop"> &
  Pick<TerminalContext, "setMode" | "setModel" | "model" | "yolo" | "setYolo" | "effort" | "setEffort"> & {
    /** What the person saw when they typed the command. */
    facts: Facts;
    stop(scope: "turn" | "tree"): Promise<boolean>;
  };

const KEYS = `- Enter sends; Shift+Enter, Ctrl+J or \\ and Enter begin a new line
- while I work, Enter does what /busy says, Alt+Enter the other thing; Alt+Up takes the last waiting message back
- Esc or Ctrl+C stops the turn, twice leaves; Ctrl+D leaves; Ctrl+Z suspends
- Ctrl+O shows what tools said, and thoughts; Up and Down bring back what you typed before, Ctrl+R searches it
- Ctrl+G opens what you type in your own editor (VISUAL or EDITOR)
- \`@\` completes files; the path of a picture shows it to the model; Ctrl+V pastes a picture
- \`!command\` runs a command of yours, and the model is told with your next message; \`!!command\` keeps it to yourself`;

export function commandContext(desk: OpenTalk): TerminalContext {
  const { runtime, facts, view } = desk;
  const { session, title, turn, mode } = facts;
  const [question] = facts.asking;
  return {
    ...desk,
    surface: "terminal",
    session,
    by: "terminal",
    isAdmin: true,
    name: shortName(session),
    help,
    mode: () => mode,
    showReasoning: view.showThoughts,
    sessions: () => sessionsToResume(runtime),
    findSession: (words) => findSession(runtime, words),
    left: () => desk.switched(session),
    stop: async (scope) => ((await desk.stop(scope)) ? "shown" : "nothing"),
    asked: () => (turn && question ? { turn: turn.id, question } : null),
    choose: view.choose,
    async exportTo(file, format) {
      const json = format ? format === "json" : file.endsWith(".json");
      const entries = await entriesOf(runtime, session);
      const { text, usualFile } = exportFile({ key: session, title }, entries, json, new Date(desk.now()));
      return desk.save(file || usualFile, text);
    },
  };
}

const help = (): string =>
  [...COMMAND_GROUPS.map(({ title, commands }) => `**${title}**\n${helpLines(commands)}`), `**Keys**\n${KEYS}`].join(
    "\n\n",
  );

const helpLines = (commands: (typeof COMMAND_GROUPS)[number]["commands"]): string =>
  commands
    .filter(({ on }) => on !== "chat")
    .map(helpLine)
    .join("\n");

/** Those of the terminal, however many others are newer; and the newest of those. */
export async function sessionsToResume(runtime: Pick<Runtime, "sessions">): Promise<ListedSession[]> {
  const [own, all] = await Promise.all([
    runtime.sessions({ limit: 200, top: true, prefix: TERMINAL }),
    runtime.sessions({ limit: 200, top: true }),
  ]);
  return [...own, ...all.filter(({ session }) => !isTerminal(session))]
    .sort((a, b) => b.updatedAt - a.updatedAt)
    .map((row) => ({ ...row, name: shortName(row.session) }));
}
