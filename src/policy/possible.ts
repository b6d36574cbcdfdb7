// What the words of a command may become, as a generous guess: literal assignments, braces, defaults, `echo` in a
// substitution. It finds forbidden commands behind a disguise; it never proves that something is harmless.
import type { ParameterExpansionPart, ParsedScript, Word, WordPart } from "unbash";
import { attempt } from "../platform/attempt.ts";
import type { CommandReading, Simple } from "./reading.ts";
import { type CommandPlace, LIMITS } from "./types.ts";
import { partsOf } from "./words.ts";

/** Stands for text that cannot be known. */
export const UNKNOWN = "\uFFFF";
/** All fields that one word became. */
type PossibleFields = string[];
export type ShellVariables = ReadonlyMap<string, readonly string[]>;
export type Possible = { command: Simple; argvs: string[][]; variables: ShellVariables };

const LONGEST = 400;
const PER_WORD = 32;
const PER_COMMAND = 128;
/** A word with more parts than this is reported as a doubt where it is read. */
const { parts: PARTS } = LIMITS;

export const possibleCommands = (reading: CommandReading, place: CommandPlace): Possible[] => {
  const variables = learn(reading, place);
  return reading.steps.flatMap((step) =>
    step.step === "command" && step.command.words.length > 0
      ? [{ command: step.command, argvs: argvsOf(step.command.words, variables), variables }]
      : [],
  );
};

export const argvsOf = (words: readonly Word[], variables: ShellVariables): string[][] => {
  let argvs: string[][] = [[]];
  for (const word of words) {
    const options = possibleFields(word, variables);
    const [only] = options;
    // Nearly always there is one option: copying a long command for each of its words would take forever.
    if (only && options.length === 1) for (const argv of argvs) argv.push(...only);
    else argvs = combined(argvs, options, PER_COMMAND, (argv, fields) => [...argv, ...fields]);
  }
  return argvs;
};

/** All combinations; if these are too many, each value at least once. */
const combined = <A, B>(all: readonly A[], more: readonly B[], most: number, join: (one: A, other: B) => A): A[] => {
  if (all.length * more.length <= most) return all.flatMap((one) => more.map((other) => join(one, other)));
  const joined: A[] = [];
  for (let index = 0; index < Math.max(all.length, more.length); index++) {
    const [one, other] = [all[index % all.length], more[index % more.length]];
    if (one !== undefined && other !== undefined) joined.push(join(one, other));
  }
  return joined;
};

export const possibleTexts = (word: Word, variables: ShellVariables): string[] =>
  possibleFields(word, variables).map((fields) => fields.join(" "));

const possibleFields = (word: Word, variables: ShellVariables): PossibleFields[] => {
  if (!word.parts && !word.text.startsWith("~")) return [[word.value]];
  const parts = partsOf(word);
  if (parts.length > PARTS) return [[UNKNOWN]];
  let all: PossibleFields[] = [[""]];
  for (const [index, part] of parts.entries()) {
    if (part.type === "BraceExpansion") {
      const choices = braces(part.text);
      all = all.map((fields) => fields.flatMap((field) => choices.map((choice) => field + choice)).slice(0, 64));
      continue;
    }
    const options = texts(part, variables, index === 0).slice(0, PER_WORD);
    const quoted = /Quoted$|^Literal$/.test(part.type);
    const splits = !quoted || ("text" in part && /^"\$(?:@|\{\w+\[@\]\})"$/.test(part.text));
    const fields = options.map((text) => (splits ? split(text) : [text]));
    all = combined(all, fields, PER_WORD, join);
  }
  // An unquoted expansion that is empty leaves no word behind.
  const bare = parts.every((part) => part.type.endsWith("Expansion"));
  return all.map((fields) => (bare ? fields.filter((field) => field !== "") : fields));
};

