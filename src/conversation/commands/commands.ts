// The slash commands of every surface.
//
// To add one: write its row into the file that it belongs to (turn, goals, answers, sessions, about) with `on: "everywhere"`, and
// name it in docs/terminal.md and docs/gateway.md. Completion, /help and the menus of the chat platforms read the row. What a
// row cannot do over the runtime alone, its surface does for it: that is a member of the context in command.ts.
import { aboutCommands } from "./about.ts";
import { answerCommands } from "./answers.ts";
import type { ChatContext, Command, CommandContext, CommandOn, CommandResult, TerminalContext } from "./command.ts";
import { goalCommands } from "./goals.ts";
import { sessionCommands } from "./sessions.ts";
import { turnCommands } from "./turn.ts";

/** As /help shows them. */
export const COMMAND_GROUPS: readonly { title: string; commands: readonly Command[] }[] = [
  { title: "The running turn", commands: turnCommands },
  { title: "Goals and loops", commands: goalCommands },
  { title: "Approvals and questions", commands: answerCommands },
  { title: "Conversations", commands: sessionCommands },
  { title: "Model, memory and hermes itself", commands: aboutCommands },
];
const COMMANDS = COMMAND_GROUPS.flatMap(({ commands }) => commands);

export const TERMINAL_COMMANDS: readonly CommandOn<TerminalContext>[] = COMMANDS.filter(
  (command) => command.on !== "chat",
);
export const CHAT_COMMANDS: readonly CommandOn<ChatContext>[] = COMMANDS.filter(
  (command) => command.on === "everywhere" || command.on === "chat",
);

export const WEB_COMMANDS: readonly CommandOn<CommandContext>[] = COMMANDS.filter(
  (command) => command.on === "everywhere" || command.on === "screen",
);
export const EDITOR_COMMANDS: readonly CommandOn<CommandContext>[] = COMMANDS.filter(
  (command) => command.on === "everywhere" && !command.moves,
);

/** Of /help: the command with what may follow it, as code. */
export const helpLine = ({ name, argument = "", description }: Pick<Command, "name" | "argument" | "description">) =>
  `- \`/${`${name} ${argument}`.trim()}\` ${description}`;

export type Typed = { name: string; rest: string };

/** Null: the text is a message. */
export function commandIn(text: string): Typed | null {
  const [, name = "", rest = ""] = /^\/([a-z][a-z0-9_-]*)(?:\s+([\s\S]*))?$/i.exec(text) ?? [];
  return name ? { name: name.toLowerCase(), rest: rest.trim() } : null;
}

export const findCommand = <Context>(commands: readonly CommandOn<Context>[], wanted: string) =>
  commands.find(({ name, aliases = [] }) => name === wanted || aliases.includes(wanted));

export async function runCommand<Context extends CommandContext>(
  command: CommandOn<Context>,
  context: Context,
  rest: string,
): Promise<CommandResult> {
  const { name, admin, idle } = command;
  const { runtime, session, surface, isAdmin } = context;
  if (admin && !isAdmin) return { refused: "Only an admin may do that." };
  if ((idle === true || idle === surface) && (await runtime.status(session)).turn)
    return {
      refused: `⏳ Agent is running — \`/${name}\` can't run mid-turn. Wait for the current response or \`/stop\` first.`,
    };
  return command.run(context, rest);
}
