// /v1/chat/completions: a turn, as OpenAI's chat clients ask for one. The request owns its turn: a client that goes away
// before the end stops it.
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";
import { messageOf } from "../../../core/errors.ts";
import type { Run } from "../../../core/run.ts";
import { createReporter, finishOf, type RunWireEvent } from "../runs/events.ts";
import { begin, echo, idempotencyKeyOf, modelOf, one, sessionId, shownModel } from "../runs/start.ts";
import { envelope, type Problem, problem } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged, STARTS, streamed } from "../server/route.ts";
import type { SseFrame } from "../server/sse.ts";
import { messages, readConversation } from "./messages.ts";
import {
  createAudience,
  effort,
  endProblem,
  hexOf,
  isOver,
  NO_RETRY,
  type StartedTurn,
  sampling,
  streamProblem,
  tokens,
  wantedOf,
  watchTurn,
  whileWaiting,
} from "./openai-turn.ts";

const route = routeTagged("openai");

const completionBody = z.looseObject({
  model: z.string().max(200).nullish(),
  messages,
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.literal(1, "must be 1: the agent gives one answer").nullish(),
  ...sampling,
  max_tokens: tokens,
  max_completion_tokens: tokens,
  reasoning_effort: effort,
  user: z.string().nullish(),
  tools: z.array(z.unknown()).nullish().describe("Ignored: the agent has its own"),
  tool_choice: z.unknown().optional().describe("Ignored: the agent has its own tools"),
});
type CompletionBody = z.output<typeof completionBody>;
/** What every piece of one answer begins with. */
type Head = { id: string; created: number; model: string };

export function completionRoutes(api: Api): Route[] {
  const owners = createAudience();

  return [
    route("POST", "/v1/chat/completions", {
      summary: "A turn as a chat completion, streamed or whole; X-Hermes-Session-Id goes on with a session",
      body: completionBody,
      starts: true,
      answers: {
        ...STARTS,
        200: "The answer as OpenAI's, or its chunks as server-sent events",
        409: "It was stopped, or the idempotency key was used for something else",
        502: "The model failed",
      },
      async handle({ body, headers, response, stream }) {
        const turn = await begin(api, headers, {
          ...requestOf(api, body, headers),
          // Whether it is streamed is a way to hear the same answer.
          same: [{ ...body, stream: null, stream_options: null }, headers["x-hermes-session-id"] ?? null],
        });
        const about = { ...echo(headers, turn), "X-Hermes-Session-Id": turn.session };
        const model = shownModel(api, modelOf(api, body.model));
        let settled = false; // it is over, or goes on without us after a restart
        owners.join(turn.id);
        try {
          if (body.stream) {
            const withUsage = body.stream_options?.include_usage === true;
            const open = async function* (signal: AbortSignal) {
              settled = yield* chunks(api, { turn, model, withUsage, headers }, signal);
            };
            await stream(open, { headers: about, stays: true });
            return streamed;
          }
          const run = await whileWaiting(response, (signal) => lastOf(api, turn, signal));
          settled = run !== null || !response.destroyed;
          if (run?.status === "completed") return ok(completionOf(run, model), about);
          throw withHeaders(run ? endProblem(run) : unfinished(headers), about);
        } finally {
          if (owners.leave(turn.id) && !settled && !api.leaving.aborted) await drop(api, turn);
        }
      },
    }),
  ];
}

function requestOf(api: Api, body: CompletionBody, headers: IncomingHttpHeaders): Parameters<typeof begin>[2] {
  const { text, images, history, instructions } = readConversation(body.messages, "messages");
  const session = sessionOf(headers);
  const model = modelOf(api, body.model);
  const { temperature, top_p, reasoning_effort } = body;
  const most = body.max_completion_tokens ?? body.max_tokens;
  const options = wantedOf({ temperature, top_p, tokens: most, effort: reasoning_effort });
  return {
    ...(session && { session }),
    text,
    attended: true, // on the line
    unattended: api.settings.unattended, // this protocol has no way to ask
    mode: api.settings.busyMode,
    ...(images.length && { images }),
    ...(history.length && !session && { history }), // a session knows what was said in it
    ...(instructions && { instructions }),
    ...(model && { model }),
    ...(options && { options }),
  };
}

function sessionOf(headers: IncomingHttpHeaders): string | undefined {
  const given = one(headers["x-hermes-session-id"]);
  if (given === undefined) return undefined;
  const parsed = sessionId.safeParse(given);
  if (parsed.success) return parsed.data;
  const needs = "X-Hermes-Session-Id must have 1 to 512 characters, none of them a control character";
  throw problem(400, "invalid_session_id", needs, { param: "X-Hermes-Session-Id" });
}

