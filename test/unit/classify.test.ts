// What providers really say, and what is made of it: each body goes over a socket and through the library that reads it.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FaultKind, ModelRequest, ModelResult, ModelSink } from "../../src/core/ports.ts";
import { createModel } from "../../src/llm/provider.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

let llm: FakeLlm;
beforeAll(async () => {
  llm = await startFakeLlm();
});
afterAll(() => llm.close());

const REQUEST: ModelRequest = {
  session: "s",
  system: "Be good.",
  messages: [{ role: "user", text: "hi" }],
  tools: [],
  final: false,
};
type Provider = "openai-compatible" | "openai" | "anthropic";

async function ask(provider: Provider, told: { status: number; body: string; headers?: Record<string, string> }) {
  llm.script({ fault: told });
  const heard = { text: "", reasoning: "", signs: 0 };
  const hear: ModelSink = {
    text: (text) => void (heard.text += text),
    reasoning: (text) => void (heard.reasoning += text),
    alive: () => void heard.signs++,
  };
  const endpoint = { provider, model: "m", baseUrl: llm.url, apiKey: "k", context: 1_000, because: "" };
  const result: ModelResult = await createModel(endpoint).call(REQUEST, hear, new AbortController().signal);
  return { result, heard };
}

const error = (message: string, more: object = {}) => JSON.stringify({ error: { message, ...more } });
type Row = [who: string, status: number, body: string, kind: FaultKind, told?: string, provider?: Provider];
const rowOf = ([, status, body, kind, told = "", provider = "openai-compatible"]: Row) => ({
  status,
  body,
  kind,
  told,
  provider,
});

