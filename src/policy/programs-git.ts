// Git commands that only read. Left out on purpose: --output, --ext-diff, --textconv, --open-files-in-pager, -C, -c,
// --git-dir, --exec-path, --upload-pack, and every subcommand that talks to another machine.
import { type Problem, wasGiven } from "./options.ts";
import type { Program } from "./program.ts";
import { entries } from "./table.ts";

const DIFF = `
    -pusabwzRWtcm -U: -M? -C? -D? -B? -l: -S: -G: --stat? --numstat --shortstat --name-only --name-status --summary
    --patch --no-patch --patch-with-stat --raw --minimal --patience --histogram --diff-algorithm= --anchored=
    --color? --no-color --color-words? --color-moved? --word-diff? --word-diff-regex= --no-ext-diff --no-textconv
    --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-space-at-eol --ignore-cr-at-eol
    --ignore-matching-lines= --function-context --unified= --inter-hunk-context= --diff-filter= --find-renames?
    --find-copies? --find-copies-harder --find-object= --no-renames --full-index --abbrev? --no-abbrev --binary
    --text --exit-code --quiet --relative? --no-relative --no-prefix --src-prefix= --dst-prefix= --line-prefix=
    --dirstat? --check --cached --staged --merge-base --submodule? --ignore-submodules? --compact-summary --cc
    --combined-all-paths --no-index --pickaxe-all --pickaxe-regex --stat-width= --stat-name-width= --stat-count=
    --stat-graph-width= --indent-heuristic --ita-invisible-in-index --ours --theirs --base`;
const LOG = `
  ${DIFF} -# -n: -g -i -E -F -P -L: -q -e --oneline --graph --no-graph --decorate? --no-decorate --decorate-refs=
  --decorate-refs-exclude= --clear-decorations --all --branches? --tags? --remotes? --glob= --exclude= --max-count=
  --skip= --since= --after= --until= --before= --since-as-filter= --author= --committer= --grep= --grep-reflog=
  --invert-grep --all-match --regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings --perl-regexp
  --merges --no-merges --first-parent --exclude-first-parent-only --min-parents= --max-parents= --no-min-parents
  --no-max-parents --reverse --date= --relative-date --format= --pretty? --abbrev-commit --no-abbrev-commit
  --encoding= --expand-tabs? --no-expand-tabs --follow --full-history --simplify-merges --simplify-by-decoration
  --show-pulls --ancestry-path? --topo-order --date-order --author-date-order --left-right --cherry --cherry-pick
  --cherry-mark --left-only --right-only --boundary --walk-reflogs --source --notes? --no-notes --children --parents
  --dense --sparse --full-diff --remove-empty --no-walk? --count --not --mailmap --no-mailmap --use-mailmap
  --diff-merges= --no-diff-merges --remerge-diff --log-size --timestamp --objects --objects-edge --no-commit-header
  --merge --reflog --ignore-missing --bisect --left-right`;
const GREP = `
    -nilcwvEFPGHhLzpWqaIro -e: -A: -B: -C: -m: --cached --untracked --no-index --name-only --files-with-matches
    --files-without-match --count --line-number --column --heading --break --color? --no-color --and --or --not
    --all-match --max-depth= --max-count= --show-function --function-context --word-regexp --ignore-case
    --invert-match --extended-regexp --basic-regexp --fixed-strings --perl-regexp --only-matching --recursive
    --no-recursive --full-name --text --null --quiet --threads= --context= --after-context= --before-context=
    --exclude-standard --no-exclude-standard`;
const STATUS = `
    -sbvz -u? -M? --short --branch --porcelain? --long --verbose --untracked-files? --ignored? --show-stash
    --ahead-behind --no-ahead-behind --renames --no-renames --find-renames? --column? --no-column
    --ignore-submodules? --null`;
