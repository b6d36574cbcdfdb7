// Errors that nobody caught, in promises and elsewhere.
import type { Log } from "../core/ports.ts";

/** Rejects with the first one. From now on such errors do not end the process: the caller shuts it down in good
 *  order. */
export function uncaught(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {}); // nobody may be waiting yet
  process.on("uncaughtException", reject); // also called for promises, as long as there is no listener for those
  return promise;
}

/** Logs all of them. Returns a function that stops logging. */
export function logUncaught(log: Log): () => void {
  const write = (error: Error, origin: string) =>
    log("error", "process.uncaught", { origin, error: error.stack ?? error });
  process.on("uncaughtExceptionMonitor", write);
  return () => process.off("uncaughtExceptionMonitor", write);
}
