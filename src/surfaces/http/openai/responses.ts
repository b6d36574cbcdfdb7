// /v1/responses: a turn as OpenAI's Responses API tells it. Everything is read from the turn's journal; nothing else is
// kept, so what the journal has no place for (metadata, previous_response_id) is only in the answer to the request itself.

import * as z from "zod";
import { messageOf } from "../../../core/errors.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { Run } from "../../../core/run.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Input } from "../../../core/session.ts";
import type { Message } from "../../../core/transcript.ts";
import { begin, echo, modelOf, sessionId, shownModel } from "../runs/start.ts";
import { type Problem, problem } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged, STARTS, streamed } from "../server/route.ts";
import type { SseFrame } from "../server/sse.ts";
import { type Conversation, message, readConversation, type WireMessage } from "./messages.ts";
import {
  createAudience,
  createOutput,
  effort,
  hexOf,
  type ItemEvent,
  isOver,
  NO_RETRY,
  type StartedTurn,
  sampling,
  streamProblem,
  type TurnOutput,
  tokens,
  wantedOf,
  watchTurn,
  whileWaiting,
} from "./openai-turn.ts";

const route = routeTagged("openai");

/** What a client sends back of an earlier answer is told to the model in words. */
const item = z.union(
  [
    message.transform((one): WireMessage[] => [one]),
    z
      .looseObject({ type: z.literal("function_call"), name: z.string(), arguments: z.string() })
      .transform(({ name, arguments: args }): WireMessage[] => [
        { role: "assistant", tool_calls: [{ name, arguments: args }] },
      ]),
    z
      .looseObject({ type: z.literal("function_call_output"), output: z.union([z.string(), z.array(z.unknown())]) })
      .transform(({ output }): WireMessage[] => [
        { role: "tool", content: typeof output === "string" ? output : JSON.stringify(output) },
      ]),
    z.looseObject({ type: z.literal("reasoning") }).transform((): WireMessage[] => []),
  ],
  "must be a message, a function_call, a function_call_output or a reasoning item",
);
const conversationId = sessionId.max(400, "must have at most 400 characters");
const MOST_METADATA = 16;
const responseBody = z.looseObject({
  input: z
    .union(
      [z.string().regex(/\S/, "must not be empty"), z.array(item).min(1, "must not be empty").max(10_000)],
      "must be text, or a list of items",
    )
    .describe("A text, or a list of items"),
  instructions: z.string().max(1_000_000).nullish().describe("Text for the system prompt of this response"),
  model: z.string().max(200).nullish().describe("The model to use; `hermes-agent` is the configured one"),
  stream: z.boolean().nullish().describe("Stream the response as server-sent events"),
  store: z.boolean().nullish().describe("`false`: the response cannot be read later"),
  background: z.boolean().nullish().describe("Answer at once and run in the background"),
  previous_response_id: z.string().min(1).max(100).nullish().describe("The response to continue from"),
  conversation: z
    .union([conversationId, z.looseObject({ id: conversationId })])
    .nullish()
    .describe("The name of the session to use"),
  ...sampling,
  max_output_tokens: tokens,
  reasoning: z.looseObject({ effort }).nullish().describe("`effort`: how much the model reasons"),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine((given) => Object.keys(given).length <= MOST_METADATA, `must have at most ${MOST_METADATA} pairs`)
    .nullish()
    .describe("Your own data, returned with the response"),
  tools: z.array(z.unknown()).nullish().describe("Ignored: the agent has its own tools"),
  truncation: z.string().nullish().describe("Ignored: a long conversation is summarised"),
});
type ResponseBody = z.output<typeof responseBody>;
/** What the answer to the request repeats of it. */
type ResponseExtras = { metadata?: Record<string, string>; previous?: string; background?: boolean; store?: boolean };

