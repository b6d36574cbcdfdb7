// The entry point: registers the commands in the order of the help, reads the command line and sets the exit code. Each command
// imports its code when it runs, so `hermes --help` loads none of it.
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
// The reader closed the pipe (`hermes logs | head`): this is not a failure.
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
"hermes chat" is the default command, so its options work without it:
  hermes -c                  continue the newest conversation
  hermes -c "tax return"     continue the conversation with that name or title
  hermes --resume            choose a conversation from a list`,
  )
  .exitOverride();

addChat(program);
// Resolved here and not in the command: in the bundle, all code is at the depth of this file.
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
  process.exit(exitCodeOf(error)); // an open handle would keep the process alive
}

function commandLine(args: string[]): string[] {
  const [first] = args;
  // Without a terminal the default is the gateway: `npm start` under a service manager or in a container.
  if (first === undefined) return [process.stdin.isTTY ? "chat" : "gateway"];
  const own = ["-h", "--help", "-V", "--version"];
  return first.startsWith("-") && !own.includes(first) ? ["chat", ...args] : args;
}

function exitCodeOf(error: unknown): number {
  // Commander has already printed the message.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  console.error(createRedactor().text(messageOf(error)).replace(/^/gm, "hermes: "));
  return error instanceof ConfigError ? EXIT.config : EXIT.failed;
}