const TPM = "on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again.";
const OVERFLOWS: Row[] = [
  [
    "OpenAI",
    400,
    error(
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130010 tokens. Please reduce the length of the messages.",
      { type: "invalid_request_error", param: "messages", code: "context_length_exceeded" },
    ),
    "too_long",
    "128000",
  ],
  [
    "OpenAI Responses",
    400,
    error("Your input exceeds the context window of this model. Please adjust your input and try again.", {
      type: "invalid_request_error",
      param: "input",
      code: "context_length_exceeded",
    }),
    "too_long",
    "context window",
    "openai",
  ],
  [
    "Anthropic, the prompt",
    400,
    JSON.stringify({
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 208310 tokens > 200000 maximum" },
    }),
    "too_long",
    "208310",
    "anthropic",
  ],
  [
    "Anthropic, with the output",
    400,
    JSON.stringify({
      type: "error",
      error: {
        type: "invalid_request_error",
        message:
          "input length and `max_tokens` exceed context limit: 180000 + 32000 > 200000, decrease input length or `max_tokens` and try again",
      },
    }),
    "too_long",
    "180000",
    "anthropic",
  ],
  [
    "Anthropic, by bytes",
    413,
    JSON.stringify({
      type: "error",
      error: { type: "request_too_large", message: "Request exceeds the maximum size" },
    }),
    "too_long",
    "maximum size",
    "anthropic",
  ],
  [
    "llama.cpp, 400",
    400,
    error("request (12345 tokens) exceeds the available context size (8192 tokens), try increasing it", {
      code: 400,
      type: "exceed_context_size_error",
      n_prompt_tokens: 12345,
      n_ctx: 8192,
    }),
    "too_long",
    "12345",
  ],
  [
    "llama.cpp, 500",
    500,
    error("the request exceeds the available context size. try increasing the context size or enable context shift", {
      code: 500,
      type: "server_error",
    }),
    "too_long",
  ],
  [
    "llama.cpp, while it writes",
    500,
    error("context shift is disabled", { code: 500, type: "server_error" }),
    "too_long",
  ],
  ["LM Studio", 400, JSON.stringify({ error: "Context size has been exceeded." }), "too_long", "Context size"],
  [
    "llama-cpp-python",
    400,
    error(
      "This model's maximum context length is 2048 tokens. However, you requested 2176 tokens (2048 in the messages, 128 in the completion). Please reduce the length of the messages or completion.",
      { type: "invalid_request_error", param: "messages", code: "context_length_exceeded" },
    ),
    "too_long",
  ],
  [
    "xAI",
    400,
    JSON.stringify({
      code: "Client specified an invalid argument",
      error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    }),
    "too_long",
    "537812",
  ],
  [
    "Kimi",
    400,
    error("Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)", {
      type: "invalid_request_error",
    }),
    "too_long",
    "269030",
  ],
  [
    "Copilot",
    400,
    error("prompt token count of 135244 exceeds the limit of 128000", { code: "model_max_prompt_tokens_exceeded" }),
    "too_long",
    "135244",
  ],
  ["GLM", 400, JSON.stringify({ error: { code: "1261", message: "Prompt exceeds max length" } }), "too_long"],
  [
    "Qwen",
    400,
    error("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", {
      type: "invalid_request_error",
      code: "invalid_parameter_error",
    }),
    "too_long",
    "129024",
  ],
  [
    "TGI, the input",
    422,
    JSON.stringify({
      error: "Input validation error: `inputs` must have less than 4095 tokens. Given: 5021",
      error_type: "validation",
    }),
    "too_long",
    "5021",
  ],
  [
    "TGI, with the output",
    422,
    JSON.stringify({
      error:
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 `inputs` tokens and 2000 `max_new_tokens`",
      error_type: "validation",
    }),
    "too_long",
  ],
  [
    "vLLM",
    400,
    JSON.stringify({
      object: "error",
      message:
        "This model's maximum context length is 4096 tokens. However, your request has 5018 input tokens. Please reduce the length of the input messages.",
      type: "BadRequestError",
      param: null,
      code: 400,
    }),
    "too_long",
    "5018",
  ],
  [
    "vLLM, the engine",
    400,
    error(
      "The decoder prompt (length 41000) is longer than the maximum model length of 32768. Make sure that `max_model_len` is no smaller than the number of text tokens.",
      { type: "BadRequestError", code: 400 },
    ),
    "too_long",
  ],
  [
    "Groq",
    413,
    error(
      `Request too large for model \`llama-3.3-70b-versatile\` in organization \`org_x\` service tier \`on_demand\` ${TPM}`,
      {
        type: "tokens",
        code: "rate_limit_exceeded",
      },
    ),
    "too_long",
    "14137",
  ],
  [
    "Gemini",
    400,
    JSON.stringify([
      {
        error: {
          code: 400,
          message: "The input token count (1200012) exceeds the maximum number of tokens allowed (1048576).",
          status: "INVALID_ARGUMENT",
        },
      },
    ]),
    "too_long",
    "1200012",
  ],
  [
    "Mistral",
    400,
    JSON.stringify({
      object: "error",
      message: "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      type: "invalid_request_error",
      code: "3051",
    }),
    "too_long",
    "65673",
  ],
  [
    "MiniMax",
    400,
    error("invalid params, context window exceeds limit (2013)", { type: "bad_request_error" }),
    "too_long",
  ],
  [
    "OpenRouter, for the provider behind it",
    400,
    error("Provider returned error", {
      code: 400,
      metadata: {
        raw: '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}',
        provider_name: "Anthropic",
      },
    }),
    "too_long",
    "210000",
  ],
  ["a proxy", 413, "<html><body><h1>413 Request Entity Too Large</h1></body></html>", "too_long", "Entity Too Large"],
];

