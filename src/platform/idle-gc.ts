// V8 keeps the heap that a burst of work needed, in use or not. One collection after the work gives it back: of 105 MB of an idle
// gateway 12 MB.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { clock } from "./clock.ts";

const REST_MS = 5_000;
let collect: NodeJS.GCFunction | null = null;

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
    gc()({ type: "major", execution: "sync", flavor: "last-resort" });
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

function gc(): NodeJS.GCFunction {
  if (collect) return collect;
  // Never off again: flags are those of all threads. The store's thread, at rest at the same moment, took it from this one, which
  // ended the gateway.
  setFlagsFromString("--expose-gc");
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what V8 documents
  collect = runInNewContext("gc") as NodeJS.GCFunction;
  return collect;
}
