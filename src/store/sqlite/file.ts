// The file of the store: made for its owner alone, and locked by the one process that may write it.
import { chmodSync, closeSync, existsSync, openSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { ConfigError, codeOf, messageOf, StoreFault } from "../../core/errors.ts";
import { attempt } from "../../platform/attempt.ts";
import { makeDir } from "../../platform/home.ts";
import { StoreInUse } from "../in-use.ts";

// https://sqlite.org/rescode.html
const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
const PATIENT = "PRAGMA busy_timeout = 1000"; // of two that start together, one writes its pid while the other reads it

export function existingFile(file: string): string {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new ConfigError(`there is no file ${file}`);
  return realpathSync(file);
}

/** What a restore that was cut off leaves in the home, in its two steps (restore.ts). */
export const CLEARING = ".restore-clearing";
export const MOVING = ".restore-moving";
export const CUT_OFF = [CLEARING, MOVING];

export function refuseCutOff(file: string): void {
  if (CUT_OFF.some((name) => existsSync(join(dirname(file), name))))
    throw new ConfigError(`a restore of ${dirname(file)} was cut off; finish it with: hermes restore`);
}

export function createFile(file: string): string {
  refuseCutOff(file);
  try {
    makeDir(dirname(file));
    keepPrivate(file);
    const path = realpathSync(file); // two names for one file are one lock
    keepPrivate(`${path}.lock`);
    for (const beside of [`${path}-wal`, `${path}-shm`]) if (existsSync(beside)) keepPrivate(beside);
    return path;
  } catch (error) {
    const text = `cannot create ${file}: ${messageOf(error)}`;
    throw codeOf(error) === "ENOSPC" ? new StoreFault("no", text) : new ConfigError(text, { cause: error });
  }
}

/** SQLite gives -wal and -shm the mode of the database. Never opens a file that is there: closing it again would
 * drop the locks that SQLite holds on it in this process (https://sqlite.org/howtocorrupt.html, 2.2). */
export function keepPrivate(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    const there = statSync(file);
    if (!there.isFile()) throw new Error("it is not a file", { cause: error });
    if (there.mode & 0o077) chmodSync(file, 0o600);
  }
}

/** Somebody who asks who the owner is has the lock for less than a millisecond; whoever starts just then waits for that. */
const LOOKED_AT_MS = 200;

/** A transaction that never ends, in a file beside the store: the system takes it back however we die. The pid
 * is committed first, as `user_version`, where a process that is refused can read it. */
export function lockFile(file: string, look = false): () => void {
  const db = new DatabaseSync(`${file}.lock`, { open: false, timeout: look ? 0 : LOOKED_AT_MS });
  try {
    db.open();
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE");
    if (look) return () => db.close();
    db.exec(PATIENT);
    db.exec(`PRAGMA user_version = ${process.pid}; COMMIT; BEGIN IMMEDIATE`);
    return () => db.close();
  } catch (error) {
    const pid = ownerOf(db);
    if (db.isOpen) db.close();
    const code = error instanceof Error && "errcode" in error ? Number(error.errcode) & 0xff : 0;
    if (code === SQLITE_BUSY) throw new StoreInUse(pid);
    // No matter of the configuration: whoever starts us again may find room.
    if (code === SQLITE_FULL || code === SQLITE_IOERR)
      throw new StoreFault("no", `the disk that holds ${file} is full or failed (${messageOf(error)})`, {
        cause: error,
      });
    throw new ConfigError(`cannot lock ${file}: ${messageOf(error)}; if nothing uses it, remove ${file}.lock`, {
      cause: error,
    });
  }
}

/** The process that has this file open to write; null: none has. */
export function ownerPid(file: string): number | null {
  if (!existsSync(`${file}.lock`)) return null;
  try {
    lockFile(file, true)();
    return null;
  } catch (error) {
    if (error instanceof StoreInUse) return error.pid;
    throw error;
  }
}

const ownerOf = (db: DatabaseSync): number | null =>
  attempt(() => {
    db.exec(PATIENT);
    return Number(db.prepare("PRAGMA user_version").get()?.user_version) || null;
  }) ?? null;
