// A lock on this machine for a secret that only one process may use. It is a transaction that never ends, in a file of
// its own, so the system releases it however the owner dies. The file is in a directory that only this user can enter.
// A name that everybody can take (a socket in /tmp, an abstract socket) would let another user prevent the gateway from
// starting.
import { createHash } from "node:crypto";
import { accessSync, chmodSync, constants, lstatSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { messageOf } from "../core/errors.ts";
import { makeDir } from "./home.ts";

const SQLITE_BUSY = 5;

/** Keeps the database referenced. Otherwise it is garbage-collected and closed, and the lock is lost: this happened
 *  to an owner who dropped `unlock`. */
const held = new Set<DatabaseSync>();

/** The same for all homes of this user. */
export const lockDir = (): string => join(homedir(), ".hermes", "locks");

/** Returns null if another process has the lock. `home` is HERMES_HOME, used if the user has no directory to write to
 *  (in a container). */
export function lockToken(token: string, home: string): (() => void) | null {
  const dir = firstUsable([lockDir(), join(home, "locks")]);
  const name = createHash("sha256").update(token).digest("hex").slice(0, 32);
  const db = new DatabaseSync(join(dir, name), { timeout: 0 });
  try {
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE");
    held.add(db);
    return () => {
      if (held.delete(db)) db.close();
    };
  } catch (error) {
    db.close();
    if (error instanceof Error && "errcode" in error && error.errcode === SQLITE_BUSY) return null;
    throw error;
  }
}

function firstUsable(dirs: readonly string[]): string {
  const reasons: string[] = [];
  for (const dir of dirs)
    try {
      return usable(dir);
    } catch (error) {
      reasons.push(`${dir}: ${messageOf(error)}`);
    }
  throw new Error(`There is no directory for locks. ${reasons.join("; ")}`);
}

function usable(dir: string): string {
  makeDir(dir);
  const stat = lstatSync(dir);
  if (!stat.isDirectory()) throw new Error("it is not a directory");
  if (process.getuid && stat.uid !== process.getuid()) throw new Error("it belongs to another user");
  if (stat.mode & 0o077) chmodSync(dir, 0o700);
  accessSync(dir, constants.W_OK);
  return dir;
}
