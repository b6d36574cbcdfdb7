// After the last test nothing that a test started may be alive: a tool's process, the program itself, or any other process
// that has this run's mark in its environment. What is left is named, and killed if it has the mark: one that inherited our
// output would keep whoever reads it (a CI) waiting for an end of file that never comes.
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** The last of them may just be dying. */
const PATIENCE = 50;

/** Of all projects in vitest.config.ts. The workers are started later: they inherit it, and so does what they start. */
const RUN = (process.env.HERMES_TEST_RUN ??= randomUUID());

export function setup() {
  const before = new Set(ours());
  return async function teardown() {
    for (let look = 0; look < PATIENCE; look++) {
      if (left(before).length === 0) return;
      await sleep(100);
    }
    const alive = left(before);
    for (const one of alive)
      if (runOf(Number.parseInt(one, 10)) === RUN) process.kill(Number.parseInt(one, 10), "SIGKILL");
    throw new Error(`These processes are still alive after the tests:\n${alive.join("\n")}`);
  };
}

const left = (before: Set<string>) => ours().filter((one) => !before.has(one));

function ours(): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      const environ = readFileSync(`/proc/${pid}/environ`, "latin1");
      const command = readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim();
      const run = runOf(Number(pid));
      if (run && run !== RUN) return []; // another run's, in another clone
      const marked = /(^|\0)HERMES_(CALL|OWNER)=/.test(environ);
      const program = command.includes("/src/main.ts") && /(^|\0)HERMES_HOME=[^\0]*hermes-/.test(environ);
      return run || marked || program ? [`${pid} ${command.slice(0, 200)}`] : [];
    } catch {
      return []; // gone, or not ours to look at
    }
  });
}

function runOf(pid: number): string | undefined {
  return /(?:^|\0)HERMES_TEST_RUN=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, "latin1"))?.[1];
}
