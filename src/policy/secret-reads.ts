// Without a sandbox: whether a command could read a secret, through variables, loops, patterns, pipes into xargs, or
// `cd`. A name that is known only at run time must come from a program that lists files which are not secret.
import { baseName } from "./carriers.ts";
import type { Finding } from "./harmless.ts";
import { UNKNOWN } from "./possible.ts";
import { FILES } from "./programs-files.ts";
import type { Reach, Reached } from "./reach.ts";
import type { CommandReading, Simple } from "./reading.ts";
import { holdsSecrets, looksSecret, maySecret } from "./secrets.ts";
import { entries, oneOf, own, wordsOf } from "./table.ts";
import type { CommandPlace } from "./types.ts";

const SECRET = "this could be a file with secrets";
const UNSEEN = "which file this reads will be known only when it runs";
const EVERYTHING = "with everything in there it would read secrets, too";

/** The first word of these that is not an option is not a file, unless an option gives the pattern or the program. */
const PATTERN_FIRST = oneOf("grep egrep fgrep zgrep rg ag sed awk gawk mawk nawk jq yq");
const GIVES_PATTERN = /^-[^-]*[ef]|^--(?:r|f|e)/;
/** Options whose value is not a file. */
const VALUED: Record<string, string[]> = {
  ...entries("head tail", wordsOf("-n -c --lines --bytes")),
  cut: wordsOf("-d -f -c -b"),
  grep: wordsOf("-A -B -C -m -e"),
  rg: wordsOf("-A -B -C -m -e -g -t"),
  sed: ["-e"],
  awk: wordsOf("-F -v"),
  sort: wordsOf("-k -t"),
};
const RECURSES: Record<string, RegExp> = {
  ...entries("grep egrep fgrep", /^-[^-]*[rRd]|^--[rd]/),
  diff: /^-[^-]*r|^--r/,
};
const ALWAYS_RECURSES = oneOf("rg ag");