const OTHERS: Row[] = [
  [
    "a 429 that speaks of tokens",
    429,
    error("Request too large for gpt-4o: too many tokens per min, maximum context"),
    "rate_limited",
  ],
  [
    "Gemini's free tier",
    429,
    JSON.stringify([
      {
        error: {
          code: 429,
          message:
            "You exceeded your current quota, please check your plan and billing details. Please retry in 20.04466179s.",
          status: "RESOURCE_EXHAUSTED",
        },
      },
    ]),
    "rate_limited",
    "current quota",
  ],
  [
    "Groq's minute",
    429,
    error(
      "Rate limit reached for model. Please try again in 7m12.5s. Upgrade at https://console.groq.com/settings/billing",
      {
        type: "tokens",
        code: "rate_limit_exceeded",
      },
    ),
    "rate_limited",
  ],
  [
    "OpenAI's credit",
    429,
    error("You exceeded your current quota", { type: "insufficient_quota", code: "insufficient_quota" }),
    "quota",
  ],
  [
    "GLM's credit",
    429,
    JSON.stringify({ error: { code: "1113", message: "Insufficient balance or no resource package." } }),
    "quota",
  ],
  [
    "Kimi's credit",
    429,
    error("Your account is suspended, please check your plan", { type: "exceeded_current_quota_error" }),
    "quota",
  ],
  [
    "DeepSeek's credit",
    402,
    error("Insufficient Balance", { type: "unknown_error", code: "invalid_request_error" }),
    "quota",
  ],
  [
    "Anthropic's credit",
    400,
    JSON.stringify({
      type: "error",
      error: { type: "invalid_request_error", message: "Your credit balance is too low to access the Anthropic API." },
    }),
    "quota",
    "credit balance",
    "anthropic",
  ],
  [
    "words about billing",
    400,
    error("metadata.billing_id: unknown field", { type: "invalid_request_error" }),
    "bad_request",
  ],
  [
    "Groq's tools",
    400,
    error("Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.", {
      type: "invalid_request_error",
      code: "tool_use_failed",
      failed_generation: '<function=terminal{"command"',
    }),
    "garbled",
    "Failed to call a function",
  ],
  ["Azure's filter", 400, error("The response was filtered", { code: "content_filter", type: null }), "filtered"],
  [
    "an output limit",
    400,
    error(
      "max_tokens must be less than or equal to 16384, the maximum value for max_tokens is less than the context_window for this model",
    ),
    "bad_request",
  ],
];

describe("a conversation that is too long, as told by", () => {
  it.each(OVERFLOWS)("%s", async (...row) => {
    const { status, body, kind, told, provider } = rowOf(row);
    const { result } = await ask(provider, { status, body });
    expect(result).toMatchObject({ end: "fault", kind, reason: expect.stringContaining(told) });
  });
});

describe("something else, as told by", () => {
  it.each(OTHERS)("%s", async (...row) => {
    const { status, body, kind, told, provider } = rowOf(row);
    const { result } = await ask(provider, { status, body });
    expect(result).toMatchObject({ end: "fault", kind, reason: expect.stringContaining(told) });
  });

  it.each([
    ["Please try again in 7m12.5s.", 432_500],
    ["Please retry in 20.04466179s.", 20_045],
    ["Please try again in 812ms.", 812],
    ["Try again in 1h2m3s", 3_723_000],
    ["try again in a moment", undefined],
  ])("the wait in its words: %s", async (words, retryAfter) => {
    const { result } = await ask("openai-compatible", { status: 429, body: error(words) });
    expect(result).toMatchObject({ kind: "rate_limited" });
    expect(result.end === "fault" && result.retryAfter).toBe(retryAfter);
  });
});