type CompletionRequest = { turn: StartedTurn; model: string; withUsage: boolean; headers: IncomingHttpHeaders };

/** True: the turn is over, or is left to the next process. */
async function* chunks(api: Api, asked: CompletionRequest, signal: AbortSignal): AsyncGenerator<SseFrame, boolean> {
  const { turn, model, withUsage } = asked;
  const reporter = createReporter({ ...turn, showReasoning: false }, () => Promise.resolve(null));
  let said = false;
  let gap = "";
  try {
    for await (const { update, run } of watchTurn(api, turn, signal)) {
      const head = headOf(run, model);
      const chunk = (
        delta: Record<string, string>,
        finish_reason: ReturnType<typeof finishOf> | null = null,
      ): SseFrame => {
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
      if (entry.kind === "accepted") yield chunk({ role: "assistant", content: "" });
      if (entry.kind === "thought" && said) gap = "\n\n"; // what follows is not the same sentence
      for (const event of await reporter.tell(entry)) {
        const data = progressOf(head, event);
        if (data) yield { event: data.object, data };
      }
      if (!isOver(run)) continue;
      if (run.status !== "completed") {
        yield { data: envelope(endProblem(run)) };
        return true;
      }
      yield chunk({}, finishOf(run));
      if (withUsage) yield { data: { ...head, object: "chat.completion.chunk", choices: [], usage: usageOf(run) } };
      yield { data: "[DONE]" };
      return true;
    }
    if (!signal.aborted) yield { data: envelope(unfinished(asked.headers)) };
    return !signal.aborted;
  } catch (error) {
    yield { data: envelope(streamProblem(api, turn, error)) };
    return false;
  }
}

/** The run at its end; null: whoever waited is gone, or we are. */
async function lastOf(api: Api, turn: StartedTurn, signal: AbortSignal): Promise<Run | null> {
  for await (const { run } of watchTurn(api, turn, signal)) if (isOver(run)) return run;
  return null;
}

const headOf = ({ id, createdAt }: Run, model: string): Head => ({
  id: `chatcmpl-${hexOf(id)}`,
  created: Math.floor(createdAt / 1_000),
  model,
});

/** The last thing the agent said: what it said on the way to it is in the stream, and in the session. */
const completionOf = (run: Run, model: string) => ({
  ...headOf(run, model),
  object: "chat.completion",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: run.output, refusal: null },
      logprobs: null,
      finish_reason: finishOf(run),
    },
  ],
  usage: usageOf(run),
});

const usageOf = ({ usage }: Run) => ({
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.input + usage.output,
  ...(usage.cached !== undefined && { prompt_tokens_details: { cached_tokens: usage.cached } }),
  ...(usage.reasoning !== undefined && { completion_tokens_details: { reasoning_tokens: usage.reasoning } }),
});

/** Clients that take it for a chunk see one without choices. A field named `error` would make OpenAI's end the stream. */
function progressOf(head: Head, { event, error, ...fields }: RunWireEvent) {
  const { preview: label = "", call_id: toolCallId } = fields;
  const shape = { ...head, object: "hermes.tool.progress", choices: [], emoji: "🔧", label, toolCallId };
  if (event === "tool.started") return { ...shape, status: "running", ...fields };
  if (event === "tool.completed") return { ...shape, status: "completed", ...fields, is_error: error };
  return null;
}

/** Under its key it is the same turn when it is sent again; without one it would be a second. */
function unfinished(headers: IncomingHttpHeaders): Problem {
  const text =
    "The server restarts before this turn is done; it goes on afterwards. Ask again with the same Idempotency-Key.";
  const again = idempotencyKeyOf(headers) === undefined ? NO_RETRY : { "Retry-After": "1" };
  return problem(503, "gateway_draining", text, { headers: again });
}

const connectionLost = (): Problem =>
  problem(502, "connection_lost", "The connection to the model was lost in the middle of the answer; ask again.");

const withHeaders = ({ status, code, message, param, headers }: Problem, more: Record<string, string>): Problem =>
  problem(status, code, message, { param, headers: { ...headers, ...more } });

async function drop({ runtime, log }: Api, { id, session }: StartedTurn): Promise<void> {
  try {
    await runtime.stop({ session, turn: id });
  } catch (error) {
    log("warn", "http.unstopped", { session, turn: id, error: messageOf(error) });
  }
}
