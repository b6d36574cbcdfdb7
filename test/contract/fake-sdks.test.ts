// The fake providers, heard by the SDKs that the providers themselves publish: what they cannot read is wrong, whatever our own
// client makes of it. Anthropic's, Mistral's and Google's are left out, being larger than 10 MB each.
import Groq, { RateLimitError as GroqRateLimitError } from "groq-sdk";
import OpenAI, { APIError, RateLimitError } from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DIALECTS } from "../fakes/llm/dialects.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

type Name = keyof typeof DIALECTS;
const TOOL = {
  type: "function" as const,
  function: {
    name: "look",
    description: "Looks at something.",
    parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  },
};
const GO = { role: "user" as const, content: "go" };
const LOOK = { name: "look", args: { name: "one" } };

let llm: FakeLlm;
const starting = (dialect: Name) => async () => {
  llm = await startFakeLlm({ dialect, models: [DIALECTS[dialect].model] });
};
afterEach(async () => {
  expect(llm.violations).toEqual([]);
  await llm.close();
});
const openai = () => new OpenAI({ baseURL: llm.url, apiKey: "key", maxRetries: 0 });

describe.each(Object.keys(DIALECTS) as Name[])("chat completions of %s, by the SDK of OpenAI", (dialect) => {
  beforeEach(starting(dialect));
  const { model } = DIALECTS[dialect];

  it("answers, whole and streamed", async () => {
    llm.script([{ text: ["Hello ", "you."] }, { reasoning: "hm", text: ["Hello ", "you."] }]);
    const whole = await openai().chat.completions.create({ model, messages: [GO] });
    expect(whole.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "Hello you." } });
    expect(whole.usage).toMatchObject({ prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 });
    const heard = openai().chat.completions.stream({ model, messages: [GO] });
    // Mistral's thoughts are parts of its content: no text, and nothing that this SDK knows.
    if (dialect === "mistral") for await (const { choices } of heard) expect(choices.length).toBeLessThanOrEqual(1);
    else expect(await heard.finalContent()).toBe("Hello you.");
  });

  it("calls a tool and reads its result", async () => {
    llm.script([{ calls: [LOOK] }, { text: "I see." }]);
    const asked = { model, messages: [GO], tools: [TOOL] };
    const { choices } = await openai().chat.completions.stream(asked).finalChatCompletion();
    const [call] = choices[0]?.message.tool_calls ?? [];
    if (call?.type !== "function") throw new Error("There is no call.");
    expect([choices[0]?.finish_reason, call.function.name]).toEqual(["tool_calls", "look"]);
    expect(JSON.parse(call.function.arguments)).toEqual({ name: "one" });
    const { id, type, function: of } = call;
    const calls = [{ id, type, function: of, ...SIGNATURE[dialect] }];
    const said = { role: "assistant" as const, content: null, tool_calls: calls, ...THOUGHT[dialect] };
    const result = { role: "tool" as const, tool_call_id: id, content: "it is red" };
    const after = await openai().chat.completions.create({ ...asked, messages: [GO, said, result] });
    expect(after.choices[0]?.message.content).toBe("I see.");
  });

  it("fails with a status, by its class", async () => {
    llm.script([{ fault: { status: 429, retryAfter: 1 } }, { fault: { errorEvent: "server", at: "headers" } }]);
    await expect(openai().chat.completions.create({ model, messages: [GO] })).rejects.toBeInstanceOf(RateLimitError);
    const broken = openai()
      .chat.completions.stream({ model, messages: [GO] })
      .finalContent();
    await expect(broken).rejects.toBeInstanceOf(APIError);
  });
});

/** What the thinking ones want back before a call. */
const THOUGHT: Partial<Record<Name, object>> = {
  deepseek: { reasoning_content: "hm" },
  kimi: { reasoning_content: "hm" },
};
/** What stands beside a call, and this SDK does not keep. */
const SIGNATURE: Partial<Record<Name, object>> = {
  gemini: { extra_content: { google: { thought_signature: "skip_thought_signature_validator" } } },
};

