import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    reporters: ["default", "./test/not-tested.ts"],
    globalSetup: process.platform === "linux" ? ["test/leaks.ts"] : [],
  },
});
