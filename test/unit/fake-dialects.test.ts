// The fake's dialects refuse what the real servers refuse, in their words.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DIALECTS } from "../fakes/llm/dialects.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

type Json = Record<string, unknown>;
const user = (content: unknown = "go") => ({ role: "user", content });
const uses = (more: Json = {}, call: Json = {}) => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "abcdefghi", type: "function", function: { name: "look", arguments: "{}" }, ...call }],
  ...more,
});
const gives = (id = "abcdefghi") => ({ role: "tool", tool_call_id: id, content: "seen" });
const picture = [{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } }];
const loop = (more: Json = {}, call: Json = {}) => ({ messages: [user(), uses(more, call), gives()] });
const google = (thought_signature: string) => ({ extra_content: { google: { thought_signature } } });
const tooled = (parameters: Json) => ({
  messages: [user()],
  tools: [{ type: "function", function: { name: "look", parameters } }],
});

const REFUSED: [keyof typeof DIALECTS, Json, status: number, words: string][] = [
  ["openai", loop({ reasoning: "hm" }), 400, "Unrecognized request argument supplied: messages[1].reasoning"],
  ["gemini", loop(), 400, "Function call is missing a thought_signature in functionCall parts."],
  ["gemini", loop({}, google("forged")), 400, "Thought signature is not valid."],
  ["gemini", loop({ reasoning_content: "hm" }), 400, 'Unknown name \\"reasoning_content\\"'],
  [
    "gemini",
    tooled({ type: "object", properties: { n: { type: "integer", exclusiveMinimum: 0 } } }),
    400,
    `Unknown name \\"exclusiveMinimum\\" at 'tools[0].function_declarations[0].parameters.properties[0].value'`,
  ],
  ["deepseek", loop(), 400, "The `reasoning_content` in the thinking mode must be passed back to the API."],
  ["kimi", loop(), 400, "reasoning_content is missing in assistant tool call message at index 1"],
  [
    "mistral",
    loop({}, { id: "call_1" }),
    400,
    "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
  ],
  ["mistral", { messages: [user(), uses(), gives(), user()] }, 400, "Unexpected role 'user' after role 'tool'"],
  ["mistral", loop({ reasoning_content: "hm" }), 422, "Extra inputs are not permitted"],
  ["mistral", { messages: [user()], stream: true, stream_options: { include_usage: true } }, 422, "include_usage"],
  ["groq", loop({ reasoning: "hm" }), 400, "property 'reasoning' is unsupported"],
  [
    "openrouter",
    loop({ reasoning_details: [{ type: "reasoning.text", text: "hm", signature: "forged" }] }),
    400,
    "Invalid `signature` in `thinking` block",
  ],
  ["llama.cpp", { messages: [user(), user()] }, 500, "Conversation roles must alternate user/assistant"],
  ["llama.cpp", { messages: [user(picture)] }, 500, "image input is not supported"],
  ["vllm", { messages: [user(picture)] }, 400, "is not a multimodal model"],
];
const TAKEN: [keyof typeof DIALECTS, Json][] = [
  ["gemini", loop({}, google("skip_thought_signature_validator"))],
  ["deepseek", loop({ reasoning_content: "hm" })],
  ["kimi", loop({ reasoning_content: "hm" })],
  ["mistral", loop()],
  ["mistral", loop({ content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }] })],
  ["groq", loop()],
  ["vllm", loop({ reasoning: "hm" })],
  ["ollama", { messages: [user(picture)] }],
];

describe("the dialects", () => {
  const servers = new Map<keyof typeof DIALECTS, FakeLlm>();
  beforeAll(async () => {
    for (const { dialect } of Object.keys(DIALECTS).map((name) => ({ dialect: name as keyof typeof DIALECTS })))
      servers.set(dialect, await startFakeLlm({ dialect }));
  });
  afterAll(async () => {
    for (const llm of servers.values()) await llm.close();
  });

  const post = async (dialect: keyof typeof DIALECTS, body: Json) => {
    const request = {
      model: DIALECTS[dialect].model,
      tools: tooled({ type: "object", properties: {} }).tools,
      ...body,
    };
    const headers = { "content-type": "application/json" };
    return fetch(`${servers.get(dialect)?.url}/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(request),
    });
  };

  it.each(REFUSED)("%s refuses: %#", async (dialect, body, status, words) => {
    const response = await post(dialect, body);
    expect(response.status).toBe(status);
    expect((await response.text()).replaceAll("\\\\", "\\")).toContain(words);
  });

  it.each(TAKEN)("%s takes: %#", async (dialect, body) => {
    const response = await post(dialect, body);
    expect([response.status, await response.text()]).toEqual([
      200,
      expect.stringContaining("Hello from the fake model"),
    ]);
  });
});
