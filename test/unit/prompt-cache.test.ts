// Providers keep the beginning of a request for the next one, and bill a tenth for it. It must not change without need: over a
// long conversation with calls, thoughts, memory and summaries, each request begins as the one before it did.

import { afterEach, describe, expect, it } from "vitest";
import { fixedTokens } from "../../src/agent/context.ts";
import type { Memory, Tool } from "../../src/core/ports.ts";
import { createModel } from "../../src/llm/provider.ts";
import { clock } from "../../src/platform/clock.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";
import { bootEngine } from "../fakes/scripted.ts";

type Body = Record<string, unknown>;
const TURNS = 20;

let llm: FakeLlm;
afterEach(async () => {
  expect(llm.violations).toEqual([]);
  await llm.close();
});

describe.each(["openai-compatible", "openai", "anthropic"] as const)("over %s", (provider) => {
  it("a request begins as the one before it, up to the last message of the user", async () => {
    llm = await startFakeLlm();
    const model = provider === "anthropic" ? "claude-sonnet-4-5" : "gpt-5.1";
    const { send, ended, kill, journal } = await bootEngine({
      clock,
      model: createModel({ provider, model, baseUrl: llm.url, apiKey: "key", context: 1_500, because: "" }),
      tools: [look],
      memory,
      limits: { text: 10_000 },
    });
    llm.script((request) => {
      if (request.system.startsWith("You write the summary")) return { text: "They talked." };
      const last = request.messages.at(-1);
      const calls = [1, 2].map((n) => ({ name: "look", args: { at: `${request.number}-${n}` } }));
      if (last?.role === "user") return { reasoning: `I think ${request.number}`, text: "wait", calls };
      return { reasoning: "I see", text: `This is ${"what it is ".repeat(10)}` };
    });
    for (let turn = 0; turn < TURNS; turn++) {
      const { id } = await send("s", `question ${turn}, ${"and so on ".repeat(20)}`, { options: { effort: "low" } });
      expect(await ended("s", id)).toBe("completed");
    }
    kill();

    const summaries = journal("s").filter(({ kind }) => kind === "compacted").length;
    expect(summaries).toBeGreaterThan(1);
    const asked = llm.requests.filter(({ system }) => !system.startsWith("You write the summary"));
    expect(new Set(asked.map(({ body }) => JSON.stringify(fixed(body as Body)))).size).toBe(1);
    let changed = 0;
    for (const [i, { body }] of asked.entries()) {
      const before = asked[i - 1];
      if (!before) continue;
      const kept = beginning(messagesOf(before.body as Body));
      if (JSON.stringify(messagesOf(body as Body).slice(0, kept.length)) !== JSON.stringify(kept)) changed++;
    }
    expect(changed).toBe(summaries);
  });

  it("each list of tools is told as it is, whichever one was told before", async () => {
    llm = await startFakeLlm();
    const model = createModel({ provider, model: "m", baseUrl: llm.url, apiKey: "key", context: 1_500, because: "" });
    const lists = [[look], [look, { ...look, name: "see" }], [{ ...look, description: "Looks better." }]];
    const [one = 0, two] = lists.map((tools) => fixedTokens("", tools));
    expect(two).toBeGreaterThan(one);
    const messages = [{ role: "user", text: "look" } as const];
    const hear = { alive: () => {}, text: () => {}, reasoning: () => {} };
    for (const tools of [...lists, ...lists])
      await model.call({ session: "s", system: "", messages, tools, final: false }, hear, new AbortController().signal);
    const told = llm.requests.map(({ body }) => JSON.stringify((body as Body)["tools"]));
    expect(told.slice(3)).toEqual(told.slice(0, 3));
    expect(
      told.map((text) => [text.split('"look"').length - 1, text.includes('"see"'), text.includes("better")]),
    ).toEqual([...lists, ...lists].map((tools) => [1, tools.length === 2, tools[0]?.description === "Looks better."]));
  });
});

const look: Tool = {
  name: "look",
  description: "Looks at something.",
  schema: { type: "object", properties: { at: { type: "string" } } },
  repeatable: true,
  judge: () => ({ gate: "run" }),
  run: () => Promise.resolve({ ok: true, text: "seen" }),
};

/** Knows something else every time. */
const memory: Memory = {
  writers: [],
  remember: () => Promise.resolve(),
  recall: ({ turn }) => Promise.resolve(`(known: ${turn})`),
};

/** All but what was said. */
const fixed = (body: Body): Body => ({ ...body, messages: undefined, input: undefined });

/** Without the marks that say where the beginning ends: they move on with it. */
function messagesOf({ messages, input }: Body): Body[] {
  return JSON.parse(JSON.stringify(messages ?? input), (key, value) => (key === "cache_control" ? undefined : value));
}

/** Up to where a person last spoke; results of tools come as the user's with Anthropic. */
function beginning(messages: Body[]): Body[] {
  const isResult = ({ content }: Body) => Array.isArray(content) && JSON.stringify(content).includes('"tool_result"');
  return messages.slice(
    0,
    messages.findLastIndex((message) => message["role"] === "user" && !isResult(message)),
  );
}
