// /v1/chat/completions: a turn, as OpenAI's chat clients ask for one. The request owns its turn: a client that goes away
// before the end stops it.
import * as z from "zod";
import { messageOf } from "../../../core/errors.ts";
import { isOver, type Run } from "../../../core/run.ts";
import { createReporter, finishOf, type RunWireEvent } from "../runs/events.ts";
import { begin, echo, isNamed, modelOf, shownModel } from "../runs/start.ts";
import { envelope, type Problem, problem, withHeaders } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged, SOON, STARTS, streamed } from "../server/route.ts";
import type { SseFrame } from "../server/sse.ts";
import { createChatSessions, isSideCall } from "./chat-session.ts";
import { chatTools, choiceOf, clientCallId, resultsIn, resume, toolChoice, toolsOf } from "./client-tools.ts";
import { idOfPart } from "./items.ts";
import { type Conversation, messages, read, readConversation } from "./messages.ts";
import {
  begunProblem,
  createAudience,
  endProblem,
  type StartedTurn,
  streamProblem,
  watchTurn,
  whileWaiting,
} from "./openai-turn.ts";
import { chatOptions, effort, ignoredIn, sampling, tokens, wantedOf } from "./options.ts";
import { forget } from "./unstored.ts";

const route = routeTagged("openai");

const completionBody = z.looseObject({
  model: z.string().max(200).nullish().describe("The model to use; `hermes-agent` is the configured one"),
  messages: messages.describe("The conversation; the last message is the user's"),
  stream: z.boolean().nullish().describe("Stream the answer as server-sent events"),
  stream_options: z
    .looseObject({ include_usage: z.boolean().nullish() })
    .nullish()
    .describe("`include_usage`: send the tokens in the last chunk"),
  n: z.literal(1, "must be 1: the agent gives one answer").nullish().describe("The number of answers: 1"),
  ...sampling,
  max_tokens: tokens,
  max_completion_tokens: tokens,
  reasoning_effort: effort,
  ...chatOptions,
  tools: chatTools,
  tool_choice: toolChoice,
});
const completion = z.looseObject({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: z.int(),
  model: z.string(),
  choices: z.array(
    z.looseObject({
      index: z.int(),
      message: z.looseObject({ role: z.literal("assistant"), content: z.string().nullable() }),
      finish_reason: z.enum(["stop", "length", "content_filter", "tool_calls"]),
    }),
  ),
  usage: z.looseObject({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }),
});
type CompletionBody = z.output<typeof completionBody>;
/** What every piece of one answer begins with. */
type Head = { id: string; created: number; model: string };

