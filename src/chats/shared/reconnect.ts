// A connection that is made again after each end, with growing pauses, until `stop`.
import { ConfigError, messageOf } from "../../core/errors.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { backoff } from "../../core/wait.ts";

/** Why a connection has ended. `final`: another try soon would end in the same way. */
export type End = { why: string; final: boolean };

type Options = Ambient & {
  platform: string;
  random: Random;
  /** One connection, until it is over or the signal says so. It calls `onState` whenever it is connected, or no longer. */
  connect(onState: (connected: boolean) => void, signal: AbortSignal): Promise<End>;
  /** `error` is empty while it is connected, and when it is not wanted. */
  changed(connected: boolean, error: string): void;
};

/** A growing pause, as chat platforms bear it. */
export const pause = (attempt: number, random: Random, { first = 1_000, most = 60_000 } = {}): number =>
  backoff(attempt, { first, most }, random());

const SLOW = { first: 60_000, most: 600_000 };

export function keepConnected({ platform, clock, random, log, connect, changed }: Options) {
  const over = new AbortController();
  const first = Promise.withResolvers<void>();
  let running: Promise<void> = Promise.resolve();

  async function run(): Promise<void> {
    let failures = 0;
    for (let begun = false; !over.signal.aborted; begun = true) {
      let wasConnected = false;
      const end = await connect((connected) => {
        wasConnected ||= connected;
        changed(connected, connected ? "" : "The connection was lost.");
        first.resolve();
      }, over.signal).catch((error: unknown): End => ({ why: messageOf(error), final: false }));
      if (over.signal.aborted) return;
      changed(false, end.why);
      log(end.final ? "error" : "warn", "chat.disconnected", { platform, error: end.why });
      if (end.final && !begun && !wasConnected) return first.reject(new ConfigError(end.why));
      first.resolve();
      failures = wasConnected ? 0 : failures;
      await clock.sleep(pause(failures, random, end.final ? SLOW : {}), over.signal);
      failures += 1;
    }
  }

  return {
    /** Resolves when it is connected or has failed for now; rejects with a ConfigError when none ever will. */
    start: () => {
      running = run();
      return first.promise;
    },
    /** Resolves when nothing of it is left. */
    async stop() {
      over.abort();
      await running;
      first.resolve();
      changed(false, "");
    },
  };
}
