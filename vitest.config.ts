import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Compiled code is kept from one process to the next, where bin/hermes keeps that of the program.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("node_modules/.cache/hermes", import.meta.url));

/** Files that start processes, browsers and databases come first: a slow one at the end would leave the other workers idle. */
class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { unit = [], others = [] } = Object.groupBy(await super.sort(files), ({ moduleId }) =>
      moduleId.includes("/test/unit/") ? "unit" : "others",
    );
    return [...others, ...unit];
  }
}

/** They measure their process, count what is open in it, or fill its memory: each has a process of its own. */
const ALONE = [
  "test/browser/console.test.ts",
  "test/contract/chat.test.ts",
  "test/e2e/chat-discord.test.ts",
  "test/e2e/idle-weight.test.ts",
  "test/e2e/slow-viewers.test.ts",
  "test/unit/clock.test.ts",
  "test/unit/file-tools.test.ts",
  "test/unit/mcp.test.ts",
  "test/unit/skills.test.ts",
  "test/unit/sse.test.ts",
  "test/unit/wait.test.ts",
  "test/unit/web.test.ts",
];

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: "alone", include: ALONE } },
      // A process of its own costs each file 0.4 s of a core and more: one process runs many of those that need none.
      { extends: true, test: { name: "shared", include: ["test/*/*.test.ts"], exclude: ALONE, isolate: false } },
    ],
    testTimeout: 60_000, // those that compute much took 3 s, and 40 s on a machine with ten others at work
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
    pool: "forks",
    maxWorkers: 3, // on two cores: a test file waits a third of its time, for processes that it has started
    sequence: { sequencer: SlowFirst },
    reporters: ["default", "./test/not-tested.ts"],
    globalSetup: process.platform === "linux" ? ["test/leaks.ts"] : [],
  },
});
