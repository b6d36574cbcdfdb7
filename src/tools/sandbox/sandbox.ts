// The sandbox of a command, as arguments for bubblewrap: everything read-only, homes and secrets hidden, a few writable
// places, its own PID namespace (the end of its first process ends all), not our network, and no way to more
// privileges.
import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { secretPlaces } from "../../platform/secret-places.ts";
import { asOneself, type Netns } from "./netns.ts";
import type { Guard } from "./repos.ts";

export type Sandbox = {
  writable: readonly string[];
  /** Paths that can be read although they are inside something hidden. */
  readable?: readonly string[];
  hidden: readonly string[];
  /** Exceptions inside the writable paths. */
  guard?: Guard | null | undefined;
  /** Its /tmp; by default an empty one that is deleted afterwards. */
  tmp?: string;
  /** Its network; by default a new one of its own. Never this machine's network. */
  netns?: Netns | null | undefined;
  /** Uses this machine's network: for a program that the user configured, never for a command. */
  hostNetwork?: boolean;
};

/** `empty`: nothing is there, and nothing can be created there. `link`: a link to `from`. */
type Mount = { at: string; kind: "write" | "read" | "hide" | "empty" | "link"; from: string };

/** Sockets of daemons that obey everybody who can connect (D-Bus, Docker, LXD): a named socket is not part of a
 *  network. */
const SOCKETS = ["/run", "/var/run", "/var/snap", "/var/lib/lxd", "/var/lib/incus"];

/** Later mounts cover earlier ones, so the deepest comes last: a workspace in a hidden home is visible. */
function mountsOf(sandbox: Sandbox): Mount[] {
  const { writable, readable = [], hidden, tmp, guard } = sandbox;
  const mount = (kind: Mount["kind"]) => (path: string) => ({ at: path, kind, from: path });
  const roots = [...real(writable), ...(guard?.linked ?? [])];
  const owned = (path: string) => roots.some((root) => root === path || isIn(root)(path));
  const mounts: Mount[] = [
    ...real(SOCKETS).map(mount("hide")),
    ...real(["/etc/resolv.conf", "/run/current-system"]).filter(isIn("/run")).map(mount("read")),
    tmp === undefined ? mount("hide")("/tmp") : { at: "/tmp", kind: "write", from: realpathSync(tmp) },
    ...real(hidden).map(mount("hide")),
    // Not through a link that a command created: it could lead to anything hidden.
    ...real(readable.filter((path) => !owned(placeOf(path)))).map(mount("read")),
    ...real(writable).map(mount("write")),
    ...real(guard?.pinned ?? [])
      .filter(owned)
      .map(mount("write")),
    ...real(guard?.frozen ?? [])
      .filter(owned)
      .map(mount("read")),
    ...(guard?.absent.files ?? []).map((at): Mount => ({ at, kind: "read", from: "/dev/null" })),
    ...(guard?.absent.dirs ?? []).map(mount("empty")),
  ];
  const last = mounts.filter(({ at }, index) => !mounts.some((other, i) => i > index && other.at === at));
  // Each mount costs about a millisecond, and what is inside a hidden path is hidden already.
  const needed = last.filter((mount) => {
    const outer = around(without(last, mount), mount.at);
    return mount.kind !== "hide" || outer?.kind !== "hide" || outer.at === "/tmp";
  });
  return [...needed, ...linksTo(readable, needed)].toSorted((a, b) => depth(a) - depth(b));
}
const without = (mounts: readonly Mount[], one: Mount) => mounts.filter((mount) => mount !== one);

/** The path itself, without following a last link. */
const placeOf = (path: string) =>
  existsSync(dirname(path)) ? join(realpathSync(dirname(path)), basename(path)) : path;

const depth = ({ at }: Mount) => (at === "/" ? 0 : at.split("/").length);
const around = (mounts: readonly Mount[], path: string) =>
  mounts
    .filter(({ at }) => at === path || isIn(at)(path))
    .toSorted((a, b) => depth(a) - depth(b))
    .at(-1);

/** A link (~/.gitconfig into a directory of dotfiles) is hidden with the directory that it is in. */
function linksTo(paths: readonly string[], mounts: readonly Mount[]): Mount[] {
  return paths
    .filter((path) => existsSync(path))
    .map((path): Mount => ({ at: placeOf(path), kind: "link", from: realpathSync(path) }))
    .filter(({ at, from }) => at !== from && around(mounts, at)?.kind === "hide");
}

export function bwrapArgs(sandbox: Sandbox, cwd: string): string[] {
  const mounts = mountsOf(sandbox);
  const empty = mounts.filter(({ at, kind }) => kind === "empty" || (kind === "hide" && at !== "/tmp" && isDir(at)));
  return [
    ...words("--unshare-pid --unshare-ipc --unshare-uts --die-with-parent --new-session"),
    ...words("--cap-drop ALL"), // started by root, it would keep them all
    ...(sandbox.netns ? asOneself(sandbox.netns) : words(sandbox.hostNetwork ? "" : "--unshare-net")),
    ...words("--ro-bind / / --proc /proc --dev /dev"),
    ...mounts.flatMap(({ at, kind, from }) => {
      if (kind === "link") return ["--symlink", from, at];
      if (kind === "write" || kind === "read")
        return [...placesFor(at, mounts), kind === "write" ? "--bind" : "--ro-bind", from, at];
      return kind === "empty" || isDir(from) ? ["--perms", "0755", "--tmpfs", at] : ["--ro-bind", "/dev/null", at];
    }),
    // Last, because mount points had to be created before. A write then fails instead of being lost.
    ...empty.flatMap(({ at }) => ["--remount-ro", at]),
    "--chdir",
    cwd,
    "--",
  ];
}

