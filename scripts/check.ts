// Everything about the source that a machine can judge without running it.
import { runSteps } from "./steps.ts";

// Two lanes of about the same length: most of the steps use more than one core by themselves.
const passed = await runSteps("check", [
  [
    { name: "architecture", command: ["vitest", "run", "--reporter=dot", "test/unit/architecture.test.ts"] },
    { name: "types of the console", command: ["tsc", "-p", "src/surfaces/web/app"] },
    { name: "lint", command: ["oxlint", "--deny-warnings"] },
  ],
  [
    { name: "dead code", command: ["knip", "--no-config-hints"] },
    { name: "types", command: ["tsc"] },
    { name: "format", command: ["biome", "check", "."] },
  ],
]);
process.exitCode = passed ? 0 : 1;
