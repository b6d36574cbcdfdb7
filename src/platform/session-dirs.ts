// Files that belong to sessions, below a root of ours: a directory for each, under a name that nobody else decides. They go
// with their session, or when nobody has used them for long.
import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

const KEPT_MS = 30 * 86_400_000;
/** Looked at in one pass: a home with 10,000 of them is gone through in ten. */
const A_PASS = 1_000;

export const sessionDir = (root: string, session: string): string =>
  join(root, createHash("sha256").update(session).digest("hex").slice(0, 32));

export const removeSessionDir = (root: string, session: string): Promise<void> =>
  rm(sessionDir(root, session), { recursive: true, force: true });

/** Each call removes what is old among the next ones, but not what `inUse` (sessions) belongs to. */
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

/** The newest change of it, or of what is directly in it. */
async function usedAt(path: string): Promise<number> {
  const inside = await namesIn(path);
  const changes = await Promise.all([path, ...inside.map((name) => join(path, name))].map(changedAt));
  return Math.max(...changes);
}

/** Gone meanwhile counts as new. */
const changedAt = (path: string) =>
  stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => Number.POSITIVE_INFINITY,
  );

const namesIn = (dir: string): Promise<string[]> =>
  readdir(dir).catch((error: unknown) => {
    if (isNoDirectory(error)) return [];
    throw error;
  });

const isNoDirectory = (error: unknown) =>
  error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
