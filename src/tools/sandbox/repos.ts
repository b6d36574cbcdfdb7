// Git repositories in places that the sandbox can write. Their hooks and configuration name programs that the user's
// next git runs outside any sandbox. So they cannot be changed inside, and repositories that a command creates are
// checked.
import type { Dirent, Stats } from "node:fs";
import { lstat, readdir, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { readHead } from "../../platform/confined.ts";

export type Guard = {
  /** Directories with HEAD, objects and refs. Each has an identity, which changes if another directory takes its
   *  place or if its configuration begins to come from elsewhere. */
  repos: ReadonlyMap<string, string>;
  /** Repositories outside the roots of which a root is a linked worktree. */
  linked: string[];
  /** Can be written but not replaced: a copy in its place would have other hooks. */
  pinned: string[];
  /** Cannot be written. */
  frozen: string[];
  /** Do not exist and cannot be created. */
  absent: { dirs: string[]; files: string[] };
};

const DEPTH = 3;
const MOST_DIRS = 3000;
const MOST_BYTES = 256 * 1024;
/** Three mounts each, of about a millisecond. */
const MOST_GUARDED = 50;
/** Repositories checked after one command. */
const MOST_NEW = 100;
const NOT_ENTERED = new Set(["node_modules", "__pycache__", ".venv", "venv", "target", ".cache"]);
/** Files that editors, agents and shells run by themselves when somebody opens the directory. */
const RUN_BY_OTHERS = [".vscode", ".idea", ".husky", ".envrc", ".claude", ".codex", ".cursor", ".mcp.json"];

async function guardOf(roots: readonly string[]): Promise<Guard> {
  const found = await Promise.all(roots.map(look));
  const linked = (await Promise.all(roots.map(linkedRepo))).filter((dir) => dir !== null);
  const repos = new Map<string, string>();
  const frozen = found.flatMap(({ files }) => files);
  const guard: Guard = { repos, linked, pinned: [], frozen, absent: { dirs: [], files: [] } };
  const dirs = new Set([...found.flatMap(({ dirs }) => dirs), ...linked]);
  for (const { dir, stat } of await byAge([...dirs])) {
    const names = await namesIn(dir);
    const trees = names.has("worktrees") ? await entries(join(dir, "worktrees")) : [];
    const places = trees.map(({ name }) => join(dir, "worktrees", name));
    const elsewhere = names.has("commondir") || (await Promise.all(places.map(isElsewhere))).includes(true);
    repos.set([dir, stat.dev, stat.ino, elsewhere].join("\0"), dir);
    if (guard.pinned.length === MOST_GUARDED) continue;
    guard.pinned.push(dir);
    await freeze(guard, dir, places, names);
  }
  return guard;
}

/** The oldest first: the time of creation cannot be forged, so many new repositories cannot displace an old one. */
async function byAge(dirs: string[]): Promise<{ dir: string; stat: Stats }[]> {
  const stats = await Promise.all(dirs.map(async (dir) => ({ dir, stat: await lstat(dir).catch(() => null) })));
  return stats
    .flatMap(({ dir, stat }) => (stat?.isDirectory() ? [{ dir, stat }] : []))
    .toSorted((a, b) => a.stat.birthtimeMs - b.stat.birthtimeMs);
}

/** A linked worktree has the configuration of its main repository. */
const isElsewhere = async (tree: string) => (await textOf(join(tree, "commondir"))).trim() !== "../..";

async function freeze({ frozen, absent }: Guard, dir: string, trees: string[], names: Set<string>): Promise<void> {
  const config = await textOf(join(dir, "config"));
  if (names.has("hooks")) frozen.push(join(dir, "hooks"));
  else absent.dirs.push(join(dir, "hooks"));
  if (names.has("config")) frozen.push(join(dir, "config"));
  else absent.files.push(join(dir, "config"));
  if (/worktreeconfig/i.test(config))
    for (const place of [dir, ...trees]) {
      const own = join(place, "config.worktree");
      ((await namesIn(place)).has("config.worktree") ? frozen : absent.files).push(own);
    }
  for (const [, path = ""] of config.matchAll(/^\s*hookspath\s*=\s*"?([^"\n#;]+)/gim))
    frozen.push(resolve(dirname(dir), path.trim()));
}

/** Git directories near the top of a root, and files next to them that must not change. */
async function look(root: string): Promise<{ dirs: string[]; files: string[] }> {
  const found = { dirs: [] as string[], files: [] as string[] };
  let level = [root];
  let left = MOST_DIRS;
  for (let depth = 0; depth <= DEPTH && level.length > 0; depth++) {
    const next: string[] = [];
    const listed = await Promise.all(level.slice(0, left).map(async (dir) => ({ dir, inside: await entries(dir) })));
    for (const { dir, inside } of listed) {
      const names = new Set(inside.map(({ name }) => name));
      if (isGitDir(names)) found.dirs.push(dir); // a bare one
      const git = inside.find(({ name }) => name === ".git");
      if (git?.isDirectory()) found.dirs.push(join(dir, ".git"), ...(await modulesOf(join(dir, ".git", "modules"))));
      if (git?.isFile()) found.files.push(join(dir, ".git"));
      if (git || depth === 0)
        found.files.push(...RUN_BY_OTHERS.filter((name) => names.has(name)).map((name) => join(dir, name)));
      for (const entry of inside)
        if (entry.isDirectory() && entry.name !== ".git" && !NOT_ENTERED.has(entry.name))
          next.push(join(dir, entry.name));
    }
    left = Math.max(0, left - level.length);
    level = next;
  }
  return found;
}

const isGitDir = (names: Set<string>) => names.has("HEAD") && names.has("objects") && names.has("refs");

/** Git directories of submodules; their names may contain slashes. */
async function modulesOf(dir: string, depth = 4): Promise<string[]> {
  if (isGitDir(await namesIn(dir))) return [dir, ...(await modulesOf(join(dir, "modules"), depth - 1))];
  if (depth === 0) return [];
  const inside = (await entries(dir)).filter((entry) => entry.isDirectory());
  return (await Promise.all(inside.map(({ name }) => modulesOf(join(dir, name), depth - 1)))).flat();
}

/** The main repository of which a root is a linked worktree, wherever it is. Only if that repository confirms it: the
 *  root itself could name any directory. */
export async function linkedRepo(root: string): Promise<string | null> {
  const [, named = ""] = /^gitdir: (.+)\n?$/.exec(await textOf(join(root, ".git"))) ?? [];
  if (!isAbsolute(named)) return null;
  const place = await realpath(named).catch(() => "");
  const repo = dirname(dirname(place));
  if (basename(dirname(place)) !== "worktrees") return null;
  const back = (await textOf(join(place, "gitdir"))).trim();
  const common = (await textOf(join(place, "commondir"))).trim();
  const same = isAbsolute(back) && back === join(root, ".git") && resolve(place, common) === repo;
  return same && isGitDir(await namesIn(repo)) ? repo : null;
}

const namesIn = async (dir: string) => new Set((await entries(dir)).map(({ name }) => name));
const entries = (dir: string): Promise<Dirent[]> => readdir(dir, { withFileTypes: true }).catch(() => []);

const textOf = async (path: string) => (await readHead(path, MOST_BYTES).catch(() => null))?.bytes.toString() ?? "";

// ── What a command has made ───────────────────────────────────────────────────────────────────────────

/** A mount protects only what exists when a command begins. What appears while commands run was created by one of
 *  them. `disarm` runs DISARM in the sandbox and returns its output. */
export function createRepoWatch(roots: readonly string[], disarm: (script: string, args: string[]) => Promise<string>) {
  let running = 0;
  let known = new Set<string>();

  /** Called before a command. */
  async function begin(): Promise<Guard> {
    const quiet = running++ === 0;
    const guard = await guardOf(roots);
    if (quiet) known = new Set(guard.repos.keys());
    return guard;
  }

  /** Called after it: lists what the command created that would run programs, and that is now disarmed. For people. */
  async function end(): Promise<string[]> {
    const { repos } = await guardOf(roots);
    const news = [...repos].flatMap(([name, dir]) => (known.has(name) ? [] : [dir]));
    const printed = news.length > 0 ? await disarm(DISARM, [RUNS_PROGRAMS, ...news.slice(0, MOST_NEW)]) : "";
    running--;
    const found = printed.split("\n").filter((line) => line !== "");
    if (news.length > MOST_NEW) found.push(`${news.length - MOST_NEW} of the new repositories were not looked at`);
    return found;
  }

  return { begin, end };
}

const DISARM = `
cd / && runs=$1 && shift
for repo; do
  said=
  for hook in "$repo"/hooks/*; do
    case $hook in *.sample) continue;; esac
    [ -f "$hook" ] && [ -x "$hook" ] || continue
    if [ -L "$hook" ]; then rm -f "$hook"; else chmod a-x "$hook"; fi
    said="$said, hook \${hook##*/}"
  done
  for config in "$repo/config" "$repo/config.worktree"; do
    [ -f "$config" ] || continue
    keys=$(git config --file "$config" --no-includes --name-only --list 2>/dev/null | sort -u | grep -Ei "$runs") || continue
    echo "$keys" | while IFS= read -r key; do git config --file "$config" --unset-all "$key"; done
    said="$said, $(echo "$keys" | sed ':a;N;$!ba;s/\\n/, /g')"
  done
  [ -e "$repo/commondir" ] && rm -rf "$repo/commondir" && said="$said, commondir"
  for tree in "$repo"/worktrees/*; do
    [ -d "$tree" ] && [ "$(cat "$tree/commondir")" != ../.. ] || continue
    rm -rf "$tree/commondir"; echo ../.. > "$tree/commondir"; said="$said, commondir of \${tree##*/}"
  done
  [ -z "$said" ] || echo "$repo: \${said#, }"
done
exit 0`;

/** Configuration that names a program, or another file that could. */
const RUNS_PROGRAMS = [
  "^core\\.(fsmonitor|sshcommand|hookspath|editor|pager|askpass|gitproxy|alternaterefscommand|attributesfile)$",
  "^(alias|include|includeif|pager|protocol|url|hook|trailer|sendemail|browser|man|guitool|instaweb|tar|imap)\\.",
  "^(diff|merge|filter|difftool|mergetool|credential|gpg|sequence|interactive|init|uploadpack)\\.",
  "^lfs\\.(customtransfer|extension)\\.",
  "^remote\\..*\\.(uploadpack|receivepack|vcs)$",
  "^submodule\\..*\\.update$",
  "^extensions\\.worktreeconfig$",
].join("|");
