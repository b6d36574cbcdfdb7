// hermes completion: prints a script that completes commands and options, made from the table of commands itself.
import { Argument, type Command } from "commander";
import { print } from "./shared.ts";

export function addCompletion(program: Command): void {
  const shells = { bash, zsh, fish };
  program
    .command("completion")
    .description("print a completion script for your shell (docs/cli.md)")
    .addArgument(new Argument("<shell>", "the shell").choices(Object.keys(shells)))
    .action((shell: keyof typeof shells) => print(shells[shell](levelsOf(program))));
}

/** What can follow the words `path`. */
type CompletionLevel = { path: string[]; commands: CompletionWord[]; options: CompletionWord[] };
type CompletionWord = { text: string; description: string };

function levelsOf(command: Command, path: string[] = []): CompletionLevel[] {
  const commands = [
    ...command.commands.map((one) => ({ text: one.name(), description: one.description() })),
    ...command.registeredArguments.flatMap(({ argChoices = [], description }) =>
      argChoices.map((text) => ({ text, description })),
    ),
  ];
  const options = command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ short, long, description }) => [short, long].flatMap((text) => (text ? [{ text, description }] : [])));
  return [{ path, commands, options }, ...command.commands.flatMap((one) => levelsOf(one, [...path, one.name()]))];
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const textsOf = ({ commands, options }: CompletionLevel): string =>
  [...commands, ...options].map(({ text }) => text).join(" ");

/** Finds the level of the words before the cursor, in bash and zsh: in `at`, one word behind the other. */
const findLevel = (levels: readonly CompletionLevel[], words: string): string => `  local at='' word
  for word in ${words}; do
    case "$at $word" in
      ${levels.slice(1).map(keyOf).join(" | ")}) at="$at $word" ;;
    esac
  done`;
const keyOf = ({ path }: CompletionLevel): string => quoted(path.map((name) => ` ${name}`).join(""));

const bash = (
  levels: readonly CompletionLevel[],
): string => `# bash completion of hermes: eval "$(hermes completion bash)"
_hermes() {
${findLevel(levels, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')}
  case $at in
${levels.map((level) => `    ${keyOf(level)}) word=${quoted(textsOf(level))} ;;`).join("\n")}
  esac
  COMPREPLY=($(compgen -W "$word" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _hermes hermes
`;

const described = ({ text, description }: CompletionWord): string =>
  quoted(`${text}:${description.replaceAll(":", "\\:")}`);

const zsh = (levels: readonly CompletionLevel[]): string => `#compdef hermes
# zsh completion of hermes: eval "$(hermes completion zsh)", after compinit
_hermes() {
${findLevel(levels, '"${(@)words[2,CURRENT-1]}"')}
  local -a found
  case $at in
${levels.map((level) => `    ${keyOf(level)}) found=(${[...level.commands, ...level.options].map(described).join(" ")}) ;;`).join("\n")}
  esac
  _describe hermes found || _files
}
compdef _hermes hermes
`;

/** Fish asks one condition for each word: the names above were seen, and none of those beside it. */
const fish = (levels: readonly CompletionLevel[]): string => {
  const line = ({ path, commands }: CompletionLevel, how: string, { description }: CompletionWord) => {
    const above = path.map((name) => `__fish_seen_subcommand_from ${name}`);
    const beside = commands.map(({ text }) => text).join(" ");
    const condition = [...above, ...(beside ? [`not __fish_seen_subcommand_from ${beside}`] : [])].join("; and ");
    return `complete -c hermes -n ${quoted(condition)} ${how} -d ${quoted(description)}\n`;
  };
  const lines = levels.flatMap((level) => [
    ...level.commands.map((word) => line(level, `-f -a ${word.text}`, word)),
    ...level.options.map((word) => line(level, optionOf(word), word)),
  ]);
  return `# fish completion of hermes: hermes completion fish | source\n${lines.join("")}`;
};
const optionOf = ({ text }: CompletionWord): string =>
  text.startsWith("--") ? `-l ${text.slice(2)}` : `-s ${text.slice(1)}`;
