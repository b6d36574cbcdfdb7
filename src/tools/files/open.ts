// Opening exactly what a path was found to be. A directory on the way may be swapped for a link between any look and
// any open; so the look that counts is at what was opened. Linux says where an open file really is, and lets us work
// below an open directory (/proc/self/fd/N/name), whatever happens to its path. Elsewhere the device and number of the
// file are compared, which leaves a narrow window.
import { type BigIntStats, constants, existsSync } from "node:fs";
import { type FileHandle, lstat, open, readlink, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Trouble } from "./trouble.ts";

const PROC = existsSync("/proc/self/fd");
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
/** Somebody who replaces a file by rename all the time is met often; somebody who swaps links is not waited for. */
const ATTEMPTS = 20;

export type File = AsyncDisposable & { handle: FileHandle; stat: BigIntStats };
export type Dir = AsyncDisposable & {
  real: string;
  handle: FileHandle;
  /** A path for this name in this very directory. */
  at(name: string): string;
};

/** For reading. Regular files only: a pipe would wait for ever, a device may do something. */
export async function openFile(real: string): Promise<File> {
  const handle = await openReal(real, O_RDONLY | O_NONBLOCK);
  try {
    const stat = await handle.stat({ bigint: true });
    if (!stat.isFile() && !stat.isDirectory()) throw new Trouble(`${real} is not a regular file.`);
    return { handle, stat, [Symbol.asyncDispose]: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

export async function openDir(real: string): Promise<Dir> {
  const handle = await openReal(real, O_RDONLY | O_DIRECTORY);
  const base = PROC ? `/proc/self/fd/${handle.fd}` : real;
  return { real, handle, at: (name) => join(base, name), [Symbol.asyncDispose]: () => handle.close() };
}

async function openReal(real: string, flags: number): Promise<FileHandle> {
  for (let attempt = 1; ; attempt++) {
    const handle = await open(real, flags | O_NOFOLLOW);
    const found = await placeOf(handle, real).catch(() => null);
    if (found === real) return handle;
    await handle.close();
    const replaced = found === `${real} (deleted)`;
    if (!replaced || attempt === ATTEMPTS)
      throw new Trouble(`${real} was changed while it was being opened. Nothing was read or written; try again.`);
  }
}

async function placeOf(handle: FileHandle, real: string): Promise<string | null> {
  if (PROC) return await readlink(`/proc/self/fd/${handle.fd}`);
  const [opened, there] = await Promise.all([handle.stat({ bigint: true }), lstat(real, { bigint: true })]);
  return opened.ino === there.ino && opened.dev === there.dev ? await realpath(real) : null;
}

/** Of this path and everything above it: device and number. Text alone misses a bind mount. */
export async function chainOf(real: string): Promise<string[]> {
  const chain: string[] = [];
  for (let path = real; ; path = dirname(path)) {
    const stat = await lstat(path, { bigint: true }).catch(() => null);
    if (stat) chain.push(idOf(stat));
    if (path === dirname(path)) return chain;
  }
}

export const idOf = ({ dev, ino }: { dev: bigint; ino: bigint }): string => `${dev}:${ino}`;
