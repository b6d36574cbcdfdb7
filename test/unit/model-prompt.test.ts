// Our messages as a provider is sent them: what no server can be asked about, because it looks right to each.
import { describe, expect, it } from "vitest";
import type { Replay } from "../../src/core/session.ts";
import type { Message } from "../../src/core/transcript.ts";
import { asksToKeep, dialectOf, makerOf } from "../../src/llm/dialect.ts";
import { type PromptReader, toPrompt } from "../../src/llm/prompt.ts";
import { noteAnswer } from "../../src/llm/replay.ts";

const READER: PromptReader = { provider: "anthropic", maker: "me", dialect: "plain", without: [] };
const prompt = (messages: Message[], reader: Partial<PromptReader> = {}) =>
  toPrompt({ system: "", messages }, { ...READER, ...reader });
const user = (text: string): Message => ({ role: "user", text });
const uses = (...ids: string[]): Message => ({
  role: "assistant",
  text: "",
  calls: ids.map((id) => ({ id, tool: "look", args: {} })),
});
const gives = (call: string): Message => ({ role: "tool", call, tool: "look", outcome: "ok", text: "seen" });
const idsIn = (messages: Message[], reader: Partial<PromptReader> = {}) =>
  prompt(messages, reader).flatMap(({ content }) =>
    typeof content === "string" ? [] : content.flatMap((part) => ("toolCallId" in part ? [part.toolCallId] : [])),
  );

describe("ids of calls", () => {
  const before = [user("go"), uses("x", "y"), gives("y"), gives("x")];

  it("are nine letters and digits, and each result has its call's", () => {
    const [x, y, ...results] = idsIn(before);
    expect(results).toEqual([y, x]);
    for (const id of [x, y]) expect(id).toMatch(/^[a-zA-Z0-9]{9}$/);
    expect(x).not.toBe(y);
  });

  it("stay what they were when the conversation goes on", () => {
    expect(idsIn([...before, user("on"), uses("z"), gives("z")]).slice(0, 4)).toEqual(idsIn(before));
  });

  it("are no two alike where the conversation has one twice, as after a fork of a fork", () => {
    const twice = [...before, user("on"), uses("x"), gives("x")];
    const ids = idsIn(twice);
    expect(ids.at(-1)).toBe(ids.at(-2));
    expect(new Set(ids).size).toBe(3);
  });

  it("are their maker's own for their maker, but not twice, and never for Mistral", () => {
    const own = (id: string): Message => {
      const replay: Replay = { maker: "me", parts: [{ type: "call", id: "theirs" }] };
      return { role: "assistant", text: "", calls: [{ id, tool: "look", args: {} }], reasoning: "", replay };
    };
    const twice = [user("go"), own("a"), gives("a"), own("b"), gives("b")];
    const [first, , second] = idsIn(twice);
    expect([first, second]).toEqual(["theirs", expect.stringMatching(/^\w{9}$/)]);
    expect(idsIn(twice, { maker: "another" })).not.toContain("theirs");
    expect(idsIn(twice, { dialect: "mistral" })).not.toContain("theirs");
  });
});

