// packages: ai @ai-sdk/openai @ai-sdk/openai-compatible zod
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import * as z from "zod";

const play = (...replies) => `play:${JSON.stringify(replies)}`;
const { HERMES_KEY: apiKey, OPENAI_BASE_URL: baseURL } = process.env;
const openai = createOpenAI({ apiKey, baseURL });
const models = {
  chat: openai.chat("hermes-agent"),
  responses: openai.responses("hermes-agent"),
  compatible: createOpenAICompatible({ name: "hermes", apiKey, baseURL })("hermes-agent"),
};
const weather = tool({
  description: "the weather",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `rain in ${city}`,
});

for (const [name, model] of Object.entries(models)) {
  const { text } = await generateText({ model, prompt: play({ text: "one" }) });
  assert.equal(text, "one", name);

  assert.equal(await streamText({ model, prompt: play({ text: ["t", "wo"] }) }).text, "two", name);

  const calls = [{ name: "weather", args: { city: "Oslo" } }];
  const acted = await generateText({
    model,
    tools: { weather },
    stopWhen: stepCountIs(3),
    prompt: play({ calls }, { text: "It rains." }),
  });
  assert.equal(acted.text, "It rains.", name);
  assert.equal(acted.steps[0].toolResults[0].output, "rain in Oslo", name);

  const { output } = await generateText({
    model,
    output: Output.object({ schema: z.object({ age: z.number() }) }),
    prompt: play({ text: '{"age": 40}' }),
  });
  assert.deepEqual(output, { age: 40 }, name);
}
