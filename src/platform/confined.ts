// The only way in which this process opens files in a place that the agent can write (SECURITY, first rule). It follows
// no link, never blocks (pipes, devices), checks the real path of the opened file, and reads no more than was asked
// for. A directory on the path can be swapped for a link between any check and the open, so the check that counts is
// made on the opened file. Linux reports the real path of an open file, and allows work below an open directory
// (/proc/self/fd/N/name) whatever happens to its path. Elsewhere device and inode are compared, which leaves a narrow
// window.
import { type BigIntStats, constants, type Dirent, existsSync } from "node:fs";
import { type FileHandle, lstat, open, opendir, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

const PROC = existsSync("/proc/self/fd");
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
/** A program that keeps replacing the file by rename is retried often enough. One that keeps swapping links is not. */
const ATTEMPTS = 20;

/** The file was not opened; `message` says why. */
export class NotConfined extends Error {
  override readonly name = "NotConfined";
}

export type ConfinedFile = AsyncDisposable & { handle: FileHandle; stat: BigIntStats };
export type Dir = Awaited<ReturnType<typeof openDir>>;

/** The real path. A path that is written as inside a root must really be inside a root. */
export async function realInside(path: string, roots: readonly string[]): Promise<string> {
  const written = resolve(path);
  const real = await realpath(written);
  const reals = await Promise.all(roots.map((root) => realpath(root).catch(() => resolve(root))));
  const named = [...roots.map((root) => resolve(root)), ...reals].some((root) => within(root, written));
  if (named && !reals.some((root) => within(root, real)))
    throw new NotConfined(`${path} is a link that leads out of its directory, to ${real}.`);
  return real;
}

/** Opens a regular file or a directory for reading, by its real path; `stat` tells which. A pipe would block for
 *  ever, and opening a device may have effects. */
export async function openFile(real: string): Promise<ConfinedFile> {
  const handle = await openReal(real, O_RDONLY | O_NONBLOCK);
  try {
    const stat = await handle.stat({ bigint: true });
    if (!stat.isFile() && !stat.isDirectory()) throw new NotConfined(`${real} is not a regular file.`);
    return { handle, stat, [Symbol.asyncDispose]: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** At most `most` bytes from the beginning of a regular file. */
export async function readHead(real: string, most: number): Promise<{ bytes: Buffer; stat: BigIntStats }> {
  await using file = await openFile(real);
  if (!file.stat.isFile()) throw new NotConfined(`${real} is not a regular file.`);
  const size = Math.min(most, Math.max(Number(file.stat.size), 4_096)); // some file systems report size 0 for files with content
  const { bytesRead, buffer } = await file.handle.read(Buffer.alloc(size), 0, size, 0);
  return { bytes: buffer.subarray(0, bytesRead), stat: file.stat };
}

/** At most `most` bytes from the end of a regular file. */
export async function readTail(real: string, most: number): Promise<Buffer> {
  await using file = await openFile(real);
  if (!file.stat.isFile()) throw new NotConfined(`${real} is not a regular file.`);
  const from = Math.max(0, Number(file.stat.size) - most);
  const { bytesRead, buffer } = await file.handle.read(Buffer.alloc(most), 0, most, from);
  return buffer.subarray(0, bytesRead);
}

export async function openDir(real: string) {
  const handle = await openReal(real, O_RDONLY | O_DIRECTORY);
  const base = PROC ? `/proc/self/fd/${handle.fd}` : real;
  return {
    handle,
    /** A path for this name in exactly this directory. */
    at: (name: string) => join(base, name),
    /** Sorted by name. If there are more than `most`, any `most` of them. */
    entries: (most: number) => entriesOf(base, most),
    /** Size of the entry itself, not of a link's target; null if it is gone. */
    sizeOf: async (name: string) => (await lstat(join(base, name)).catch(() => null))?.size ?? null,
    [Symbol.asyncDispose]: () => handle.close(),
  };
}

/** Creates a file for its owner only, by the real path of its directory. Never overwrites. */
export async function createFile(path: string, roots: readonly string[], content: string): Promise<void> {
  await using dir = await openDir(await realInside(dirname(resolve(path)), roots));
  await using file = await open(dir.at(basename(path)), "wx", 0o600);
  await file.writeFile(content);
}

async function entriesOf(base: string, most: number): Promise<Dirent[]> {
  const entries: Dirent[] = [];
  for await (const entry of await opendir(join(base, "."), { bufferSize: 256 })) if (entries.push(entry) >= most) break;
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function openReal(real: string, flags: number): Promise<FileHandle> {
  for (let attempt = 1; ; attempt++) {
    const handle = await open(real, flags | O_NOFOLLOW);
    const found = await placeOf(handle, real).catch(() => null);
    if (found === real) return handle;
    await handle.close();
    const replaced = found === `${real} (deleted)`;
    if (!replaced || attempt === ATTEMPTS)
      throw new NotConfined(
        `${real} leads elsewhere, and links are not followed (or it was changed while it was being opened). Nothing was read or written.`,
      );
  }
}

async function placeOf(handle: FileHandle, real: string): Promise<string | null> {
  if (PROC) return await readlink(`/proc/self/fd/${handle.fd}`);
  const [opened, there] = await Promise.all([handle.stat({ bigint: true }), lstat(real, { bigint: true })]);
  return opened.ino === there.ino && opened.dev === there.dev ? await realpath(real) : null;
}

/** What is at this path, without opening or following it; null if there is nothing or it cannot be seen. */
export async function kindAt(path: string): Promise<"file" | "directory" | "other" | null> {
  const stat = await lstat(path).catch(() => null);
  if (stat === null) return null;
  if (stat.isFile()) return "file";
  return stat.isDirectory() ? "directory" : "other";
}

/** Changes whenever the file at this path does; null if there is none. Opens nothing. */
export async function stampOf(path: string): Promise<string | null> {
  const stat = await lstat(path, { bigint: true }).catch(() => null);
  return stat && `${stat.dev} ${stat.ino} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.size}`;
}

/** Device and inode of this path and of all its parents. Comparing paths as text would miss a bind mount. */
export async function chainOf(real: string): Promise<string[]> {
  const chain: string[] = [];
  for (let path = real; ; path = dirname(path)) {
    const stat = await lstat(path, { bigint: true }).catch(() => null);
    if (stat) chain.push(idOf(stat));
    if (path === dirname(path)) return chain;
  }
}

export const idOf = ({ dev, ino }: { dev: bigint; ino: bigint }): string => `${dev}:${ino}`;

export const within = (dir: string, path: string): boolean =>
  path === dir || path.startsWith(dir.endsWith("/") ? dir : `${dir}/`);
