// That the fake really does what tests of everything else will take for granted: with plain HTTP, no client library.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  assistant,
  at,
  calls,
  events,
  FORMATS,
  HEADERS,
  heard,
  type Json,
  PATHS,
  plain,
  result,
  SCHEMA,
  type Turn,
  tooled,
  transcript,
  user,
} from "../fakes/llm/client.ts";
import { FAULTS } from "../fakes/llm/faults.ts";
import type { Fault, Reply } from "../fakes/llm/reply.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";
import type { Format } from "../fakes/llm/wire.ts";

let llm: FakeLlm;
let expected: string[] | undefined;
beforeEach(async () => {
  expected = [];
  llm = await startFakeLlm();
});
afterEach(async () => {
  await llm.close();
  if (expected) expect(llm.violations).toEqual(expected);
});

// ── A client of three formats ─────────────────────────────────────────────────────────────────────────

const JSON_HEADERS = { "content-type": "application/json" };

function post(format: Format, body: unknown = plain(format), init: RequestInit = {}): Promise<Response> {
  return fetch(`${llm.url}${PATHS[format]}`, {
    method: "POST",
    headers: { ...JSON_HEADERS, ...HEADERS[format] },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...init,
  });
}

const ask = (format: Format, reply: Reply, change: Json = {}) => {
  llm.script(reply);
  return post(format, { ...plain(format), ...change });
};
const faulty = (format: Format, fault: Fault | Fault[], reply: Reply = { text: ["Grüße ", "世界"] }) =>
  ask(format, { ...reply, fault });

const listen = async (format: Format, response: Response) => heard(format, events(await response.text()));
const finished = (format: Format, chat: string, responses: string, anthropic: string) =>
  ({ chat, responses, anthropic })[format];

/** Reads until the body breaks, and says how. */
async function readUntilBroken(response: Response): Promise<{ text: string; error: unknown }> {
  const decoder = new TextDecoder();
  let read = "";
  try {
    for await (const chunk of response.body ?? []) read += decoder.decode(chunk as Uint8Array, { stream: true });
    return { text: read, error: undefined };
  } catch (error) {
    return { text: read, error };
  }
}

