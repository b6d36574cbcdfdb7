// Which names of models are taken, and what is said about the others.
import { expect, it } from "vitest";
import { checkModel } from "../../src/core/model-names.ts";

const names = [
  "claude-sonnet-5-5",
  "claude-haiku-4-5-20251001",
  "gpt-5.1",
  "qwen3:latest",
  "vendor/model",
  "openai:gpt-6-sol",
];

it.each([
  "claude-sonnet-5-5",
  "claude-haiku-4-5",
  "qwen3",
  "vendor/model:free",
  "openai:gpt-6-sol",
  "anthropic:claude-haiku-4-5",
])("takes %s", (name) => {
  expect(checkModel({ names }, name)).toEqual({});
  expect(checkModel({ names, unread: "401" }, name)).toEqual({});
});

it.each([
  ["claude-sonet-5-5", "Did you mean claude-sonnet-5-5?"],
  ["sonnet", "Did you mean claude-sonnet-5-5?"],
  ["gpt51", "Did you mean gpt-5.1?"],
  ["claude", "Did you mean claude-sonnet-5-5 or claude-haiku-4-5-20251001?"],
  ["haiku-4-5-2025", "Did you mean claude-haiku-4-5-20251001?"],
  ["llama", "Choose one of its list."],
])("refuses %s", (name, hint) => {
  expect(checkModel({ names }, name)).toEqual({ refused: `The endpoint has no model "${name}". ${hint}` });
});

it("takes any name where it cannot know, and says so", () => {
  expect(checkModel({ names: ["one"], unread: "connection refused" }, "two")).toEqual({
    unchecked: "connection refused",
  });
  expect(checkModel({ names }, "anthropic:other").unchecked).toMatch(/first endpoint/);
});
