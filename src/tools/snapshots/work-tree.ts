// The files of the workspace as git trees, created and restored in the sandbox. Git works in a directory of ours:
// nothing is written to the repository. Programs and conversions that its configuration and attributes name (filters,
// fsmonitor, line ends) are not applied, so a tree has the exact bytes. Of the repository we use its objects, its index
// at first, and its ignore rules.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../../core/errors.ts";
import type { FileChanges } from "../../core/runtime.ts";
import { plain } from "../../platform/fence.ts";
import { replaceFile } from "../../platform/home.ts";
import { findProgram, pathWithout } from "../../platform/programs.ts";
import { linkedRepo } from "../sandbox/repos.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { type ExecOptions, type Result, run } from "../shell/exec.ts";
import { USUAL_LIMITS } from "../shell/limits.ts";

export type WorkTree = {
  /** Takes a tree of the present files. */
  take(signal?: AbortSignal): Promise<Taken>;
  /** The changes from `from` to `to`. */
  compare(from: string, to: string): Promise<TreeChange[]>;
  /** For people: which files differ, and how. */
  diff(from: string, to: string): Promise<FileChanges>;
  /** The tree that was taken last, with these changes applied. */
  change(changes: readonly TreeChange[]): Promise<string>;
  /** Changes the files of the workspace from `from`, the tree that was taken last, to `to`, for a session. */
  turnTo(turning: Turning, sandbox: Sandbox): Promise<void>;
  /** The change in the middle of which hermes was killed. */
  unfinished(): Turning | null;
  /** It is not to be finished. */
  giveUp(): void;
  /** Whether a file is the beginning of another: git was ended while it wrote it. Both: mode and object. */
  isBeginning(now: string, whole: string): Promise<boolean>;
  /** Deletes objects that belong to none of these trees. Returns the kilobytes that are left. */
  keepOnly(trees: readonly string[]): Promise<number>;
};
const Turning = z.object({ from: z.string(), to: z.string(), session: z.string() });
export type Turning = z.output<typeof Turning>;
/** `passing`: the next attempt may succeed. */
type Taken = { tree: string } | { why: string; passing: boolean };
/** `path` is quoted as git does it. `before` and `after`: mode and object, "0 …" for no file. */
export type TreeChange = { path: string; before: string; after: string };

const TAKE_MS = 5_000;
const MOST_DIFF = 30_000;
const GIT_MS = 30_000;
/** Characters of names: about 100,000 files. */
const MOST_CHANGES = 16_000_000;
const TOO_MUCH = 4;

