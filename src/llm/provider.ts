// One model call over one of the three wire formats: streaming in, exactly one end out.
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Fault, FaultKind, Hear, Model, ModelRequest, ModelResult, ProposedCall } from "../core/ports.ts";
import type { Usage } from "../core/session.ts";
import { classify } from "./classify.ts";
import type { Endpoint } from "./endpoint.ts";
import { listModels } from "./list.ts";
import { toPrompt, toTools } from "./prompt.ts";
import { splitThinking } from "./thinking.ts";

/** A list that does not come in this time is not waited for. */
const LIST_MS = 5_000;

/** Characters of text, thoughts and arguments in one answer: the longest that models give have a tenth of it. */
const LONGEST_ANSWER = 16_000_000;
/** What any other part counts: a call without arguments is kept as well. */
const PART = 10_000;

export function createModel(endpoint: Endpoint): Model {
  let library: Promise<Library> | null = null;
  let { context, guessed = false } = endpoint;
  /** Beside the first call, which does not wait for it: the calls after it fit. */
  async function learnWindow() {
    guessed = false;
    const offers = await listModels(endpoint, LIST_MS);
    const told = Array.isArray(offers) ? offers.find(({ id }) => id === endpoint.model)?.context : undefined;
    if (told) context = told;
  }
  return {
    name: `${endpoint.provider}:${endpoint.model}`,
    get context() {
      return context;
    },
    local: /^https?:\/\/(localhost|127\.|\[::1\]|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(endpoint.baseUrl),
    async call(request, hear, signal) {
      try {
        library ??= load(endpoint);
        if (guessed) void learnWindow();
        const { stream } = await (await library)(hear.alive).doStream({
          prompt: toPrompt(request),
          ...toTools(request),
          ...settingsOf(request),
          abortSignal: signal,
          // So that the provider finds what it has cached of this session.
          providerOptions: { openai: { promptCacheKey: request.session.slice(0, 64), store: false } },
        });
        return await listen(stream, hear, signal, endpoint.provider === "openai-compatible");
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

/** One for each call, which hears of every sign of life of its own answer. */
type Library = (alive: () => void) => LanguageModelV4;

/** Loaded with the first call: nothing that only shows help or reads a file waits for it. */
async function load({ provider, model, baseUrl, apiKey }: Endpoint): Promise<Library> {
  const { streamFetch } = await import("./wire.ts");
  const settings = (alive: () => void) => ({ baseURL: baseUrl, apiKey, fetch: streamFetch(alive) });
  switch (provider) {
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return (alive) => createOpenAI(settings(alive)).responses(model);
    }
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return (alive) => createAnthropic(settings(alive))(model);
    }
    default: {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      return (alive) => createOpenAICompatible({ ...settings(alive), name: "compatible", includeUsage: true })(model);
    }
  }
}

async function listen(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  hear: Hear,
  signal: AbortSignal,
  mixed: boolean,
): Promise<ModelResult> {
  const calls: ProposedCall[] = [];
  let said = false;
  let size = 0;
  let finish: Finish | null = null;
  const say = (text: string) => {
    said = true;
    hear.text(text);
  };
  const words = mixed ? splitThinking({ text: say, reasoning: hear.reasoning }) : { text: say, end: () => {} };
  for await (const part of stream) {
    if (signal.aborted) return { end: "aborted" };
    hear.alive();
    size += "delta" in part ? part.delta.length : PART;
    if (size > LONGEST_ANSWER) return { end: "fault", kind: "oversized", reason: TOO_LARGE }; // this ends the stream
    switch (part.type) {
      case "text-delta":
        if (part.delta) words.text(part.delta);
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
  words.end();
  return finish ? endOf(finish, said, calls) : fault("incomplete", "the answer ended without saying so");
}

const TOO_LARGE = `the answer is larger than ${LONGEST_ANSWER / 1_000_000} MB`;

type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;

function endOf({ finishReason, usage: told }: Finish, said: boolean, calls: ProposedCall[]): ModelResult {
  const { unified: reason, raw } = finishReason;
  const usage = usageOf(told);
  const whole = said || calls.length > 0;
  if (reason === "content-filter" && !whole) return fault("filtered", "the provider's filter stopped the answer");
  if (reason === "length" && !whole)
    return {
      ...fault("exhausted", "the model used up its output tokens before it said anything"),
      spent: usage.output,
    };
  // A reason that we do not know is a reason all the same; none, or one that names a failure, is not.
  if (reason === "error" || reason === "interrupted" || (reason === "other" && (raw === undefined || BROKEN.test(raw))))
    return fault("incomplete", `the answer ended with "${raw ?? reason}"`);
  if (reason === "tool-calls" && !calls.length)
    return fault("incomplete", "the answer promised tool calls and had none");
  if (!whole) return fault("incomplete", `the answer was empty${raw && raw !== "stop" ? ` (${raw})` : ""}`);
  const endedBy = reason === "length" ? "length" : reason === "content-filter" ? "filter" : undefined;
  return { end: "answer", calls, usage, ...(endedBy && { endedBy }) };
}

const BROKEN = /error|abort|cancel|interrupt/i;
const fault = (kind: FaultKind, reason: string): Fault => ({ end: "fault", kind, reason });

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

function usageOf({ inputTokens, outputTokens, raw }: Finish["usage"]): Usage {
  const cached = inputTokens.cacheRead;
  const { reasoning } = outputTokens;
  const cost = raw?.["cost"]; // OpenRouter's, in dollars
  return {
    input: inputTokens.total ?? 0,
    output: outputTokens.total ?? 0,
    ...(cached && { cached }),
    ...(reasoning && { reasoning }),
    ...(typeof cost === "number" && cost > 0 && { cost }),
  };
}
