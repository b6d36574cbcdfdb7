import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Each test file has a process of its own. Compiled code is kept from one to the next, where bin/hermes keeps that of the program.
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

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    maxWorkers: 3, // on two cores: a test file waits a third of its time, for processes that it has started
    sequence: { sequencer: SlowFirst },
    reporters: ["default", "./test/not-tested.ts"],
    globalSetup: process.platform === "linux" ? ["test/leaks.ts"] : [],
  },
});
