// The chunks of an OpenAI-compatible server, as the parts that the library would make of them. The library hands each chunk through
// six streams and checks it against a schema, which took a quarter of a turn. What is hard (calls of tools in pieces, with ids and
// indexes that servers use in many ways) is still the library's.
import type { JSONObject, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { StreamingToolCallTracker } from "@ai-sdk/provider-utils";
import { createSseParser } from "../core/sse.ts";
import { isObject, toList, toObject } from "../platform/json.ts";
import { isJsonObject, noteExtras } from "./replay.ts";
import { type Alive, guardStream, providerPost, type StreamGuard } from "./wire.ts";

type ToolDelta = NonNullable<Parameters<StreamingToolCallTracker["processDelta"]>[0]> & { extra_content?: unknown };
type StreamedUsage = Extract<LanguageModelV4StreamPart, { type: "finish" }>["usage"];

type ChatCall = { url: string; apiKey: string; body: Record<string, unknown>; alive: Alive };

export async function openChat(
  { url, apiKey, body, alive }: ChatCall,
  { tools, abortSignal }: LanguageModelV4CallOptions,
): Promise<AsyncIterable<LanguageModelV4StreamPart>> {
  const headers = { "content-type": "application/json", ...(apiKey && { authorization: `Bearer ${apiKey}` }) };
  const answer = await providerPost(url, { headers, body: jsonOf(body, tools), signal: abortSignal });
  const guard = guardStream(() => abortSignal && alive(abortSignal));
  return chatParts(answer, guard);
}

const known = new WeakMap<object, string>();

/** The schemas of all tools are 30 kB: the same list of tools is written once. */
function jsonOf({ tools: sent, ...rest }: Record<string, unknown>, tools: LanguageModelV4CallOptions["tools"]): string {
  if (!sent || !tools) return JSON.stringify(rest);
  const json = known.get(tools) ?? JSON.stringify(sent);
  known.set(tools, json);
  return `${JSON.stringify(rest).slice(0, -1)},"tools":${json}}`;
}

/** A last event without the blank line behind it. */
const END = new TextEncoder().encode("\n\n");

async function* chatParts(
  body: AsyncIterable<Uint8Array>,
  guard: StreamGuard,
): AsyncGenerator<LanguageModelV4StreamPart> {
  let parts: LanguageModelV4StreamPart[] = [];
  const parse = createSseParser();
  const answer = createAnswer((part) => parts.push(part));
  const take = (bytes: Uint8Array) => {
    for (const heard of parse(bytes)) if ("data" in heard) answer.chunk(heard.data);
    const made = parts;
    parts = [];
    return made;
  };
  yield { type: "stream-start", warnings: [] }; // the headers are a sign of life
  for await (const bytes of body) {
    guard.see(bytes);
    for (const part of take(bytes)) yield part; // `yield*` takes two promises more for each
  }
  guard.end();
  yield* take(END);
  answer.end();
  yield* parts;
}

function createAnswer(enqueue: (part: LanguageModelV4StreamPart) => void) {
  const extras = noteExtras();
  const calls = createCalls(enqueue);
  let open: "text" | "reasoning" | null = null;
  let raw: string | undefined;
  let refused = false;
  let failed = false;
  let usage: JSONObject | undefined;

  const fail = (error: unknown) => {
    failed = true;
    enqueue({ type: "error", error });
  };
  function close() {
    if (open === "text") enqueue({ type: "text-end", id: "txt-0" });
    if (open === "reasoning") enqueue({ type: "reasoning-end", id: "reasoning-0" });
    open = null;
  }
  function say(delta: unknown) {
    if (typeof delta !== "string" || !delta) return;
    if (open !== "text") {
      close();
      enqueue({ type: "text-start", id: "txt-0" });
      open = "text";
    }
    enqueue({ type: "text-delta", id: "txt-0", delta });
  }
  function think(delta: unknown) {
    if (typeof delta !== "string" || !delta) return;
    if (open !== "reasoning") {
      close();
      enqueue({ type: "reasoning-start", id: "reasoning-0" });
      open = "reasoning";
    }
    enqueue({ type: "reasoning-delta", id: "reasoning-0", delta });
  }

  function take(delta: Record<string, unknown>) {
    think(delta["reasoning_content"] ?? delta["reasoning"]);
    const { content, refusal } = delta;
    if (Array.isArray(content)) {
      for (const { type, text, thinking } of content.map(toObject)) {
        if (type === "text") say(text);
        if (type === "thinking") for (const piece of toList(thinking).map(toObject)) think(piece["text"]);
      }
    } else say(content);
    if (typeof refusal === "string" && refusal) {
      refused = true;
      say(refusal);
    }
    const called = toList(delta["tool_calls"]);
    if (called.length && open === "reasoning") close();
    for (const call of called) calls.take(toObject(call));
  }

  return {
    chunk(data: string): void {
      if (data === "[DONE]" || failed) return;
      let chunk: unknown;
      try {
        chunk = JSON.parse(data);
      } catch (cause) {
        return fail({ message: "the answer has something in it that is not JSON", text: data, cause });
      }
      const { choices, error, usage: told } = toObject(chunk);
      if (error) return fail(isObject(error) ? error : { value: chunk });
      if (!Array.isArray(choices))
        return fail({ message: "the answer has a chunk in it without choices", value: chunk });
      if (isJsonObject(told)) usage = told;
      const { finish_reason: reason, delta } = toObject(choices[0]);
      if (typeof reason === "string") raw = reason;
      if (!isObject(delta)) return;
      extras.hear(delta);
      try {
        take(delta);
      } catch (cause) {
        fail(cause);
      }
    },
    end(): void {
      if (failed) return;
      close();
      try {
        calls.end();
      } catch (cause) {
        return fail(cause);
      }
      if (raw === undefined) return fail(new Error("Response stream ended without a finish reason."));
      const unified = raw === "stop" && refused ? "content-filter" : (REASONS[raw] ?? "other");
      const providerMetadata = extras.metadata();
      enqueue({
        type: "finish",
        finishReason: { unified, raw },
        usage: usageOf(usage),
        ...(providerMetadata && { providerMetadata }),
      });
    },
  };
}

const REASONS: Record<string, "stop" | "length" | "content-filter" | "tool-calls"> = {
  stop: "stop",
  length: "length",
  content_filter: "content-filter",
  function_call: "tool-calls",
  tool_calls: "tool-calls",
};

function usageOf(raw: JSONObject | undefined): StreamedUsage {
  const count = (value: unknown) => (typeof value === "number" ? value : undefined);
  const { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } = raw ?? {};
  const cacheRead = count(toObject(prompt_tokens_details)["cached_tokens"]);
  const reasoning = count(toObject(completion_tokens_details)["reasoning_tokens"]);
  return {
    inputTokens: { total: count(prompt_tokens), noCache: undefined, cacheRead, cacheWrite: undefined },
    outputTokens: { total: count(completion_tokens), text: undefined, reasoning },
    ...(raw && { raw }),
  };
}

/** Pieces of a call are told once its name is known: some servers send arguments first. */
function createCalls(enqueue: (part: LanguageModelV4StreamPart) => void) {
  const tracker = new StreamingToolCallTracker<ToolDelta>(
    { enqueue },
    {
      extractMetadata: ({ extra_content }) => {
        const signature = toObject(toObject(extra_content)["google"])["thought_signature"];
        return typeof signature === "string" && signature ? { compatible: { thoughtSignature: signature } } : undefined;
      },
      buildToolCallProviderMetadata: (metadata) => metadata,
    },
  );
  const unnamed = new Map<number, ToolDelta & { function: { arguments: string } }>();
  const named = new Set<number>();
  const text = (value: unknown) => (typeof value === "string" ? value : undefined);

  return {
    take(call: Record<string, unknown>): void {
      if (!isObject(call["function"])) throw new Error("the answer has a call without a function in it");
      const { name, arguments: args } = call["function"];
      const index = typeof call["index"] === "number" ? call["index"] : null;
      const before = index === null ? undefined : unnamed.get(index);
      const id = before?.id ?? text(call["id"]) ?? null;
      const extra_content = before?.extra_content ?? call["extra_content"];
      const pieces = (before?.function.arguments ?? "") + (text(args) ?? "");
      const delta = { index, id, function: { name: text(name) ?? null, arguments: pieces }, extra_content };
      if (index === null || named.has(index) || text(name) !== undefined) {
        tracker.processDelta(delta);
        if (index !== null) {
          unnamed.delete(index);
          named.add(index);
        }
      } else unnamed.set(index, delta);
    },
    end(): void {
      for (const delta of unnamed.values()) tracker.processDelta(delta);
      tracker.flush();
    },
  };
}
