// The rest of `npm test`. The tests wait a third of their time, for processes that they have started. The simulator only computes,
// so it has the lowest priority: it takes what the tests leave, and no test waits for it.
import { runSteps } from "./steps.ts";

const SIMULATE = ["nice", "-n", "19", "node", "scripts/simulate.ts"] as const;

const passed = await runSteps("test", [
  [
    { name: "tests", command: ["vitest", "run"], live: true },
    { name: "kill-test", command: ["node", "scripts/kill-test.ts", "--runs", "20"] },
  ],
  [
    { name: "simulate --bugs", command: [...SIMULATE, "--bugs", "--schedules", "100000"] },
    { name: "simulate", command: [...SIMULATE, "--schedules", "20000"] },
    { name: "policy-fuzz", command: ["node", "scripts/policy-fuzz.ts", "--commands", "20000"] },
  ],
]);
process.exitCode = passed ? 0 : 1;
