// Where a session's commands leave things, below HERMES_HOME/terminal: long outputs, its /tmp, the directory it is in.
import { mkdirSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { createBounded } from "../../core/bounded.ts";
import { messageOf } from "../../core/errors.ts";
import type { Log } from "../../core/ports.ts";
import { attempt } from "../../platform/attempt.ts";
import { replaceFile } from "../../platform/home.ts";
import { createSweep, removeSessionDir, sessionDir } from "../../platform/session-dirs.ts";

type SessionDir = { outputs: string; tmp: string };

/** Of so many sessions the directory is remembered; of others it is read again. */
const MOST_REMEMBERED = 1_000;

export function createPlaces(home: string, log: Log) {
  const root = join(home, "terminal");
  const inside = createBounded<string>(MOST_REMEMBERED);
  const dirOf = (session: string) => sessionDir(root, session);

  function of(session: string): SessionDir {
    const [outputs = "", tmp = ""] = ["outputs", "tmp"].map((name) => join(dirOf(session), name));
    for (const dir of [outputs, tmp]) mkdirSync(dir, { recursive: true, mode: 0o700 });
    const now = new Date();
    utimesSync(dirOf(session), now, now); // it is in use, also where nothing new is written
    return { outputs, tmp };
  }

  function cwd(session: string): string | null {
    const known = inside.get(session) ?? (attempt(() => readFileSync(join(dirOf(session), "cwd"), "utf8")) || null);
    if (known) inside.set(session, known);
    return known;
  }

  /** Kept through restarts: what was approved for one directory must not run in another. */
  function setCwd(session: string, cwd: string): void {
    inside.set(session, cwd);
    try {
      replaceFile(join(dirOf(session), "cwd"), cwd);
    } catch (error) {
      log("warn", "terminal.cwd_not_kept", { session, error: messageOf(error) });
    }
  }

  return {
    of,
    cwd,
    setCwd,
    async forget(session: string) {
      inside.delete(session);
      await removeSessionDir(root, session);
    },
    /** Removes what nobody has used for long, a part of it each time; not of these sessions. */
    sweep: createSweep(root),
  };
}
