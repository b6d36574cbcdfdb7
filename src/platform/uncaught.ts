// Errors that nobody caught, in a promise or not.
import type { Log } from "../core/ports.ts";

/** Rejects with the first of them. From now on they do not end the process: whoever asked sees to that, in good order. */
export function uncaught(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {}); // nobody may be waiting yet
  process.on("uncaughtException", reject); // also for promises, where nobody listens for those alone
  return promise;
}

/** Logs all of them. Returns how to stop that. */
export function logUncaught(log: Log): () => void {
  const write = (error: Error, origin: string) =>
    log("error", "process.uncaught", { origin, error: error.stack ?? error });
  process.on("uncaughtExceptionMonitor", write);
  return () => process.off("uncaughtExceptionMonitor", write);
}