const BLAME = `
    -wltefnpsbcC -L: -M? -S: --line-porcelain --porcelain --incremental --root --show-stats --show-email --show-name
    --show-number --since= --date= --ignore-rev= --ignore-revs-file= --color-lines --color-by-age --abbrev=
    --reverse --first-parent --minimal --encoding= --score-debug`;
const REFS = `
    --list --sort= --format= --contains? --no-contains? --merged? --no-merged? --points-at= --column? --no-column
    --color? --no-color --ignore-case -i -l`;
const CONFIG = `
    -lz --get= --get-all= --get-regexp= --get-urlmatch= --list --show-origin --show-scope --name-only --global
    --local --system --worktree --type= --bool --int --bool-or-int --path --null --default= --includes --no-includes`;
const LOOSE = `
    rev-parse ls-files ls-tree show-ref merge-base name-rev describe for-each-ref count-objects check-ignore check-attr
    check-ref-format cherry show-branch var version`;

/** Without one of these options, a name would create a branch or tag. */
const listing =
  (...names: string[]): NonNullable<Program["check"]> =>
  ({ operands, given }) =>
    operands.length === 0 ||
    wasGiven(given, ...names, "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
      ? null
      : makes(operands.map(({ source }) => source).join(" "));

const makes = (source: string): Problem => ({ reason: "by this name it could make or change something", source });

const reads: NonNullable<Program["check"]> = ({ operands, given }) => {
  const asks = given.some(({ name }) => name.startsWith("--get"));
  const [first, second] = operands;
  if (operands.some(({ many }) => many)) return makes(first?.source ?? "");
  const verb = first?.value === "get" || first?.value === "list";
  if (operands.length <= (asks || verb ? 2 : 1)) return null;
  return makes(second?.source ?? "");
};

const noVerb =
  (verbs: RegExp): NonNullable<Program["check"]> =>
  ({ operands: [first] }) =>
    first && (first.value === null || verbs.test(first.value)) ? makes(first.source) : null;

export const GIT: Program = {
  options: `
      -Pv --no-pager --no-optional-locks --literal-pathspecs --no-replace-objects --icase-pathspecs --glob-pathspecs
      --version --html-path --man-path --info-path`,
  subs: {
    status: { options: STATUS },
    diff: { options: DIFF },
    ...entries("log show rev-list", { options: LOG }),
    shortlog: { options: `${LOG.replace(/\s-n:\s/, " ")} -sne --summary --numbered --email --group=` },
    "range-diff": { options: `${DIFF} --creation-factor= --no-dual-color --left-only --right-only` },
    "diff-tree": { options: `${DIFF} -r --root --no-commit-id --pretty? --format=` },
    "diff-index": { options: `${DIFF} -m` },
    "diff-files": { options: `${DIFF} -q -0 -1 -2 -3` },
    ...entries("blame annotate", { options: BLAME }),
    grep: { options: GREP },
    branch: {
      options: `${REFS} -arvq --all --remotes --verbose --show-current --abbrev? --no-abbrev`,
      check: listing("--list"),
    },
    tag: { options: `${REFS} -n?`, check: listing("--list", "-l") },
    remote: { bare: true, options: "-v --verbose", subs: { "get-url": { options: "--all --push" } } },
    stash: { subs: { list: { options: LOG }, show: { options: `${DIFF} --include-untracked --only-untracked` } } },
    config: { options: CONFIG, check: reads },
    reflog: { options: LOG, check: noVerb(/^(?:expire|delete|drop|write)$/) },
    worktree: { subs: { list: { options: "-vz --porcelain --verbose" } } },
    notes: { subs: { list: {}, show: {} } },
    "cat-file": {
      options:
        "-tsep --batch? --batch-check? --batch-all-objects --unordered --buffer --follow-symlinks --allow-unknown-type",
    },
    "symbolic-ref": { options: "-q --short --quiet --recurse --no-recurse", most: 1 },
    ...entries(LOOSE, { loose: true }),
  },
};
