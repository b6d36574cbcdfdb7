// hermes man: prints the man page, made from the table of commands itself.
import type { Command } from "commander";
import pkg from "../../package.json" with { type: "json" };
import { EXIT_CODES, print } from "./shared.ts";

export function addMan(program: Command): void {
  program
    .command("man")
    .description("print the man page: hermes man | man -l -")
    .action(() => print(manPage(program)));
}

const ENVIRONMENT: readonly (readonly [string, string])[] = [
  ["HERMES_HOME", "the directory of all data and settings; default: ~/.hermes"],
  ["OPENROUTER_API_KEY, ANTHROPIC_API_KEY, OPENAI_API_KEY", "the key of a model provider"],
  ["OPENAI_BASE_URL, LLM_MODEL", "the address of your own server, and its model"],
  ["HERMES_YOLO_MODE", "yes: never ask for approval"],
  ["NO_COLOR", "print no colours"],
  ["VISUAL, EDITOR", "the editor of hermes config edit"],
];
const FILES: readonly (readonly [string, string])[] = [
  ["config.yaml", "the settings"],
  [".env", "keys and tokens"],
  ["policy.yaml, hosts.allow", "rules and hosts that were saved"],
  ["hermes.db", "all conversations"],
  ["logs/hermes.log", "the log"],
];

function manPage(program: Command): string {
  const sections = [
    `.TH HERMES 1 "" "hermes ${pkg.version}" "User Commands"`,
    ".SH NAME",
    `hermes \\- ${roff(pkg.description)}`,
    ".SH SYNOPSIS",
    ".B hermes",
    `[${italic("message")}]`,
    ".br",
    ".B hermes",
    `${italic("command")} [${italic("options")}]`,
    ".SH DESCRIPTION",
    "Without a command,",
    ".B hermes",
    "opens a conversation in a terminal, and runs the gateway where there is no terminal.",
    ".SH COMMANDS",
    ...program.commands.flatMap((command) => commandLines(command, "hermes")),
    ".SH ENVIRONMENT",
    ...ENVIRONMENT.flatMap(([name, meaning]) => item(bold(name), meaning)),
    ".P",
    "All variables are in docs/configuration.md.",
    ".SH FILES",
    "In HERMES_HOME:",
    ...FILES.flatMap(([name, meaning]) => item(bold(name), meaning)),
    ".SH EXIT STATUS",
    ...Object.entries(EXIT_CODES).flatMap(([code, meaning]) => item(bold(code), meaning)),
    ".SH SEE ALSO",
    "hermes help",
    italic("command"),
  ];
  return `${sections.join("\n")}\n`;
}

/** The command with its arguments and options, then the commands below it. */
function commandLines(command: Command, above: string): string[] {
  const name = `${above} ${command.name()}`;
  const given = command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`));
  const own = [
    ".SS",
    bold([name, ...given].join(" ")),
    ".P",
    roff(sentence(command.description())),
    ...command.registeredArguments.flatMap((one) => item(italic(one.name()), one.description)),
    ...command.options.flatMap(({ flags, description }) => item(bold(flags), description)),
  ];
  return [...own, ...command.commands.flatMap((one) => commandLines(one, name))];
}

const item = (head: string, text: string): string[] => [".TP", head, roff(text)];
const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
const bold = (text: string) => `\\fB${roff(text)}\\fR`;
const italic = (text: string) => `\\fI${roff(text)}\\fR`;
/** A minus that can be copied, and no text that is read as a request. */
const roff = (text: string) =>
  text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^(?=[.'])/, "\\&");
