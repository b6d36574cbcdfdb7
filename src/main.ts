// The entry point: registers the commands in the order of the help, reads the command line and sets the exit code. Each command
// imports its code when it runs, so `hermes --help` loads none of it.
import { fileURLToPath } from "node:url";
import { Command, CommanderError, Help, type Option } from "commander";
import pkg from "../package.json" with { type: "json" };
import { addAcp } from "./commands/acp.ts";
import { addBackup } from "./commands/backup.ts";
import { addChat } from "./commands/chat.ts";
import { addCompletion } from "./commands/completion.ts";
import { addConfig } from "./commands/config.ts";
import { addCron } from "./commands/cron.ts";
import { addGateway } from "./commands/gateway.ts";
import { addImport } from "./commands/import.ts";
import { addLogs } from "./commands/logs.ts";
import { addMan } from "./commands/man.ts";
import { addMcp } from "./commands/mcp.ts";
import { addMemory } from "./commands/memory.ts";
import { addNodes } from "./commands/nodes.ts";
import { addPolicy } from "./commands/policy.ts";
import { addSend } from "./commands/send.ts";
import { addSessions } from "./commands/sessions.ts";
import { addSetup } from "./commands/setup.ts";
import { EXIT } from "./commands/shared.ts";
import { addSkills } from "./commands/skills.ts";
import { addStore } from "./commands/store.ts";
import { addWeb } from "./commands/web.ts";
import { ConfigError, messageOf } from "./core/errors.ts";
import { takeSecrets } from "./platform/handed-secrets.ts";
import { homeOf, mustBeOurs } from "./platform/home.ts";
import { createRedactor } from "./platform/redact.ts";

takeSecrets(process.env);
// The reader closed the pipe (`hermes logs | head`): this is not a failure.
process.stdout.on("error", (error) => process.exit("code" in error && error.code === "EPIPE" ? EXIT.ok : EXIT.failed));

/** What runs if only the first word of the command is given. */
const DEFAULTS = new Map([
  ["gateway", "run"],
  ["cron", "list"],
  ["sessions", "list"],
  ["nodes", "list"],
]);

const program = new Command("hermes")
  .description("A self-hosted AI agent that can always be interrupted, stopped or restarted without losing a word.")
  .version(pkg.version, "-v, --version", "show the version")
  .helpOption("-h, --help", "show this help")
  .helpCommand(false)
  .showHelpAfterError("Try: hermes --help")
  .configureHelp({ optionDescription: describeOption })
  .addHelpText(
    "after",
    `
"hermes help <command>" explains a command. "hermes chat" is the default command, so its options work without it:
  hermes "what to do"        start a conversation with this message
  hermes -c                  continue the newest conversation
  hermes -c "tax return"     continue the conversation with that name or title
  hermes --resume            choose a conversation from a list`,
  )
  .exitOverride()
  .hook("preAction", (_, command) => {
    if (!["import", "completion"].includes(command.name())) mustBeOurs(homeOf(process.env));
  });

addChat(program);
addAcp(program);
addSessions(program);
// Resolved here and not in the command: in the bundle, all code is at the depth of this file.
addGateway(program, fileURLToPath(new URL("../bin/hermes", import.meta.url)));
addWeb(program);
addCron(program);
addSend(program);
addMemory(program);
addMcp(program);
addSkills(program);
addSetup(program);
addImport(program);
addConfig(program);
addLogs(program);
addPolicy(program);
addBackup(program);
addStore(program);
addNodes(program);
addCompletion(program);
addMan(program);

program.parseAsync(commandLine(process.argv.slice(2)), { from: "user" }).catch((error: unknown) => {
  process.exit(exitCodeOf(error)); // an open handle would keep the process alive
});

/** The same command line with everything that may be left out. Commander's own default commands would take a misspelt command
 *  for an argument ("gateway stauts"). */
function commandLine(args: string[]): string[] {
  const [first, second = "-"] = args;
  // Without a terminal the default is the gateway: `npm start` under a service manager or in a container.
  if (first === undefined) return process.stdin.isTTY ? ["chat"] : ["gateway", "run"];
  if (["-V", "version"].includes(first)) return ["--version"];
  if (first === "help") return isCommand(second) || args.length === 1 ? [...args.slice(1), "--help"] : args.slice(1);
  if (["-h", "--help", "-v", "--version"].includes(first)) return args;
  // As in Hermes: only the answer, and nobody is asked.
  const oneshot = first.startsWith("-") ? args.findIndex((arg) => arg === "-z" || arg === "--oneshot") : -1;
  if (oneshot >= 0)
    return ["run", "--quiet", "--yolo", ...args.toSpliced(oneshot, 2), "--", ...args.slice(oneshot + 1, oneshot + 2)];
  // A command has no spaces in its name, so this is a message.
  if (first.startsWith("-") || /\s/.test(first)) return ["chat", ...args];
  const usual = DEFAULTS.get(first);
  const named = !second.startsWith("-") || ["-h", "--help"].includes(second);
  return usual && !named ? [first, usual, ...args.slice(1)] : args;
}

function isCommand(name: string): boolean {
  return program.commands.some((command) => command.name() === name);
}

/** Commander would add "(default: false)" to every flag. */
function describeOption(option: Option): string {
  const { defaultValue, description } = option;
  const off = defaultValue === false || (Array.isArray(defaultValue) && defaultValue.length === 0);
  return off ? description : new Help().optionDescription(option);
}

function exitCodeOf(error: unknown): number {
  // Commander has already printed the message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  console.error(createRedactor().text(messageOf(error)).replace(/^/gm, "hermes: "));
  return error instanceof ConfigError ? EXIT.config : EXIT.failed;
}
