// Where a session's commands leave things, below HERMES_HOME/terminal: long outputs, its /tmp, the directory it is in.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";

type Place = { outputs: string; tmp: string };
export type Places = {
  of(session: string): Place;
  cwd(session: string): string | null;
  /** Kept through restarts: what was approved for one directory must not run in another. */
  setCwd(session: string, cwd: string): void;
};

const KEPT_MS = 30 * 24 * 3600 * 1000;

export function createPlaces(home: string, log: Log): Places {
  const root = join(home, "terminal");
  removeOld(root, log);
  const inside = new Map<string, string>();
  const dirOf = (session: string) => join(root, createHash("sha256").update(session).digest("hex").slice(0, 32));

  function of(session: string): Place {
    const [outputs = "", tmp = ""] = ["outputs", "tmp"].map((name) => join(dirOf(session), name));
    for (const dir of [outputs, tmp]) mkdirSync(dir, { recursive: true, mode: 0o700 });
    return { outputs, tmp };
  }

  function cwd(session: string): string | null {
    const known = inside.get(session) ?? read(join(dirOf(session), "cwd"));
    if (known) inside.set(session, known);
    return known;
  }

  function setCwd(session: string, cwd: string): void {
    inside.set(session, cwd);
    const file = join(dirOf(session), "cwd");
    try {
      writeFileSync(`${file}.new`, cwd, { mode: 0o600 });
      renameSync(`${file}.new`, file);
    } catch (error) {
      log("warn", "terminal.cwd_not_kept", { session, error: messageOf(error) });
    }
  }

  return { of, cwd, setCwd };
}

function read(file: string): string | null {
  try {
    return readFileSync(file, "utf8") || null;
  } catch {
    return null;
  }
}

function removeOld(root: string, log: Log): void {
  try {
    mkdirSync(root, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(root)) {
      const dir = join(root, name);
      const used = [dir, join(dir, "outputs"), join(dir, "tmp")].map((path) => changed(path));
      if (Math.max(...used) < Date.now() - KEPT_MS) rmSync(dir, { recursive: true, force: true });
    }
  } catch (error) {
    log("warn", "terminal.old_files_kept", { error: messageOf(error) });
  }
}

const changed = (path: string) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