const SHAPES: [shape: string, body: string, told: string][] = [
  ["{error: {message}}", error("the disk is full"), "the disk is full"],
  ["{error}", JSON.stringify({ error: "the disk is full" }), "the disk is full"],
  ["{message}", JSON.stringify({ message: "the disk is full" }), "the disk is full"],
  ["{detail}", JSON.stringify({ detail: "the disk is full" }), "the disk is full"],
  ["{detail: [{msg}]}", JSON.stringify({ detail: [{ loc: ["body"], msg: "field required" }] }), "field required"],
  ["{errors: [{message}]}", JSON.stringify({ errors: [{ message: "the disk is full" }] }), "the disk is full"],
  ["[{error}]", JSON.stringify([{ error: { message: "the disk is full" } }]), "the disk is full"],
  ["a JSON string", JSON.stringify("the disk is full"), "the disk is full"],
  ["an unknown shape", JSON.stringify({ oops: "the disk is full" }), "the disk is full"],
  ["plain text", "upstream connect error: the disk is full", "the disk is full"],
];
const SSE = { "content-type": "text/event-stream" };

describe.each<Provider>(["openai-compatible", "openai", "anthropic"])("over %s", (provider) => {
  it.each(SHAPES)("what an error says is told: %s", async (_, body, told) => {
    const { result } = await ask(provider, { status: 400, body });
    expect(result).toMatchObject({ kind: "bad_request", reason: expect.stringContaining(told) });
  });

  it.each(SHAPES)("also behind HTTP 200: %s", async (_, body, told) => {
    const { result } = await ask(provider, { status: 200, body });
    expect(result).toMatchObject({ end: "fault", reason: expect.stringContaining(told) });
  });

  it("a status behind HTTP 200 counts", async () => {
    const { result } = await ask(provider, { status: 200, body: error("slow down", { code: 429 }) });
    expect(result).toMatchObject({ kind: "rate_limited" });
  });

  it("what has many lines is told in one: it stands in a notice", async () => {
    const body = error("10 validation errors:\n  {'type': 'string_type'}\n\nThe model group failed.");
    const { result } = await ask(provider, { status: 500, body });
    const reason = "HTTP 500: 10 validation errors: {'type': 'string_type'} The model group failed.";
    expect(result).toMatchObject({ kind: "unavailable", reason });
  });

  it("a web page of a proxy is told by its words", async () => {
    const body = "<html><head><title>504</title></head><body><h1>504 Gateway Time-out</h1><hr>nginx</body></html>";
    const { result } = await ask(provider, { status: 504, body, headers: { "content-type": "text/html" } });
    expect(result).toMatchObject({ kind: "unavailable", reason: "HTTP 504: 504 Gateway Time-out nginx" });
  });

  it("a stream with nothing in it but comments is empty", async () => {
    const { result } = await ask(provider, { status: 200, headers: SSE, body: ": ping\n\n: ping\n\n" });
    expect(result).toMatchObject({ kind: "empty" });
  });
});