const texts = (part: WordPart, variables: ShellVariables, first: boolean): string[] => {
  switch (part.type) {
    case "Literal": {
      const home = first && /^~(?=\/|$)/.test(part.text);
      return home ? look("HOME", variables).map((dir) => dir + part.value.slice(1)) : [part.value];
    }
    case "SingleQuoted":
    case "AnsiCQuoted":
      return [part.value];
    case "DoubleQuoted":
    case "LocaleString": {
      if (part.parts.length > PARTS) return [UNKNOWN];
      let all = [""];
      for (const child of part.parts) {
        const options = texts(child, variables, false).slice(0, PER_WORD);
        all = combined(all, options, PER_WORD, (before, text) => before + text);
      }
      return all;
    }
    case "SimpleExpansion":
      return look(part.text.slice(1), variables);
    case "ParameterExpansion":
      return parameter(part, variables);
    case "CommandExpansion":
      return output(part.script, variables);
    case "Glob":
    case "ExtendedGlob":
      return [part.text];
    case "ProcessSubstitution":
      return ["/dev/fd/63"];
    default:
      return [UNKNOWN];
  }
};

const parameter = (part: ParameterExpansionPart, variables: ShellVariables): string[] => {
  const { operation } = part;
  const values =
    part.prefix === "!"
      ? look(part.parameter, variables).flatMap((name) => look(name, variables))
      : look(part.parameter, variables);
  if (part.prefix === "#") return [UNKNOWN];
  const operand = (word: Word | undefined) => (word ? possibleTexts(word, variables) : [""]);
  switch (operation?.type) {
    case undefined:
      return values;
    case "Default":
      return [...new Set([...operand(operation.operand), ...(operation.operator.endsWith("+") ? [] : values)])];
    case "Remove": {
      const end = operation.operator.startsWith("%");
      const source = globSource(operand(operation.operand)[0] ?? "", operation.operator.length === 2);
      const pattern = safePattern(end ? `${source}$` : `^${source}`);
      return pattern ? values.map((value) => value.replace(pattern, "")) : [UNKNOWN];
    }
    case "Replace": {
      const source = globSource(operand(operation.pattern)[0] ?? "", true);
      const pattern = safePattern(source, operation.operator === "//" ? "g" : "");
      const by = operand(operation.replacement)[0] ?? "";
      return pattern ? values.map((value) => value.replace(pattern, () => by)) : [UNKNOWN];
    }
    case "Slice": {
      const from = Number(operation.offset.text);
      const length = operation.length ? Number(operation.length.text) : undefined;
      return values.map((value) => value.slice(from, length === undefined || length < 0 ? length : from + length));
    }
    case "CaseModification":
      return values.map((value) => (operation.operator.startsWith("^") ? value.toUpperCase() : value.toLowerCase()));
    default:
      return values;
  }
};

/** The output of `echo`, `printf` and `pwd`; unknown for anything else. */
const output = (script: ParsedScript | undefined, variables: ShellVariables): string[] => {
  const [statement, ...more] = script?.commands ?? [];
  if (!statement || more.length > 0 || statement.command.type !== "Command") return [UNKNOWN];
  const { name, suffix } = statement.command;
  const words = suffix.flatMap((part) => (part.type === "Word" ? [part] : []));
  const said = name && name.value === "pwd" ? look("PWD", variables) : null;
  if (said) return said;
  if (!name || !/^(?:echo|printf)$/.test(name.value)) return [UNKNOWN];
  return argvsOf(words, variables).map((argv) => printed(name.value, argv));
};

export const printed = (program: string, args: readonly string[]): string => {
  if (program === "echo") return args.filter((arg, index) => index > 0 || !/^-[neE]+$/.test(arg)).join(" ");
  const [format = "", ...rest] = args.filter((arg) => arg !== "--");
  let next = 0;
  const once = format.replace(/%[-\d.]*[sbqd]/g, () => rest[next++] ?? "");
  const text = next < rest.length && next > 0 ? once + rest.slice(next).join("") : once;
  return text
    .replaceAll("\\n", "\n")
    .replace(/\\(?:x([\da-f]{2})|0?([0-7]{3}))/gi, (_all, hex: string, octal: string) =>
      String.fromCharCode(hex ? Number.parseInt(hex, 16) : Number.parseInt(octal, 8)),
    );
};

const look = (name: string, variables: ShellVariables): readonly string[] & string[] => [
  ...(variables.get(name) ?? [UNKNOWN]),
];

