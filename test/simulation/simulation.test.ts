// The simulator itself: the same seeds give the same history, and its planted bugs fit the code. The campaigns are commands of
// their own (npm run simulate).
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createPool } from "./campaign.ts";
import { MUTANTS, pathOf, planted } from "./mutants.ts";

describe("the simulator", () => {
  it("plays the same seeds to the same trace, on one process or two", async () => {
    const range = { from: 7_000, count: 300, bug: "" };
    const [one, two] = await Promise.all([createPool(1).campaign(range), createPool(2).campaign(range)]);
    expect(one).toMatchObject({ failed: 0 });
    expect(two).toEqual(one);
  });

  it("has at least twenty planted bugs with names of their own", () => {
    const names = MUTANTS.map((mutant) => mutant.name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThanOrEqual(20);
  });

  it.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))(
    "%s: its text is in the source, once",
    (_, mutant) => {
      for (const { file } of mutant.edits) {
        const source = readFileSync(new URL(`../../${pathOf(file)}`, import.meta.url), "utf8");
        expect(planted(mutant, file, source)).not.toBe(source);
      }
    },
  );

  it("finds a planted bug, and says by which invariant", async () => {
    const pool = createPool(1);
    const { failed } = await pool.campaign({ from: 1, count: 500, bug: "acknowledged before the commit" });
    expect(failed).toBeGreaterThan(0);
  });
});
