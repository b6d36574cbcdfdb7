// After the last test nothing that a test started may be alive: a tool's process, or the program itself.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** The last of them may just be dying. */
const PATIENCE = 50;

export function setup() {
  const before = new Set(ours());
  return async function teardown() {
    for (let look = 0; look < PATIENCE; look++) {
      if (left(before).length === 0) return;
      await sleep(100);
    }
    throw new Error(`These processes are still alive after the tests:\n${left(before).join("\n")}`);
  };
}

const left = (before: Set<string>) => ours().filter((one) => !before.has(one));

function ours(): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      const environ = readFileSync(`/proc/${pid}/environ`, "latin1");
      const command = readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim();
      const marked = /(^|\0)HERMES_(CALL|OWNER)=/.test(environ);
      const program = command.includes("/src/main.ts") && /(^|\0)HERMES_HOME=[^\0]*hermes-/.test(environ);
      return marked || program ? [`${pid} ${command.slice(0, 200)}`] : [];
    } catch {
      return []; // gone, or not ours to look at
    }
  });
}
