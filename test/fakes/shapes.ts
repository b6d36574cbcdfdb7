// Commands that are hard to end, and a look at what is alive that shares nothing with the code under test.
import { readdirSync, readFileSync } from "node:fs";

/** Each says "ready" when all of it is there. */
export const SHAPES = {
  "ignores SIGTERM": `trap "" TERM; sleep 300 & echo ready; wait; sleep 300`,
  forks: `for i in 1 2 3; do sleep 300 & done; (sleep 300; sleep 300) & echo ready; wait`,
  setsid: `setsid bash -c "echo ready; sleep 300; sleep 300" & wait`,
  "double fork": `( ( setsid bash -c 'trap "" TERM; sleep 300 & echo ready; wait; wait' & ) & ); sleep 300`,
  "holds the pipe": `setsid -f bash -c "echo ready; exec sleep 300"; exec sleep 300`,
  "endless output": `echo ready; yes "a line that comes again and again"`,
} as const;

/** Processes whose environment holds this. */
export const marked = (text: string): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const dead = /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
        return !dead && readFileSync(`/proc/${pid}/environ`, "latin1").includes(text);
      } catch {
        return false;
      }
    })
    .map(Number);

/** Resolves when it holds. For what has no event of its own: another process's death. */
export async function until(holds: () => boolean, limitMs = 10_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${String(holds)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