describe("Responses, by the SDK of OpenAI", () => {
  beforeEach(starting("openai"));
  const model = "fake-model";
  const tools = [{ type: "function" as const, strict: false, ...TOOL.function }];

  it("answers, whole and streamed", async () => {
    llm.script([{ text: "Hello you." }, { reasoning: "hm", text: ["Hello ", "you."] }]);
    expect((await openai().responses.create({ model, input: "go" })).output_text).toBe("Hello you.");
    const streamed = await openai().responses.stream({ model, input: "go" }).finalResponse();
    expect([streamed.status, streamed.output_text]).toEqual(["completed", "Hello you."]);
    expect(streamed.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
  });

  it("calls a tool and reads its result", async () => {
    llm.script([{ calls: [LOOK] }, { text: "I see." }]);
    const { output } = await openai().responses.stream({ model, input: "go", tools }).finalResponse();
    const [call] = output;
    if (call?.type !== "function_call") throw new Error("There is no call.");
    expect(JSON.parse(call.arguments)).toEqual({ name: "one" });
    const result = { type: "function_call_output" as const, call_id: call.call_id, output: "it is red" };
    const { parsed_arguments: _, ...said } = call;
    const after = await openai().responses.create({ model, tools, input: [GO, said, result] });
    expect(after.output_text).toBe("I see.");
  });

  it("fails with a status, by its class", async () => {
    llm.script([{ fault: { status: 429 } }, { text: "half a", fault: { errorEvent: "server" } }]);
    await expect(openai().responses.create({ model, input: "go" })).rejects.toBeInstanceOf(RateLimitError);
    await expect(openai().responses.stream({ model, input: "go" }).finalResponse()).rejects.toThrow();
  });
});

describe("chat completions of groq, by its own SDK", () => {
  beforeEach(starting("groq"));
  const { model } = DIALECTS.groq;
  // It adds `/openai/v1` by itself.
  const groq = () =>
    new Groq({
      baseURL: llm.url,
      apiKey: "key",
      maxRetries: 0,
      fetch: (url, init) => fetch(new Request(url, init).url.replace("/openai/v1", ""), init),
    });

  it("answers, whole and streamed", async () => {
    llm.script([{ text: "Hello you." }, { reasoning: "hm", text: ["Hello ", "you."] }]);
    const whole = await groq().chat.completions.create({ model, messages: [GO] });
    expect(whole.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "Hello you." } });
    const heard = { text: "", reasoning: "" };
    for await (const { choices } of await groq().chat.completions.create({ model, messages: [GO], stream: true })) {
      heard.text += choices[0]?.delta.content ?? "";
      heard.reasoning += choices[0]?.delta.reasoning ?? "";
    }
    expect(heard).toEqual({ text: "Hello you.", reasoning: "hm" });
  });

  it("calls a tool and reads its result", async () => {
    llm.script([{ calls: [LOOK] }, { text: "I see." }]);
    const asked = { model, messages: [GO], tools: [TOOL] };
    const { choices } = await groq().chat.completions.create(asked);
    const calls = choices[0]?.message.tool_calls ?? [];
    expect(JSON.parse(calls[0]?.function.arguments ?? "")).toEqual({ name: "one" });
    const said = { role: "assistant" as const, content: null, tool_calls: calls };
    const result = { role: "tool" as const, tool_call_id: calls[0]?.id ?? "", content: "it is red" };
    const after = await groq().chat.completions.create({ ...asked, messages: [GO, said, result] });
    expect(after.choices[0]?.message.content).toBe("I see.");
  });

  it("fails with a status, by its class", async () => {
    llm.script({ fault: { status: 429 } });
    await expect(groq().chat.completions.create({ model, messages: [GO] })).rejects.toBeInstanceOf(GroqRateLimitError);
  });
});