export function completionRoutes(api: Api): Route[] {
  const owners = createAudience();
  const chats = createChatSessions(api);

  return [
    route("POST", "/v1/chat/completions", {
      summary: "Create a chat completion, streamed or whole; the header X-Hermes-Session-Id continues a session",
      body: completionBody,
      example: { model: "hermes-agent", messages: [{ role: "user", content: "Hello" }] },
      starts: true,
      answers: {
        ...STARTS,
        200: "The completion, in OpenAI's format, or its chunks as server-sent events",
        400: "A field is wrong and nothing was started; or the run failed or was stopped (type `run_error`)",
      },
      gives: [completion, "text/event-stream"],
      headers: {
        "X-Hermes-Session-Id": "Joins that session; only the last message counts",
        "X-Hermes-Chat-Id": "The conversation that the messages belong to",
        "X-Hermes-Side-Call": "true: only a question to the model; nothing is left of it",
      },
      async handle({ body, headers, response, stream }) {
        const said = readConversation(body.messages, "messages");
        const request = requestOf(api, body, said);
        const aside = isSideCall(headers, said);
        const place: Partial<Awaited<ReturnType<typeof chats.find>>> & { bare?: true } = aside
          ? { bare: true }
          : await chats.find(headers, said);
        const { session: chat = "" } = place;
        const results = resultsIn(body.messages, (message) => read(message, "messages").text);
        const turn =
          (await resume(api.runtime, results, request.tools ?? [])) ??
          (await whileWaiting(response, (waits) =>
            begin(api, headers, {
              ...request,
              ...place,
              // Whether it is streamed is a way to hear the same answer.
              same: [{ ...body, stream: null, stream_options: null }, headers["x-hermes-session-id"] ?? null],
              waits,
            }).catch((error: unknown) => {
              chats.leave(chat);
              throw error;
            }),
          ));
        const about = {
          ...echo(headers, turn),
          ...ignoredIn(body, completionBody.shape),
          "X-Hermes-Session-Id": turn.session,
        };
        const model = shownModel(api, modelOf(api, body.model));
        let settled = false; // it is over, or goes on without us after a restart
        owners.join(turn.id);
        try {
          if (body.stream) {
            const withUsage = body.stream_options?.include_usage === true;
            const open = async function* (signal: AbortSignal) {
              settled = yield* chunks(api, { turn, model, withUsage }, signal);
            };
            await stream(open, { headers: about, stays: true });
            return streamed;
          }
          const run = await whileWaiting(response, (signal) => lastOf(api, turn, signal));
          settled = run !== null || !response.destroyed;
          if (run && (run.status === "completed" || !isOver(run))) return ok(completionOf(turn, run, model), about);
          throw withHeaders(run ? endProblem(run) : leftBefore(), about);
        } catch (error) {
          throw begunProblem(api, headers, turn, error);
        } finally {
          chats.leave(chat);
          if (aside) void forget(api, turn);
          if (owners.leave(turn.id) && !settled) {
            // A client that lost its answer sends the request again at once.
            if (!body.stream && isNamed(headers)) await api.clock.sleep(api.settings.retryMs, api.leaving);
            if (owners.isEmpty(turn.id) && !api.leaving.aborted) await drop(api, turn);
          }
        }
      },
    }),
  ];
}

function requestOf(api: Api, body: CompletionBody, said: Conversation): Parameters<typeof begin>[2] {
  const { text, images, instructions } = said;
  const model = modelOf(api, body.model);
  const tools = toolsOf(
    (body.tools ?? []).map((tool) => tool.function),
    body.tool_choice,
  );
  const options = {
    ...wantedOf(api, model, {
      ...body,
      tokens: body.max_completion_tokens ?? body.max_tokens,
      effort: body.reasoning_effort,
      json: body.response_format,
      jsonParam: "response_format",
    }),
    ...choiceOf(body.tool_choice, tools),
  };
  return {
    text,
    attended: true, // on the line
    unattended: api.settings.unattended, // this protocol has no way to ask
    mode: api.settings.busyMode,
    ...(images.length && { images }),
    ...(instructions && { instructions }),
    ...(model && { model }),
    ...(Object.keys(options).length && { options }),
    ...(tools.length && { tools }),
  };
}

type CompletionRequest = { turn: StartedTurn; model: string; withUsage: boolean };