export function responseRoutes(api: Api): Route[] {
  const { runtime } = api;
  const viewers = createAudience();
  const unstored = new Set<string>(); // those that are being made
  const found = async (response: string) => {
    const id = response.replace(/^resp_/, "run_");
    const run = /^resp_[0-9a-f]{32}$/.test(response) && !unstored.has(id) ? await runtime.run(id) : null;
    if (run) return run;
    throw problem(404, "response_not_found", `There is no response ${JSON.stringify(response.slice(0, 60))}.`);
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
      async handle({ body, headers, response, stream }) {
        const turn = await begin(api, headers, { ...requestOf(api, body), same: { ...body, stream: null } });
        const about = echo(headers, turn);
        const given: ResponseExtras = {
          ...(body.metadata && { metadata: body.metadata }),
          ...(body.previous_response_id && { previous: body.previous_response_id }),
          background: body.background ?? false,
          store: body.store ?? true,
        };
        if (body.background && !body.stream) return ok(await read(api, await found(idOf(turn)), given), about);
        if (!given.store && !body.conversation) unstored.add(turn.id);
        viewers.join(turn.id);
        try {
          if (!body.stream) return ok(await whileWaiting(response, (signal) => wait(api, turn, given, signal)), about);
          await stream((signal) => events(api, turn, given, signal), { headers: about, stays: true });
          return streamed;
        } finally {
          if (viewers.leave(turn.id) && unstored.has(turn.id))
            void forget(api, turn).finally(() => unstored.delete(turn.id));
        }
      },
    }),

    route("GET", "/v1/responses/:id", {
      summary: "Read a response, also while it is running",
      query: { stream: "`true`: stream its events from the beginning" },
      answers: { 200: "The response, or its events", 404: "No response has this id" },
      async handle({ params: { id = "" }, query, stream }) {
        const run = await found(id);
        if (query.get("stream") !== "true") return ok(await read(api, run));
        if (query.has("starting_after")) {
          const needs = "starting_after: is not supported; leave it out to get all events";
          throw problem(400, "unsupported_parameter", needs, { param: "starting_after" });
        }
        const turn = await placed(runtime, run);
        await stream((signal) => events(api, turn, {}, signal), { stays: true });
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
      async handle({ params: { id = "" }, response }) {
        const run = await found(id);
        if (isOver(run)) return ok(await read(api, run));
        await runtime.stop({ session: run.session, turn: run.joined ?? run.id });
        const turn = await placed(runtime, run);
        return ok(await whileWaiting(response, (signal) => wait(api, turn, {}, signal)));
      },
    }),

    route("GET", "/v1/responses/:id/input_items", {
      summary: "List the input of a response",
      query: {
        order: "`asc` or `desc` (the default: newest first)",
        after: "Only items after this id",
        limit: "The number of items, 1 to 100 (20)",
      },
      answers: { 200: "The list", 404: "No response has this id" },
      async handle({ params: { id = "" }, query }) {
        const run = await found(id);
        const [first] = await runtime.turn(run.id);
        const items = first?.kind === "accepted" ? inputItems(first.input) : [];
        if (query.get("order") !== "asc") items.reverse();
        const limit = Math.max(1, Math.min(100, Math.trunc(Number(query.get("limit") ?? 20)) || 20));
        const from = items.findIndex((one) => one.id === query.get("after")) + 1;
        const data = items.slice(from, from + limit);
        const has_more = from + limit < items.length;
        return ok({ object: "list", data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more });
      },
    }),
  ];
}

function requestOf(api: Api, body: ResponseBody): Parameters<typeof begin>[2] {
  const { previous_response_id: previous, conversation } = body;
  if (previous && conversation) {
    const needs = "previous_response_id: cannot be used together with conversation; leave one of them out";
    throw problem(400, "invalid_input", needs, { param: "previous_response_id" });
  }
  if (body.background && body.store === false) {
    const needs = "background: needs store to be true, or nobody could read the response";
    throw problem(400, "invalid_input", needs, { param: "background" });
  }
  const said: Conversation =
    typeof body.input === "string"
      ? { text: body.input, images: [], history: [], instructions: "" }
      : readConversation(body.input.flat(), "input");
  const { text, images, history } = previous || conversation ? inOne(said) : said;
  const instructions = [body.instructions, said.instructions].filter(Boolean).join("\n\n");
  const model = modelOf(api, body.model);
  const { temperature, top_p, max_output_tokens, reasoning } = body;
  const options = wantedOf({ temperature, top_p, tokens: max_output_tokens, effort: reasoning?.effort });
  const name = typeof conversation === "string" ? conversation : conversation?.id;
  return {
    ...(!body.background && { attended: true }), // on the line
    unattended: api.settings.unattended, // this protocol has no way to ask
    ...(name && { session: `${CONVERSATION}${name}` }),
    ...(previous && { previous, apart: body.store === false }),
    text,
    mode: api.settings.busyMode,
    ...(images.length && { images }),
    ...(history.length && { history }),
    ...(instructions && { instructions }),
    ...(model && { model }),
    ...(options && { options }),
  };
}

