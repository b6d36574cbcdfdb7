// Everything about the source that a machine can judge without running it.
import { spawn } from "node:child_process";
import { runSteps } from "./steps.ts";

// Two lanes of about the same length: most of the steps use more than one core by themselves.
const passed = await runSteps("check", [
  [
    {
      name: "architecture",
      start: (how) => spawn("vitest", ["run", "--reporter=dot", "test/unit/architecture.test.ts"], how),
    },
    { name: "types of the console", start: (how) => spawn("tsc", ["-p", "src/surfaces/web/app"], how) },
    { name: "lint", start: (how) => spawn("oxlint", ["--deny-warnings"], how) },
  ],
  [
    { name: "dead code", start: (how) => spawn("knip", ["--no-config-hints"], how) },
    { name: "types", start: (how) => spawn("tsc", [], how) },
    { name: "format", start: (how) => spawn("biome", ["check", "."], how) },
  ],
]);
process.exitCode = passed ? 0 : 1;
