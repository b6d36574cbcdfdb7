// Everything that a command may come to run: its own commands, those of carriers, scripts inside strings,
// here-documents and pipes. This is a generous search for what must be refused or asked about; it never allows
// anything.
import { baseName, carried, SHELLS } from "./carriers.ts";
import { absolute } from "./paths.ts";
import {
  argvsOf,
  type Possible,
  possibleCommands,
  possibleTexts,
  printed,
  type ShellVariables,
  UNKNOWN,
} from "./possible.ts";
import type { CommandReading, ReadCommand, Simple } from "./reading.ts";
import { oneOf } from "./table.ts";
import type { CommandPlace, Doubt } from "./types.ts";

export type Reached = {
  argv: string[];
  part: string;
  place: CommandPlace;
  /** The command that would run it. */
  by: Reached | null;
  /** The command of the script that it comes from. */
  simple: Simple;
  /** Only a guess: enough to refuse a command that must never run, not enough to ask. */
  guess: boolean;
};
export type Reach = {
  commands: Reached[];
  writes: { path: string; part: string; place: CommandPlace }[];
  reads: { path: string; part: string; place: CommandPlace }[];
  /** Only what was not understood at all. */
  doubts: Doubt[];
  /** Where a `cd` would lead. */
  dirs: Set<string>;
  /** Functions that call themselves again and again. */
  bombs: string[];
};

const TOO_DEEP = "it is nested too deeply to be checked";
const DEPTH = 6;
const COMMANDS = 3_000;
/** Limit over all commands together. */
const WORDS = 50_000;
/** Variables whose value some program runs. */
const SCRIPT_VARIABLE = oneOf(`
  PROMPT_COMMAND BASH_ENV ENV PS4 PAGER .*_PAGER MANPAGER EDITOR VISUAL .*_EDITOR BROWSER LESSOPEN LESSCLOSE
  GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS`);

export const reach = (source: string, place: CommandPlace, read: ReadCommand): Reach => {
  const found: Reach = { commands: [], writes: [], reads: [], doubts: [], dirs: new Set(), bombs: [] };
  let words = 0;
  enter(source, place, 0, "", null);
  return found;

  /** `part`: the part to show for findings inside; empty for the piece itself. */
  function enter(
    script: string,
    place: CommandPlace,
    depth: number,
    part: string,
    by: Reached | null,
    quiet = false,
  ): void {
    if (script.trim() === "") return;
    if (depth > DEPTH) return doubtful(TOO_DEEP, part, "unreadable");
    const reading = read(script);
    for (const doubt of reading.doubts)
      if (doubt.level !== "unproven" && !quiet) found.doubts.push({ ...doubt, source: part || doubt.source });
    for (const name of bombs(reading)) found.bombs.push(part || name);

    const commands = possibleCommands(reading, place);
    const variables = commands[0]?.variables ?? new Map<string, string[]>();
    const places: { scopes: readonly number[]; place: CommandPlace }[] = [];
    for (const redirect of reading.redirects) {
      const into = redirect.operator.includes(">") ? found.writes : found.reads;
      const paths = redirect.word && redirect.operator !== "<<<" ? possibleTexts(redirect.word, variables) : [];
      for (const path of paths) into.push({ path, part: part || redirect.source, place });
    }
    for (const step of reading.steps) {
      if (step.step !== "command") continue;
      for (const { name, words } of step.command.assigns)
        if (SCRIPT_VARIABLE.test(name) || step.command.argv[0]?.value === "alias")
          for (const argv of argvsOf(words, variables))
            enter(argv.join(" "), place, depth + 1, part || step.command.source, by);
    }
    let known: string[] | null = null;
    const texts = () =>
      (known ??= [
        ...reading.redirects.flatMap(({ text }) => (text === null ? [] : [text])),
        ...commands.flatMap(({ argvs }) =>
          argvs.flatMap(([name = "", ...args]) => (/^(?:echo|printf)$/.test(name) ? [printed(name, args)] : [])),
        ),
      ]);
    for (const possible of commands) {
      const { command, argvs } = possible;
      const here = places.findLast(({ scopes }) => scopes.every((id, index) => command.scopes[index] === id));
      const now = here?.place ?? place;
      const fed = fedTo(command, possible.variables, commands);
      for (const argv of argvs) {
        visit(argv, now, depth, part || command.source, fed, by, command, quiet);
        // The input of a group is not tracked: any text in this script may be it.
        if (fed.length === 0 && SHELLS.test(baseName(argv[0] ?? "")))
          for (const text of texts()) enter(text, now, depth + 1, part || command.source, by, true);
        if (downloads(command) && takesProgram(argv)) doubtful("it runs what it downloads", part || command.source);
        if (baseName(argv[0] ?? "") !== "cd" && argv[0] !== "pushd") continue;
        const target = argv.slice(1).find((arg) => !/^-[LPe@]*$/.test(arg)) ?? place.home ?? "~";
        const cwd = absolute(target, now) ?? undefined;
        places.push({ scopes: command.scopes, place: { ...now, cwd } });
        if (cwd !== undefined) found.dirs.add(cwd);
      }
    }
  }

  function visit(
    argv: string[],
    place: CommandPlace,
    depth: number,
    part: string,
    fed: readonly string[],
    by: Reached | null,
    simple: Simple,
    guess = false,
  ): void {
    if (argv.length === 0) return;
    words += argv.length;
    if (found.commands.length > COMMANDS || words > WORDS || depth > DEPTH)
      return doubtful(TOO_DEEP, part, "unreadable");
    const reached: Reached = { argv, part, place, by, simple, guess };
    found.commands.push(reached);
    const { argvs, maybe, scripts, guesses, blind } = carried(argv, fed);
    if (blind && !guess) doubtful("a shell would run commands that cannot be seen here", part);
    for (const script of scripts) {
      if (script.includes(UNKNOWN) && (SHELLS.test(baseName(argv[0] ?? "")) || argv[0] === "eval"))
        doubtful("a shell would run text that is known only when it runs", part);
      enter(script, place, depth + 1, part, reached, guess);
    }
    for (const guess of guesses) enter(guess, place, depth + 1, part, reached, true);
    for (const inner of argvs) visit(inner, place, depth + 1, part, fed, reached, simple, guess);
    for (const inner of maybe) visit(inner, place, depth + 1, part, fed, reached, simple, true);
  }

  function doubtful(reason: string, part: string, level: Doubt["level"] = "unclear"): void {
    const same = found.doubts.some((doubt) => doubt.level === level && doubt.reason === reason);
    if (!same) found.doubts.push({ level, reason, source: part });
  }
};

