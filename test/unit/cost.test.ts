// What a model call cost.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { costOf } from "../../src/conversation/cost.ts";
import { VENDORS } from "../../src/core/providers.ts";
import { usagePlus } from "../../src/core/usage.ts";
import { listedCost } from "../../src/llm/prices.ts";

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

it("is what was recorded with the calls, unless a price is configured", () => {
  expect(costOf(PRICES, "unknown", { input: 1, output: 1, cost: 0.25 })).toBe(0.25);
  expect(costOf(PRICES, "claude-x", { input: 1_000_000, output: 0, cost: 0.5 })).toBe(3);
});

it("is not known of several calls if it is not known of one", () => {
  const known = { input: 5, output: 5, cost: 0.25 };
  const none = { input: 0, output: 0 };
  expect([known, { input: 5, output: 5 }, known].reduce(usagePlus, none)).toEqual({ input: 15, output: 15 });
  expect([known, known].reduce(usagePlus, none)).toEqual({ input: 10, output: 10, cost: 0.5 });
});

it("is known for the models of a vendor at the vendor's address, and nowhere else", () => {
  const tokens = { input: 1_000_000, cached: 400_000, written: 100_000, output: 100_000 };
  const baseUrl = "https://api.anthropic.com/v1";
  const sonnet = 0.5 * 2 + 0.1 * 2.5 + 0.4 * 0.1 + 0.1 * 10;
  for (const model of ["claude-sonnet-5-5", "claude-sonnet-5-5-20260928"])
    expect(listedCost({ baseUrl, model }, tokens)).toBeCloseTo(sonnet, 10);
  const proxy = "http://127.0.0.1:4000/v1";
  expect(listedCost({ baseUrl: proxy, model: "claude-sonnet-5-5" }, tokens)).toBe(undefined);
  expect(listedCost({ baseUrl, model: "claude-sonnet-99" }, tokens)).toBe(undefined);
  const openai = { baseUrl: "https://api.openai.com/v1", model: "gpt-5.1" };
  expect(listedCost(openai, { input: 100_000, cached: 0, written: 0, output: 0 })).toBeCloseTo(0.125, 10);
  expect(listedCost(openai, { input: 300_000, cached: 0, written: 0, output: 0 })).toBe(undefined); // its longer prompts cost more
});

it("is known for every model that is used without being named", () => {
  const tokens = { input: 1, cached: 0, written: 0, output: 1 };
  for (const { name, usual } of VENDORS)
    if (name !== "openrouter") expect(listedCost(usual, tokens), usual.model).toBeGreaterThan(0); // it says the cost itself
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
