// Chores of a running process: once at the start, then every hour.
import type { Ambient } from "../core/ports.ts";
import { logFailure } from "./log-failure.ts";

const HOUR_MS = 3_600_000;

/** Runs the chores one after the other. A chore that fails is tried again after an hour and does not affect the
 *  others. Returns a function that ends this and resolves when no chore runs any more. */
export function everyHour(chores: Iterable<() => Promise<void>>, { clock, log }: Ambient): () => Promise<void> {
  const over = new AbortController();
  async function go(): Promise<void> {
    while (!over.signal.aborted) {
      for (const chore of chores) {
        await chore().catch(logFailure(log, "warn", "chore.failed"));
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
