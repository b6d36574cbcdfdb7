// Git commands that destroy work, rewrite history, reach another machine, or make git run something later.
import type { DangerRule } from "./dangerous.ts";
import { entries, has, oneOf, own } from "./table.ts";

const REWRITES = "it rewrites or throws away history";
const DISCARDS = "it throws away changes that are nowhere else";
const PUSHES = "it changes a repository on another machine";
const CONFIGURES = "git would run or trust this from now on";

/** Options before the subcommand that take a value. */
const VALUED = /^(?:-C|-c|--git-dir|--work-tree|--namespace|--exec-path|--super-prefix|--config-env)$/;
const SAFE_KEY = oneOf(
  String.raw`
  user\.(?:name|email) color\..* advice\..*
  core\.(?:quotepath|autocrlf|eol|filemode|longpaths|ignorecase|abbrev|safecrlf) init\.defaultbranch
  pull\.(?:rebase|ff) push\.(?:default|autosetupremote) merge\.(?:conflictstyle|ff) rebase\.autostash
  diff\.(?:algorithm|renames|colormoved) fetch\.prune commit\.(?:gpgsign|verbose) tag\.gpgsign log\..* status\..*
  branch\..* rerere\.enabled gc\.auto http\.postbuffer column\.ui help\.autocorrect versionsort\..* safe\.directory`,
  "i",
);

type GitCheck = (args: readonly string[]) => string | null;
const when =
  (reason: string, wanted: RegExp): GitCheck =>
  (args) =>
    has(args, wanted) ? reason : null;
const first =
  (reason: string, wanted: RegExp): GitCheck =>
  (args) =>
    wanted.test(args.find((arg) => !arg.startsWith("-")) ?? "") ? reason : null;
const always = (names: string, reason: string) => entries<GitCheck>(names, () => reason);

const restore: GitCheck = (args) => {
  const staged = has(args, /^(?:--staged|-S)$/) && !has(args, /^(?:--worktree|-W)$/);
  return staged ? null : DISCARDS;
};
const config: GitCheck = (args) => {
  const reads = has(args, /^(?:--get.*|--list|-l|get|list|--show-origin)$/);
  const keys = args.filter((arg) => !arg.startsWith("-") && !/^(?:set|unset|get|list)$/.test(arg));
  if (
    reads ||
    keys.length === 0 ||
    (keys.length === 1 && !has(args, /^(?:--unset.*|unset|--edit|-e|--remove.*|--rename.*)$/))
  )
    return null;
  if (has(args, /^(?:--edit|-e|--file.*|-f|--system)$/)) return CONFIGURES;
  return SAFE_KEY.test(keys[0] ?? "") ? null : CONFIGURES;
};
const remote: GitCheck = (args) =>
  /^(?:add|set-url|rename|remove|rm)$/.test(args[0] ?? "") ? "it changes where work is sent" : null;

const COMMANDS: Record<string, GitCheck> = {
  ...always("push send-email send-pack request-pull", PUSHES),
  lfs: first(PUSHES, /^(?:push|migrate|prune)$/),
  svn: first(PUSHES, /^(?:dcommit|set-tree)$/),
  reset: when(DISCARDS, /^--(?:hard|merge|keep)$/),
  clean: when("it deletes files that git does not know", /^-(?!-)\w*[fdxX]|^--force$/),
  rebase: (args) => (has(args, /^--(?:abort|quit|show-current-patch)$/) ? null : REWRITES),
  ...always("filter-branch filter-repo replace fast-import update-ref prune prune-packed", REWRITES),
  branch: when(REWRITES, /^-(?!-)\w*[dDMCf]|^--(?:delete|force|move)/),
  tag: when(REWRITES, /^-(?!-)\w*[dfF]$|^--(?:delete|force)$/),
  reflog: first(REWRITES, /^(?:expire|delete|drop)$/),
  gc: when(REWRITES, /^--(?:prune|aggressive)/),
  stash: first(DISCARDS, /^(?:drop|clear)$/),
  checkout: when(DISCARDS, /^(?:-f|--force|-B|--discard-changes|--ours|--theirs|\.|:\/|\*|--)$/),
  switch: when(DISCARDS, /^(?:-f|--force|-C|--discard-changes|--force-create)$/),
  restore,
  rm: when("it deletes a directory with everything in it", /^-(?!-)\w*r/),
  worktree: first(DISCARDS, /^(?:remove|prune)$/),
  submodule: first(DISCARDS, /^(?:deinit|foreach)$/),
  config,
  remote,
  ...always("credential credential-store", "it handles passwords"),
  ...always("daemon instaweb", "it opens a way in from outside"),
  commit: when("it skips the checks of the repository", /^(?:--no-verify|-(?!-)[a-zA-Z]*n[a-zA-Z]*)$/),
  merge: when("it skips the checks of the repository", /^--no-verify$/),
  bisect: first("it runs a command for every step", /^run$/),
};

export const git: DangerRule = (args) => {
  let at = 0;
  const set: string[] = [];
  for (; at < args.length && args[at]?.startsWith("-"); at++) {
    if (args[at] === "-c") set.push((args[at + 1] ?? "").split("=")[0] ?? "");
    if (VALUED.test(args[at] ?? "")) at += 1;
  }
  const [name = "", ...rest] = args.slice(at);
  if (set.some((key) => !SAFE_KEY.test(key))) return "git would run or trust what is given here";
  return own(COMMANDS, name)?.(rest) ?? null;
};
