// System programs that we start ourselves (bash, bwrap, mkfifo, …). They come from the system's own directories, never
// from the PATH with which we were started. A venv or direnv puts a directory of the workspace first in that PATH; a
// `mkfifo` placed there would run outside the sandbox, with our keys.
import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { attempt } from "./attempt.ts";
import { within } from "./confined.ts";

const PLACES = (
  "/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /opt/homebrew/bin " +
  "/run/current-system/sw/bin /run/current-system/profile/bin"
) // NixOS, Guix
  .split(" ");

let forbidden: readonly string[] = [];
const known = new Map<string, string>(); // of the few names that this program asks for; one that is missing may be installed any time

/** Directories that the agent can write: a system directory inside one of them is not trusted. */
export function distrustPrograms(roots: readonly string[]): void {
  forbidden = roots.flatMap((root) => [resolve(root), realOf(resolve(root))]);
  known.clear();
}

/** The absolute path, or null if this machine has no such program that can be trusted. */
export function findProgram(name: string): string | null {
  const before = known.get(name);
  if (before) return before;
  const found = PLACES.filter(isTrusted)
    .map((dir) => join(dir, name))
    .find((path) => isProgram(path) && !isForbidden(realOf(path)));
  if (!found) return null;
  known.set(name, found);
  return found;
}

/** PATH without directories where the agent could place a file named `ls` that runs for `ls`. */
export function pathWithout(roots: readonly string[], path: string): string {
  const all = roots.flatMap((root) => [resolve(root), realOf(resolve(root))]);
  const isIn = (place: string) => all.some((root) => within(root, place));
  const kept = path.split(":").filter((place) => place.startsWith("/"));
  return (all.length > 0 ? kept.filter((place) => !isIn(resolve(place)) && !isIn(realOf(place))) : kept).join(":");
}

/** Only the system and we can write there. */
function isTrusted(dir: string): boolean {
  const stat = statSync(dir, { throwIfNoEntry: false });
  if (!stat?.isDirectory() || isForbidden(realOf(dir))) return false;
  return (stat.mode & 0o022) === 0 && [0, process.getuid?.()].includes(stat.uid);
}

const isForbidden = (path: string) => forbidden.some((root) => within(root, path));

const isProgram = (path: string): boolean =>
  attempt(() => {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  }) ?? false;

const realOf = (path: string): string => attempt(() => realpathSync(path)) ?? path;
