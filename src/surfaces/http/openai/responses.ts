// /v1/responses: a turn as OpenAI's Responses API tells it. Everything is read from the turn's journal; nothing else is kept.
import * as z from "zod";
import { isOver, newRun, type Run } from "../../../core/run.ts";
import type { Runtime } from "../../../core/runtime.ts";
import { type Message, tokensIn, tokensOf } from "../../../core/transcript.ts";
import { begin, echo, shownModel } from "../runs/start.ts";
import { missing, type Problem, problem, wrongField } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged, SOON, STARTS, streamed } from "../server/route.ts";
import type { SseFrame } from "../server/sse.ts";
import { resultsIn, resume } from "./client-tools.ts";
import {
  createOutput,
  type ItemEvent,
  idOfPart,
  inputItems,
  itemPage,
  PAGE_QUERY,
  pageOf,
  type TurnOutput,
} from "./items.ts";
import { read as readMessage } from "./messages.ts";
import {
  begunProblem,
  createAudience,
  createPart,
  type StartedTurn,
  streamProblem,
  watchTurn,
  whileWaiting,
} from "./openai-turn.ts";
import { ignoredIn } from "./options.ts";
import {
  CONVERSATION,
  type ResponseExtras,
  repeatedOf,
  requestOf,
  resolved,
  responseBody,
} from "./response-request.ts";
import { forget, isAlone } from "./unstored.ts";

const route = routeTagged("openai");

