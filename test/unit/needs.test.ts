// A test that is left out where something is missing is one that nobody sees fail: each says what it needs.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { NOT_TESTED, needs } from "../needs.ts";

const root = join(import.meta.dirname, "..");

describe("a test that is left out", () => {
  it("says why in its name; one that is not left out has its own", async () => {
    const lacking = NOT_TESTED.exec("the sandbox [not tested: no sandbox: it is off] ends by itself");
    expect(lacking?.[1]).toBe("no sandbox: it is off");
    await expect(needs()).resolves.toMatchObject({ it: expect.any(Function), describe: expect.any(Function) });
  });

  it("is so only through needs.ts", () => {
    const way = /\.(?:skip|skipIf|runIf|todo|fails|only)\b\s*[.(]|\bx(?:it|describe)\(/;
    const files = globSync("**/*.test.ts", { cwd: root }).filter((file) => !file.endsWith("needs.test.ts"));
    expect(files.length).toBeGreaterThan(50);
    expect(files.filter((file) => way.test(readFileSync(join(root, file), "utf8")))).toEqual([]);
  });
});