/** `dir`: our directory below HERMES_HOME. */
export function createWorkTree(options: {
  workspace: string;
  dir: string;
  sandbox: Sandbox;
  owner: string;
  takeMs?: number;
}): WorkTree {
  const { dir, sandbox, owner, takeMs = TAKE_MS } = options;
  const workspace = realpathSync(options.workspace);
  const turningFile = join(dir, "turning");
  const env = { PATH: pathWithout(sandbox.writable, process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin") };

  async function git(script: string, args: readonly string[], more: Partial<ExecOptions> = {}): Promise<Result> {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const linked = await linkedRepo(workspace);
    const reading: Sandbox = {
      hidden: sandbox.hidden,
      readable: [...(sandbox.readable ?? []), workspace, ...(linked ? [linked] : [])],
      writable: [dir],
    };
    return run(["/bin/sh", "-c", `${ENTER}${script}`, "sh", findProgram("git") ?? "git", dir, ...args], {
      cwd: workspace,
      sandbox: reading,
      env,
      owner,
      marker: randomBytes(8).toString("hex"),
      timeoutMs: GIT_MS,
      limits: USUAL_LIMITS,
      ...more,
    });
  }

  async function gitOrThrow(...given: Parameters<typeof git>): Promise<string> {
    const { code, output, truncated } = await git(...given);
    if (code === 0 && !truncated) return output.trim();
    throw new Error(truncated ? "there are too many changes" : output.trim() || `git ended with code ${code}`);
  }

  return {
    async take(signal) {
      if (!findProgram("git")) return { why: "git is not installed", passing: false };
      try {
        const { code, output, timedOut } = await git(TAKE, [], { timeoutMs: takeMs, signal });
        const tree = output.trim();
        if (code === 0 && isTree(tree)) return { tree };
        if (code === TOO_MUCH) return { why: "more than 200 MB have changed or are new", passing: false };
        if (timedOut) return { why: `it takes longer than ${takeMs / 1000} s`, passing: false };
        return { why: tree || `git ended with code ${code}`, passing: true };
      } catch (error) {
        return { why: messageOf(error), passing: true };
      }
    },
    async compare(from, to) {
      const told = await gitOrThrow('git diff-tree -r --raw --no-renames --no-abbrev "$2" "$3"', [from, to], {
        capBytes: MOST_CHANGES,
      });
      return told.split("\n").flatMap(changeIn);
    },
    async diff(from, to) {
      const { code, output, truncated } = await git(DIFF, [from, to], { capBytes: MOST_DIFF });
      if (code !== 0 && !truncated) throw new Error(output.trim() || `git ended with code ${code}`);
      const [summary = "", ...patch] = plain(output).split(/\n(?=diff --git )/);
      const cut = truncated ? "\n[… it is longer …]" : "";
      return { summary: summary.trimEnd(), patch: `${patch.join("\n").trimEnd()}${cut}` };
    },
    async change(changes) {
      // Deletions first: a file may have replaced a directory.
      const sides = changes.map(({ after, path }) => `${after}\t${path}`).toSorted();
      return gitOrThrow(CHANGE, [], { stdin: { text: `${sides.join("\n")}\n` } });
    },
    async turnTo(turning, writing) {
      const all = { ...writing, writable: [...writing.writable, dir] };
      replaceFile(turningFile, JSON.stringify(turning));
      try {
        await gitOrThrow('git read-tree -m -u "$2" "$3"', [turning.from, turning.to], { sandbox: all });
      } finally {
        this.giveUp();
      }
    },
    unfinished: () => (existsSync(turningFile) ? Turning.parse(JSON.parse(readFileSync(turningFile, "utf8"))) : null),
    giveUp: () => rmSync(turningFile, { force: true }),
    async isBeginning(now, whole) {
      const [id = "", wholeId = ""] = [now, whole].map((side) => side.split(" ")[1]);
      return (await gitOrThrow(BEGINNING, [id, wholeId])) === id;
    },
    keepOnly: async (trees) => Number(await gitOrThrow(KEEP, trees)),
  };
}

const isTree = (text: string) => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);

/** Repositories inside the workspace (mode 160000) are skipped. */
function changeIn(line: string): TreeChange[] {
  const [, mode, newMode, id, newId, path] = /^:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*\t(.+)$/.exec(line) ?? [];
  if (path === undefined || mode === "160000" || newMode === "160000") return [];
  return [{ path, before: sideOf(mode, id), after: sideOf(newMode, newId) }];
}
const sideOf = (mode = "", id = "") => `${Number(mode) === 0 ? "0" : mode} ${id}`;

/** A file name for people. */
export function unquoted(path: string): string {
  if (!path.startsWith('"')) return path;
  const bytes = [...path.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\])/g)].map(([, octal, short, plain]) =>
    octal === undefined ? (plain ?? SHORT[short ?? ""] ?? short ?? "").charCodeAt(0) : Number.parseInt(octal, 8),
  );
  return Buffer.from(bytes).toString("utf8");
}
const SHORT: Record<string, string> = { a: "\x07", b: "\b", t: "\t", n: "\n", v: "\v", f: "\f", r: "\r" };

// ── Scripts: $1 is our directory ──────────────────────────────────────────────────────────────────────

/** Git's output goes to a file and is shown only on failure. A lock that exists was left by a git that was ended. The
 *  repository may be hostile: no file that it makes us copy is larger than 200 MB (in blocks of 512 bytes). */
const ENTER = `
set -eu
program=$1; shift
dir=$1
git() { "$program" "$@"; }
exec 2>"$dir/said"
trap 'code=$?; [ $code = 0 ] || tail -c 500 "$dir/said"' EXIT
ulimit -f 400000
for lock in "$1"/*.lock; do if [ -e "$lock" ]; then rm -f "$lock"; fi; done
asked="--show-object-format --show-toplevel --git-path objects --git-path index --git-path info/exclude"
found=$(git rev-parse --path-format=absolute $asked) || found="sha1
$PWD


"
{ read -r format; read -r top; read -r objects; read -r index; read -r exclude; } <<FOUND
$found
FOUND
export GIT_DIR="$1" GIT_WORK_TREE="$top" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
`;

