// V8 keeps the heap that a burst of work needed, in use or not. One collection after the work gives it back: of 105 MB of an idle
// gateway 12 MB.
import { clock } from "./clock.ts";

const REST_MS = 5_000;

/** Collects once when nothing was active for a while. `idle` is asked before, because it takes some tens of milliseconds. */
export function collectWhenIdle(idle: () => Promise<boolean> | boolean): { active(): void; close(): void } {
  let last = 0;
  let timer: NodeJS.Timeout | null = null;

  function wait(ms: number): void {
    timer = setTimeout(() => void look(), ms).unref();
  }

  async function look(): Promise<void> {
    const left = last + REST_MS - clock.monotonic();
    if (left > 0) return wait(left);
    const at = last;
    const resting = await Promise.try(idle).catch(() => false);
    if (timer === null) return; // closed meanwhile
    if (!resting || last !== at) return wait(REST_MS);
    timer = null;
    await collect();
  }

  return {
    active() {
      last = clock.monotonic();
      if (timer === null) wait(REST_MS);
    },
    close() {
      if (timer) clearTimeout(timer);
      timer = null;
    },
  };
}

/** Not by `gc()`: its flag (--expose-gc) changes the flags that compiled code was made with, so V8 would refuse all code that Node or
 *  we have compiled before, and the first turn after a rest would compile what it loads. */
async function collect(): Promise<void> {
  const { Session } = await import("node:inspector/promises");
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage").finally(() => session.disconnect());
}
