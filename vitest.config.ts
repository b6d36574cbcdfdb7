import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    maxWorkers: 2, // by default one on two cores, and most of the time is spent waiting
    reporters: ["default", "./test/not-tested.ts"],
    globalSetup: process.platform === "linux" ? ["test/leaks.ts"] : [],
  },
});
