// What must go on while a process lives: once at the start, then every hour.
import { messageOf } from "../core/errors.ts";
import type { Clock, Log } from "../core/ports.ts";

const HOUR_MS = 3_600_000;

/** One after the other; one that fails is tried again in an hour, and keeps nobody from their turn. Returns how to end it,
 *  which resolves when nothing of it runs any more. */
export function everyHour(
  chores: Iterable<() => Promise<void>>,
  { clock, log }: { clock: Clock; log: Log },
): () => Promise<void> {
  const over = new AbortController();
  async function go(): Promise<void> {
    while (!over.signal.aborted) {
      for (const chore of chores) {
        await chore().catch((error: unknown) => log("warn", "chore.failed", { error: messageOf(error) }));
        if (over.signal.aborted) return;
      }
      await clock.sleep(HOUR_MS, over.signal);
    }
  }
  const going = go();
  return async () => {
    over.abort("over");
    await going;
  };
}