const aResponse = z.looseObject({
  id: z.string(),
  object: z.literal("response"),
  created_at: z.int(),
  status: z.enum(["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]),
  model: z.string(),
  output: z.array(z.looseObject({ id: z.string(), type: z.string() })),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
});

export function responseRoutes(api: Api): Route[] {
  const { runtime } = api;
  const viewers = createAudience();
  const unstored = new Set<string>(); // those that are being made
  const found = async (response: string): Promise<Run & { session: string; part: number }> => {
    const [, hex = "", part] = /^resp_([0-9a-f]{32})(?:_(\d{1,15}))?$/.exec(response) ?? [];
    const run = hex && !unstored.has(`run_${hex}`) ? await runtime.run(`run_${hex}`) : null;
    if (run) return { ...run, part: Number(part ?? 0) };
    throw missing("response", response);
  };

  return [
    route("POST", "/v1/responses", {
      summary: "Create a response: streamed, whole or in the background",
      body: responseBody,
      example: { model: "hermes-agent", input: "Hello" },
      starts: true,
      answers: {
        ...STARTS,
        200: "The response, in OpenAI's format, or its events",
        404: "No response has the id `previous_response_id`",
      },
      gives: [aResponse, "text/event-stream"],
      async handle({ body, headers, response, stream }) {
        const list = typeof body.input === "string" ? [] : await resolved(api, body.input.flat());
        const request = requestOf(api, body, list);
        const results = resultsIn(list, (one) => readMessage(one, "input").text);
        const turn: StartedTurn =
          (await resume(runtime, results, request.tools ?? [])) ??
          (await whileWaiting(response, (waits) =>
            begin(api, headers, { ...request, same: { ...body, stream: null }, waits }),
          ));
        const about = { ...echo(headers, turn), ...ignoredIn(body, responseBody.shape) };
        const given = repeatedOf(body);
        if (body.background && !body.stream) return ok(await read(api, await found(idOf(turn)), given), about);
        if (body.store === false && !body.conversation) unstored.add(turn.id);
        viewers.join(turn.id);
        try {
          if (!body.stream)
            return ok(await whileWaiting(response, (signal) => wait({ api, turn, given }, signal)), about);
          await stream((signal) => events({ api, turn, given }, signal), { headers: about, stays: true });
          return streamed;
        } catch (error) {
          throw begunProblem(api, headers, turn, error);
        } finally {
          if (viewers.leave(turn.id) && unstored.has(turn.id))
            void forget(api, turn).finally(() => unstored.delete(turn.id));
        }
      },
    }),

    route("POST", "/v1/responses/input_tokens", {
      summary: "Estimate the tokens of a request, with the tools of the agent and without its system prompt",
      body: responseBody,
      example: { input: "Hello" },
      answers: {
        200: "The estimate, at four characters per token",
        400: "A field is wrong",
        404: "No item has the id of an `item_reference`",
      },
      gives: z.looseObject({ object: z.literal("response.input_tokens"), input_tokens: z.int() }),
      async handle({ body }) {
        const list = typeof body.input === "string" ? [] : await resolved(api, body.input.flat());
        const { text, history = [], images = [], instructions = "", tools = [] } = requestOf(api, body, list);
        const messages: Message[] = [...history, { role: "user", text, images }];
        const fixed = tokensIn(instructions + JSON.stringify([...api.tools(), ...tools]));
        const input_tokens = messages.reduce((sum, message) => sum + tokensOf(message), fixed);
        return ok({ object: "response.input_tokens", input_tokens });
      },
    }),

    route("GET", "/v1/responses/:id", {
      summary: "Read a response, also while it is running",
      query: {
        stream: "`true`: stream its events",
        starting_after: "With `stream`: only events with a larger `sequence_number`",
      },
      answers: { 200: "The response, or its events", 404: "No response has this id" },
      gives: [aResponse, "text/event-stream"],
      async handle({ params: { id = "" }, query, stream }) {
        const run = await found(id);
        if (query.get("stream") !== "true") return ok(await read(api, run));
        const after = query.get("starting_after") ?? "-1";
        if (!/^-?\d{1,15}$/.test(after))
          throw wrongField("starting_after", "must be a sequence_number of this response");
        const turn = await placed(runtime, run);
        await stream((signal) => rest(events({ api, turn, given: null }, signal), Number(after)), { stays: true });
        return streamed;
      },
    }),

    route("DELETE", "/v1/responses/:id", {
      summary: "Delete a response and its session, if the session has no other response",
      answers: {
        200: "Deleted",
        404: "No response has this id",
        409: "The session has other responses, or the response is running",
      },
      gives: z.looseObject({ id: z.string(), object: z.literal("response"), deleted: z.literal(true) }),
      async handle({ params: { id = "" } }) {
        const run = await found(id);
        if (!(await isAlone(runtime, run))) {
          const where = `/api/sessions/${encodeURIComponent(run.session)}`;
          const text = `It is one of several turns of a conversation; forget all of them with DELETE ${where}.`;
          throw problem(409, "response_not_alone", text);
        }
        if ((await runtime.forget(run.session)) === "busy") {
          const text = `It is still at work: wait for it, or stop it with POST /v1/responses/${id}/cancel; then try again.`;
          throw problem(409, "response_in_progress", text);
        }
        return ok({ id, object: "response", deleted: true });
      },
    }),

    route("POST", "/v1/responses/:id/cancel", {
      summary: "Stop a response; one that has ended does not change",
      answers: { 200: "The response", 404: "No response has this id" },
      gives: aResponse,
      async handle({ params: { id = "" }, response }) {
        const run = await found(id);
        if (isOver(run)) return ok(await read(api, run));
        await runtime.stop({ session: run.session, turn: run.joined ?? run.id });
        const turn = await placed(runtime, run);
        return ok(await whileWaiting(response, (signal) => wait({ api, turn, given: null }, signal)));
      },
    }),

    route("GET", "/v1/responses/:id/input_items", {
      summary: "List the input of a response",
      query: PAGE_QUERY,
      answers: { 200: "The list", 404: "No response has this id" },
      gives: itemPage,
      async handle({ params: { id = "" }, query }) {
        const run = await found(id);
        const [first] = await runtime.turn(run.id);
        const items = first?.kind === "accepted" ? inputItems(first.input) : [];
        return ok(pageOf(items, query));
      },
    }),
  ];
}

// ── The response ──────────────────────────────────────────────────────────────────────────────────────

const idOf = (turn: Pick<StartedTurn, "id" | "part">) => `resp_${idOfPart(turn)}`;
type FoundResponse = Run & { session: string; part: number };

async function placed(runtime: Runtime, { id, session, part }: FoundResponse): Promise<StartedTurn> {
  const [first] = await runtime.turn(id);
  return part ? { id, session, part, cursor: String(part) } : { id, session, cursor: String((first?.seq ?? 1) - 1) };
}

async function read(api: Api, { id, session, joined, part }: FoundResponse, given: ResponseExtras | null = null) {
  const own = await api.runtime.turn(id);
  const rest = joined ? await api.runtime.turn(joined) : [];
  const from = rest.findIndex((entry) => entry.kind === "joined" && entry.input === id);
  const output = createOutput({ id, part });
  const seen = createPart({ id, part });
  for (const entry of [...own, ...rest.slice(Math.max(0, from))]) {
    output.take(entry);
    seen.take(entry);
    if (seen.rests()) break;
  }
  const run = seen.run() ?? newRun({ id, at: 0 });
  return responseOf(api, { run, session, output, given, rests: seen.rests() }, part);
}

/** `given`: the fields of the request that is being answered; null: those that were stored with it. */
type Watched = { api: Api; turn: StartedTurn; given: ResponseExtras | null };

async function wait({ api, turn, given }: Watched, signal: AbortSignal): Promise<Record<string, unknown>> {
  const output = await outputSoFar(api, turn);
  for await (const { update, run, rests } of watchTurn(api, turn, signal)) {
    if ("entry" in update) output.take(update.entry);
    if (rests) return responseOf(api, { run, session: turn.session, output, given, rests }, turn.part);
  }
  throw leftBefore(turn);
}

/** The output, with the parts of the turn before this one. */
async function outputSoFar({ runtime }: Api, turn: StartedTurn): Promise<TurnOutput> {
  const output = createOutput(turn);
  const { part } = turn;
  if (part) for (const entry of await runtime.turn(turn.id)) if (entry.seq <= part) output.take(entry);
  return output;
}

const later = (turn: StartedTurn) => `Read it with GET /v1/responses/${idOf(turn)}.`;

const leftBefore = (turn: StartedTurn): Problem => {
  const text = `The server restarts before this response is done; it goes on afterwards. ${later(turn)}`;
  return problem(503, "gateway_draining", text, SOON);
};

const connectionLost = (turn: StartedTurn): Problem =>
  problem(502, "connection_lost", `The connection to the model was lost; it is asked again. ${later(turn)}`);

const STATUS: Record<Run["status"], string> = {
  queued: "queued",
  running: "in_progress",
  waiting_for_approval: "in_progress",
  stopping: "in_progress",
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "incomplete",
};

/** Why an answer that came to its end is not whole. */
function cutShortOf({ status, endedBy }: Run): { reason: string } | null {
  if (status !== "completed" || !endedBy) return null;
  return { reason: endedBy === "filter" ? "content_filter" : "max_output_tokens" };
}

type Made = Pick<StartedTurn, "session"> & Pick<Watched, "given"> & { run: Run; output: TurnOutput; rests: boolean };

function responseOf(api: Api, made: Made, part = 0): Record<string, unknown> {
  const { run, session, output, given, rests } = made;
  const input = output.input();
  const { options = {}, instructions = null } = input ?? {};
  const conversation = session.startsWith(CONVERSATION) ? { id: session.slice(CONVERSATION.length) } : null;
  const { usage, error } = run;
  const cutShort = cutShortOf(run);
  return {
    id: idOf({ id: run.id, part }),
    object: "response",
    created_at: Math.floor(run.createdAt / 1_000),
    completed_at:
      rests && (run.status === "completed" || !isOver(run)) && !cutShort ? Math.floor(run.updatedAt / 1_000) : null,
    status: cutShort ? "incomplete" : rests && !isOver(run) ? "completed" : STATUS[run.status],
    error:
      run.status === "failed"
        ? { code: "server_error", message: error ?? "The run failed.", type: "server_error", param: null } // ai wants the last two
        : null,
    incomplete_details: cutShort ?? (run.status === "interrupted" ? { reason: "interrupted" } : null),
    output: output.items,
    usage: rests
      ? {
          input_tokens: usage.input,
          input_tokens_details: { cached_tokens: usage.cached ?? 0, cache_write_tokens: 0 },
          output_tokens: usage.output,
          output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
          total_tokens: usage.input + usage.output,
        }
      : null,
    model: shownModel(api, run.model),
    instructions,
    conversation,
    previous_response_id: null,
    metadata: {},
    background: false,
    store: true,
    temperature: options.temperature ?? null,
    top_p: options.topP ?? null,
    max_output_tokens: options.maxTokens ?? null,
    reasoning: { effort: options.effort ?? null, summary: null },
    text: { format: { type: "text" } },
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    truncation: "disabled",
    access_programs: null,
    ...(given ?? input?.wire),
  };
}

// ── Its events ────────────────────────────────────────────────────────────────────────────────────────

/** How the stream says that it is over. There is no event for a response that was cancelled; its status says so. */
const END: Partial<Record<Run["status"], string>> = { completed: "response.completed", failed: "response.failed" };
const endOf = (run: Run): string => {
  if (!isOver(run)) return "response.completed"; // it waits for its client
  return (!cutShortOf(run) && END[run.status]) || "response.incomplete";
};

type EventFrame = SseFrame & { data: ItemEvent & { sequence_number: number } };
const TEXT_DELTA = "response.output_text.delta";
/** What is begun again is numbered behind all that its first try can have been. */
const BEGUN_AGAIN = 16_000_000;

/** The events after this sequence number; a piece of text that begins before it is cut. */
async function* rest(all: AsyncIterable<EventFrame>, after: number): AsyncGenerator<SseFrame> {
  for await (const { event, data } of all) {
    const { sequence_number: at, type } = data;
    if (at <= after && type !== "error") continue;
    const delta = type === TEXT_DELTA ? String(data["delta"]).slice(-(at - after)) : undefined;
    yield { ...(event && { event }), data: delta === undefined ? data : { ...data, delta } };
  }
}

async function* events({ api, turn, given }: Watched, signal: AbortSignal): AsyncGenerator<EventFrame> {
  const output = await outputSoFar(api, turn);
  // Text counts by its characters: in what pieces it came differs from one reading to the next, its length does not.
  let sequence_number = -1;
  const frame = (event: ItemEvent): EventFrame => {
    sequence_number += event.type === TEXT_DELTA ? String(event["delta"]).length : 1;
    return { event: event.type, data: { ...event, sequence_number } };
  };
  // Not counted: whoever comes back has not had what would be in its place.
  const wrong = ({ code, message: text, param }: Problem): EventFrame => ({
    event: "error",
    data: { type: "error", code, message: text, param, sequence_number },
  });
  try {
    let begun = false;
    for await (const { update, run, rests } of watchTurn(api, turn, signal)) {
      const made = { run, session: turn.session, output, given, rests };
      const told = (type: string) => frame({ type, response: responseOf(api, made, turn.part) });
      if ("delta" in update) yield* output.hear(update.delta).map(frame);
      // There is no event that takes back what was sent.
      if ("reset" in update) return void (yield wrong(connectionLost(turn)));
      if (!("entry" in update)) continue;
      const { entry } = update;
      if (entry.kind === "retracted" || entry.kind === "restarted") sequence_number += BEGUN_AGAIN;
      const grown = output.take(entry);
      if (!begun) yield told("response.created");
      if (entry.kind === "began" || (entry.kind === "joined" && entry.input === turn.id) || (turn.part && !begun))
        yield told("response.in_progress");
      begun = true;
      yield* grown.map(frame);
      if (rests) return void (yield told(endOf(run)));
    }
    if (!signal.aborted) yield wrong(leftBefore(turn));
  } catch (error) {
    yield wrong(streamProblem(api, turn, error));
  }
}
