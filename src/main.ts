// Where the program begins: its commands in the order of the help, its command line, its exit code. A command's body is
// imported when it is run, so that `hermes --help` costs no more than it shows.
import { fileURLToPath } from "node:url";
import { Command, CommanderError } from "commander";
import pkg from "../package.json" with { type: "json" };
import { addChat } from "./commands/chat.ts";
import { addCron } from "./commands/cron.ts";
import { addGateway } from "./commands/gateway.ts";
import { addLogs } from "./commands/logs.ts";
import { addMemory } from "./commands/memory.ts";
import { addPolicy } from "./commands/policy.ts";
import { addSetup } from "./commands/setup.ts";
import { EXIT } from "./commands/shared.ts";
import { addSkills } from "./commands/skills.ts";
import { ConfigError, messageOf } from "./core/errors.ts";
import { takeSecrets } from "./platform/handed-secrets.ts";
import { createRedactor } from "./platform/redact.ts";

takeSecrets(process.env);
// The reader has had enough (`hermes logs | head`): that is no failure.
process.stdout.on("error", (error) => process.exit("code" in error && error.code === "EPIPE" ? EXIT.ok : EXIT.failed));

const program = new Command("hermes")
  .description("A self-hosted AI agent that can always be interrupted, stopped or restarted without losing a word.")
  .version(pkg.version, "-V, --version", "show the version")
  .helpOption("-h, --help", "show this help")
  .helpCommand(false)
  .showHelpAfterError("Try: hermes --help")
  .addHelpText(
    "after",
    `
The options of chat need no command:
  hermes -c                  go on with the newest conversation
  hermes -c "tax return"     go on with the one of that name or title
  hermes --resume            choose a conversation from a list`,
  )
  .exitOverride();

addChat(program);
// Here, because a bundle lies as deep as this file, not as the commands.
addGateway(program, fileURLToPath(new URL("../bin/hermes", import.meta.url)));
addCron(program);
addMemory(program);
addSkills(program);
addSetup(program);
addLogs(program);
addPolicy(program);

try {
  await program.parseAsync(commandLine(process.argv.slice(2)), { from: "user" });
} catch (error) {
  process.exit(exitCodeOf(error)); // whatever is still open would keep the process
}

function commandLine(args: string[]): string[] {
  const [first] = args;
  // Without a terminal to talk in, what serves: `npm start` under a service manager or in a container.
  if (first === undefined) return [process.stdin.isTTY ? "chat" : "gateway"];
  const own = ["-h", "--help", "-V", "--version"];
  return first.startsWith("-") && !own.includes(first) ? ["chat", ...args] : args;
}

function exitCodeOf(error: unknown): number {
  // Commander has said it already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  console.error(createRedactor().text(messageOf(error)).replace(/^/gm, "hermes: "));
  return error instanceof ConfigError ? EXIT.config : EXIT.failed;
}