describe("inside a stream", () => {
  const chunk = (data: unknown) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
  const said = (content: string, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta: { content }, finish_reason }] });
  const asked = (...frames: string[]) => ask("openai-compatible", { status: 200, headers: SSE, body: frames.join("") });

  it.each<[string, string, FaultKind]>([
    ["llama.cpp's overflow", chunk({ error: { code: 500, message: "context shift is disabled" } }), "too_long"],
    ["llama.cpp's own lines", 'error: {"code":500,"message":"Context size has been exceeded."}\n\n', "too_long"],
    ["{error: text}", chunk({ error: "Context size has been exceeded." }), "too_long"],
    ["{detail}", chunk({ detail: "too many tokens" }), "too_long"],
    [
      "OpenRouter's",
      chunk({
        error: { code: 502, message: "Provider disconnected" },
        choices: [{ index: 0, delta: {}, finish_reason: "error" }],
      }),
      "unavailable",
    ],
    ["Groq's tools", chunk({ error: { message: "Failed to call a function.", code: "tool_use_failed" } }), "garbled"],
    ["a number", chunk({ error: { code: 429, message: "slow down" } }), "rate_limited"],
  ])("an error is read: %s", async (_, frame, kind) => {
    expect((await asked(frame)).result).toMatchObject({ end: "fault", kind });
  });

  it("a finish that we do not know ends a whole answer", async () => {
    const { result, heard } = await asked(said("hello"), said("", "eos_token"), chunk("[DONE]"));
    expect(heard.text).toBe("hello");
    expect(result).toMatchObject({ end: "answer" });
  });

  it.each(["error", "abort", "cancelled"])("a finish that names a failure (%s) does not", async (finish) => {
    expect((await asked(said("hel"), said("", finish), chunk("[DONE]"))).result).toMatchObject({ kind: "incomplete" });
  });

  it.each([
    ["length", "length"],
    ["content_filter", "filter"],
  ])("%s behind words is an answer that says so", async (finish, endedBy) => {
    expect((await asked(said("hel"), said("", finish), chunk("[DONE]"))).result).toMatchObject({
      end: "answer",
      endedBy,
    });
  });

  it("reasoning that used up the limit is told apart, with what it used", async () => {
    const thought = chunk({ choices: [{ index: 0, delta: { reasoning_content: "hm" }, finish_reason: null }] });
    const usage = chunk({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2_048 } });
    const { result } = await asked(thought, said("", "length"), usage, chunk("[DONE]"));
    expect(result).toMatchObject({ kind: "exhausted", spent: 2_048 });
  });

  it("every byte is a sign of life, also of comments", async () => {
    const signs: string[] = [];
    const next = { sign: Promise.withResolvers<void>() };
    const answer = async (response: ServerResponse) => {
      response.writeHead(200, SSE);
      for (const comment of [": OPENROUTER PROCESSING", ": ping", ":"]) {
        const heard = next.sign.promise;
        response.write(`${comment}\n\n`);
        await heard; // nothing else was sent: this alone was heard
        next.sign = Promise.withResolvers();
        signs.push(comment);
      }
      response.end(said("hi", "stop"));
    };
    const server = createServer((_, response) => void answer(response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const endpoint = { model: "m", baseUrl: `http://127.0.0.1:${port}`, apiKey: "", context: 1_000, because: "" };
    let begun = false;
    const alive = () => (begun ? next.sign.resolve() : void (begun = true)); // the first is the library's own
    const hear = { text: () => {}, reasoning: () => {}, alive };
    const model = createModel({ provider: "openai-compatible", ...endpoint });
    const result = await model.call(REQUEST, hear, new AbortController().signal);
    expect(result.end).toBe("answer");
    expect(signs).toHaveLength(3);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  it.each([
    [["<think>", "hm", "</think>", "\n\n", "hello"], "hm", "hello"],
    [["\n<th", "ink>h", "m</", "think", ">", " hello <think>"], "hm", "hello <think>"],
    [["<thinking of you"], "", "<thinking of you"],
    [["I <think> so"], "", "I <think> so"],
    [["<think>a </thin b</think>c"], "a </thin b", "c"],
  ])("reasoning that was left in the text is taken out of it: %j", async (pieces, reasoning, text) => {
    const { heard, result } = await asked(...pieces.map((piece) => said(piece)), said("", "stop"), chunk("[DONE]"));
    expect(heard).toMatchObject({ reasoning, text });
    expect(result.end).toBe("answer");
  });

  it("and a thought that never ends is no answer", async () => {
    const { heard, result } = await asked(said("<think>on and on"), said("", "length"), chunk("[DONE]"));
    expect(heard).toMatchObject({ reasoning: "on and on", text: "" });
    expect(result).toMatchObject({ kind: "exhausted" });
  });

  it("what the server says of cost, cache and reasoning is kept", async () => {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 20,
      prompt_tokens_details: { cached_tokens: 80 },
      completion_tokens_details: { reasoning_tokens: 15 },
      cost: 0.0123,
    };
    const { result } = await asked(said("hi", "stop"), chunk({ choices: [], usage }), chunk("[DONE]"));
    expect(result).toMatchObject({ usage: { input: 100, output: 20, cached: 80, reasoning: 15, cost: 0.0123 } });
  });
});
