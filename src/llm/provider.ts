// One model call over one of the three wire formats: streaming in, exactly one end out.
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Fault, Hear, Model, ModelRequest, ModelResult, ProposedCall } from "../core/ports.ts";
import type { Refused, Usage } from "../core/session.ts";
import { classify } from "./classify.ts";
import { asksToKeep, dialectOf, makerOf } from "./dialect.ts";
import type { Endpoint } from "./endpoint.ts";
import { toPrompt, toTools } from "./prompt.ts";
import { extras, noteAnswer } from "./replay.ts";
import { withoutUnledThinking } from "./thinking-budget.ts";

type Stream = ReadableStream<LanguageModelV4StreamPart>;

/** Characters of text, thoughts and arguments in one answer: the longest that models give have a tenth of it. */
const LONGEST_ANSWER = 16_000_000;
/** What any other part counts: a call without arguments is kept as well. */
const PART = 10_000;

export function createModel(endpoint: Endpoint): Model {
  const { provider, model, context, baseUrl } = endpoint;
  const maker = makerOf(endpoint);
  const dialect = dialectOf(endpoint);
  let library: Promise<LanguageModelV4> | null = null;

  async function ask(request: ModelRequest, without: Refused["what"], signal: AbortSignal): Promise<Stream | Fault> {
    try {
      library ??= load(endpoint);
      const { stream } = await (await library).doStream({
        prompt: toPrompt(request, { provider, maker, dialect, without }),
        ...toTools(request),
        ...settingsOf(request),
        abortSignal: signal,
        // So that the provider finds what it has cached of this session.
        providerOptions: {
          openai: { promptCacheKey: request.session.slice(0, 64), store: false },
          ...(asksToKeep(endpoint) && { compatible: { cache_control: { type: "ephemeral" } } }),
        },
      });
      return stream;
    } catch (error) {
      return classify(error);
    }
  }

  /** A request that is refused is made again without what may be to blame: it stands in the conversation, so it would be
   *  refused for ever. */
  async function open(
    request: ModelRequest,
    signal: AbortSignal,
  ): Promise<{ stream: Stream; refused?: Refused } | Fault> {
    const first = await ask(request, [], signal);
    if (!("end" in first)) return { stream: first };
    for (const what of suspects(request, maker, first)) {
      if (signal.aborted) break;
      const stream = await ask(request, what, signal);
      if (!("end" in stream)) return { stream, refused: { maker, what } };
    }
    return first;
  }

  return {
    name: `${provider}:${model}`,
    context,
    local: /^https?:\/\/(localhost|127\.|\[::1\]|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(baseUrl),
    async call(request, hear, signal) {
      const opened = await open(request, signal);
      if ("end" in opened) return signal.aborted ? { end: "aborted" } : opened;
      try {
        const result = await listen(opened.stream, maker, hear, signal);
        return result.end === "answer" && opened.refused ? { ...result, refused: opened.refused } : result;
      } catch (error) {
        return signal.aborted ? { end: "aborted" } : classify(error);
      }
    },
  };
}

/** What to leave out, one after the other: what the refusal speaks of first. */
function suspects({ messages }: ModelRequest, maker: string, { kind, reason }: Fault): Refused["what"][] {
  if (kind !== "bad_request" && kind !== "filtered" && !NO_PICTURES.test(reason)) return [];
  const pictures = messages.some((m) => m.role === "user" && m.images?.length && !m.unseen?.includes(maker));
  const reasoning = messages.some((m) => m.role === "assistant" && m.replay?.maker === maker);
  const all: Refused["what"] = [
    ...(reasoning ? ["reasoning" as const] : []),
    ...(pictures ? ["pictures" as const] : []),
  ];
  const likely = /imag|vision|picture|modal/i.test(reason) ? all.toReversed() : all;
  return likely.map((_, i) => likely.slice(0, i + 1));
}

/** Also where it comes as an error of the server: llama.cpp, 500, "image input is not supported". */
const NO_PICTURES = /image.{0,40}(not support|unsupported)|(not support|unsupported).{0,40}image/i;

function settingsOf({ options = {} }: ModelRequest) {
  const { temperature, topP, maxTokens, effort } = options;
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
    ...(effort && { reasoning: effort }),
  };
}

