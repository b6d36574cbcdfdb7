// Options of programs as data. A list names every option that is known to be harmless; any other asks.
//
//   -abc      short options without a value, which may stand together
//   -n:       a short option with a value (`-n5`, `-n 5`)      -M?   with a value that may be attached
//   --all     a long option      --lines=  with a value       --color?  with a value that may be attached
//   -#        a number (`-20`)
//   =-noout   a word exactly like this                         =-in:    with a value in the next word
import type { Arg } from "./types.ts";

type Options = {
  flags: Set<string>;
  values: Set<string>;
  attached: Set<string>;
  exact: Set<string>;
  numbers: boolean;
};
export type Problem = { reason: string; source: string };
/** The options that were given, in order; a value of null means none. */
export type ParsedOptions = { name: string; value: Arg | null }[];
export type Parsed = {
  operands: Arg[];
  given: ParsedOptions;
};

export const wasGiven = (given: ParsedOptions, ...names: string[]): boolean =>
  given.some(({ name }) => names.includes(name));

const compiled = new Map<string, Options>(); // of the lists that stand in this folder, and no others

const compile = (list: string): Options => {
  const known = compiled.get(list);
  if (known) return known;
  const options: Options = {
    flags: new Set(),
    values: new Set(),
    attached: new Set(),
    exact: new Set(),
    numbers: false,
  };
  for (const word of list.split(/\s+/).filter(Boolean)) {
    const name = word.replace(/^=|[:?=]$/g, "");
    const valued = /[:=]$/.test(word);
    if (word === "-#") options.numbers = true;
    else if (word.startsWith("=")) options.exact.add(name);
    else if (/^-[^-].*[^:?]$/.test(word)) for (const letter of word.slice(1)) options.flags.add(`-${letter}`);
    else if (!valued) options.flags.add(name);
    if (valued) options.values.add(name);
    if (word.endsWith("?")) options.attached.add(name);
  }
  compiled.set(list, options);
  return options;
};

/** `order`: `stop` if the first operand ends the options, as before a subcommand or a carried command; `first` if
 *  versions disagree about that, and an operand that looks like an option could be a file to write. */
export const parseArgs = (
  program: string,
  args: readonly Arg[],
  list: string,
  order: "any" | "first" | "stop" = "any",
): Problem | Parsed => {
  const options = compile(list);
  const parsed: Parsed = { operands: [], given: [] };
  let ended = false;
  for (let at = 0; at < args.length; at++) {
    const arg = args[at];
    if (!arg) break;
    const { value, source } = arg;
    if (ended || (value === null ? arg.operand : value === "-" || !value.startsWith("-"))) {
      parsed.operands.push(arg);
      ended ||= order === "stop";
      continue;
    }
    if (value === null) return { reason: `this could become an option of ${program} when it runs`, source };
    if (order === "first" && parsed.operands.length > 0)
      return { reason: `here ${program} could take this for a file to write`, source };
    if (value === "--") {
      ended = true;
      continue;
    }
    const step = readOption(value, options, parsed.given);
    if (step === "unknown")
      return { reason: `with this option \`${program}\` may do more than read, so approval is needed`, source };
    if (step === "done") continue;
    const next = args[at + 1];
    // A value that looks like an option may be one, if the program reads it differently.
    if (!next || next.many || (next.value ?? "").match(/^-(?!\d*$)/))
      return {
        reason: `the value of this option of ${program} is not clear`,
        source: `${source} ${next?.source ?? ""}`.trim(),
      };
    parsed.given.push({ name: step.valueOf, value: next });
    at += 1;
  }
  return parsed;
};

const readOption = (word: string, options: Options, given: ParsedOptions): "done" | "unknown" | { valueOf: string } => {
  const attach = (name: string, value: string) =>
    given.push({ name, value: { source: value, value, operand: true, prefix: value, many: false } });
  if (options.exact.has(word)) {
    if (options.values.has(word)) return { valueOf: word };
    given.push({ name: word, value: null });
    return "done";
  }
  if (options.numbers && /^-\d+$/.test(word)) return "done";
  if (word.startsWith("--")) {
    const equals = word.indexOf("=");
    const name = equals < 0 ? word : word.slice(0, equals);
    if (equals >= 0) {
      if (!options.values.has(name) && !options.attached.has(name)) return "unknown";
      attach(name, word.slice(equals + 1));
      return "done";
    }
    if (options.values.has(name)) return { valueOf: name };
    given.push({ name, value: null });
    return options.flags.has(name) ? "done" : "unknown";
  }
  for (let at = 1; at < word.length; at++) {
    const name = `-${word.charAt(at)}`;
    const rest = word.slice(at + 1);
    if (options.values.has(name)) {
      if (rest === "") return { valueOf: name };
      attach(name, rest);
      return "done";
    }
    if (!options.flags.has(name)) return "unknown";
    if (options.attached.has(name) && rest !== "") {
      attach(name, rest);
      return "done";
    }
    given.push({ name, value: null });
  }
  return "done";
};