const CONVERSATION = "conversation:";

/** A history would replace what the session holds: where it goes on, all that is new is one message. */
function inOne({ history, ...said }: Conversation): Conversation {
  const before = history.map(({ role, text }) => (role === "assistant" ? `[the assistant said]\n${text}` : text));
  const images = history.flatMap((one) => (one.role === "user" ? (one.images ?? []) : []));
  const text = [...before, said.text].join("\n\n");
  return { ...said, text, images: [...images, ...said.images], history: [] };
}

// ── The response ──────────────────────────────────────────────────────────────────────────────────────

const idOf = ({ id }: { id: string }) => `resp_${hexOf(id)}`;

async function placed(runtime: Runtime, { id, session }: Run & { session: string }): Promise<StartedTurn> {
  const [first] = await runtime.turn(id);
  return { id, session, cursor: String((first?.seq ?? 1) - 1) };
}

async function read(
  api: Api,
  run: Run & { session: string },
  given: ResponseExtras = {},
): Promise<Record<string, unknown>> {
  const own = await api.runtime.turn(run.id);
  const rest = run.joined ? await api.runtime.turn(run.joined) : [];
  const from = rest.findIndex((entry) => entry.kind === "joined" && entry.input === run.id);
  const output = createOutput(run.id);
  for (const entry of [...own, ...rest.slice(Math.max(0, from))]) output.take(entry);
  return responseOf(api, { run, session: run.session, output, given });
}

async function wait(
  api: Api,
  turn: StartedTurn,
  given: ResponseExtras,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  const output = createOutput(turn.id);
  for await (const { update, run } of watchTurn(api, turn, signal)) {
    if ("entry" in update) output.take(update.entry);
    if (isOver(run)) return responseOf(api, { run, session: turn.session, output, given });
  }
  throw unfinished(turn);
}

const later = (turn: StartedTurn) => `Read it with GET /v1/responses/${idOf(turn)}.`;

