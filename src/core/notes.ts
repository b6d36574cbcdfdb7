// Notes that several may change at once.
import type { Notes } from "./store.ts";

/** Makes the next value from the one that is there, again if somebody else changed it meanwhile. If `make` returns its argument, nothing
 *  is written. Returns the value that is there in the end. */
export async function changeNote<T>(
  notes: Pick<Notes, "get" | "swap">,
  key: string,
  make: (value: unknown) => T,
): Promise<T> {
  for (;;) {
    const from = await notes.get(key);
    const to = make(from);
    if (to === from || (await notes.swap(key, from, to))) return to;
  }
}