describe("what is said", () => {
  it("two messages of the user in a row are one text", () => {
    expect(prompt([user("one"), user("two")])[0]?.content).toEqual([{ type: "text", text: "one\n\ntwo" }]);
  });

  it("that an answer was cut off stands on the user's side", () => {
    const [, answer, next] = prompt([
      user("go"),
      { role: "assistant", text: "half a", calls: [], cut: true },
      user("on"),
    ]);
    expect(answer?.content).toEqual([{ type: "text", text: "half a" }]);
    expect(next?.content).toEqual([
      { type: "text", text: expect.stringMatching(/^\[Your last answer was cut off.*\n\non$/s) },
    ]);
  });

  it.each([
    ["R0lGODlhAQABAAAAACw=", "image/gif"],
    ["/9j/4AAQSkZJRgABAQ==", "image/jpeg"],
    ["UklGRiQAAABXRUJQVlA4", "image/webp"],
    ["AAAAHGZ0eXBhdmlm", "image/png"],
  ])("a picture that begins with %s is sent as %s", (data, mediaType) => {
    const [said] = prompt([{ role: "user", text: " ", images: [{ mime: "image/png", data }] }]);
    expect(said?.content).toEqual([expect.objectContaining({ type: "file", mediaType })]);
  });

  it("pictures of results follow all results of the step, before anything else is said", () => {
    const images = [{ mime: "image/png", data: "iVBORw0KGgo=" }];
    const result = { role: "tool", tool: "shot", outcome: "ok", text: "see" } as const;
    const calls = [
      { id: "1", tool: "shot", args: {} },
      { id: "2", tool: "shot", args: {} },
    ];
    const said = prompt([
      { role: "user", text: "look" },
      { role: "assistant", text: "", calls },
      { ...result, call: "1", images },
      { ...result, call: "2" },
      { role: "assistant", text: "I see.", calls: [] },
    ]);
    expect(said.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user", "assistant"]);
    expect(said[2]?.content).toHaveLength(2);
    expect(said[3]?.content).toMatchObject([
      { type: "text", text: expect.stringContaining("a result of shot") },
      { type: "file", mediaType: "image/png" },
    ]);
  });

  it("pictures that were refused are told of", () => {
    const images = [{ mime: "image/png", data: "AA==" }];
    const [said] = prompt([{ role: "user", text: "look", images, unseen: ["me"] }]);
    expect(said?.content).toEqual([
      { type: "text", text: expect.stringMatching(/^look\n\n\[1 of the user's pictures/) },
    ]);
    expect(prompt([{ role: "user", text: "look", images, unseen: ["another"] }])[0]?.content).toHaveLength(2);
  });
});

describe("reasoning", () => {
  const signed = { anthropic: { signature: "s" } };
  const replay: Replay = {
    maker: "me",
    parts: [
      { type: "reasoning", length: 3, meta: signed },
      { type: "text", length: 2 },
      { type: "reasoning", length: 4, meta: { anthropic: { redactedData: "r" } } },
      { type: "call", id: "c" },
    ],
  };
  const answer: Message = {
    role: "assistant",
    text: "so",
    reasoning: "onemore",
    calls: [{ id: "x", tool: "look", args: {} }],
    replay,
  };
  const kinds = (message: Message, reader: Partial<PromptReader> = {}) =>
    prompt([user("go"), message], reader)
      .filter(({ role }) => role === "assistant")
      .flatMap(({ content }) => (typeof content === "string" ? [] : content.map(({ type }) => type)));

  it("goes back in the order in which it came, each part with what belongs to it", () => {
    expect(prompt([user("go"), answer])[1]?.content).toMatchObject([
      { type: "reasoning", text: "one", providerOptions: signed },
      { type: "text", text: "so" },
      { type: "reasoning", text: "more", providerOptions: { anthropic: { redactedData: "r" } } },
      { type: "tool-call", toolCallId: "c" },
    ]);
  });

  it("goes to nobody else, and not where it was refused", () => {
    expect(kinds(answer, { maker: "another" })).toEqual(["text", "tool-call"]);
    expect(kinds(answer, { without: ["reasoning"] })).toEqual(["text", "tool-call"]);
  });

  it("goes back whole or not at all", () => {
    expect(kinds({ ...answer, text: "so on" })).toEqual(["text", "tool-call"]);
    expect(kinds({ ...answer, reasoning: "one" })).toEqual(["text", "tool-call"]);
    expect(kinds({ ...answer, calls: [] })).toEqual(["text"]);
  });

  it("is one text for a server that knows no parts, however it came", () => {
    const meta = { field: "reasoning_content" };
    const [, said] = prompt([user("go"), { ...answer, text: "so on", replay: { ...replay, meta } }], {
      provider: "openai-compatible",
    });
    expect(said).toMatchObject({
      content: [{ type: "text", text: "so on" }, { toolCallId: "c" }],
      providerOptions: { openaiCompatible: { reasoning_content: "onemore" } },
    });
  });

  it("that led to nothing is not sent: OpenAI and Anthropic refuse an answer that ends with it", () => {
    expect(kinds({ ...answer, calls: [], replay: { ...replay, parts: replay.parts.slice(0, 3) } })).toEqual([
      "reasoning",
      "text",
    ]);
  });

  it("alone, with nothing said, is not sent", () => {
    const alone: Message = { ...answer, text: "  ", calls: [], replay: { ...replay, parts: replay.parts.slice(0, 3) } };
    expect(kinds(alone)).toEqual([]);
  });

  it("in pieces that take turns, or without end, is not kept", () => {
    const finish = { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: {} } as never;
    const mixed = noteAnswer("me");
    mixed.hear({ type: "reasoning-start", id: "1" });
    mixed.hear({ type: "reasoning-start", id: "2" });
    mixed.hear({ type: "reasoning-delta", id: "1", delta: "a" });
    expect(mixed.replay(finish)).toBeNull();
    const long = noteAnswer("me");
    long.hear({ type: "tool-call", toolCallId: "x".repeat(600_000), toolName: "look", input: "{}" });
    expect(long.replay(finish)).toBeNull();
    const endless = noteAnswer("me");
    for (let i = 0; i < 600; i++) endless.hear({ type: "reasoning-delta", id: "1", delta: "x".repeat(1_000) });
    expect(endless.replay(finish)).toBeNull();
  });
});

describe("whom we speak to", () => {
  it.each([
    ["https://api.groq.com/openai/v1", "moonshotai/kimi-k2", "groq"],
    ["https://api.mistral.ai/v1", "labs-leanstral", "mistral"],
    ["http://localhost:8000/v1", "mistralai/Devstral-Small-2-24B", "mistral"],
    ["https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro", "gemini"],
    ["https://generativelanguage.googleapis.com/v1beta/openai", "models/gemini-2.5-flash", "plain"],
    ["https://openrouter.ai/api/v1", "google/gemini-3-pro", "plain"],
    ["https://api.deepseek.com", "deepseek-chat", "deepseek"],
    ["https://api.moonshot.ai/v1", "kimi-latest", "kimi"],
    ["http://mistral.ai.example.org/v1", "qwen3", "plain"],
    ["not a url", "qwen3", "plain"],
  ] as const)("%s with %s is %s", (baseUrl, model, dialect) => {
    expect(dialectOf({ provider: "openai-compatible", baseUrl, model })).toBe(dialect);
    expect(dialectOf({ provider: "anthropic", baseUrl, model })).toBe("plain");
  });

  it("the same model elsewhere is another maker", () => {
    const at = (baseUrl: string) => makerOf({ provider: "openai-compatible", model: "m", baseUrl });
    expect(at("https://a.example/v1")).not.toBe(at("https://b.example/v1"));
  });

  it("OpenRouter is asked to keep what is Anthropic's", () => {
    const baseUrl = "https://openrouter.ai/api/v1";
    expect(asksToKeep({ baseUrl, model: "anthropic/claude-sonnet-4.5" })).toBe(true);
    expect(asksToKeep({ baseUrl, model: "openai/gpt-5.1" })).toBe(false);
    expect(asksToKeep({ baseUrl: "https://example.org/v1", model: "anthropic/claude-sonnet-4.5" })).toBe(false);
  });
});