/** Words of their languages that open files which no argument names. */
const LOADS: Record<string, RegExp> = { jq: /\b(?:import|include)\b/, yq: /\b(?:load|system)|\beval\s*\(/ };

/** Programs that print names of files, or nothing that could name one. */
const LISTS = oneOf(
  "ls fd fdfind pwd basename dirname realpath readlink which date seq nproc uname whoami id hostname",
);
const FILTERS = oneOf("head tail sort uniq wc shuf grep egrep fgrep rg cat tac");
/** Options of grep and rg; after these other letters comes their value. */
const PRINTS_NAMES = /^-[^-efgmtdABCD]*[lLc]|^--files/;
const GIT_LISTS = oneOf("ls-files ls-tree rev-parse merge-base branch symbolic-ref");

export const findSecretReads = (
  { commands, reads, dirs }: Reach,
  reading: CommandReading,
  place: CommandPlace,
  isAllowed: (reached: Reached) => boolean,
): Finding[] => {
  const found: Finding[] = [];
  const places = [place, ...[...dirs].map((cwd) => ({ ...place, cwd }))];
  const secret = (path: string, patterns = true) =>
    looksSecret(path) || (patterns && places.some((where) => maySecret(path, where)));

  for (const { path, part } of reads) if (secret(path)) found.push({ reason: SECRET, part });
  for (const reached of commands) {
    const reason = isAllowed(reached) ? null : reasonFor(reached);
    if (reason !== null) found.push({ reason, part: reached.part });
  }
  return found;

  function reasonFor(reached: Reached): string | null {
    const [program = "", ...args] = reached.argv;
    const name = baseName(program);
    if (name === "cd" || name === "pushd") return args.some((arg) => secret(arg)) ? SECRET : null;
    if (!opensFiles(name, args)) return null;
    if (args.some((arg) => own(LOADS, name)?.test(arg))) return "this program could read any file";
    const files = operands(name, args);
    if (args.some((arg) => secret(afterSign(arg), files.includes(arg)))) return SECRET;
    if (recurses(name, args) && rootsOf(files, reached.place).some((root) => holdsSecrets(root, reached.place)))
      return EVERYTHING;
    const unseen = files.filter((word) => word.includes(UNKNOWN));
    const given = givenBy(reached);
    if (unseen.length === 0 && !given) return null;
    const sources = given ?? sourcesOf(reached.simple, reading);
    return !sources?.length || !sources.every((source) => listsHarmless(source, source === reached.simple))
      ? UNSEEN
      : null;
  }

  /** `itself`: it runs the reader on what it finds. */
  function listsHarmless(source: Simple, itself: boolean): boolean {
    const all = commands.filter(({ simple, by }) => simple === source && by === null);
    return (
      all.length > 0 &&
      all.every(
        ({ argv, place: where }) =>
          (itself || isLister(argv, source)) &&
          !argv.some((word) => secret(word)) &&
          !(isWalk(argv) && roots(argv, where).some((root) => holdsSecrets(root, where))),
      )
    );
  }
};

const opensFiles = (name: string, args: readonly string[]): boolean =>
  name === "git" ? args.includes("--no-index") : own(FILES, name)?.names !== true && own(FILES, name) !== undefined;

/** Words that may be files. */
const operands = (name: string, args: readonly string[]): string[] => {
  const valued = own(VALUED, name) ?? [];
  const words = args.filter((arg, index) => !/^-./.test(arg) && !valued.includes(args[index - 1] ?? ""));
  const first = PATTERN_FIRST.test(name) && !args.some((arg) => GIVES_PATTERN.test(arg)) ? 1 : 0;
  return words.slice(first);
};

const recurses = (name: string, args: readonly string[]): boolean =>
  ALWAYS_RECURSES.test(name) || args.some((arg) => own(RECURSES, name)?.test(arg) === true);

const rootsOf = (words: readonly string[], { cwd }: CommandPlace): string[] =>
  words.length > 0 ? [...words] : cwd === undefined ? [] : [cwd];

/** Where it searches for names. Without a directory (with find, possibly) in the present one. */
const roots = ([program = "", ...args]: readonly string[], { cwd }: CommandPlace): string[] => [
  ...rootsOf(
    args.filter((arg) => !arg.startsWith("-")),
    { cwd },
  ),
  ...(program === "find" && cwd !== undefined ? [cwd] : []),
];

const isWalk = ([program = "", ...args]: readonly string[]): boolean =>
  /^(?:find|fd|fdfind|ls)$/.test(program) || recurses(program, args);

/** The source of its names: the find that runs it, or the pipe before its xargs. Null if there is none. */
const givenBy = ({ by, simple, argv }: Reached): Simple[] | null => {
  const carrier = carrying(by);
  if (carrier === "find") return argv.some((word) => word.includes("{}")) ? [simple] : null;
  if (carrier !== "xargs") return null;
  const chain: Simple[] = [];
  for (let before = simple.from; before; before = before.from) chain.push(before);
  return chain;
};

const carrying = (by: Reached | null): "find" | "xargs" | null => {
  const name = by ? baseName(by.argv[0] ?? "") : "";
  return name === "find" || name === "xargs" ? name : by ? carrying(by.by) : null;
};

/** The commands that produce an unknown word; null if it comes from outside this command, such as the environment. */
const sourcesOf = (simple: Simple, { steps }: CommandReading): Simple[] | null => {
  const set = new Set<string>();
  let reads = false;
  for (const step of steps) {
    if (step.step === "loop") set.add(step.name);
    if (step.step !== "command") continue;
    for (const { name } of step.command.assigns) set.add(name);
    if (!/^(?:read|mapfile|readarray)$/.test(step.command.argv[0]?.value ?? "")) continue;
    reads = true;
    for (const { value } of step.command.argv.slice(1)) if (value !== null) set.add(value);
  }
  const used = simple.words.flatMap(({ text }) =>
    [...text.matchAll(/\$\{?[#!]?([A-Za-z_]\w*)/g)].map(([, name]) => name ?? ""),
  );
  if (used.some((name) => !set.has(name) && !/^(?:HOME|PWD|OLDPWD)$/.test(name))) return null;
  const commands = steps.flatMap((step) => (step.step === "command" ? [step.command] : []));
  const sources = commands.filter(
    (one) => one !== simple && one.argv.length > 0 && (one.captured || (reads && one.piped && !isReader(one))),
  );
  return sources.length > 0 ? sources : null;
};

const isReader = ({ argv }: Simple): boolean => /^(?:read|mapfile|readarray)$/.test(argv[0]?.value ?? "");

/** Whether it prints names of files, or a selection of them. Text that is generated or taken from a file may name any
 *  file. */
const isLister = ([program = "", ...args]: readonly string[], { piped, from, redirects }: Simple): boolean => {
  const sub = args.find((arg) => !arg.startsWith("-")) ?? "";
  if (redirects.some(({ operator }) => operator.startsWith("<"))) return program === "wc";
  if (LISTS.test(program)) return true;
  if (program === "echo") return !piped;
  if (program === "find") return !args.some((arg) => /^-(?:printf|exec)/.test(arg));
  if (/^(?:rg|[ef]?grep)$/.test(program) && args.some((arg) => PRINTS_NAMES.test(arg))) return true;
  if (program === "git")
    return (
      GIT_LISTS.test(sub) || (sub === "diff" && args.includes("--name-only")) || (sub === "grep" && args.includes("-l"))
    );
  // With a file it prints the content of that file.
  return FILTERS.test(program) && from !== null && operands(program, args).every((word) => word === "-");
};

/** The value of `--file=x` and `if=x`. */
const afterSign = (arg: string): string => (/^[\w-]+=/.test(arg) ? arg.slice(arg.indexOf("=") + 1) : arg);
