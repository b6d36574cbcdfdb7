// What a model call cost.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { costOf } from "../../src/conversation/cost.ts";

const PRICES = {
  "claude-x": { input: 3, output: 15, cached: 0.3 },
  "openai:shared": { input: 1, output: 1 },
  shared: { input: 2, output: 2 },
  "openai:only": { input: 4, output: 4 },
  "llama3:8b": { input: 5, output: 5 },
  "vendor/model": { input: 6, output: 6 },
  free: { input: 0, output: 0 },
};
const million = { input: 1_000_000, output: 0 };

it("counts what was read from the cache as a part of what was read, at its own price", () => {
  const usage = { input: 1_000_000, output: 100_000, cached: 400_000 };
  expect(costOf(PRICES, "anthropic:claude-x", usage)).toBeCloseTo(0.6 * 3 + 0.4 * 0.3 + 0.1 * 15, 10);
});

it("takes the server's word for it, where it has one", () => {
  expect(costOf(PRICES, "claude-x", { input: 1_000_000, output: 0, cost: 0.5 })).toBe(0.5);
  expect(costOf(PRICES, "unknown", { input: 1, output: 1, cost: 0.25 })).toBe(0.25);
});

it("counts it like the rest where it has no price of its own", () => {
  expect(costOf(PRICES, "shared", { input: 1_000_000, output: 500_000, cached: 1_000_000 })).toBe(3);
});

it("never counts more from the cache than was read", () => {
  expect(costOf(PRICES, "claude-x", { input: 0, output: 0, cached: 1_000_000 })).toBe(0);
});

it.each([
  ["claude-x", 3],
  ["anthropic:claude-x", 3],
  ["openai-compatible:claude-x", 3],
  ["openai:shared", 1],
  ["openai-compatible:shared", 2],
  ["shared", 2],
  ["only", 4],
  ["openai:only", 4],
  ["openai-compatible:llama3:8b", 5],
  ["llama3:8b", 5],
  ["openai-compatible:vendor/model", 6],
  ["demo:free", 0],
])("finds the price of %s", (model, dollars) => {
  expect(costOf(PRICES, model, million)).toBe(dollars);
});

it.each(["openai:unheard", "anthropic:only", "8b", "model", "claude", "constructor", "__proto__", ""])(
  "does not know the price of %s",
  (model) => {
    expect(costOf(PRICES, model, million)).toBe(null);
  },
);

it("takes the prices as they are configured, and says what is wrong with one", () => {
  const home = mkdtempSync(join(tmpdir(), "hermes-prices-"));
  try {
    const config = (text: string) => {
      writeFileSync(join(home, "config.yaml"), text);
      return loadConfig({ home, env: {} }).config;
    };
    const { prices } = config('prices:\n  vendor/m-4.1: { input: "3", output: 15 }\n');
    expect(costOf(prices, "openai-compatible:vendor/m-4.1", { input: 1_000_000, output: 1_000_000 })).toBe(18);
    expect(config("").prices).toEqual({});
    expect(() => config("prices:\n  m: { input: -1, output: 1 }\n")).toThrow(
      /config.yaml:2: prices.m.input must be a number of at least 0, not -1/,
    );
    expect(() => config("prices:\n  m: { input: 1 }\n")).toThrow(/prices.m.output is missing/);
    expect(() => config("prices:\n  m: { in: 1, input: 1, output: 1 }\n")).toThrow(/prices.m.in is not a known key/);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});