const unfinished = (turn: StartedTurn): Problem => {
  const text = `The server restarts before this response is done; it goes on afterwards. ${later(turn)}`;
  return problem(503, "gateway_draining", text, { headers: NO_RETRY });
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

type Made = { run: Run; session: string; output: TurnOutput; given: ResponseExtras };

function responseOf(api: Api, { run, session, output, given }: Made): Record<string, unknown> {
  const input = output.input();
  const { options = {}, instructions = null } = input ?? {};
  const conversation = session.startsWith(CONVERSATION) ? { id: session.slice(CONVERSATION.length) } : null;
  const { usage, error } = run;
  const cutShort = cutShortOf(run);
  return {
    id: idOf(run),
    object: "response",
    created_at: Math.floor(run.createdAt / 1_000),
    completed_at: run.status === "completed" && !cutShort ? Math.floor(run.updatedAt / 1_000) : null,
    status: cutShort ? "incomplete" : STATUS[run.status],
    error: run.status === "failed" ? { code: "server_error", message: error ?? "The run failed." } : null,
    incomplete_details: cutShort ?? (run.status === "interrupted" ? { reason: "interrupted" } : null),
    output: output.items,
    usage: isOver(run)
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
    previous_response_id: given.previous ?? null,
    metadata: given.metadata ?? {},
    background: given.background ?? false,
    store: given.store ?? true,
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
  };
}

// ── Its events ────────────────────────────────────────────────────────────────────────────────────────

/** How the stream says that it is over. There is no event for a response that was cancelled; its status says so. */
const END: Partial<Record<Run["status"], string>> = { completed: "response.completed", failed: "response.failed" };

async function* events(
  api: Api,
  turn: StartedTurn,
  given: ResponseExtras,
  signal: AbortSignal,
): AsyncGenerator<SseFrame> {
  const output = createOutput(turn.id);
  let sequence_number = 0;
  const frame = (event: ItemEvent): SseFrame => ({
    event: event.type,
    data: { ...event, sequence_number: sequence_number++ },
  });
  const wrong = ({ code, message: text, param }: Problem) => frame({ type: "error", code, message: text, param });
  try {
    for await (const { update, run } of watchTurn(api, turn, signal)) {
      const told = (type: string) =>
        frame({ type, response: responseOf(api, { run, session: turn.session, output, given }) });
      if ("delta" in update) yield* output.hear(update.delta).map(frame);
      // There is no event that takes back what was sent.
      if ("reset" in update) return void (yield wrong(connectionLost(turn)));
      if (!("entry" in update)) continue;
      const { entry } = update;
      const made = output.take(entry);
      if (entry.kind === "accepted") yield told("response.created");
      if (entry.kind === "began" || (entry.kind === "joined" && entry.input === turn.id))
        yield told("response.in_progress");
      yield* made.map(frame);
      if (isOver(run)) return void (yield told((!cutShortOf(run) && END[run.status]) || "response.incomplete"));
    }
    if (!signal.aborted) yield wrong(unfinished(turn));
  } catch (error) {
    yield wrong(streamProblem(api, turn, error));
  }
}

// ── What is around it ─────────────────────────────────────────────────────────────────────────────────

/** No other turn is in its session. */
async function isAlone(runtime: Runtime, { id, session }: { id: string; session: string }): Promise<boolean> {
  for await (const page of pagesOf(runtime, session))
    if (page.some((entry) => entry.kind === "accepted" && entry.input.id !== id)) return false;
  return true;
}

/** While its memory is being written a session cannot be forgotten yet. */
const FORGET_MS = [0, 1_000, 10_000, 60_000];

/** For a turn that was not to be stored. One in a session with others is part of what they go on from, and stays. Asked
 *  for again under its idempotency key it begins anew: what would tell us is forgotten too. */
async function forget(api: Api, turn: StartedTurn): Promise<void> {
  const { runtime, clock, log, leaving } = api;
  const { session } = turn;
  try {
    for await (const { run } of watchTurn(api, turn, leaving)) if (isOver(run)) break;
    for (const ms of FORGET_MS) {
      await clock.sleep(ms, leaving);
      if (leaving.aborted || !(await isAlone(runtime, turn))) return;
      // A memory may still be told of it, but one that is down does not keep it.
      const { unsaved } = await runtime.status(session);
      if (unsaved.length && ms !== FORGET_MS.at(-1)) continue;
      if ((await runtime.forget(session)) !== "busy") return;
    }
    log("warn", "http.unforgotten", { session });
  } catch (error) {
    log("warn", "http.unforgotten", { session, error: messageOf(error) });
  }
}

function inputItems({ id, text, images = [], history = [] }: Input): Record<string, unknown>[] {
  const said: Message[] = [...history, { role: "user", text, images }];
  return said.map((one, at) => ({
    id: `msg_${hexOf(id)}_in_${at}`,
    type: "message",
    role: one.role === "assistant" ? "assistant" : "user",
    status: "completed",
    content: contentOf(one),
  }));
}

function contentOf(one: Message): Record<string, unknown>[] {
  if (one.role === "assistant") return [{ type: "output_text", text: one.text, annotations: [] }];
  const images = one.role === "user" ? (one.images ?? []) : [];
  return [
    { type: "input_text", text: one.text },
    ...images.map(({ mime, data }) => ({
      type: "input_image",
      detail: "auto",
      image_url: `data:${mime};base64,${data}`,
    })),
  ];
}