/** True: the turn is over, or is left to the next process. */
async function* chunks(api: Api, asked: CompletionRequest, signal: AbortSignal): AsyncGenerator<SseFrame, boolean> {
  const { turn, model, withUsage } = asked;
  const reporter = createReporter({ ...turn, showReasoning: false }, () => Promise.resolve(null));
  let said = false;
  let gap = "";
  try {
    let begun = false;
    for await (const { update, run, rests } of watchTurn(api, turn, signal)) {
      const head = headOf(turn, run, model);
      const chunk = (delta: Record<string, unknown>, finish_reason: string | null = null): SseFrame => {
        const choices = [{ index: 0, delta, logprobs: null, finish_reason }];
        return { data: { ...head, object: "chat.completion.chunk", choices, ...(withUsage && { usage: null }) } };
      };
      if ("delta" in update) {
        yield chunk({ content: gap + update.delta });
        said = true;
        gap = "";
      }
      // There is no chunk that takes back what was sent.
      if ("reset" in update && said) {
        yield { data: envelope(connectionLost()) };
        return false;
      }
      if (!("entry" in update)) continue;
      const { entry } = update;
      if (!begun) yield chunk({ role: "assistant", content: "" });
      begun = true;
      if (entry.kind === "thought" && said) gap = "\n\n"; // what follows is not the same sentence
      for (const event of await reporter.tell(entry)) {
        const data = progressOf(head, event);
        if (data) yield { event: data.object, data };
      }
      if (!rests) continue;
      if (isOver(run) && run.status !== "completed") {
        yield { data: envelope(endProblem(run)) };
        return true;
      }
      const calls = callsOf(run).map((call, index) => ({ index, ...call }));
      if (calls.length) yield chunk({ tool_calls: calls });
      yield chunk({}, calls.length ? "tool_calls" : finishOf(run));
      if (withUsage) yield { data: { ...head, object: "chat.completion.chunk", choices: [], usage: usageOf(run) } };
      yield { data: "[DONE]" };
      return true;
    }
    if (!signal.aborted) yield { data: envelope(leftBefore()) };
    return !signal.aborted;
  } catch (error) {
    yield { data: envelope(streamProblem(api, turn, error)) };
    return false;
  }
}

/** The run where it rests; null: whoever waited is gone, or we are. */
async function lastOf(api: Api, turn: StartedTurn, signal: AbortSignal): Promise<Run | null> {
  for await (const { run, rests } of watchTurn(api, turn, signal)) if (rests) return run;
  return null;
}

const headOf = (turn: StartedTurn, { createdAt }: Run, model: string): Head => ({
  id: `chatcmpl-${idOfPart(turn)}`,
  created: Math.floor(createdAt / 1_000),
  model,
});

/** What the client is to run before the turn goes on. */
const callsOf = (run: Run) =>
  isOver(run)
    ? []
    : run.open.map(({ turn, call, tool, args }) => ({
        id: clientCallId(turn, call),
        type: "function",
        function: { name: tool, arguments: JSON.stringify(args ?? {}) },
      }));

/** The last thing the agent said: what it said on the way to it is in the stream, and in the session. */
function completionOf(turn: StartedTurn, run: Run, model: string) {
  const calls = callsOf(run);
  const message = { role: "assistant", content: run.output, refusal: null };
  return {
    ...headOf(turn, run, model),
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: calls.length ? { ...message, content: run.output || null, tool_calls: calls } : message,
        logprobs: null,
        finish_reason: calls.length ? "tool_calls" : finishOf(run),
      },
    ],
    usage: usageOf(run),
  };
}

const usageOf = ({ usage }: Run) => ({
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.input + usage.output,
  ...(usage.cached !== undefined && { prompt_tokens_details: { cached_tokens: usage.cached } }),
  ...(usage.reasoning !== undefined && { completion_tokens_details: { reasoning_tokens: usage.reasoning } }),
});

/** Clients that take it for a chunk see one that says nothing. A field named `error` would make OpenAI's end the stream. */
function progressOf(head: Head, { event, error, ...fields }: RunWireEvent) {
  const { preview: label = "", call_id: toolCallId } = fields;
  const choices = [{ index: 0, delta: {}, logprobs: null, finish_reason: null }];
  const shape = { ...head, object: "hermes.tool.progress", choices, emoji: "🔧", label, toolCallId };
  if (event === "tool.started") return { ...shape, status: "running", ...fields };
  if (event === "tool.completed") return { ...shape, status: "completed", ...fields, is_error: error };
  return null;
}

function leftBefore(): Problem {
  const text =
    "The server restarts before this turn is done; it goes on afterwards. Ask again with the same Idempotency-Key.";
  return problem(503, "gateway_draining", text, SOON);
}

const connectionLost = (): Problem =>
  problem(502, "connection_lost", "The connection to the model was lost in the middle of the answer; ask again.");

const drop = ({ runtime, log }: Api, { id: turn, session }: StartedTurn) =>
  runtime.stop({ session, turn }).catch((error: unknown) => {
    log("warn", "http.unstopped", { session, turn, error: messageOf(error) });
  });
