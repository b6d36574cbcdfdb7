// Without a sandbox, a command runs unasked only if every part of it is known to read and show only.
import { SPECIAL } from "./builtins.ts";
import type { Problem } from "./options.ts";
import { absolute } from "./paths.ts";
import { judgeProgram, type Program, unknown } from "./program.ts";
import { DEV } from "./programs-dev.ts";
import { FILES } from "./programs-files.ts";
import { GIT } from "./programs-git.ts";
import { SYSTEM } from "./programs-system.ts";
import type { CommandReading, Redirect, Simple } from "./reading.ts";
import { isOddDevice, looksSecret } from "./secrets.ts";
import { own } from "./table.ts";
import type { Arg, CommandPlace } from "./types.ts";
import { mayExport, maySet } from "./variables.ts";

export type Finding = { reason: string; part: string };
/** The user's own rules; `cwd`: where the command would run, if known. */
export type Allowed = (argv: readonly Pick<Arg, "value">[], cwd: string | undefined) => boolean;
type ReadContext = { place: CommandPlace; defined: Set<string>; moved: boolean; allowed: Allowed };

const PROGRAMS: Record<string, Program> = { ...DEV, ...SYSTEM, ...FILES, git: GIT };

/** The parts that are not proven harmless. */
export const findHarms = (reading: CommandReading, place: CommandPlace, allowed: Allowed): Finding[] => {
  const found: Finding[] = reading.doubts.map(({ reason, source }) => ({ reason, part: source }));
  const cx: ReadContext = { place, allowed, defined: new Set(), moved: moves(reading, place) };
  for (const redirect of reading.redirects) {
    const reason = judgeRedirect(redirect);
    if (reason !== null) found.push({ reason, part: redirect.source });
  }
  for (const step of reading.steps) {
    if (step.step === "loop" && !maySet(step.name))
      found.push({ reason: "setting this variable could change how programs run", part: step.source });
    if (step.step === "function" && step.sure) cx.defined.add(step.name);
    if (step.step !== "command") continue;
    const finding = judgeAssigns(step.command) ?? inPlace(judge(step.command.argv, cx), step.command);
    if (finding) found.push(finding);
  }
  return found;
};

const inPlace = (problem: Problem | null, { source }: Simple): Finding | null =>
  problem && {
    reason: problem.reason,
    part: problem.source === "" || problem.source.includes("…") ? source : problem.source,
  };

const judge = (argv: readonly Arg[], cx: ReadContext, depth = 0): Problem | null => {
  const [program, ...args] = argv;
  if (!program || cx.allowed(argv, cx.moved ? undefined : cx.place.cwd)) return null;
  const name = program.value;
  if (name === null) return { reason: "which program this is will be known only when it runs", source: program.source };
  if (name.includes("/"))
    return { reason: "programs are known by name, not by where a file lies", source: program.source };
  if (depth > 8) return unknown(name, "");
  // A program that runs another command runs the program, not the shell function of that name.
  if (depth === 0 && cx.defined.has(name)) return null;
  const special = own(SPECIAL, name);
  const known = own(PROGRAMS, name);
  if (special) {
    const problem = special(args, (inner) => judge(inner, cx, depth + 1));
    return problem ?? (opens(name, args) ? secretIn(args) : null);
  }
  if (!known) return unknown(name, "");
  if (name === "git" && cx.moved && args[0]?.value !== "--version")
    return { reason: "git obeys the configuration it finds in the directory this changes to", source: "" };
  return judgeProgram(name, known, name === "tar" ? dashed(args) : args) ?? (known.names ? null : secretIn(args));
};

const opens = (name: string, args: readonly Arg[]): boolean =>
  name === "cd" || name === "pushd" || (name === "find" && args.some(({ value }) => value === "-exec"));

/** `tar tzf x` is `tar -tzf x`, as long as the letter that takes a value is the last. */
const dashed = (args: readonly Arg[]): readonly Arg[] => {
  const [first, ...rest] = args;
  const letters = first?.value ?? "";
  return first && /^[tvzjJa]+f?$/.test(letters) ? [{ ...first, value: `-${letters}`, operand: false }, ...rest] : args;
};

const secretIn = (args: readonly Arg[]): Problem | null => {
  for (const { value, prefix, source } of args) {
    const path = value ?? prefix;
    const written = value === null ? source.replace(/["']/g, "") : path;
    for (const text of [path, written, path.slice(path.indexOf("=") + 1), path.slice(path.lastIndexOf(":") + 1)]) {
      if (looksSecret(text)) return { reason: "this looks like a file with secrets", source };
      if (isOddDevice(text) || isOddDevice(absolute(text, {}) ?? ""))
        return { reason: "reading from a device could do something", source };
    }
  }
  return null;
};

const judgeAssigns = ({ assigns, argv }: Simple): Finding | null => {
  for (const { name, value, source, plain } of assigns) {
    const exported = argv.length > 0;
    // How `read` splits a line; it applies to that command only.
    if (name === "IFS" && plain && argv[0]?.value === "read") continue;
    if (!plain || !(exported ? mayExport(name, value) : maySet(name) || mayExport(name, value)))
      return { reason: "setting this variable could change how programs run", part: source };
  }
  return null;
};

const judgeRedirect = ({ operator, target }: Redirect): string | null => {
  if (operator.startsWith("<<")) return null;
  const path = target?.value ?? null;
  const descriptor = operator === ">&" || operator === "<&";
  if (descriptor && /^(?:\d+|-)$/.test(path ?? "")) return null;
  if (operator === "<") {
    if (target?.prefix === "/dev/fd/") return null;
    const from = path ?? (target?.operand && !target.many ? target.prefix : null);
    if (from === null) return "what it reads will be known only when it runs";
    if (looksSecret(from)) return "this looks like a file with secrets";
    return isOddDevice(from) ? "reading from a device could do something" : null;
  }
  return path === "/dev/null" && operator !== "<>" && operator !== "<&" ? null : "it writes a file";
};

/** Whether a `cd` leads away from the directory where the command starts. */
const moves = ({ steps }: CommandReading, place: CommandPlace): boolean =>
  steps.some((step) => {
    if (step.step !== "command") return false;
    const { argv } = step.command;
    const at = argv.findIndex(({ value }) => !/^(?:command|builtin)$/.test(value ?? ""));
    if (!/^(?:cd|pushd|popd)$/.test(argv[at]?.value ?? "")) return false;
    const target = argv[at + 1]?.value ?? null;
    return target === null || place.cwd === undefined || absolute(target, place) !== absolute(place.cwd, {});
  });
