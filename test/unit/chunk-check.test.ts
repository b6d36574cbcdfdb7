// What passes our quick check of a chunk would pass the library's.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { isPlainChunk } from "../../src/llm/chunk-check.ts";

const model = createOpenAICompatible({ name: "m", baseURL: "http://127.0.0.1" })("m");
type Schema = { "~standard": { validate(value: unknown): { issues?: unknown; value?: unknown } } };
const library = Reflect.get(model, "chunkSchema") as Schema;

const chunk = (delta: unknown, more: object = {}) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: null, logprobs: null }],
  usage: null,
  ...more,
});

it("a piece of text or of reasoning passes by the quick check, and so does the end", () => {
  for (const delta of [{ role: "assistant", content: "Hi" }, { content: "" }, { reasoning: "hm", content: null }, {}])
    expect(isPlainChunk(chunk(delta))).toBe(true);
});

it("what the library must see is left to the library", () => {
  for (const delta of [
    { tool_calls: [] },
    { content: [] },
    { refusal: "no" },
    { content: 1 },
    { role: "user" },
    null,
    [],
  ])
    expect(isPlainChunk(chunk(delta))).toBe(false);
  for (const more of [{ error: null }, { usage: {} }, { choices: [] }, { choices: {} }, { created: "now" }])
    expect(isPlainChunk(chunk({}, more))).toBe(false);
  for (const other of [null, "text", 1, [], {}, { error: { message: "no" } }]) expect(isPlainChunk(other)).toBe(false);
});

it("whatever passes the quick check passes the library's", () => {
  const odd = fc.oneof(fc.constantFrom("Hi", "", "assistant", null, 1, true, undefined), fc.jsonValue());
  const some = (keys: string[]) => fc.dictionary(fc.constantFrom(...keys), odd, { maxKeys: 4 });
  const deltas = fc.oneof(
    odd,
    some(["role", "content", "reasoning", "reasoning_content", "refusal", "tool_calls", "x"]),
  );
  const choices = fc.record({ delta: deltas, finish_reason: odd }, { requiredKeys: [] });
  const chunks = fc.tuple(some(["id", "model", "created", "usage", "error", "x"]), fc.array(choices, { maxLength: 2 }));
  let passed = 0;
  fc.assert(
    fc.property(chunks, ([top, all]) => {
      const value = { ...top, choices: all };
      if (!isPlainChunk(value)) return;
      passed++;
      expect(library["~standard"].validate(value).issues).toBeUndefined();
    }),
    { numRuns: 3_000, seed: 19 },
  );
  expect(passed).toBeGreaterThan(20);
});
