// What the soak takes for growth.
import { describe, expect, it } from "vitest";
import { judgeGrowth, type Sample, slopeOf } from "../soak/judge.ts";

const HOURS = 8;
const COUNT = 480;
/** A sample a minute; what is given grows by so much in each hour, after a first hour of warm-up. */
const samples = (growth: Partial<Record<Exclude<keyof Sample, "at">, number>>, hours = HOURS) =>
  Array.from({ length: COUNT }, (_, n): Sample => {
    const at = (n / COUNT) * hours;
    const noise = n % 7;
    const warm = 30 * Math.min(1, at);
    const of = (name: Exclude<keyof Sample, "at">, base: number) => base + (growth[name] ?? 0) * at;
    return {
      at,
      rss: of("rss", 100_000_000) + (warm + noise) * 1_000_000,
      heap: of("heap", 40_000_000),
      external: of("external", 5_000_000),
      descriptors: Math.round(of("descriptors", 40)) + (noise % 3),
      timers: Math.round(of("timers", 4)) + (noise % 2),
      handles: Math.round(of("handles", 10)),
    };
  });
const failed = (all: readonly Sample[]) => judgeGrowth(all).flatMap(({ name, ok }) => (ok ? [] : [name]));

describe("a soak", () => {
  it("fits a line", () => {
    expect(slopeOf([0, 1, 2, 3].map((x) => ({ x, y: 3 * x + 1 })))).toBeCloseTo(3);
    expect(slopeOf([])).toBe(0);
  });

  it("passes what only warms up and varies", () => {
    expect(failed(samples({}))).toEqual([]);
  });

  it.each([
    ["rss", 2_000_000, "memory"],
    ["descriptors", 2, "descriptors"],
    ["timers", 2, "timers"],
    ["handles", 2, "handles"],
  ] as const)("finds that %s grows by %d in an hour", (name, growth, verdict) => {
    expect(failed(samples({ [name]: growth }))).toEqual([verdict]);
  });

  it("does not judge the memory of a short one", () => {
    expect(failed(samples({ rss: 50_000_000 }, 0.2))).toEqual([]);
  });
});
