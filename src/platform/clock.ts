import type { Clock } from "../core/ports.ts";
import { onAbort } from "../core/wait.ts";

/** setTimeout fires at once for a longer delay. */
const LONGEST = 2 ** 31 - 1;

export const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),

  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      let timer: NodeJS.Timeout;
      const done = () => {
        clearTimeout(timer);
        release();
        resolve();
      };
      const wait = (left: number) => {
        timer = left > LONGEST ? setTimeout(() => wait(left - LONGEST), LONGEST) : setTimeout(done, left);
      };
      const release = onAbort(signal, done);
      wait(Math.max(0, ms));
    }),
};