/** Mount points that bubblewrap creates are open to all users. In our own /tmp they would remain, so we create them
 *  first, for us only. */
function placesFor(at: string, mounts: readonly Mount[]): string[] {
  const tmp = mounts.find((mount) => mount.at === "/tmp" && mount.kind === "write");
  if (!tmp || !isIn("/tmp")(at) || !isDir(at)) return [];
  const names = relative("/tmp", at).split("/");
  return names.flatMap((_, depth) => ["--perms", "0700", "--dir", join("/tmp", ...names.slice(0, depth + 1))]);
}

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
const isDir = (path: string) => statSync(path).isDirectory();

/** The path outside for a path in the sandbox; null if there is none. */
export function outside(sandbox: Sandbox, path: string): string | null {
  const mount = around(mountsOf(sandbox), path);
  if (!mount) return path;
  return mount.kind === "hide" || mount.kind === "empty" ? null : join(mount.from, relative(mount.at, path));
}

/** `sandbox` null: commands run without it, or (`refuse`) not at all. `why` is for people. */
export type SandboxChoice = { sandbox: Sandbox; why: null } | { sandbox: null; why: string; refuse: boolean };

export function chooseSandbox(options: {
  mode: "auto" | "off" | "required";
  probe: { usable: true } | { usable: false; why: string };
  /** Where commands may write; the working directory first. */
  writable: readonly string[];
  /** HERMES_HOME and the user's home. */
  homes: { hermes: string; user: string };
  /** Further paths in them that may be read. */
  readable?: readonly string[];
  /** The PATH whose programs may be read. */
  path?: string;
}): SandboxChoice {
  const { mode, probe, writable, homes, readable = [], path = "" } = options;
  if (mode === "off") return { sandbox: null, why: "terminal.sandbox is off", refuse: false };
  const why = probe.usable ? tooMuch(writable, Object.values(homes)) : probe.why;
  if (why) return { sandbox: null, why, refuse: mode === "required" };
  const secret = [...secretPlaces(homes.user), homes.hermes].map((place) => resolve(place));
  const hidden = [...ALL_HOMES, homes.user, ...secret].filter((place) => place !== "/");
  // A path that is secret as a whole stays hidden even if it is in PATH.
  const tools = toolchains(homes.user, path)
    .map((tool) => resolve(tool))
    .filter((tool) => !secret.some((place) => `${tool}/`.startsWith(`${place}/`)));
  return { sandbox: { writable, readable: [...tools, ...SHARED, ...readable], hidden }, why: null };
}

/** Root could read the homes of others. */
const ALL_HOMES = ["/home", "/root", "/Users"];
const SHARED = ["/home/linuxbrew"];

/** Whoever can write in a home can write what runs outside later: .bashrc, .ssh, our own configuration. */
function tooMuch(writable: readonly string[], homes: readonly string[]): string | null {
  for (const place of real(writable))
    for (const home of real(homes))
      if (place === home || isIn(place)(home))
        return `the working directory ${place} is or contains ${home}: work in a separate directory (terminal.cwd)`;
  return null;
}

const isIn = (dir: string) => (path: string) => {
  const rest = relative(dir, path);
  return rest !== "" && rest !== ".." && !rest.startsWith("../") && !isAbsolute(rest);
};

/** Existing paths, by their real names: a mount over a link would not cover its target. */
const real = (paths: readonly string[]): string[] => [
  ...new Set(paths.filter((path) => existsSync(path)).map((path) => realpathSync(path))),
];

/** The parts of the user's home that commands can read: programs and what they need. The rest (documents, other projects, keys, histories) is
 *  hidden. */
const toolchains = (home: string, path: string): string[] => [
  ...words(IN_HOME).map((name) => join(home, name)),
  ...path
    .split(":")
    .filter((dir) => dir.startsWith(`${home}/`))
    .flatMap((dir) => installationOf(dir, home)),
];

/** ~/x/bin alone is useless without ~/x/lib. */
function installationOf(dir: string, home: string): string[] {
  const above = dirname(dir);
  const whole = /^(?:s?bin|shims)$/.test(basename(dir)) && above !== home && above !== join(home, ".local");
  return [whole ? above : dir];
}

const IN_HOME = `
  bin .local/bin .local/lib .local/pipx .local/state/fnm_multishells
  .local/share/uv .local/share/pnpm .local/share/fnm .local/share/mise .local/share/rtx .local/share/pipx .local/share/bun
  .local/share/virtualenv .local/share/virtualenvs .local/share/gem .local/share/pypoetry .local/share/swiftly
  .cargo .rustup .nvm .fnm .volta .asdf .nodenv .n .bun .deno .npm .yarn .pnpm-store .corepack
  .pyenv miniconda3 anaconda3 miniforge3 mambaforge .conda .virtualenvs .rye
  go .goenv .rbenv .rvm .gem .bundle .sdkman .jenv .m2 .gradle .ivy2 .sbt .cabal .ghcup .stack .opam .elan .julia .juliaup
  .dotnet .nuget .pub-cache flutter Android/Sdk .swiftpm .mix .hex .asdf-vm .nix-profile .nix-defexpr .local/state/nix
  .cache/pip .cache/uv .cache/node .cache/node-gyp .cache/yarn .cache/go-build .cache/deno .cache/ccache .cache/pre-commit
  .cache/ms-playwright .cache/puppeteer .cache/Cypress .cache/bazel .cache/bazelisk .cache/pypoetry .cache/composer
  .gitconfig .config/git .gitignore .gitignore_global .gitattributes .editorconfig .tool-versions .config/mise .condarc`;