/** The index of the repository knows which files are unchanged since their commit, so those are not read. Entries
 *  that are stored in another form than the files (filters, line ends) are left out. The index must stay older than
 *  its copy: git uses that to see which files may have changed after it was written. */
const BEGIN = `
git init -q --template= --object-format="$format"
git config core.fsyncMethod batch
git config core.untrackedCache false
git config core.splitIndex false
mkdir -p "$1/info" "$1/objects/info"
if [ -f "$index" ]; then
  cp -p "$index" "$1/index"
  text=':(top,exclude,attr:!text)'
  case $(unset GIT_DIR GIT_WORK_TREE GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM; git config core.autocrlf) in true | input) text=.;; esac
  { git ls-files -- ':(top,exclude,attr:!filter !ident !eol !working-tree-encoding)' > "$1/converted" &&
    git ls-files --eol -- "$text" > "$1/ends" &&
    sed -n -e 's:^[^ ]* *w/crlf [^\\t]*\\t::p' -e 's:^[^ ]* *w/mixed [^\\t]*\\t::p' "$1/ends" >> "$1/converted" &&
    git update-index --force-remove --stdin < "$1/converted"; } || rm -f "$1/index"
fi
echo '* -text !eol !filter !ident !working-tree-encoding' > "$1/info/begun"
mv "$1/info/begun" "$1/info/attributes"
`;

/** In a directory without a repository, besides what its `.gitignore` names. */
const PLAIN_IGNORED = ["node_modules/", ".venv/", "venv/", "__pycache__/", ".cache/"];

/** Readable files up to 20 MB (in blocks of 512 bytes), 200 MB in all. Names get a `./`, so that none is an option.
 *  If nothing has changed, four processes are enough. If an object of the repository is gone by now, all files are
 *  read; the same happens, the next time, for an index that git cannot use. */
const TAKE = `
trap 'code=$?; case $code in 0 | ${TOO_MUCH}) ;; *) tail -c 500 "$dir/said"; rm -f "$dir/index";; esac' EXIT
look() {
  git ls-files -z -d > "$1/gone"
  git ls-files -z -o -m --exclude-standard > "$1/other"
  if [ -s "$1/gone" ]; then git update-index -z --force-remove --stdin < "$1/gone"; fi
  if [ -s "$1/other" ]; then
    xargs -0 sh -c 'for f; do if [ -h "$f" ] || [ -r "$f" ]; then printf "./%s\\0" "$f"; fi; done' sh < "$1/other" |
      xargs -0 -r sh -c 'find "$@" -maxdepth 0 "(" -type l -o -type f -size -40961 ")" -print0 || :' sh > "$1/new"
    xargs -0 -r stat -c %s < "$1/new" |
      { sum=0; while read -r size; do sum=$((sum + size)); done; [ $sum -le 200000000 ]; } || exit ${TOO_MUCH}
    git update-index -z --add --remove --replace --stdin < "$1/new"
  fi
}
if [ ! -f "$1/info/attributes" ]; then ${BEGIN}
fi
if [ -n "$objects" ]; then printf '%s\\n' "$objects" > "$1/objects/info/alternates"
elif [ ! -f "$1/info/exclude" ]; then printf '%s\\n' ${PLAIN_IGNORED.join(" ")} > "$1/info/exclude"; fi
if [ -f "$exclude" ] && [ "$exclude" -nt "$1/info/exclude" ]; then head -c 1000000 "$exclude" > "$1/info/exclude"; fi
look "$1"
git write-tree || { rm -f "$1/index"; look "$1"; git write-tree; }
`;

const BEGINNING = 'git cat-file blob "$3" | head -c "$(git cat-file -s "$2")" | git hash-object --stdin';

const DIFF = 'git diff-tree -r --stat=100 -p --no-renames --no-color --no-ext-diff --no-textconv "$2" "$3"';

const CHANGE = `
cp "$1/index" "$1/changed"
export GIT_INDEX_FILE="$1/changed"
git update-index --index-info
git write-tree
`;

const KEEP = `
shift
for tree; do
  shift
  if git cat-file -e "$tree"; then set -- "$@" "$tree"; fi
done
git prune --expire=now "$@"
du -sk "$dir" | cut -f 1
`;
