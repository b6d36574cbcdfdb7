// The rest of `npm test`. The tests wait a third of their time, for processes that they have started. The simulator only computes,
// so it has the lowest priority: it takes what the tests leave, and no test waits for it.
import { type SpawnOptions, spawn } from "node:child_process";
import { runSteps } from "./steps.ts";

const simulate = (args: string[]) => (how: SpawnOptions) =>
  spawn("nice", ["-n", "19", "node", "scripts/simulate.ts", ...args], how);

const passed = await runSteps("test", [
  [
    { name: "tests", start: (how) => spawn("vitest", ["run"], { ...how, stdio: "inherit" }) },
    { name: "kill-test", start: (how) => spawn("node", ["scripts/kill-test.ts", "--runs", "20"], how) },
  ],
  [
    { name: "simulate --bugs", start: simulate(["--bugs", "--schedules", "100000"]) },
    { name: "simulate", start: simulate(["--schedules", "20000"]) },
    { name: "policy-fuzz", start: (how) => spawn("node", ["scripts/policy-fuzz.ts", "--commands", "20000"], how) },
  ],
]);
process.exitCode = passed ? 0 : 1;
