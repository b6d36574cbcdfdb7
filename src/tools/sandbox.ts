// What a sandboxed command sees, as bubblewrap's arguments: everything read-only, secrets not at all, a few places to
// write, a PID namespace of its own (the end of its first process is the end of all) and no way to more rights.
import { existsSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { secretPlaces } from "../platform/secret-places.ts";

export type Sandbox = {
  /** Where it may write. */
  writable: readonly string[];
  /** What it may read although it lies in something hidden. */
  readable?: readonly string[];
  /** Not there for it. */
  hidden: readonly string[];
  /** Its /tmp; without one, an empty one that is gone afterwards. */
  tmp?: string;
  network: boolean;
};

type Mount = { at: string; kind: "write" | "read" | "hide"; from: string };

/** Later mounts cover earlier ones, so the deepest is last: a workspace in a hidden home can be seen. */
function mountsOf(sandbox: Sandbox): Mount[] {
  const { writable, readable = [], hidden, tmp } = sandbox;
  const mount = (kind: Mount["kind"]) => (path: string) => ({ at: path, kind, from: path });
  const mounts: Mount[] = [
    // Sockets of daemons that obey whoever may connect (D-Bus, Docker) are in /run.
    ...real(["/run", "/var/run"]).map(mount("hide")),
    ...real(["/etc/resolv.conf", "/run/current-system"]).filter(isIn("/run")).map(mount("read")),
    tmp === undefined ? mount("hide")("/tmp") : { at: "/tmp", kind: "write", from: realpathSync(tmp) },
    ...real(hidden).map(mount("hide")),
    ...real(writable).map(mount("write")),
    ...real(readable).map(mount("read")),
  ];
  const depth = ({ at }: Mount) => (at === "/" ? 0 : at.split("/").length);
  const last = mounts.filter(({ at }, index) => !mounts.some((other, i) => i > index && other.at === at));
  return last.toSorted((a, b) => depth(a) - depth(b));
}

export function bwrapArgs(sandbox: Sandbox, cwd: string): string[] {
  const mounts = mountsOf(sandbox);
  const hidden = mounts.filter(({ at, kind }) => kind === "hide" && at !== "/tmp" && isDir(at));
  return [
    ...words("--unshare-pid --unshare-ipc --unshare-uts --die-with-parent --new-session"),
    ...words("--cap-drop ALL"), // started by root it would keep them all
    ...words(sandbox.network ? "" : "--unshare-net"),
    ...words("--ro-bind / / --proc /proc --dev /dev"),
    ...mounts.flatMap(({ at, kind, from }) => {
      if (kind !== "hide") return [...placesFor(at, mounts), kind === "write" ? "--bind" : "--ro-bind", from, at];
      return isDir(from) ? ["--perms", "0755", "--tmpfs", at] : ["--ro-bind", "/dev/null", at];
    }),
    // After all of them: places to mount on had to be made. A write then fails, instead of being lost.
    ...hidden.flatMap(({ at }) => ["--remount-ro", at]),
    "--chdir",
    cwd,
    "--",
  ];
}

/** What bubblewrap makes to mount on is open to all. In a /tmp of ours it stays there, so it is made before, for us only. */
function placesFor(at: string, mounts: readonly Mount[]): string[] {
  const tmp = mounts.find((mount) => mount.at === "/tmp" && mount.kind === "write");
  if (!tmp || !isIn("/tmp")(at) || !isDir(at)) return [];
  const names = relative("/tmp", at).split("/");
  return names.flatMap((_, depth) => ["--perms", "0700", "--dir", join("/tmp", ...names.slice(0, depth + 1))]);
}

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
const isDir = (path: string) => statSync(path).isDirectory();

/** Where a path of the sandbox is for us; null: nowhere. */
export function outside(sandbox: Sandbox, path: string): string | null {
  const mount = mountsOf(sandbox).findLast(({ at }) => at === path || isIn(at)(path));
  if (!mount) return path;
  return mount.kind === "hide" ? null : join(mount.from, relative(mount.at, path));
}

/** `sandbox` null: commands run as they are, or (`refuse`) not at all. `why` is for people. */
export type Choice = { sandbox: Sandbox; why: null } | { sandbox: null; why: string; refuse: boolean };

export function chooseSandbox(options: {
  mode: "auto" | "off" | "required";
  probe: { usable: true } | { usable: false; why: string };
  /** Where commands may write: the working directory first. */
  writable: readonly string[];
  /** HERMES_HOME and the user's home. */
  homes: { hermes: string; user: string };
  hidden?: readonly string[];
  network?: boolean;
}): Choice {
  const { mode, probe, writable, homes, hidden = [], network = true } = options;
  if (mode === "off") return { sandbox: null, why: "terminal.sandbox is off", refuse: false };
  const why = probe.usable ? tooMuch(writable, Object.values(homes)) : probe.why;
  if (why) return { sandbox: null, why, refuse: mode === "required" };
  return { sandbox: { writable, hidden: [...secretPlaces(homes.user), homes.hermes, ...hidden], network }, why: null };
}

/** Who can write in a home writes what runs outside later: .bashrc, .ssh, our own configuration. */
function tooMuch(writable: readonly string[], homes: readonly string[]): string | null {
  for (const place of real(writable))
    for (const home of real(homes))
      if (place === home || isIn(place)(home))
        return `the working directory ${place} is or contains ${home}: choose a directory of its own (terminal.cwd)`;
  return null;
}

const isIn = (dir: string) => (path: string) => {
  const rest = relative(dir, path);
  return rest !== "" && rest !== ".." && !rest.startsWith("../") && !isAbsolute(rest);
};

/** Those that are there, by their real names: a mount over a link would not cover what it points to. */
const real = (paths: readonly string[]): string[] => [
  ...new Set(paths.filter((path) => existsSync(path)).map((path) => realpathSync(path))),
];
