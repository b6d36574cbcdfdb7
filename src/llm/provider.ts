// Makes one model call in one of the three wire formats. The answer streams in, and the call ends with exactly one result.
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type {
  Fault,
  FaultKind,
  Model,
  ModelRequest,
  ModelResult,
  ModelSink,
  Offer,
  ProposedCall,
} from "../core/ports.ts";
import type { Endpoint } from "../core/providers.ts";
import type { Refused, Usage } from "../core/session.ts";
import { isObject, jsonIn } from "../platform/json.ts";
import { classify } from "./classify.ts";
import { asksToKeep, dialectOf, makerOf } from "./dialect.ts";
import { formatOf, type Library } from "./formats.ts";
import { listModels } from "./model-list.ts";
import { costAt, listedCost } from "./prices.ts";
import { toPrompt, toTools } from "./prompt.ts";
import { noteAnswer } from "./replay.ts";
import { splitThinking } from "./think-tags.ts";

type Stream = AsyncIterable<LanguageModelV4StreamPart>;
type CostOf = (tokens: Parameters<typeof costAt>[1]) => number | undefined;

/** The time limit for the list of models. */
const LIST_MS = 5_000;

/** Characters of text, thoughts and arguments in one answer: the longest that models give have a tenth of it. */
const LONGEST_ANSWER = 16_000_000;
/** What any other part counts: a call without arguments is kept as well. */
const PART = 10_000;

export function createModel(endpoint: Endpoint): Model {
  const { provider, model, baseUrl } = endpoint;
  const maker = makerOf(endpoint);
  const dialect = dialectOf(endpoint);
  let library: Promise<Library> | null = null;
  /** Who waits for an answer, by the signal of the call. */
  const waiting = new WeakMap<AbortSignal, () => void>();
  let { context, guessed = false } = endpoint;
  let price: Offer["price"];

  /** Runs beside the first call, which does not wait for it. Later calls know the window and the price. */
  async function readList() {
    guessed = false;
    const offers = await listModels(endpoint, LIST_MS);
    const offer = Array.isArray(offers) ? offers.find(({ id }) => id === model) : undefined;
    price = offer?.price;
    if (offer?.context) context = offer.context;
  }

  type Asked = { request: ModelRequest; alive: () => void; signal: AbortSignal };
  async function ask({ request, alive, signal }: Asked, without: Refused["what"]): Promise<Stream | Fault> {
    try {
      library ??= formatOf(endpoint).load(endpoint, (call) => waiting.get(call)?.());
      waiting.set(signal, alive);
      if (guessed) void readList();
      const { oneCall } = request.options ?? {};
      return await (await library)({
        prompt: toPrompt(request, { provider, maker, dialect, without }),
        ...toTools(request),
        ...settingsOf(request),
        abortSignal: signal,
        // So that the provider finds what it has cached of this session.
        providerOptions: {
          openai: {
            promptCacheKey: request.session.slice(0, 64),
            store: false,
            ...(oneCall && { parallelToolCalls: false }),
          },
          compatible: {
            ...(asksToKeep(endpoint) && { cache_control: { type: "ephemeral" } }),
            ...(oneCall && { parallel_tool_calls: false }),
          },
          ...(oneCall && { anthropic: { disableParallelToolUse: true } }),
        },
      });
    } catch (error) {
      return classify(error);
    }
  }

  /** A refused request is sent again without the part that may be the cause. The part stays in the conversation, so every later
   *  request would be refused too. */
  async function open(asked: Asked): Promise<{ stream: Stream; refused?: Refused } | Fault> {
    const first = await ask(asked, []);
    if (!("end" in first)) return { stream: first };
    for (const what of suspects(asked.request, maker, first)) {
      if (asked.signal.aborted) break;
      const stream = await ask(asked, what);
      if (!("end" in stream)) return { stream, refused: { maker, what } };
      // A connection that broke, or a busy server, says nothing about what was left out: the caller tries again.
      if (!isRefusal(stream)) return stream;
    }
    return first;
  }

  /** The price in the server's list overrides the built-in one. */
  const costOf: CostOf = (tokens) => (price ? costAt(price, tokens) : listedCost(endpoint, tokens));

  return {
    name: `${provider}:${model}`,
    get context() {
      return context;
    },
    local: /^https?:\/\/(localhost|127\.|\[::1\]|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(baseUrl),
    async call(request, hear, signal) {
      const opened = await open({ request, alive: hear.alive, signal });
      if ("end" in opened) return signal.aborted ? { end: "aborted" } : opened;
      try {
        const heard = { maker, mixed: provider === "openai-compatible", costOf };
        const result = await listen(opened.stream, heard, hear, signal);
        return result.end === "answer" && opened.refused ? { ...result, refused: opened.refused } : result;
      } catch (error) {
        return signal.aborted ? { end: "aborted" } : classify(error);
      }
    },
  };
}

/** What to leave out, one after the other: what the refusal speaks of first. */
function suspects({ messages }: ModelRequest, maker: string, fault: Fault): Refused["what"][] {
  if (!isRefusal(fault)) return [];
  const pictures = messages.some((m) => m.role !== "assistant" && m.images?.length && !m.unseen?.includes(maker));
  const reasoning = messages.some((m) => m.role === "assistant" && m.replay?.maker === maker);
  const all: Refused["what"] = [
    ...(reasoning ? ["reasoning" as const] : []),
    ...(pictures ? ["pictures" as const] : []),
  ];
  const likely = /imag|vision|picture|modal/i.test(fault.reason) ? all.toReversed() : all;
  return likely.map((_, i) => likely.slice(0, i + 1));
}

const isRefusal = ({ kind, reason }: Fault) =>
  kind === "bad_request" || kind === "filtered" || NO_PICTURES.test(reason);

/** Also where it comes as an error of the server: llama.cpp, 500, "image input is not supported". */
const NO_PICTURES = /image.{0,40}(not support|unsupported)|(not support|unsupported).{0,40}image/i;

function settingsOf({ options = {} }: ModelRequest) {
  const { temperature, topP, maxTokens, effort, stop, seed, presencePenalty, frequencyPenalty, json } = options;
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
    ...(effort && { reasoning: effort }),
    ...(stop && { stopSequences: stop }),
    ...(seed !== undefined && { seed }),
    ...(presencePenalty !== undefined && { presencePenalty }),
    ...(frequencyPenalty !== undefined && { frequencyPenalty }),
    ...(json && { responseFormat: { type: "json" as const, ...json } }),
  };
}