/** Every value that the script itself assigns to a variable. Two passes, because one value may contain another. */
const learn = (reading: CommandReading, { cwd, home }: CommandPlace): Map<string, string[]> => {
  const known = new Map<string, string[]>([
    ["IFS", [" "]],
    ["PATH", ["/usr/bin:/bin"]],
    ["HOME", [home ?? "/home/user"]],
    ["PWD", [cwd ?? UNKNOWN]],
  ]);
  const functions = new Set(reading.steps.flatMap((step) => (step.step === "function" ? [step.name] : [])));
  const own = new Map<string, string[]>();
  const set = (name: string, values: readonly string[]) => {
    // A value that contains itself twice would grow without end.
    const bounded = values.map((value) => (value.length > LONGEST ? UNKNOWN : value));
    const all = [...new Set([...(own.get(name) ?? []), ...bounded])].slice(0, PER_WORD);
    own.set(name, all);
    known.set(name, all);
  };
  for (let round = 0; round < 2; round++) {
    for (const step of reading.steps) {
      if (step.step === "loop" && step.words) set(step.name, argvsOf(step.words, known).flat());
      if (step.step !== "command") continue;
      const { assigns, words, redirects } = step.command;
      for (const { name, words } of assigns) {
        const texts = argvsOf(words, known).map((argv) => argv.join(" "));
        set(name, texts);
      }
      const [argv = []] = argvsOf(words, known);
      const [program = "", ...args] = argv;
      const positional = program === "set" && args[0] === "--" ? args.slice(1) : functions.has(program) ? args : null;
      if (positional) {
        set("@", [positional.join(" ")]);
        set("*", [positional.join(" ")]);
        for (const [index, arg] of positional.entries()) set(String(index + 1), [arg]);
      }
      if (program === "printf" && args[0] === "-v") set(args[1] ?? "", [printed("printf", args.slice(2))]);
      const fed = redirects.find(({ operator }) => operator === "<<<")?.word;
      if (/^(?:read|mapfile|readarray|getopts)$/.test(program))
        for (const name of args)
          if (!name.startsWith("-")) set(name, [...(fed ? possibleTexts(fed, known) : []), UNKNOWN]);
    }
  }
  return known;
};

const join = (fields: PossibleFields, [head = "", ...tail]: readonly string[]): PossibleFields => {
  const last = fields.at(-1) ?? "";
  return [...fields.slice(0, -1), last + head, ...tail];
};

const split = (text: string): string[] => (/\s/.test(text) ? text.split(/\s+/) : [text]);

/** `{a,b}` and `{1..3}`, also nested. */
const braces = (text: string, level = 0): string[] => {
  // Too large to expand: use at least every piece of it, paths first.
  if (text.length > LONGEST || level > 8) return pathsFirst(text.split(/[{},"'\\]+/).filter(Boolean));
  const inner = text.slice(1, -1);
  const range = /^(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])/.exec(inner);
  if (range) return [range[1] ?? "", range[2] ?? ""];
  const items: string[] = [""];
  let depth = 0;
  for (const char of inner) {
    if (char === "{") depth += 1;
    if (char === "}") depth -= 1;
    if (char === "," && depth === 0) items.push("");
    else items.push((items.pop() ?? "") + char);
  }
  const unfolded = items.flatMap((item) => {
    const nested = /^([^{]*)(\{.*\})([^}]*)$/s.exec(item);
    const [before = "", group = "", after = ""] = nested?.slice(1) ?? [];
    return nested ? braces(group, level + 1).map((choice) => before + choice + after) : [item];
  });
  return pathsFirst(unfolded.map((item) => item.replace(/["'\\]/g, "")));
};

const pathsFirst = (items: readonly string[]): string[] =>
  items.length <= PER_WORD
    ? [...items]
    : items.toSorted((a, b) => Number(/^[/~.]/.test(b)) - Number(/^[/~.]/.test(a))).slice(0, PER_WORD);

const globSource = (pattern: string, greedy: boolean): string =>
  pattern
    .replace(/[.+^${}()|\\]/g, "\\$&")
    .replace(/\*+/g, greedy ? ".*" : ".*?")
    .replaceAll("?", ".");

const safePattern = (source: string, flags = ""): RegExp | null => {
  // With each further star, the search takes the length of the text longer.
  if (source.length > 100 || source.split("*").length > 2) return null;
  return attempt(() => new RegExp(source, `s${flags}`)) ?? null;
};
