// Writes what changes often: the latest value of each key, at most once a second, so that a busy channel does not cost a write for each event.
// After a crash Discord's events since the last write come twice, and each is taken once.
import type { Ambient } from "../../core/ports.ts";
import { logFailure } from "../../platform/log-failure.ts";

const EVERY_MS = 1_000;

/** `event`: what the log says where a write fails. */
export function openWriter<V>(write: (key: string, value: V) => Promise<void>, event: string, { clock, log }: Ambient) {
  const unwritten = new Map<string, V>();
  const writers = new Map<string, Promise<void>>();
  const stopping = new AbortController();

  async function work(key: string): Promise<void> {
    for (let value = unwritten.get(key); value !== undefined; value = unwritten.get(key)) {
      unwritten.delete(key);
      await write(key, value).catch(logFailure(log, "warn", event, { platform: "discord", key }));
      await clock.sleep(EVERY_MS, stopping.signal);
    }
    writers.delete(key);
  }

  return {
    save(key: string, value: V): void {
      unwritten.set(key, value);
      if (!writers.has(key)) writers.set(key, work(key));
    },
    /** Resolves when everything is written. */
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(writers.values());
    },
  };
}
