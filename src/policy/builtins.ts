// Commands with their own rules: parts of the shell, and programs that run another command.
import { type Problem, parseArgs } from "./options.ts";
import { unknown } from "./program.ts";
import { entries, oneOf } from "./table.ts";
import type { Arg } from "./types.ts";
import { mayExport, maySet } from "./variables.ts";

/** Judges another command, as this one would run it. */
type BuiltinJudge = (argv: readonly Arg[]) => Problem | null;
type Special = (args: readonly Arg[], judge: BuiltinJudge) => Problem | null;

/** A word that is known only at run time. */
const UNSEEN: Arg = { source: "…", value: null, operand: false, prefix: "", many: true };

const asks = (reason: string, arg?: Arg): Problem => ({ reason, source: arg?.source ?? "" });
const sourceOf = (args: readonly Arg[]): string => args.map(({ source }) => source).join(" ");

const UNARY = /^-[a-hknoprstuwxzGLNOSefd]$/;
const BINARY = /^(?:=|==|!=|<|>|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef)$/;
const CONVERSION = /%(?:%|[-+ #0']*(?:[1-9]\d*|\*)?(?:\.(?:\d+|\*)?)?(?:hh?|ll?|[jztL])?[diouxXfFeEgGaAcsbq])/g;

/** Operators must be literal: with `-v` and `-R`, an operand is evaluated and could run commands. */
const test = (args: readonly Arg[]): Problem | null => {
  const unquoted = args.find(({ many }) => many);
  if (unquoted) return asks("an unquoted value could change what is tested", unquoted);
  const rest = args[0]?.value === "!" && args.length > 1 ? args.slice(1) : args;
  const [first, second] = rest;
  const fits =
    rest.length < 2 ||
    (rest.length === 2 && UNARY.test(first?.value ?? "")) ||
    (rest.length === 3 && BINARY.test(second?.value ?? "")) ||
    rest.every(({ value }) => value !== null && !/^-[vR]$/.test(value) && !/[$`]/.test(value));
  return fits ? null : asks("this test is not clear before it runs", args[0]);
};

/** `-v` and `%n` set variables of any name. */
const printf = (args: readonly Arg[]): Problem | null => {
  const [format] = args[0]?.value === "--" ? args.slice(1) : args;
  if (!format || format.value === null || format.value.startsWith("-"))
    return asks("the format is not clear before it runs", format);
  return format.value.replace(CONVERSION, "").includes("%") ? asks("this format could set a variable", format) : null;
};

const names =
  (program: string, options: string): Special =>
  (args) => {
    const parsed = parseArgs(program, args, options);
    if ("reason" in parsed) return parsed;
    const arrays = parsed.given.flatMap(({ name, value }) => (name === "-a" && value ? [value] : []));
    const wrong = [...parsed.operands, ...arrays].find(({ value }) => value === null || !maySet(value));
    return wrong ? asks(`this variable could change how programs run`, wrong) : null;
  };

const set = (args: readonly Arg[]): Problem | null => {
  const wrong = args.find(({ value }, index) => {
    const named =
      (args[index - 1]?.value ?? "").endsWith("o") &&
      /^(?:pipefail|errexit|nounset|noglob|xtrace|noclobber)$/.test(value ?? "");
    return !named && !/^[-+][eufxC]*o?$/.test(value ?? "");
  });
  return wrong || args.length === 0 ? asks("this could change how the shell works", wrong) : null;
};

const numbers = (args: readonly Arg[]): Problem | null => {
  const wrong = args.find(({ value, source }) => !/^\d+$/.test(value ?? "") && source !== "$?");
  return wrong ? asks("this is not a plain number", wrong) : null;
};

const carry =
  (program: string, options: string, skip = 0): Special =>
  (args, judge) => {
    const parsed = parseArgs(program, args, options, "stop");
    if ("reason" in parsed) return parsed;
    const [first] = parsed.operands;
    if (parsed.operands.slice(0, skip).some(({ value }) => value === null))
      return unknown(program, first?.source ?? "");
    return parsed.operands.length > skip ? judge(parsed.operands.slice(skip)) : unknown(program, "");
  };

const env: Special = (args, judge) => {
  const start = args[0]?.value === "-i" ? 1 : 0;
  const at = args.findIndex(({ value, prefix }, index) => index >= start && !/^\w+=/.test(value ?? prefix));
  const assigned = args.slice(start, at < 0 ? args.length : at);
  for (const arg of assigned) {
    const [name = "", ...value] = (arg.value ?? "").split("=");
    if (arg.value === null || !mayExport(name, { ...arg, value: value.join("=") }))
      return asks("this variable could change how programs run", arg);
  }
  if (at < 0) return null;
  return args[at]?.operand ? judge(args.slice(at)) : unknown("env", args[at]?.source ?? "");
};

const XARGS = `
    -0rtx -n: -L: -P: -d: -s: -I: --null --no-run-if-empty --verbose --max-args= --max-lines= --max-procs=
    --max-chars= --delimiter=`;

const xargs: Special = (args, judge) => {
  const parsed = parseArgs("xargs", args, XARGS, "stop");
  if ("reason" in parsed) return parsed;
  const mark = parsed.given.find(({ name }) => name === "-I")?.value;
  if (parsed.operands.length === 0) return null;
  if (mark === undefined || mark === null) return judge([...parsed.operands, UNSEEN]);
  if (!mark.value) return asks("what would be replaced is not clear", mark);
  return judge(parsed.operands.map((arg) => replaced(arg, mark.value ?? "")));
};

/** A word into which a program inserts text of its own. */
const replaced = (arg: Arg, mark: string, safe = false): Arg => {
  if (arg.value !== null && !arg.value.includes(mark)) return arg;
  const prefix = arg.value === null ? "" : arg.value.slice(0, arg.value.indexOf(mark));
  const operand = prefix === "" ? safe && arg.value !== null : !prefix.startsWith("-");
  return { source: arg.source, value: null, operand, prefix, many: false };
};

const FIND_FLAGS = oneOf(`
  -depth -d -empty -nouser -nogroup -readable -writable -executable -print -print0 -ls -prune -quit -not -a -and -o
  -or -true -false -follow -xdev -mount -noleaf -daystart -warn -nowarn -ignore_readdir_race -noignore_readdir_race
  [()!,]`);
const FIND_VALUES = oneOf(`
  -i?name -i?path -i?wholename -i?regex -regextype -i?lname -type -xtype -size -[acm]time -[acm]min
  -newer(?:[aBcm][aBcmt])? -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile
  -fstype -used -printf`);

const find: Special = (args, judge) => {
  let at = 0;
  while (/^-(?:[HLPEXsx]|O\d)$/.test(args[at]?.value ?? "")) at += 1;
  let roots = true;
  for (; at < args.length; at++) {
    const arg = args[at];
    const word = arg?.value ?? null;
    if (!arg) break;
    if (roots && arg.operand && !/^[()!,]$/.test(word ?? "")) continue;
    roots = false;
    if (word === null) return asks("this could become an action of find when it runs", arg);
    if (FIND_FLAGS.test(word)) continue;
    if (FIND_VALUES.test(word)) {
      at += 1;
      const value = args[at];
      if (!value || value.many || /^-(?!\d)/.test(value.value ?? ""))
        return asks("the value of this test is not clear", arg);
      continue;
    }
    if (word !== "-exec") return asks("with this action `find` may do more than search, so approval is needed", arg);
    const rest = args.slice(at + 1);
    const end = rest.findIndex(({ value }) => value === ";" || value === "+");
    if (end < 1) return asks("the command of find has no end", arg);
    // What find inserts begins with a starting point, so it cannot be an option.
    const problem = judge(rest.slice(0, end).map((inner) => replaced(inner, "{}", true)));
    if (problem) return problem;
    at += end + 1;
  }
  return null;
};

const command: Special = (args, judge) => {
  if (/^-[vV]$/.test(args[0]?.value ?? "")) return null;
  return args.length > 0 && args[0]?.operand ? judge(args) : unknown("command", args[0]?.source ?? "");
};

export const SPECIAL: Record<string, Special> = {
  ...entries("cd pushd popd", () => null),
  test,
  "[": (args) => (args.at(-1)?.value === "]" ? test(args.slice(0, -1)) : asks("this test has no end", args.at(-1))),
  printf,
  read: names("read", "-rs -p: -n: -N: -t: -d: -u: -a:"),
  mapfile: names("mapfile", "-t -n: -s: -d:"),
  readarray: names("readarray", "-t -n: -s: -d:"),
  set,
  ...entries("exit return break continue shift", numbers),
  export: (args) =>
    args.length === 0 || sourceOf(args) === "-p" ? null : asks("this variable could change how programs run", args[0]),
  command,
  builtin: (args, judge) => (args[0]?.operand ? judge(args) : unknown("builtin", "")),
  timeout: carry("timeout", "-v -s: -k: --verbose --foreground --preserve-status --signal= --kill-after=", 1),
  nice: carry("nice", "-n: -#"),
  env,
  xargs,
  find,
};