/** Its standard input, if that can be determined. */
const fedTo = (command: Simple, variables: ShellVariables, all: readonly Possible[], depth = 0): string[] => {
  const own = command.redirects.flatMap(({ text, word, operator }) => {
    if (operator === "<<<" && word) return possibleTexts(word, variables);
    return text === null ? [] : [text];
  });
  if (own.length > 0 || !command.from || depth > 10) return own;
  const { from } = command;
  let found: string[] | null = null;
  const input = () => (found ??= fedTo(from, variables, all, depth + 1));
  const argvs = all.find((possible) => possible.command === from)?.argvs ?? [];
  const texts = argvs.flatMap(([program = "", ...args]) => {
    switch (baseName(program)) {
      case "echo":
      case "printf":
        return [printed(program, args)];
      case "cat":
      case "tee":
        return args.some((arg) => !arg.startsWith("-")) && baseName(program) === "cat" ? [] : input();
      case "rev":
        return input().map((text) => text.replace(/.+/g, reversed));
      case "base64":
      case "openssl":
        return args.some((arg) => /^-(?:[dD]|-decode)$/.test(arg))
          ? input().map((text) => Buffer.from(text, "base64").toString())
          : [];
      case "xxd":
        return args.some((arg) => arg.startsWith("-r"))
          ? input().map((text) => Buffer.from(text.trim(), "hex").toString())
          : [];
      default:
        return [];
    }
  });
  return [...new Set(texts)].slice(0, MOST_TEXTS);
};
const MOST_TEXTS = 64;

const downloads = ({ from }: Simple): boolean =>
  from !== null && (/^(?:curl|wget|nc|ncat|ssh|aria2c)$/.test(from.argv[0]?.value ?? "") || downloads(from));

/** An interpreter without a program reads one from its input. */
const takesProgram = ([program = "", ...args]: readonly string[]): boolean =>
  /^(?:python|pypy|perl|ruby|node|php|lua|deno|bun)[\d.]*$/.test(baseName(program)) &&
  args.every((arg) => /^-[a-zA-Z]*$/.test(arg));

const reversed = (line: string): string => Array.from(line).toReversed().join("");

const bombs = (reading: CommandReading): string[] => {
  const calls = new Map<string, { name: string; spreads: boolean }[]>();
  for (const step of reading.steps) if (step.step === "function") calls.set(step.name, []);
  for (const step of reading.steps) {
    if (step.step !== "command" || step.command.within === null) continue;
    const name = step.command.argv[0]?.value;
    if (name === null || name === undefined || !calls.has(name)) continue;
    calls.get(step.command.within)?.push({ name, spreads: step.command.piped || step.command.background });
  }
  const returns = (from: string, to: string, visited: Set<string>): boolean =>
    (calls.get(from) ?? []).some(({ name }) => {
      if (name === to) return true;
      if (visited.has(name)) return false;
      visited.add(name);
      return returns(name, to, visited);
    });
  return [...calls.keys()].filter(
    (name) => returns(name, name, new Set()) && (calls.get(name) ?? []).some(({ spreads }) => spreads),
  );
};
