// What each session knows about each file. Kept in memory: after a restart a file counts as never read, which is safe.
import { createHash } from "node:crypto";

/** `hash` is null if the file is too large to read in full. */
export type Mark = { size: number; mtimeNs: bigint; hash: string | null };
export type Marks = {
  get(session: string, real: string): Mark | undefined;
  set(session: string, real: string, mark: Mark): void;
  delete(session: string, real: string): void;
};

const MOST_SESSIONS = 200;
const MOST_FILES = 1_000;

export function createMarks(): Marks {
  const sessions = new Map<string, Map<string, Mark>>();
  return {
    get: (session, real) => sessions.get(session)?.get(real),
    set(session, real, mark) {
      const files = sessions.get(session) ?? new Map<string, Mark>();
      renew(files, real, mark, MOST_FILES);
      renew(sessions, session, files, MOST_SESSIONS);
    },
    delete: (session, real) => void sessions.get(session)?.delete(real),
  };
}

/** Evicts the least recently used first. */
function renew<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}

export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** A file of which only the time changed is the same. */
export const isSame = (mark: Mark, now: Mark): boolean =>
  mark.size === now.size &&
  (mark.hash === null || now.hash === null ? mark.mtimeNs === now.mtimeNs : mark.hash === now.hash);
