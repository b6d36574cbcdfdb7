// Which paths file tools may touch.
//
// C1  The decision depends on the real path, and is made again when the tool runs.
// C2  Whether a person is asked depends on the written path alone. A path that is written as inside never leads outside,
//     and a path outside must be written as its real path. So an approval of these arguments is an approval of this
//     file, even if links change in between or the process restarts. (I15)
// C3  HERMES_HOME and the user's credentials are refused by both the written and the real path, in every mode, also if
//     nothing exists there yet.
import { lstatSync, realpathSync } from "node:fs";
import { lstat, readdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { codeOf } from "../../core/errors.ts";
import { type ConfinedFile, chainOf, idOf, within } from "../../platform/confined.ts";
import { secretPlaces } from "../../platform/secret-places.ts";
import { plainName } from "./text.ts";
import { orNull, Trouble, troubleOf } from "./trouble.ts";

export type PathAccess = "read" | "write";
type PathVerdict = { is: "open"; real: string } | { is: "ask"; real: string; why: string } | { is: "no"; why: string };
export type Confine = ReturnType<typeof createConfine>;
type Root = { written: string; real: string };

export type ConfineOptions = {
  workspace: string;
  /** Further directories to read and write in. */
  roots: readonly string[];
  /** HERMES_HOME */
  home: string;
  /** The directory of a session's long outputs, which may be read. */
  outputsOf(session: string): string;
};

export function createConfine(options: ConfineOptions) {
  const roots = [options.workspace, ...options.roots].map((path): Root => {
    const written = resolve(path);
    return { written, real: realSync(written) };
  });
  const workspace = roots[0]?.real ?? "";
  const homes = bothNames(options.home);
  // If a user makes such a place a root, it is intended.
  const notRoots = (places: string[]) => places.filter((place) => !roots.some(({ real }) => within(place, real)));
  const secrets = notRoots(secretPlaces(homedir()).flatMap(bothNames));
  const kernel = notRoots(KERNEL);
  const inRoots = (path: string) => roots.some(({ real }) => within(real, path));
  const inHome = (path: string) => homes.some((home) => within(home, path));
  const isSecret = (path: string) => secrets.some((place) => within(place, path));

  async function locate(path: string, access: PathAccess, session: string): Promise<PathVerdict> {
    const written = canonical(path);
    try {
      const outputs = access === "read" ? bothNames(options.outputsOf(session)) : [];
      const inOutputs = (place: string) => outputs.some((dir) => within(dir, place));
      if (!inOutputs(written) && forbidden(written)) return { is: "no", why: reasonAgainst(written) };
      const real = await realOf(written);
      if (inOutputs(written) && inOutputs(real)) return { is: "open", real };
      if (forbidden(real) || (await isInsideHome(real))) return { is: "no", why: reasonAgainst(real) };
      return weigh(written, real, access);
    } catch (error) {
      return { is: "no", why: troubleOf(error, path) };
    }
  }

  function weigh(written: string, real: string, access: PathAccess): PathVerdict {
    const inside = inRoots(written) && inRoots(real);
    const touchy = access === "write" && (runsLater(written) || runsLater(real));
    if (inside && !touchy) return { is: "open", real };
    // C2
    if (written !== real)
      return { is: "no", why: `${written} leads to ${real}. If that is meant, call with that path.` };
    if (inside) return { is: "ask", real, why: "what is in this file may be run later, without being asked about" };
    return { is: "ask", real, why: `it is outside the workspace ${workspace}` };
  }

  function canonical(path: string): string {
    const full = resolve(workspace, path.replace(/^~(?=\/|$)/, homedir()));
    const root = roots.find(({ written }) => within(written, full));
    return root && !inRoots(full) ? join(root.real, relative(root.written, full)) : full;
  }

  /** Whether search may look into this path. Decided by the path alone. */
  const forbidden = (path: string) => inHome(path) || isSecret(path) || kernel.some((dir) => within(dir, path));

  /** Also through a bind mount. */
  async function isInsideHome(real: string): Promise<boolean> {
    const home = await orNull(lstat(homes.at(-1) ?? "", { bigint: true }));
    return home !== null && (await chainOf(real)).includes(idOf(home));
  }

  function reasonAgainst(path: string): string {
    if (kernel.some((dir) => within(dir, path))) return `${path} is not a file on a disk. Use the terminal tool.`;
    if (isSecret(path)) return `${path} holds the user's credentials or private data, which file tools never touch.`;
    return `${path} belongs to hermes itself. Its files cannot be read or changed with tools; ask the user to do it.`;
  }

  let twins: { until: number; ids: Promise<Set<string>[]> } | null = null;

  /** Whether the file is a second name (a hard link) of a file that must not be read. */
  async function isSecretTwin({ stat }: ConfinedFile): Promise<boolean> {
    if (stat.nlink < 2n) return false;
    // Cached for a moment: a search may meet thousands of hard links.
    if (!twins || twins.until < performance.now()) {
      const ids = Promise.all([...homes, ...secrets].map((place) => idsIn(place, 2)));
      twins = { until: performance.now() + 1_000, ids };
    }
    return (await twins.ids).some((ids) => ids.has(idOf(stat)));
  }

  /** The path as the model should write it, on one line. */
  const shown = (real: string) => plainName(within(workspace, real) ? relative(workspace, real) || "." : real);
  return { workspace, locate, forbidden, isSecretTwin, shown };
}

/** The real path, also if the last parts do not exist yet. */
async function realOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT" || path === dirname(path)) throw error;
  }
  const real = join(await realOf(dirname(path)), basename(path));
  if ((await orNull(lstat(real)))?.isSymbolicLink())
    throw new Trouble(`${path} is a link to something that is not there.`);
  return real;
}

function realSync(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT" || path === dirname(path)) return path;
    if (lstatSync(path, { throwIfNoEntry: false })) return path;
    return join(realSync(dirname(path)), basename(path));
  }
}

/** The written and the real name, so that neither a link nor its target is a way in. The real one is last. */
const bothNames = (path: string): string[] => [...new Set([resolve(path), realSync(resolve(path))])];

/** Not regular files. /proc also has the environments of processes, including ours. */
const KERNEL = ["/proc", "/sys", "/dev"];

/** Git's own files (hooks, and a config that names programs), and files that a shell or a session reads at start. */
const RUNS_LATER = new RegExp(
  [
    /\.git(?:\/.*)?/,
    /[^/]+\.git\/(?:hooks\/.*|config(?:\.worktree)?)/,
    /\.husky\/.*/,
    /\.(?:bashrc|bash_(?:profile|login|logout|aliases)|profile|z(?:shrc|shenv|profile|login|logout)|[kct]?shrc|login|logout|inputrc|envrc)/,
    /\.(?:xprofile|xinitrc|xsession|xsessionrc|pam_environment)/,
    /\.config\/(?:fish|autostart|systemd|environment\.d)\/.*/,
  ]
    .map(({ source }) => `(?:^|/)${source}$`)
    .join("|"),
  "is",
);
const runsLater = (path: string): boolean => RUNS_LATER.test(path);

const MOST_TWINS = 2_000;

async function idsIn(place: string, depth: number, ids = new Set<string>()): Promise<Set<string>> {
  const stat = await lstat(place, { bigint: true }).catch(() => null);
  if (!stat || ids.size >= MOST_TWINS) return ids;
  if (stat.isFile()) return ids.add(idOf(stat));
  if (!stat.isDirectory() || depth === 0) return ids;
  for (const name of await readdir(place).catch(() => [])) await idsIn(join(place, name), depth - 1, ids);
  return ids;
}
