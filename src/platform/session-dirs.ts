// Files that belong to sessions, below one root: a directory per session, with a name that we choose. They are deleted
// with their session, or after a long time without use.
import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "../core/errors.ts";

const KEPT_MS = 30 * 86_400_000;
/** Directories checked per pass: 10,000 take ten passes. */
const A_PASS = 1_000;

export const sessionDir = (root: string, session: string): string =>
  join(root, createHash("sha256").update(session).digest("hex").slice(0, 32));

export const removeSessionDir = (root: string, session: string): Promise<void> =>
  rm(sessionDir(root, session), { recursive: true, force: true });

/** Each call deletes the old ones among the next directories, except those of sessions that are `inUse`. */
export function createSweep(root: string): (now: number, inUse: readonly string[]) => Promise<void> {
  let last = "";
  return async (now, inUse) => {
    const busy = new Set(inUse.map((session) => sessionDir(root, session)));
    const names = (await namesIn(root)).sort();
    const next = names.filter((name) => name > last).slice(0, A_PASS);
    last = next.length < A_PASS ? "" : (next.at(-1) ?? "");
    for (const path of next.map((name) => join(root, name)))
      if (!busy.has(path) && now - (await usedAt(path)) > KEPT_MS) await rm(path, { recursive: true, force: true });
  };
}

/** The newest change of the directory or of an entry directly in it. */
async function usedAt(path: string): Promise<number> {
  const inside = await namesIn(path);
  const changes = await Promise.all([path, ...inside.map((name) => join(path, name))].map(changedAt));
  return Math.max(...changes);
}

/** A path that was deleted meanwhile counts as new. */
const changedAt = async (path: string) => (await stat(path).catch(() => null))?.mtimeMs ?? Number.POSITIVE_INFINITY;

const namesIn = (dir: string): Promise<string[]> =>
  readdir(dir).catch((error: unknown) => {
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error))) return [];
    throw error;
  });
