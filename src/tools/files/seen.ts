// What each session knows about each file. Kept in memory: after a restart a file counts as never read, which is safe.
import { createHash } from "node:crypto";
import { createBounded } from "../../core/bounded.ts";

/** `hash` is null if the file is too large to read in full. */
export type Mark = { size: number; mtimeNs: bigint; hash: string | null };
export type Marks = ReturnType<typeof createMarks>;

/** Bytes of all of it: some ten thousand files. */
const MOST_KNOWN = 8_000_000;
/** What one costs beside its key. */
const MARK = 300;

export function createMarks() {
  const known = createBounded<Mark>(MOST_KNOWN);
  const keyOf = (session: string, real: string) => `${session}\0${real}`;
  return {
    get: (session: string, real: string) => known.get(keyOf(session, real)),
    set(session: string, real: string, mark: Mark): void {
      const key = keyOf(session, real);
      known.set(key, mark, key.length + MARK);
    },
    delete: (session: string, real: string) => known.delete(keyOf(session, real)),
  };
}

export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** A file of which only the time changed is the same. */
export const isSame = (mark: Mark, now: Mark): boolean =>
  mark.size === now.size &&
  (mark.hash === null || now.hash === null ? mark.mtimeNs === now.mtimeNs : mark.hash === now.hash);
