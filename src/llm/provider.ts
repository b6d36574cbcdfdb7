// One model call over one of the three wire formats: streaming in, exactly one end out.
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Hear, Model, ModelRequest, ModelResult, ProposedCall } from "../core/ports.ts";
import type { Usage } from "../core/session.ts";
import { classify } from "./classify.ts";
import type { Endpoint } from "./endpoint.ts";
import { toPrompt, toTools } from "./prompt.ts";

/** Characters of text, thoughts and arguments in one answer: the longest that models give have a tenth of it. */
const LONGEST_ANSWER = 16_000_000;
/** What any other part counts: a call without arguments is kept as well. */
const PART = 10_000;

export function createModel(endpoint: Endpoint): Model {
  let library: Promise<LanguageModelV4> | null = null;
  return {
    name: `${endpoint.provider}:${endpoint.model}`,
    context: endpoint.context,
    local: /^https?:\/\/(localhost|127\.|\[::1\]|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(endpoint.baseUrl),
    async call(request, hear, signal) {
      try {
        library ??= load(endpoint);
        const { stream } = await (await library).doStream({
          prompt: toPrompt(request),
          ...toTools(request),
          ...settingsOf(request),
          abortSignal: signal,
          // So that the provider finds what it has cached of this session.
          providerOptions: { openai: { promptCacheKey: request.session.slice(0, 64), store: false } },
        });
        return await listen(stream, hear, signal);
      } catch (error) {
        return signal.aborted ? { end: "aborted" } : classify(error);
      }
    },
  };
}

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
async function load({ provider, model, baseUrl, apiKey }: Endpoint): Promise<LanguageModelV4> {
  const { providerFetch } = await import("./wire.ts");
  const settings = { baseURL: baseUrl.replace(/\/+$/, ""), apiKey, fetch: providerFetch };
  switch (provider) {
    case "openai":
      return (await import("@ai-sdk/openai")).createOpenAI(settings).responses(model);
    case "anthropic":
      return (await import("@ai-sdk/anthropic")).createAnthropic(settings)(model);
    default: {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      return createOpenAICompatible({ ...settings, name: "compatible", includeUsage: true })(model);
    }
  }
}

async function listen(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  hear: Hear,
  signal: AbortSignal,
): Promise<ModelResult> {
  const calls: ProposedCall[] = [];
  let said = false;
  let size = 0;
  let finish: Extract<LanguageModelV4StreamPart, { type: "finish" }> | null = null;
  for await (const part of stream) {
    if (signal.aborted) return { end: "aborted" };
    hear.alive();
    size += "delta" in part ? part.delta.length : PART;
    if (size > LONGEST_ANSWER) return { end: "fault", kind: "oversized", reason: TOO_LARGE }; // this ends the stream
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
  return { end: "answer", calls, usage: usageOf(finish.usage) };
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