/** What the server says on the wire, a character for each byte, until it closes or there is `enough` of it. */
function wiretap(format: Format, enough: (all: string) => boolean): Promise<string> {
  const body = JSON.stringify(plain(format));
  const { port, pathname } = new URL(`${llm.url}${PATHS[format]}`);
  const socket = connect(Number(port), "127.0.0.1");
  const headers = { host: "x", "content-type": "application/json", "content-length": body.length, ...HEADERS[format] };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${pathname} HTTP/1.1\r\n${head.join("")}\r\n${body}`);
  return new Promise((resolve) => {
    let all = "";
    socket.on("data", (data) => {
      all += data.toString("latin1");
      if (enough(all)) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(all));
  });
}

// ── What it says ──────────────────────────────────────────────────────────────────────────────────────

const CALLS = [
  { name: "terminal", args: { command: "ls" } },
  { name: "terminal", args: { command: "echo 世界" } },
];
const FULL: Reply = {
  reasoning: ["hm, ", "so"],
  text: ["Grüße, ", "世界"],
  calls: CALLS,
  usage: { input: 50, output: 9, cached: 20, reasoning: 4 },
};

describe("the wire formats", () => {
  it.each(FORMATS)("%s streams reasoning, text and calls", async (format) => {
    const response = await ask(format, FULL);
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const { text, reasoning, calls, finish } = await listen(format, response);
    expect({ text, reasoning }).toEqual({ text: "Grüße, 世界", reasoning: "hm, so" });
    const args = CALLS.map(({ name, args }) => ({ name, args: JSON.stringify(args) }));
    expect(Object.values(calls)).toEqual(args);
    expect(finish).toBe(finished(format, "tool_calls", "completed", "tool_use"));
  });

  it("chat has these chunks, the role first, the usage and [DONE] last", async () => {
    const list = events(await (await ask("chat", FULL)).text());
    expect(
      list.map(({ json, data }) => (data === "[DONE]" ? data : Object.keys(at(json, "choices", 0, "delta") ?? {}))),
    ).toEqual([
      ["role", "content", "refusal"],
      ...Array.from({ length: 2 }, () => ["content", "reasoning_content"]),
      ...Array.from({ length: 2 }, () => ["content"]),
      ...Array.from({ length: 8 }, () => ["tool_calls"]),
      [],
      [],
      "[DONE]",
    ]);
    expect(list.at(-2)?.json).toMatchObject({
      object: "chat.completion.chunk",
      choices: [],
      usage: {
        prompt_tokens: 50,
        completion_tokens: 9,
        total_tokens: 59,
        prompt_tokens_details: { cached_tokens: 20 },
        completion_tokens_details: { reasoning_tokens: 4 },
      },
    });
    expect(list[0]?.json).toMatchObject({ usage: null });
  });

  it("chat tells its usage only to those who ask", async () => {
    const list = events(await (await ask("chat", FULL, { stream_options: undefined })).text());
    expect(list.filter(({ json }) => "usage" in json)).toEqual([]);
  });

  it("responses has these events, numbered, and its usage in the last", async () => {
    const list = events(
      await (await ask("responses", { ...FULL, text: "Hi", reasoning: "hm", calls: CALLS.slice(1) })).text(),
    );
    expect(list.map(({ event }) => event)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.reasoning_summary_part.added",
      "response.reasoning_summary_text.delta",
      "response.reasoning_summary_text.done",
      "response.reasoning_summary_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(list.every(({ event, json }) => event === json.type)).toBe(true);
    expect(list.map(({ json }) => json.sequence_number)).toEqual([...list.keys()]);
    expect(at(list.at(-1)?.json, "response")).toMatchObject({
      status: "completed",
      output: [
        { type: "reasoning", summary: [{ text: "hm" }] },
        { type: "message", content: [{ type: "output_text", text: "Hi" }] },
        { type: "function_call", name: "terminal", arguments: '{"command":"echo 世界"}' },
      ],
      usage: { input_tokens: 50, output_tokens: 9, total_tokens: 59, input_tokens_details: { cached_tokens: 20 } },
    });
  });

  it("anthropic has these events, with the tokens that were not cached as its input", async () => {
    const list = events(
      await (await ask("anthropic", { ...FULL, text: "Hi", reasoning: "hm", calls: CALLS.slice(1) })).text(),
    );
    const kinds = list.map(({ json }) => at(json, "delta", "type") ?? json.type);
    expect(kinds).toEqual([
      "message_start",
      "content_block_start",
      "ping",
      "thinking_delta",
      "signature_delta",
      "content_block_stop",
      "content_block_start",
      "text_delta",
      "content_block_stop",
      "content_block_start",
      ...Array.from({ length: 4 }, () => "input_json_delta"),
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(list.every(({ event, json }) => event === json.type)).toBe(true);
    expect(at(list[0]?.json, "message")).toMatchObject({ role: "assistant", content: [], stop_reason: null });
    expect(list.at(-2)?.json).toMatchObject({
      delta: { stop_reason: "tool_use", stop_sequence: null },
      usage: { input_tokens: 30, cache_read_input_tokens: 20, output_tokens: 9 },
    });
  });

  it("answers in one piece when no stream is asked for", async () => {
    const whole = async (format: Format) =>
      (await ask(format, FULL, { stream: false, stream_options: undefined })).json();
    expect(await whole("chat")).toMatchObject({
      object: "chat.completion",
      choices: [
        {
          message: {
            role: "assistant",
            content: "Grüße, 世界",
            reasoning_content: "hm, so",
            tool_calls: [{ type: "function", function: { name: "terminal", arguments: '{"command":"ls"}' } }, {}],
          },
          finish_reason: "tool_calls",
        },
      ],
      usage: { total_tokens: 59 },
    });
    expect(await whole("responses")).toMatchObject({
      object: "response",
      status: "completed",
      output: [{ type: "reasoning" }, { type: "message" }, { type: "function_call" }, { type: "function_call" }],
      usage: { total_tokens: 59 },
    });
    expect(await whole("anthropic")).toMatchObject({
      type: "message",
      content: [
        { type: "thinking", thinking: "hm, so" },
        { type: "text", text: "Grüße, 世界" },
        { type: "tool_use", name: "terminal", input: { command: "ls" } },
        { type: "tool_use", input: { command: "echo 世界" } },
      ],
      stop_reason: "tool_use",
      usage: { input_tokens: 30, output_tokens: 9 },
    });
  });

  it.each(FORMATS)("%s names every finish reason, also one that nobody knows", async (format) => {
    const reasons: unknown[] = [];
    for (const finish of ["stop", "length", "filter", { raw: "bored" }] as const) {
      const list = events(await (await ask(format, { text: "Hi", finish })).text());
      reasons.push(
        format === "responses"
          ? (at(list.at(-1)?.json, "response", "incomplete_details", "reason") ??
              at(list.at(-1)?.json, "response", "status"))
          : heard(format, list).finish,
      );
    }
    expect(reasons).toEqual(
      {
        chat: ["stop", "length", "content_filter", "bored"],
        responses: ["completed", "max_output_tokens", "content_filter", "bored"],
        anthropic: ["end_turn", "max_tokens", "refusal", "bored"],
      }[format],
    );
  });

  it("lists its models, to each in its own way", async () => {
    const list = async (headers: Record<string, string>) => (await fetch(`${llm.url}/models`, { headers })).json();
    expect(await list(HEADERS.chat)).toMatchObject({ object: "list", data: [{ id: "fake-model", object: "model" }] });
    expect(await list(HEADERS.anthropic)).toMatchObject({
      has_more: false,
      data: [{ id: "fake-model", type: "model" }],
    });
    expect(llm.others).toEqual(["GET /v1/models", "GET /v1/models"]);
    expect(llm.requests).toEqual([]);
  });
});

describe("the script", () => {
  it.each(FORMATS)("%s gives a plain answer when there is none", async (format) => {
    expect((await listen(format, await post(format))).text).toBe("Hello from the fake model.");
  });

  it("is used up in order; a function answers the rest, for ever", async () => {
    llm.script((request) => ({ text: `to request ${request.number}` }));
    llm.script([{ text: "one" }, { text: "two" }]);
    const said: string[] = [];
    for (let i = 0; i < 4; i++) said.push((await listen("chat", await post("chat"))).text);
    expect(said).toEqual(["one", "two", "to request 3", "to request 4"]);
  });

  it("can keep calling tools without end", async () => {
    llm.script((request) => ({ calls: [{ name: "terminal", args: { n: request.number } }] }));
    for (const n of [1, 2, 3])
      expect(Object.values((await listen("chat", await post("chat"))).calls)).toEqual([
        { name: "terminal", args: `{"n":${n}}` },
      ]);
  });

  it.each(FORMATS)("%s holds a stream open where it is told to", async (format) => {
    const hold = Promise.withResolvers<void>();
    llm.script({ text: "before", calls: CALLS, hold: hold.promise });
    const response = await post(format);
    const request = await llm.nextRequest();
    expect(await request.holding).toBe("text");
    expect(request.ending).toBeUndefined();
    hold.resolve();
    const { text, calls } = await listen(format, response);
    expect([text, Object.keys(calls).length, await request.closed]).toEqual(["before", 2, "completed"]);
  });

  it("takes the time it is told to take", async () => {
    const started = performance.now();
    await (await ask("chat", { text: ["a", "b"], delayMs: 30, chunkDelayMs: 10 })).text();
    expect(performance.now() - started).toBeGreaterThanOrEqual(30 + 5 * 10 - 5);
  });

  it("that cannot be played is a violation, not a riddle", async () => {
    expected = ["script: this answer has no arguments to stop at", "script: no"];
    await expect(ask("chat", { text: "x", fault: { cut: "arguments" } }).then((r) => r.text())).rejects.toThrow();
    llm.script(() => {
      throw new Error("no");
    });
    await expect(post("chat")).rejects.toThrow();
  });
});

describe("the journal", () => {
  it("tells the same story whatever the format", async () => {
    const image = "data:image/png;base64,iVBORw0KGgo=";
    const [call, result] = ["call_1", "call_2"];
    const fn = (id: string) => ({
      id,
      type: "function",
      function: { name: "terminal", arguments: '{"command":"ls"}' },
    });
    await post("chat", {
      ...plain("chat"),
      messages: [
        { role: "system", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image_url", image_url: { url: image } },
          ],
        },
        { role: "assistant", content: "ok", tool_calls: [fn(call), fn(result)] },
        { role: "tool", tool_call_id: call, content: "one" },
        { role: "tool", tool_call_id: result, content: "two" },
        { role: "user", content: "and?" },
      ],
    });
    const item = (call_id: string) => ({
      type: "function_call",
      call_id,
      name: "terminal",
      arguments: '{"command":"ls"}',
    });
    await post("responses", {
      ...plain("responses"),
      instructions: "Be brief.",
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "look" },
            { type: "input_image", image_url: image },
          ],
        },
        { role: "assistant", content: [{ type: "output_text", text: "ok" }] },
        item(call),
        item(result),
        { type: "function_call_output", call_id: call, output: "one" },
        { type: "function_call_output", call_id: result, output: "two" },
        { role: "user", content: "and?" },
      ],
    });
    const use = (id: string) => ({ type: "tool_use", id, name: "terminal", input: { command: "ls" } });
    const source = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
    await post("anthropic", {
      ...plain("anthropic"),
      system: "Be brief.",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image", source },
          ],
        },
        { role: "assistant", content: [{ type: "text", text: "ok" }, use(call), use(result)] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: call, content: "one" },
            { type: "tool_result", tool_use_id: result, content: [{ type: "text", text: "two" }] },
            { type: "text", text: "and?" },
          ],
        },
      ],
    });
    const args = { command: "ls" };
    for (const request of llm.requests)
      expect(request).toMatchObject({
        model: "m",
        stream: true,
        system: "Be brief.",
        messages: [
          { role: "user", text: "look", images: [image] },
          {
            role: "assistant",
            text: "ok",
            calls: [
              { id: call, name: "terminal", args },
              { id: result, name: "terminal", args },
            ],
          },
          { role: "tool", call, text: "one" },
          { role: "tool", call: result, text: "two" },
          { role: "user", text: "and?", images: [] },
        ],
        tools: [{ name: "terminal", description: "Runs a command.", schema: SCHEMA }],
        violations: [],
      });
    expect(llm.requests.map(({ format, number }) => [format, number])).toEqual(
      FORMATS.map((format, i) => [format, i + 1]),
    );
  });

  it("has what was sent and how much was answered", async () => {
    const body = await (await ask("chat", { text: "世界" })).text();
    const request = await llm.nextRequest();
    expect(request.headers).toMatchObject(HEADERS.chat);
    expect(JSON.parse(request.raw)).toEqual(plain("chat"));
    expect(request.body).toEqual(plain("chat"));
    expect(await request.closed).toBe("completed");
    expect(request.bytesSent).toBe(Buffer.byteLength(body));
    expect(request.closedAt).toBeGreaterThanOrEqual(request.at);
  });

  it("gives each request once, in order, whether it came before it was asked for or after", async () => {
    const next = [llm.nextRequest(), llm.nextRequest()];
    for (let i = 0; i < 3; i++) await (await post("chat")).text();
    const seen = await Promise.all([...next, llm.nextRequest()]);
    expect(seen.map(({ number }) => number)).toEqual([1, 2, 3]);
    const pending = llm.nextRequest();
    void llm.close();
    await expect(pending).rejects.toThrow("closed");
  });

  const POINTS = ["accepted", "headers", "reasoning", "text", "arguments", "finish"] as const;
  it.each(FORMATS.flatMap((format) => POINTS.map((point) => [format, point] as const)))(
    "sees a client of %s go away at once: %s",
    async (format, point) => {
      llm.script({ ...FULL, hold: new Promise(() => {}), holdAt: point });
      const controller = new AbortController();
      const going = post(format, plain(format), { signal: controller.signal }).then((response) => response.text());
      const broken = expect(going).rejects.toThrow("aborted");
      const request = await llm.nextRequest();
      expect(await request.holding).toBe(point);
      const sent = request.bytesSent;
      controller.abort();
      expect(await request.closed).toBe("closed-by-client");
      expect(request.bytesSent).toBe(sent);
      await broken;
    },
  );

  it("sees a client go away that has not even finished asking", async () => {
    const { port } = new URL(llm.url);
    const half = httpRequest({ port, method: "POST", path: "/v1/responses", headers: { "content-length": 1000 } });
    half.on("error", () => {});
    half.write("{");
    while (llm.connections === 0) await new Promise((resolve) => setImmediate(resolve));
    half.destroy();
    while (llm.others.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(llm.others).toEqual(["POST /v1/responses: closed before it was all here"]);
    expect(llm.requests).toEqual([]);
  });

  it("counts open connections, and leaves none behind", async () => {
    llm.script({ text: "x", hold: new Promise(() => {}) });
    const tapped = wiretap("chat", () => false);
    const request = await llm.nextRequest();
    expect(llm.connections).toBe(1);
    await llm.close();
    expect([await request.closed, llm.connections]).toEqual(["destroyed-by-us", 0]);
    await tapped;
    await expect(post("chat")).rejects.toThrow("fetch failed");
  });

  it("keeps no process alive once it is closed, whatever it was waiting for", async () => {
    const waits = [{ delayMs: 1e9 }, { text: "x", chunkDelayMs: 1e9 }, { text: "x", fault: { byteEvery: 1e9 } }];
    const program = `
      import { startFakeLlm } from ${JSON.stringify(new URL("../fakes/llm/server.ts", import.meta.url).href)};
      const llm = await startFakeLlm();
      llm.script(${JSON.stringify(waits)});
      const init = ${JSON.stringify({ method: "POST", headers: JSON_HEADERS, body: JSON.stringify(plain("chat")) })};
      const asked = Array.from({ length: 3 }, () => fetch(llm.url + "/chat/completions", init).catch(() => {}));
      for (const _ of asked) await llm.nextRequest();
      await llm.close();
    `;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: "inherit" });
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it("turns away a wrong key, which is no violation", async () => {
    await using locked = await startFakeLlm({ apiKey: "secret" });
    for (const format of FORMATS) {
      const go = (key: string) =>
        fetch(`${locked.url}${PATHS[format]}`, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            authorization: `Bearer ${key}`,
          },
          body: JSON.stringify(plain(format)),
        });
      expect((await go("wrong")).status).toBe(401);
      expect((await go("secret")).status).toBe(200);
    }
    expect(locked.violations).toEqual([]);
  });
});

// ── What goes wrong ───────────────────────────────────────────────────────────────────────────────────

describe.each(FORMATS)("%s, when it goes wrong", (format) => {
  const going = (fault: Fault | Fault[], reply?: Reply) => faulty(format, fault, reply);
  const whole = (reply: Reply) => ask(format, reply, { stream: false, stream_options: undefined });
  const SAID = "Grüße 世界";

  it("resets before the headers", async () => {
    const error = await going({ cut: "accepted" }).catch((error: unknown) => error);
    expect(at(error, "cause", "code")).toBe("ECONNRESET");
    expect(llm.requests[0]).toMatchObject({ ending: "destroyed-by-us", bytesSent: 0 });
  });

  it.each([
    ["reset", "ECONNRESET"],
    ["close", "UND_ERR_SOCKET"],
  ] as const)("breaks off after the text, by %s", async (by, code) => {
    const response = await going({ cut: "text", by }, { text: SAID, calls: CALLS });
    const { text, error } = await readUntilBroken(response);
    expect(heard(format, events(text))).toMatchObject({ text: SAID, calls: {}, finish: undefined });
    expect(at(error, "cause", "code")).toBe(code);
    expect(await llm.requests[0]?.closed).toBe("destroyed-by-us");
  });

  it("breaks off inside the arguments of a call", async () => {
    const { text, error } = await readUntilBroken(await going({ cut: "arguments" }, { text: SAID, calls: CALLS }));
    const [first, ...others] = Object.values(heard(format, events(text)).calls);
    expect(first).toEqual({ name: "terminal", args: '{"comm' });
    expect(others).toEqual([]);
    expect(error).toBeDefined();
  });

  it("ends well, but too early", async () => {
    const response = await going({ cut: "text", by: "end" });
    expect(await listen(format, response)).toMatchObject({ text: SAID, finish: undefined });
    const { text, error } = await readUntilBroken(await whole({ text: SAID, fault: { cut: "text", by: "end" } }));
    expect(error).toBeUndefined();
    expect(() => JSON.parse(text) as unknown).toThrow();
  });

  it("breaks off inside an answer in one piece", async () => {
    const { text, error } = await readUntilBroken(await whole({ text: SAID, fault: { cut: "text" } }));
    expect(text).toMatch(/^\{/);
    expect(at(error, "cause", "code")).toBe("ECONNRESET");
  });

  it.each([
    ["accepted", /^$/],
    ["headers", /^HTTP\/1.1 200 OK\r\n.*\r\n\r\n$/s],
    ["text", /hello(?!.*(finish_reason":"|completed|message_stop))/s],
  ] as const)("falls silent: %s", async (silence, all) => {
    llm.script({ text: "hello", fault: { silence } });
    const heard = wiretap(format, () => false);
    const request = await llm.nextRequest();
    expect(await request.holding).toBe(silence);
    await llm.close();
    expect(await heard).toMatch(all);
  });

  it("sends a byte at a time, at the pace it is told", async () => {
    llm.script([
      { text: SAID, fault: { byteEvery: 0 } },
      { text: SAID, fault: { byteEvery: 5 } },
    ]);
    const body = (await wiretap(format, (all) => all.endsWith("\r\n0\r\n\r\n"))).replace(/^.*?\r\n\r\n/s, "");
    expect(body).toMatch(/^(1\r\n[^]\r\n)+0\r\n\r\n$/);
    const bytes = Buffer.from(body.replace(/1\r\n([^])\r\n/g, "$1").replace(/0\r\n\r\n$/, ""), "latin1");
    expect(heard(format, events(bytes.toString())).text).toBe(SAID);

    const started = performance.now();
    await wiretap(format, (all) => all.split("\r\n1\r\n").length > 10);
    expect(performance.now() - started).toBeGreaterThanOrEqual(9 * 4);
  });

  it.each([
    [{}, null],
    [{ retryAfter: 7 }, "7"],
    [{ retryAfter: 0 }, "0"],
    [{ retryAfter: 1e9 }, "1000000000"],
    [{ retryAfter: new Date(0) }, "Thu, 01 Jan 1970 00:00:00 GMT"],
    [{ headers: { "retry-after-ms": "20" } }, null],
  ])("has enough of us: 429 %j", async (more, retryAfter) => {
    const response = await going({ status: 429, ...more });
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, retryAfter]);
    const body = {
      chat: { code: "rate_limit_exceeded" },
      responses: { type: "tokens" },
      anthropic: { type: "rate_limit_error" },
    };
    expect(await response.json()).toMatchObject({ error: body[format] });
    expect(await llm.requests[0]?.closed).toBe("completed");
  });

  it.each([
    [401, { chat: "invalid_api_key", responses: "invalid_api_key", anthropic: "authentication_error" }],
    [403, { chat: "request_forbidden", responses: "request_forbidden", anthropic: "permission_error" }],
    [500, { chat: "server_error", responses: "server_error", anthropic: "api_error" }],
    [502, { chat: "<h1>502 Bad Gateway", responses: "<h1>502", anthropic: "<h1>502" }],
    [503, { chat: "server_is_overloaded", responses: "server_is_overloaded", anthropic: "overloaded_error" }],
    [529, { chat: "server_is_overloaded", responses: "server_is_overloaded", anthropic: "overloaded_error" }],
  ])("refuses with %d, streamed or not", async (status, body) => {
    for (const response of [await going({ status }), await whole({ fault: { status } })]) {
      expect(response.status).toBe(status);
      expect(await response.text()).toContain(body[format]);
    }
  });

  it("says that the context is too long, in its own words", async () => {
    const response = await going("context-overflow");
    expect(response.status).toBe(400);
    const overflow = { type: "invalid_request_error", param: "messages", code: "context_length_exceeded" };
    expect(await response.json()).toMatchObject({
      error: {
        chat: overflow,
        responses: { ...overflow, param: "input" },
        anthropic: { message: "prompt is too long: 208310 tokens > 200000 maximum" },
      }[format],
    });
  });

  it("says an error in the middle of a stream", async () => {
    const list = events(await (await going({ errorEvent: "overloaded" })).text());
    expect(heard(format, list)).toMatchObject({ text: SAID, finish: undefined });
    expect(list.at(-1)).toMatchObject({
      event: { chat: undefined, responses: "error", anthropic: "error" }[format],
      json: { error: { message: expect.stringMatching(/overloaded/i) } },
    });
    const failed = events(await (await going({ errorEvent: "context-overflow", at: "headers", failed: true })).text());
    expect(failed).toHaveLength(1);
    if (format === "responses")
      expect(failed[0]?.json).toMatchObject({
        type: "response.failed",
        sequence_number: 0,
        response: { status: "failed", error: { code: "context_length_exceeded" } },
      });
    const response = await whole({ fault: { errorEvent: "server" } });
    expect([response.status, await response.json()]).toMatchObject([200, { error: {} }]);
  });

  it.each<[string, Fault[], RegExp]>([
    ["with CRLF", ["crlf"], /^(?:(?!\n)[^\r]|\r\n)*\r\n\r\n$/],
    ["with a BOM", ["bom"], /^\uFEFF(event|data): /],
    ["with comments between", ["comments"], /^: keep-alive\n\n:\n: one more\n\n(event|data): .*\n\n: keep-alive\n/s],
    ["with all of these, a byte at a time", ["crlf", "bom", "comments", { byteEvery: 0 }], /^\uFEFF: keep-alive\r\n/],
  ])("sends lines %s", async (_, fault, bytes) => {
    const response = await going(fault);
    const raw = new TextDecoder("utf-8", { ignoreBOM: true }).decode(await response.arrayBuffer());
    expect(raw).toMatch(bytes);
    expect(heard(format, events(raw))).toMatchObject({
      text: SAID,
      finish: finished(format, "stop", "completed", "end_turn"),
    });
  });

  it("leaves the last blank line out", async () => {
    const raw = await (await going("no-last-blank-line")).text();
    expect(raw).toMatch(/[^\n]\n$/);
    expect(heard(format, events(raw)).text).toBe(SAID);
  });

  it("splits characters between chunks", async () => {
    const response = await going("split-utf8");
    const alone: string[] = [];
    let all = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      alone.push(new TextDecoder().decode(chunk as Uint8Array));
      all += decoder.decode(chunk as Uint8Array, { stream: true });
    }
    expect(alone.join("")).toContain("\uFFFD");
    expect(all).not.toContain("\uFFFD");
    expect(heard(format, events(all)).text).toBe(SAID);
  });

  it("sends one line of any length", async () => {
    const bytes = format === "chat" ? 100_000_000 : 3_000_000;
    const response = await going({ longLine: bytes });
    let [line, longest, total] = [0, 0, 0];
    for await (const chunk of response.body ?? []) {
      const piece = Buffer.from(chunk as Uint8Array);
      total += piece.length;
      const end = piece.indexOf("\n");
      longest = Math.max(longest, line + (end < 0 ? piece.length : end));
      line = end < 0 ? line + piece.length : piece.length - piece.lastIndexOf("\n") - 1;
    }
    expect(longest).toBeGreaterThan(bytes);
    expect(total).toBeLessThan(bytes + 10_000);
    expect(llm.requests[0]?.bytesSent).toBe(total);
  });

  it("sends a line without end, until the client has had enough", async () => {
    llm.script({ fault: { longLine: Number.POSITIVE_INFINITY } });
    await wiretap(format, (all) => all.length > 1_000_000);
    expect(await llm.requests[0]?.closed).toBe("closed-by-client");
  });

  it("leaves out what closes the stream, or says it twice", async () => {
    const last = finished(format, "[DONE]", "response.completed", "message_stop");
    const count = async (fault: Fault) =>
      events(await (await going(fault)).text()).filter(({ event, data }) => (event ?? data) === last).length;
    expect([await count("no-done"), await count("done-twice")]).toEqual([0, 2]);
  });

  it("sends HTML with 200", async () => {
    const response = await going("html");
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(await response.text()).toMatch(/^<!DOCTYPE html>/);
  });

  it("sends a BOM before JSON", async () => {
    const bytes = new Uint8Array(await (await whole({ text: SAID, fault: "bom" })).arrayBuffer());
    expect(Buffer.from(bytes.slice(0, 4)).toString("hex")).toBe("efbbbf7b");
  });

  it("redirects to another host", async () => {
    await using other = await startFakeLlm();
    const to = `${other.url.replace("127.0.0.1", "localhost")}${PATHS[format]}`;
    llm.script([{ fault: { redirect: to } }, { fault: { redirect: to, status: 302 } }]);
    for (const status of [307, 302]) {
      const response = await post(format, plain(format), { redirect: "manual" });
      expect([response.status, response.headers.get("location")]).toEqual([status, to]);
    }
  });

  it("gives no finish reason", async () => {
    const response = await ask(format, { text: SAID, finish: null });
    expect(await listen(format, response)).toMatchObject({ text: SAID, finish: undefined });
  });

  it("says nothing at all", async () => {
    const { text, reasoning, calls, finish } = await listen(format, await ask(format, {}));
    expect({ text, reasoning, calls }).toEqual({ text: "", reasoning: "", calls: {} });
    expect(finish).toBe(finished(format, "stop", "completed", "end_turn"));
  });

  it("passes on whatever arguments it is given", async () => {
    const args = ['{"command": "rm -rf /tm', '{"__proto__":{"polluted":true}}', "[1]", ""];
    const { calls } = await listen(format, await ask(format, { calls: args.map((args) => ({ name: "x", args })) }));
    expect(Object.values(calls).map((call) => call.args)).toEqual(args);
  });

  it("gives two calls the same id", async () => {
    const raw = await (await ask(format, FAULTS["duplicate call ids"])).text();
    const started = { chat: /"id":"call_same"/g, responses: /added.*"call_same"/g, anthropic: /"id":"call_same"/g };
    expect(raw.match(started[format])).toHaveLength(2);
  });

  it("interleaves the arguments of parallel calls", async () => {
    const list = events(await (await ask(format, FAULTS["interleaved parallel arguments"])).text());
    const order = list.flatMap(({ json }) => {
      if (format === "chat") return at(json, "choices", 0, "delta", "tool_calls", 0, "index") ?? [];
      if (format === "responses")
        return json.type === "response.function_call_arguments.delta" ? json.output_index : [];
      return at(json, "delta", "partial_json") ? json.index : [];
    });
    expect(order.join("")).not.toMatch(/^(0+1+2+)$/);
    expect(Object.values(heard(format, list).calls).map(({ args }) => args)).toEqual([
      '{"command":"ls -la"}',
      '{"command":"echo 世界"}',
      '{"command":"pwd"}',
    ]);
  });

  it("calls two hundred tools at once, each by an id of its own", async () => {
    const raw = await (await ask(format, FAULTS["200 calls at once"])).text();
    expect(Object.keys(heard(format, events(raw)).calls)).toHaveLength(200);
    expect(new Set(raw.match(/"(call|toolu)_0\w+"/g)).size).toBe(200);
  });

  it.each(Object.entries<Reply>(FAULTS))("plays from the catalogue: %s", async (_, reply) => {
    llm.script(reply);
    const broken = post(format, plain(format), { redirect: "manual" }).then(readUntilBroken, (error: unknown) => ({
      error,
    }));
    const request = await llm.nextRequest();
    const silent = JSON.stringify(reply).includes("silence");
    if (silent) await request.holding;
    const cut = /"cut":"\w+"(?!,"by":"end")/.test(JSON.stringify(reply));
    if (silent) await llm.close();
    expect(await request.closed).toBe(silent || cut ? "destroyed-by-us" : "completed");
    expect("error" in (await broken) && (await broken).error !== undefined).toBe(silent || cut);
  });
});

// ── What it refuses ───────────────────────────────────────────────────────────────────────────────────

describe("strict validation", () => {
  beforeEach(() => {
    expected = undefined;
  });

  /** It is answered in the provider's own shape, recorded, and leaves the script as it was. */
  async function refused(format: Format, body: unknown, why: RegExp, init: RequestInit = {}, status = 400) {
    llm.script({ text: "still here" });
    const response = await post(format, body, init);
    expect(response.status).toBe(status);
    const error = {
      type: expect.stringMatching(/^(invalid_request|authentication)_error$/),
      message: expect.any(String),
    };
    expect(await response.json()).toMatchObject(
      format === "anthropic" ? { type: "error", error, request_id: expect.any(String) } : { error },
    );
    expect(llm.requests.at(-1)?.violations).toContainEqual(expect.stringMatching(why));
    expect(llm.violations).toContainEqual(expect.stringMatching(why));
    expect((await listen(format, await post(format))).text).toBe("still here");
  }

  it.each(FORMATS)("%s takes every transcript that is in order", async (format) => {
    const good: Turn[][] = [
      [user("hi")],
      [user("hi"), user("again"), assistant("yes"), user("so")],
      [user("hi"), calls("a", "b"), result("b"), result("a")],
      [user("hi"), calls("a"), result("a"), calls("b"), result("b"), assistant("done"), user("thanks")],
      [user("hi"), calls("a"), result("a"), user("stop")],
      [user("hi"), calls("x".repeat(40)), result("x".repeat(40))],
      ...(format === "anthropic" ? [] : [[{ system: "Be brief." }, user("hi")]]),
    ];
    for (const turns of good) expect((await post(format, transcript(format, turns))).status).toBe(200);
    expect(llm.violations).toEqual([]);
  });

  const missing = {
    chat: /did not have response messages: a$/,
    responses: /No tool output found.* a\./,
    anthropic: /without `tool_result`.* a\./,
  };
  const orphan = {
    chat: /role 'tool' must be a response/,
    responses: /No tool call found/,
    anthropic: /unexpected `tool_use_id`/,
  };
  const twice = { chat: /Duplicate value/, responses: /Duplicate function call with/, anthropic: /ids must be unique/ };
  const badId = { chat: /1 to 40/, responses: /1 to 64/, anthropic: /should match pattern/ };
  const empty = { chat: /must say something/, responses: /must say something/, anthropic: /must say something/ };
  const BAD: [string, Turn[], Record<Format, RegExp>][] = [
    ["ends with an unanswered call", [user("hi"), calls("a")], missing],
    ["lets a person speak before a call is answered", [user("hi"), calls("a"), user("well?"), result("a")], missing],
    ["answers one call of two", [user("hi"), calls("a", "b"), result("b")], missing],
    ["goes on calling before a call is answered", [user("hi"), calls("a"), assistant("so"), user("?")], missing],
    ["answers a call that nobody made", [user("hi"), result("a")], orphan],
    ["answers a call before it is made", [user("hi"), result("a"), calls("a"), user("?")], orphan],
    [
      "answers a call twice",
      [user("hi"), calls("a"), result("a"), result("a")],
      { chat: /Duplicate tool message/, responses: /Duplicate function call output/, anthropic: /single result/ },
    ],
    ["has two calls of one id", [user("hi"), calls("a", "a"), result("a")], twice],
    ["uses an id again later", [user("hi"), calls("a"), result("a"), calls("a"), result("a")], twice],
    ["has an id with a colon", [user("hi"), calls("functions.x:0"), result("functions.x:0")], badId],
    ["has an empty id", [user("hi"), calls(""), result("")], badId],
    ["has an endless id", [user("hi"), calls("x".repeat(65)), result("x".repeat(65))], badId],
    [
      "ends with what the model said",
      [user("hi"), assistant("and")],
      { chat: /last role/, responses: /must not end/, anthropic: /must end with a user message/ },
    ],
    [
      "begins with what the model said",
      [assistant("hello")],
      { chat: /no user message/, responses: /no user message/, anthropic: /first message must use the "user" role/ },
    ],
    [
      "has the system speak in the middle",
      [user("hi"), { system: "Be rude." }, user("hi")],
      { chat: /at the beginning/, responses: /at the beginning/, anthropic: /messages\.1\.role/ },
    ],
    ["has a person say nothing", [user("")], empty],
    ["has a person say a blank", [user(" \n")], empty],
    [
      "has the model say nothing",
      [user("hi"), assistant(""), user("hi")],
      { ...empty, chat: /either content or tool_calls/ },
    ],
    ["is empty", [], { chat: /'messages'/, responses: /'input'/, anthropic: /^(.*: )?messages: / }],
  ];
  it.each(FORMATS.flatMap((format) => BAD.map(([what, turns, why]) => [format, what, turns, why[format]] as const)))(
    "%s refuses a transcript that %s",
    (format, _, turns, why) => refused(format, transcript(format, turns), why),
  );

  const SCHEMAS: [string, unknown, RegExp][] = [
    ["no object", "string", /not an object/],
    ["not of an object", { type: "string" }, /type is not "object"/],
    ["of no type", { properties: {} }, /type is not "object"/],
    ["of an unknown type", { type: "object", properties: { a: { type: "text" } } }, /properties\.a\.type is "text"/],
    ["a choice at the top", { type: "object", anyOf: [{ type: "object" }] }, /"anyOf" at the top level/],
    ["with a list of anything", { type: "object", properties: { a: { type: "array" } } }, /array without "items"/],
    ["that requires what it lacks", { type: "object", properties: {}, required: ["a"] }, /requires a/],
    ["with a key of two words", { type: "object", properties: { "a b": {} } }, /the key "a b"/],
    ["with a choice of nothing", { type: "object", properties: { a: { anyOf: [] } } }, /anyOf is not a list/],
    ["with no values to choose from", { type: "object", properties: { a: { enum: [] } } }, /enum is not a list/],
  ];
  it.each(FORMATS.flatMap((format) => SCHEMAS.map(([what, schema, why]) => [format, what, schema, why] as const)))(
    "%s refuses a tool whose schema is %s",
    (format, _, schema, why) => refused(format, tooled(format, "terminal", schema), why),
  );

  it.each(FORMATS)("%s refuses tools by illegal names, the same name, or fields nobody knows", async (format) => {
    for (const name of ["", "two words", "dotted.name", "x".repeat(129)])
      await refused(format, tooled(format, name, SCHEMA), /match/);
    const [tool] = tooled(format, "terminal", SCHEMA).tools as unknown[];
    await refused(format, { ...plain(format), tools: [tool, tool] }, /Duplicate function name|must be unique/);
    await refused(format, tooled(format, "terminal", SCHEMA, { execute: true }), /execute/);
  });

  const FIELDS: [Format, string, Json, RegExp][] = [
    ...FORMATS.flatMap((format): [Format, string, Json, RegExp][] => [
      [format, "an unknown field", { foo: 1 }, /(Unrecognized|Unknown).*foo|foo: Extra inputs/],
      [format, "no model", { model: undefined }, /model/],
      [format, "a model that is a number", { model: 7 }, /model/],
      [format, "a stream that is a string", { stream: "true" }, /stream/],
      [format, "a temperature of 3", { temperature: 3 }, /temperature/],
    ]),
    ["chat", "an empty list of tools", { tools: [] }, /tools/],
    ["chat", "a choice without tools", { tools: undefined, tool_choice: "auto" }, /'tool_choice' is only allowed/],
    ["chat", "parallel calls without tools", { tools: undefined, parallel_tool_calls: true }, /'parallel_tool_calls'/],
    ["chat", "options for no stream", { stream: false }, /'stream_options' is only allowed/],
    ["chat", "no room for a token", { max_tokens: 0 }, /max_tokens/],
    [
      "chat",
      "the choice of another tool",
      { tool_choice: { type: "function", function: { name: "x" } } },
      /no function 'x'/,
    ],
    ["chat", "arguments that are no JSON", { messages: withArguments("{") }, /JSON of an object/],
    ["chat", "arguments that are no object", { messages: withArguments('"ls"') }, /JSON of an object/],
    ["chat", "an unknown role", { messages: [{ role: "robot", content: "hi" }] }, /messages\[0\]\.role/],
    [
      "chat",
      "a message with an unknown field",
      { messages: [{ role: "user", content: "hi", id: 1 }] },
      /messages\[0\]\.id/,
    ],
    ["chat", "an image from nowhere", { messages: [{ role: "user", content: [imageUrl("file:///x")] }] }, /image/],
    [
      "responses",
      "a reasoning item alone",
      {
        input: [
          { role: "user", content: "hi" },
          { type: "reasoning", id: "rs_1", summary: [] },
        ],
      },
      /required following item/,
    ],
    [
      "responses",
      "a reference to what we did not keep",
      {
        input: [
          { role: "user", content: "hi" },
          { type: "item_reference", id: "rs_1" },
        ],
        store: false,
      },
      /not persisted/,
    ],
    ["responses", "an answer that we did not keep", { previous_response_id: "resp_1" }, /not found/],
    [
      "responses",
      "an item by the wrong kind of id",
      { input: [{ type: "message", role: "user", content: "hi", id: "rs_1" }] },
      /begins with 'msg'/,
    ],
    [
      "responses",
      "output of a person",
      { input: [{ role: "user", content: [{ type: "output_text", text: "hi" }] }] },
      /content/,
    ],
    [
      "responses",
      "a strict tool that is open",
      tooled("responses", "x", SCHEMA, { strict: true }),
      /'additionalProperties' is required/,
    ],
    ["anthropic", "no limit", { max_tokens: undefined }, /max_tokens/],
    ["anthropic", "an empty system", { system: "" }, /system/],
    ["anthropic", "no content", { messages: [{ role: "user", content: [] }] }, /messages\.0\.content/],
    [
      "anthropic",
      "an empty text",
      { messages: [{ role: "user", content: [{ type: "text", text: "" }] }] },
      /messages\.0\.content\.0\.text/,
    ],
    [
      "anthropic",
      "calls without tools",
      { ...transcript("anthropic", [user("hi"), calls("a"), result("a")]), tools: [] },
      /must define tools/,
    ],
    [
      "anthropic",
      "a choice without tools",
      { tools: undefined, tool_choice: { type: "none" } },
      /while providing tools/,
    ],
    [
      "anthropic",
      "a text before a result",
      { messages: [...history(), { role: "user", content: [{ type: "text", text: "hm" }, toolResult()] }] },
      /immediately after: a/,
    ],
    [
      "anthropic",
      "a call with arguments in a string",
      {
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content: [{ type: "tool_use", id: "a", name: "x", input: "{}" }] },
        ],
      },
      /input/,
    ],
    [
      "anthropic",
      "a thought that was changed",
      {
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: "x" }] },
          { role: "user", content: "hi" },
        ],
      },
      /Invalid `signature`/,
    ],
    [
      "anthropic",
      "a budget above the limit",
      { thinking: { type: "enabled", budget_tokens: 2000 } },
      /must be greater than/,
    ],
    [
      "anthropic",
      "thinking that left its thoughts out",
      {
        thinking: { type: "enabled", budget_tokens: 1024 },
        max_tokens: 2000,
        messages: [...history(), { role: "user", content: [toolResult()] }],
      },
      /must start with a thinking block/,
    ],
    [
      "anthropic",
      "five breakpoints",
      { system: Array.from({ length: 5 }, () => ({ type: "text", text: "x", cache_control: { type: "ephemeral" } })) },
      /maximum of 4/,
    ],
  ];
  it.each(FIELDS)("%s refuses %s", (format, _, change, why) => refused(format, { ...plain(format), ...change }, why));

  it.each(FORMATS)("%s takes JSON only, and whole", async (format) => {
    await refused(format, '{"model": "m"', /parse the JSON/);
    await refused(format, "[]", /expected object/);
    const headers = { "content-type": "text/plain", ...HEADERS[format] };
    await refused(format, plain(format), /content-type: text\/plain/, { headers });
  });

  it("wants to know who asks, and in which version", async () => {
    const headers = { "content-type": "application/json" };
    await refused("responses", plain("responses"), /Missing bearer/, { headers }, 401);
    await refused(
      "anthropic",
      plain("anthropic"),
      /x-api-key/,
      { headers: { ...headers, "anthropic-version": "2023-06-01" } },
      401,
    );
    await refused("anthropic", plain("anthropic"), /anthropic-version/, { headers: { ...headers, "x-api-key": "k" } });
  });

  it("has no other doors", async () => {
    expect((await fetch(`${llm.url}/completions`, { method: "POST", body: "{}" })).status).toBe(404);
    expect((await fetch(`${llm.url}/messages`, { headers: HEADERS.anthropic })).status).toBe(404);
    expect(llm.violations).toEqual([
      "POST /v1/completions: there is no such path",
      "GET /v1/messages: there is no such path",
    ]);
  });

  it("takes back the thoughts it gave", async () => {
    const thinking = "hm, so";
    llm.script({ reasoning: thinking, text: "x" });
    const list = events(await (await post("anthropic")).text());
    const signature = list.map(({ json }) => at(json, "delta", "signature")).find(Boolean);
    const [question, answer] = history();
    const messages = [
      question,
      { ...answer, content: [{ type: "thinking", thinking, signature }, ...((answer?.content as unknown[]) ?? [])] },
      { role: "user", content: [toolResult()] },
    ];
    const body = {
      ...plain("anthropic"),
      thinking: { type: "enabled", budget_tokens: 1024 },
      max_tokens: 2000,
      messages,
    };
    expect((await post("anthropic", body)).status).toBe(200);
    expect(llm.requests.at(-1)?.messages[1]).toMatchObject({ role: "assistant", reasoning: thinking });
  });
});

function withArguments(text: string): Json[] {
  const call = { id: "a", type: "function", function: { name: "terminal", arguments: text } };
  return [
    { role: "user", content: "hi" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content: "done" },
  ];
}
function imageUrl(url: string): Json {
  return { type: "image_url", image_url: { url } };
}
/** Anthropic: a question, and a call for its answer. */
function history(): Json[] {
  const { messages } = transcript("anthropic", [user("hi"), calls("a")]);
  return messages as Json[];
}
function toolResult(): Json {
  return { type: "tool_result", tool_use_id: "a", content: "done" };
}
