// Waits that end: a signal that follows others, work with a deadline, pauses that grow. Abort listeners and races of promises
// are written here only. AbortSignal.any leaks on a signal that lives longer (Node 24), and a listener or a timer that is
// left behind keeps memory, or the process.
import type { Clock } from "./ports.ts";

/** Calls `fire` when the signal aborts, and at once if it has. Returns how to stop listening. */
export function onAbort(signal: AbortSignal | undefined, fire: () => void): () => void {
  if (signal?.aborted) fire();
  else signal?.addEventListener("abort", fire);
  return () => signal?.removeEventListener("abort", fire);
}

/** Calls `fire` after `ms`. Returns how to call it off. */
export function after(clock: Clock, ms: number, fire: () => void): () => void {
  const off = new AbortController();
  void clock.sleep(ms, off.signal).then(() => {
    if (!off.signal.aborted) fire();
  });
  return () => off.abort("over"); // with a reason: without one, each makes an exception and its stack
}

export type Linked = {
  signal: AbortSignal;
  abort(reason?: unknown): void;
  /** The work is over: from here on the signal follows nobody. */
  release(): void;
};

/** A signal of its own that also aborts when one of the others does, with their reason, or when its time is over. */
export function linked(
  signals: readonly (AbortSignal | undefined)[],
  limit?: { clock: Clock; ms: number; reason?: unknown },
): Linked {
  const own = new AbortController();
  const releases = signals.map((signal) => onAbort(signal, () => own.abort(signal?.reason)));
  if (limit) releases.push(after(limit.clock, limit.ms, () => own.abort(limit.reason)));
  return {
    signal: own.signal,
    abort: (reason) => own.abort(reason),
    release: () => {
      for (const release of releases) release();
    },
  };
}

/** What the work gives; undefined when that takes longer than `ms`, or when the signal aborts first. The work goes on then, and
 *  what it throws later is ignored. */
export async function within<T>(
  clock: Clock,
  ms: number,
  work: Promise<T>,
  signal?: AbortSignal,
): Promise<T | undefined> {
  const enough = linked([signal]);
  try {
    return await Promise.race([work, clock.sleep(ms, enough.signal).then(() => undefined)]);
  } finally {
    enough.release();
    enough.abort("over");
  }
}

/** What the work gives. Rejects with the signal's reason when that aborts first: for work that cannot be stopped, or that takes
 *  its time with it. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const release = onAbort(signal, () => reject(signal.reason));
  return Promise.race([work, promise]).finally(release);
}

/** How long to wait before the next attempt, of which there were `attempt` before: twice as long each time, at most `most`. With a
 *  random number in [0, 1) it is from half to all of that, so that many who failed together do not come back together. */
export const backoff = (attempt: number, { first, most }: { first: number; most: number }, random = 1): number =>
  Math.min(most, first * 2 ** attempt) * (0.5 + random / 2);