async function listen(
  stream: Stream,
  { maker, mixed, costOf }: { maker: string; mixed: boolean; costOf: CostOf },
  hear: ModelSink,
  signal: AbortSignal,
): Promise<ModelResult> {
  const calls: ProposedCall[] = [];
  const answer = noteAnswer(maker);
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
    answer.hear(part);
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
  if (!finish) return fault("incomplete", "the answer ended without saying so");
  const end = endOf(finish, said, calls, costOf);
  const replay = answer.replay(finish);
  return end.end === "answer" && replay ? { ...end, replay } : end;
}

const TOO_LARGE = `the answer is larger than ${LONGEST_ANSWER / 1_000_000} MB`;

type Finish = Extract<LanguageModelV4StreamPart, { type: "finish" }>;

function endOf(finish: Finish, said: boolean, calls: ProposedCall[], costOf: CostOf): ModelResult {
  const { finishReason, usage: told } = finish;
  const { unified: reason, raw } = finishReason;
  const usage = usageOf(told, costOf);
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
  const args = jsonIn(input);
  if (args === undefined) return { args: {}, bad: "its arguments are not valid JSON, perhaps cut off" };
  return isObject(args) ? { args } : { args: {}, bad: "its arguments are not a JSON object" };
}

function usageOf({ inputTokens, outputTokens, raw }: Finish["usage"], costOf: CostOf): Usage {
  const { total: input = 0, cacheRead: cached = 0, cacheWrite: written = 0 } = inputTokens;
  const { total: output = 0, reasoning } = outputTokens;
  const charged = raw?.["cost"]; // OpenRouter's, in dollars
  const cost = typeof charged === "number" && charged > 0 ? charged : costOf({ input, cached, written, output });
  return {
    input,
    output,
    ...(cached && { cached }),
    ...(reasoning && { reasoning }),
    ...(cost !== undefined && { cost }),
  };
}
