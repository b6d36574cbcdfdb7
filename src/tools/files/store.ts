// Changes files on the disk: writes a new file next to the old one, then renames, so that a reader or a crash finds one
// of the two complete. The old file itself is never written, so another name of it (a hard link) keeps its content.
import { createHash, randomBytes } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { type FileHandle, link, lstat, mkdir, open, rename, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { codeOf } from "../../core/errors.ts";
import { type Dir, idOf, openDir, openFile } from "../../platform/confined.ts";
import type { Mark } from "./seen.ts";
import { orNull, Trouble, troubleOf } from "./trouble.ts";

/** `bytes` null: remove the file. `before` null: there must be no file. */
export type FileChange = { real: string; bytes: Buffer | null; before: BigIntStats | null };

/** All changes or none: what fails, fails before the first rename, or is rolled back. */
export async function store(changes: readonly FileChange[]): Promise<void> {
  const prepared: Prepared[] = [];
  const done: Prepared[] = [];
  try {
    for (const change of changes) prepared.push(await prepare(change, changes.length > 1));
    for (const one of prepared) {
      await one.commit();
      done.push(one);
    }
  } catch (error) {
    const at = changes[done.length === 0 ? Math.min(prepared.length, changes.length - 1) : done.length];
    const stuck: string[] = [];
    for (const one of done.toReversed()) await one.undo().catch(() => stuck.push(one.real));
    const left =
      stuck.length > 0 ? `These were changed and could not be put back: ${stuck.join(", ")}.` : "Nothing was changed.";
    throw new Trouble(`${left} ${troubleOf(error, at?.real ?? "")}`, { cause: error });
  } finally {
    for (const one of prepared) await one.close();
  }
}

type Prepared = { real: string; commit(): Promise<void>; undo(): Promise<void>; close(): Promise<void> };

async function prepare({ real, bytes, before }: FileChange, undoable: boolean): Promise<Prepared> {
  const dir = await openParent(real);
  const target = dir.at(basename(real));
  const temps: string[] = [];
  const temp = () => temps[temps.push(dir.at(`.${randomBytes(8).toString("hex")}.hermes-tmp`)) - 1] ?? "";
  const close = async () => {
    for (const path of temps) await unlink(path).catch(() => {});
    await dir[Symbol.asyncDispose]();
  };
  try {
    const fresh = bytes && (await writeTemp(temp(), bytes, before));
    const old = before && undoable ? await keep(target, temp(), before) : null;
    return {
      real,
      close,
      async commit() {
        await expect(target, real, before);
        if (!fresh) await unlink(target);
        else if (before) await rename(fresh, target);
        else await appear(fresh, target, real);
        await dir.handle.sync().catch(() => {}); // not every file system supports this
      },
      async undo() {
        if (old) await rename(old, target);
        else await unlink(target);
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openParent(real: string): Promise<Dir> {
  const path = dirname(real);
  try {
    return await openDir(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT" || path === dirname(path)) throw error;
  }
  await using above = await openParent(path);
  await mkdir(above.at(basename(path))).catch((error: unknown) => {
    if (codeOf(error) !== "EEXIST") throw error;
  });
  return await openDir(path);
}

async function writeTemp(path: string, bytes: Buffer, before: BigIntStats | null): Promise<string> {
  await using handle = await open(path, "wx", before ? 0o600 : 0o666);
  await handle.writeFile(bytes);
  if (before) await likeBefore(handle, before);
  await handle.sync();
  return path;
}

/** Owner first: a change of owner may drop bits of the mode. Set-user-id is not kept, because the content is new. */
async function likeBefore(handle: FileHandle, { uid, gid, mode }: BigIntStats): Promise<void> {
  const mine = await handle.stat({ bigint: true });
  if (mine.uid !== uid || mine.gid !== gid) await handle.chown(Number(uid), Number(gid)).catch(() => {});
  await handle.chmod(Number(mode & 0o777n));
}

/** A second name for the old file, or a copy if that is not possible. */
async function keep(target: string, path: string, before: BigIntStats): Promise<string> {
  try {
    await link(target, path);
    return path;
  } catch {
    await using handle = await open(target, "r");
    return await writeTemp(path, await handle.readFile(), before);
  }
}

/** Detects other writers of this file; only the last instant is not covered. */
async function expect(target: string, real: string, before: BigIntStats | null): Promise<void> {
  const now = await orNull(lstat(target, { bigint: true }));
  const same = now && before ? idOf(now) === idOf(before) && now.mtimeNs === before.mtimeNs : now === before;
  if (!same) throw new Trouble(`${real} was changed by somebody else just now. Read it again.`);
}

/** Never overwrites a file that appeared meanwhile. */
async function appear(fresh: string, target: string, real: string): Promise<void> {
  try {
    await link(fresh, target);
  } catch (error) {
    if (codeOf(error) === "EEXIST")
      throw new Trouble(`${real} has appeared just now. Read it first.`, { cause: error });
    await rename(fresh, target); // a file system without hard links
  }
}

/** Files up to this size are read in full, for their number of lines and their hash. */
export const READ_WHOLE = 256 * 1024 * 1024;

/** In chunks: a large file takes no more memory than a small one. */
export async function eachChunk(
  handle: FileHandle,
  size: number,
  signal: AbortSignal,
  see: (chunk: Buffer) => boolean,
): Promise<void> {
  const buffer = Buffer.allocUnsafe(256 * 1024);
  // Not beyond its size when it was opened: somebody may write faster than we read.
  for (let at = 0; at < size; ) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0 || !see(buffer.subarray(0, bytesRead))) return;
    at += bytesRead;
  }
}

/** The present state of a file; null if there is none. */
export async function markOf(real: string, signal: AbortSignal): Promise<{ mark: Mark; stat: BigIntStats } | null> {
  const opened = await orNull(openFile(real));
  if (!opened) return null;
  await using file = opened;
  const { stat, handle } = file;
  if (stat.isDirectory()) throw new Trouble(`${real} is a directory.`);
  const size = Number(stat.size);
  const hash = createHash("sha256");
  if (size <= READ_WHOLE) await eachChunk(handle, size, signal, (chunk) => Boolean(hash.update(chunk)));
  return { stat, mark: { size, mtimeNs: stat.mtimeNs, hash: size <= READ_WHOLE ? hash.digest("hex") : null } };
}