/** Loaded with the first call: nothing that only shows help or reads a file waits for it. */
async function load(endpoint: Endpoint): Promise<LanguageModelV4> {
  const { provider, model, baseUrl, apiKey } = endpoint;
  const { providerFetch } = await import("./wire.ts");
  const settings = { baseURL: baseUrl.replace(/\/+$/, ""), apiKey, fetch: providerFetch };
  switch (provider) {
    case "openai":
      return (await import("@ai-sdk/openai")).createOpenAI(settings).responses(model);
    case "anthropic": {
      const led: typeof fetch = (input, init) =>
        providerFetch(
          input,
          typeof init?.body === "string" ? { ...init, body: withoutUnledThinking(init.body) } : init,
        );
      return (await import("@ai-sdk/anthropic")).createAnthropic({ ...settings, fetch: led })(model);
    }
    default: {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      // Mistral tells its usage without being asked, and refuses to be asked.
      const includeUsage = dialectOf(endpoint) !== "mistral";
      const more = { name: "compatible", includeUsage, metadataExtractor: extras };
      return createOpenAICompatible({ ...settings, ...more })(model);
    }
  }
}

async function listen(stream: Stream, maker: string, hear: Hear, signal: AbortSignal): Promise<ModelResult> {
  const calls: ProposedCall[] = [];
  const answer = noteAnswer(maker);
  let said = false;
  let size = 0;
  let finish: Extract<LanguageModelV4StreamPart, { type: "finish" }> | null = null;
  for await (const part of stream) {
    if (signal.aborted) return { end: "aborted" };
    hear.alive();
    size += "delta" in part ? part.delta.length : PART;
    if (size > LONGEST_ANSWER) return { end: "fault", kind: "oversized", reason: TOO_LARGE }; // this ends the stream
    answer.hear(part);
    switch (part.type) {
      case "text-delta":
        said ||= part.delta !== "";
        if (part.delta) hear.text(part.delta);
        break;
      case "reasoning-delta":
        if (part.delta) hear.reasoning(part.delta);
        break;
      case "tool-call":
        calls.push({ tool: part.toolName, ...argumentsOf(part.input) });
        break;
      case "error":
        return classify(part.error);
      case "finish":
        finish = part;
        break;
      default:
        break;
    }
  }
  if (signal.aborted) return { end: "aborted" };
  const reason = finish?.finishReason.unified;
  const incomplete = (why: string): ModelResult => ({ end: "fault", kind: "incomplete", reason: why });
  if (!finish || !reason) return incomplete("the answer ended without saying so");
  if (reason === "content-filter" && !said)
    return { end: "fault", kind: "filtered", reason: "the provider's filter stopped the answer" };
  if (reason === "error" || reason === "interrupted" || reason === "other")
    return incomplete(`the answer ended with "${finish.finishReason.raw ?? reason}"`);
  if (reason === "tool-calls" && !calls.length) return incomplete("the answer promised tool calls and had none");
  if (!said && !calls.length) return incomplete("the answer was empty");
  const replay = answer.replay(finish);
  return { end: "answer", calls, usage: usageOf(finish.usage), ...(replay && { replay }) };
}

const TOO_LARGE = `the answer is larger than ${LONGEST_ANSWER / 1_000_000} MB`;

/** What is not whole JSON (cut by a limit, or garbled) is never run, only reported back. */
function argumentsOf(input: string): { args: unknown; bad?: string } {
  if (!input.trim()) return { args: {} };
  try {
    const args: unknown = JSON.parse(input);
    if (typeof args === "object" && args !== null && !Array.isArray(args)) return { args };
    return { args: {}, bad: "its arguments are not a JSON object" };
  } catch {
    return { args: {}, bad: "its arguments are not valid JSON, perhaps cut off" };
  }
}

function usageOf(usage: Extract<LanguageModelV4StreamPart, { type: "finish" }>["usage"]): Usage {
  const { inputTokens, outputTokens } = usage;
  const cached = inputTokens.cacheRead;
  return { input: inputTokens.total ?? 0, output: outputTokens.total ?? 0, ...(cached && { cached }) };
}
