// Whatever answers us may answer without end: each of these bodies is given up at a limit, counted after decompression.
import { afterEach, describe, expect, test } from "vitest";
import { openCalls } from "../../src/chats/shared/calls.ts";
import { openApi } from "../../src/chats/telegram/api.ts";
import { createClient } from "../../src/client/client.ts";
import type { ModelRequest } from "../../src/core/ports.ts";
import { listModels } from "../../src/llm/model-list.ts";
import { createModel } from "../../src/llm/provider.ts";
import { clock } from "../../src/platform/clock.ts";
import { type Flooding, startFlood } from "../fakes/flood.ts";

const MB = 1_000_000;
const open: Flooding[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((flood) => flood.close()));
});

async function flood(answer: Parameters<typeof startFlood>[0]): Promise<Flooding> {
  const started = await startFlood(answer);
  open.push(started);
  return started;
}

describe.each([false, true])("a model's server (gzip: %s)", (gzip) => {
  const provider = "openai-compatible" as const;
  const request: ModelRequest = {
    session: "s",
    system: "",
    messages: [{ role: "user", text: "hi" }],
    tools: [],
    final: false,
  };
  async function call(url: string) {
    const heard = { text: 0, reasoning: 0 };
    const model = createModel({ provider, model: "m", baseUrl: url, apiKey: "", context: 1_000, because: "" });
    const hear = {
      alive: () => {},
      text: (text: string) => void (heard.text += text.length),
      reasoning: (text: string) => void (heard.reasoning += text.length),
    };
    return { result: await model.call(request, hear, new AbortController().signal), heard };
  }
  const events = { "content-type": "text/event-stream" };
  const chunk = (delta: object) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta }] })}\n\n`;
  const toolChunk = (args: string, id?: string) =>
    chunk({
      tool_calls: [
        { index: 0, ...(id && { id, type: "function" }), function: { ...(id && { name: "t" }), arguments: args } },
      ],
    });

  test("an error without end is read as far as it says what is wrong", async () => {
    const server = await flood(() => ({
      status: 500,
      headers: { "content-type": "text/plain" },
      piece: "overloaded ",
      gzip,
    }));
    const { result } = await call(server.url);
    expect(result).toMatchObject({ end: "fault", kind: "unavailable" });
    expect(await server.sent()).toBeLessThan(50 * MB);
  });

  test.each([
    ["text", chunk({ content: "x".repeat(1_000) }), ""],
    ["reasoning", chunk({ reasoning_content: "x".repeat(1_000) }), ""],
    ["calls", toolChunk("{}", "call_1").replace('"index":0,"id"', '"id"'), ""],
    ["the arguments of a tool", toolChunk("x".repeat(1_000)), toolChunk("", "call_1")],
  ])("%s without end ends the call as a fault that says so", async (_, piece, head) => {
    const server = await flood(() => ({ headers: events, head, piece, gzip }));
    const { result, heard } = await call(server.url);
    expect(result).toMatchObject({ end: "fault", kind: "oversized", reason: expect.stringContaining("16 MB") });
    expect(heard.text + heard.reasoning).toBeLessThan(17 * MB);
    expect(await server.sent()).toBeLessThan(100 * MB);
  });

  test.each([
    ["a line", "x", "data: "],
    ["an event of many lines", "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", ""],
  ])("%s without end ends the call", async (_, piece, head) => {
    const server = await flood(() => ({ headers: events, head, piece, gzip }));
    const { result } = await call(server.url);
    expect(result).toMatchObject({ end: "fault", reason: expect.stringContaining("an event") });
    expect(await server.sent()).toBeLessThan(gzip ? 300 * MB : 60 * MB);
  });

  test("a line without end in what it does not call events ends the call", async () => {
    const server = await flood(() => ({ headers: { "content-type": "application/json" }, piece: "x", gzip }));
    const { result } = await call(server.url);
    expect(result).toMatchObject({ end: "fault" });
    expect(await server.sent()).toBeLessThan(100 * MB);
  });

  test("a list of models without end is given up", async () => {
    const server = await flood(() => ({ headers: { "content-type": "application/json" }, piece: " ", gzip }));
    const endpoint = { provider, model: "m", baseUrl: server.url, apiKey: "", context: 1_000, because: "" };
    expect(await listModels(endpoint, 60_000)).toMatchObject({ end: "fault" });
    expect(await server.sent()).toBeLessThan(100 * MB);
  });
});

describe.each([false, true])("a chat platform's server (gzip: %s)", (gzip) => {
  const answer = () => ({ headers: { "content-type": "application/json" }, piece: " ", gzip });

  test("Discord or Slack: an answer without end is given up", async () => {
    const server = await flood(answer);
    const calls = openCalls(clock);
    const read = calls.fetch(`${server.url}/api`).then((given) => given.text());
    await expect(read).rejects.toThrow();
    expect(await server.sent()).toBeLessThan(200 * MB);
    await calls.close();
  });

  test("Telegram: an answer without end is given up", async () => {
    const server = await flood(answer);
    const api = openApi({ token: "1:x", apiRoot: server.url, clock, answered: () => {} });
    await expect(api.call("getMe", undefined)).rejects.toThrow("did not answer");
    expect(await server.sent()).toBeLessThan(500 * MB);
    await api.close();
  });

  test("a file that is larger than it may be is given up", async () => {
    const server = await flood(answer);
    const calls = openCalls(clock);
    const loaded = calls.load(`${server.url}/file`, {}, MB, new AbortController().signal);
    await expect(loaded).rejects.toThrow("larger than 1 MB");
    expect(await server.sent()).toBeLessThan(100 * MB);
    await calls.close();
  });
});

test.each([
  [200, "larger than 256 MB"],
  [500, "answered 500"],
])("the client gives up an answer (%s) without end", async (status, why) => {
  const server = await flood(() => ({ status, headers: { "content-type": "application/json" }, piece: " " }));
  await expect(createClient({ url: server.url, key: "k" }).status("run_1")).rejects.toThrow(why);
  expect(await server.sent()).toBeLessThan(400 * MB);
});
