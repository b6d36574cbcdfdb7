// /api/sessions: list, search, make, read, rename, fork, delete, and talk in a session.
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import * as z from "zod";
import { pastTurns, previewFiles, rollback } from "../../../conversation/rewind.ts";
import { isOver } from "../../../core/run.ts";
import type { Receipt } from "../../../core/runtime.ts";
import { type Image, MODES } from "../../../core/session.ts";
import { apiSession } from "../../../core/session-key.ts";
import { message, readConversation } from "../openai/messages.ts";
import { begunProblem, watchTurn, whileWaiting } from "../openai/openai-turn.ts";
import { usageOf } from "../runs/events.ts";
import { begin, echo, modelOf, sessionId } from "../runs/start.ts";
import { watchingOf, watchRun } from "../runs/watch.ts";
import { mirrorRoutes } from "../runtime/runtime-routes.ts";
import { meaningsIn, parse } from "../server/body.ts";
import { missing, problem, wrongField } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged, STARTS, streamed } from "../server/route.ts";
import { aSession, marksOf, messageRow, namedFrames, sessionRecord, setMarks } from "./hermes.ts";
import { cursorOf, listFrom, placeIn, type SessionItem } from "./list.ts";
import { readSaid, turnSaid } from "./messages.ts";

const route = routeTagged("sessions");

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const plain = /^[^\u0000-\u001f\u007f]*$/;
const title = z
  .string()
  .max(200)
  .regex(/\S/, "must not be empty")
  .regex(plain, "must be one line without control characters");
const modelName = z.string().min(1).max(200);
const newId = sessionId.nullish().describe("The id of the new session; default: a random one");
const newTitle = title.nullish().describe("Its title");
const createBody = z.looseObject({
  id: newId,
  title: newTitle,
  model: modelName.nullish().describe("The model that answers in it"),
});
const flag = (meaning: string) => z.boolean().optional().describe(meaning);
const changeBody = z.looseObject({
  title: z
    .union([title, z.literal("")])
    .optional()
    .describe("The new title; an empty one removes it"),
  end_reason: z.string().max(200).nullable().optional().describe("Why a client ended it; null: it goes on"),
  pinned: flag("For clients: shown first"),
  archived: flag("For clients: put away"),
  hidden: flag("For clients: not listed"),
  unread: flag("For clients: has something new"),
});
const forkBody = z.looseObject({
  through: z.string().min(1).max(512).nullish().describe("The last run to copy; default: everything"),
  id: newId,
  title: newTitle,
});
const rollbackBody = z.looseObject({
  turn: z.string().min(1).max(100).describe("The run to go back to before, one of the last 50"),
  preview: z.boolean().optional().describe("Change nothing, and answer what would become of the files"),
  id: newId,
});
const MOST_UNDONE = 50;
const said = message.shape.content.unwrap().unwrap();
const chatBody = z.looseObject({
  message: said.nullish().describe("The message: text, or parts with pictures"),
  input: said.nullish().describe("Another name for `message`"),
  mode: z.enum(MODES).nullish().describe("What the message does while a turn is running"),
  model: z.string().max(200).nullish().describe("The model to use"),
  instructions: z.string().max(1_000_000).nullish().describe("Text for the system prompt of this turn"),
  system_message: z.string().max(1_000_000).nullish().describe("Another name for `instructions`"),
});

/** The first of them in which something is. */
function wordsIn(body: z.output<typeof chatBody>): { text: string; images: Image[] } {
  for (const given of [body.message, body.input]) {
    if (typeof given === "string" && given.trim()) return { text: given, images: [] };
    if (Array.isArray(given)) return readConversation([{ role: "user", content: given }], "message");
  }
  return { text: "", images: [] };
}
/** Messages of a session that is read without pages. */
const MOST_MESSAGES = 1_000;

const limit = (usual: number) => z.coerce.number().int().min(1).max(200).default(usual);
const yes = z.enum(["true", "false"]).default("false");
const listQuery = z.object({
  limit: limit(50).describe("The number of sessions, 1 to 200 (50)"),
  after: z.string().optional().describe("The value of `next` in the previous page"),
  q: z.string().trim().max(1_000).default("").describe("Search for this text, first in titles, then in messages"),
  children: yes.describe("`true`: also child sessions"),
  active: yes.describe("`true`: only sessions with a running turn"),
  prefix: z.string().max(512).default("").describe("Only sessions whose id begins with this"),
  offset: z.coerce.number().int().min(0).max(100_000).default(0).describe("The number of sessions to skip"),
  source: z.string().max(100).default("").describe("Only sessions from this source: cli, telegram, api_server, …"),
  include_children: yes.describe("Another name for `children`"),
  counts: z
    .enum(["true", "false"])
    .default("true")
    .describe("`false`: without the numbers of messages and tokens, which have to be counted"),
});
const saidQuery = z.object({
  after: z.coerce.number().min(0).default(0).describe("The value of `next` in the previous page"),
  limit: limit(100).describe("The number of messages, 1 to 200 (100)"),
  full: yes.describe("`true`: whole tool results, not only the first 10,000 characters"),
  offset: z.coerce.number().int().min(0).optional().describe("The number of messages to skip"),
  order: z.enum(["oldest", "latest"]).optional().describe("`latest`: the last page instead of the first"),
});

export function sessionRoutes(api: Api): Route[] {
  const { runtime, settings } = api;
  const newSession = () => apiSession(api.newKey());
  const found = async (id: string) => {
    const summary = await runtime.summary(id);
    if (!summary) throw missing("session", id);
    return summary;
  };

  return [
    route("GET", "/api/sessions", {
      summary: "List or search sessions, the last changed first",
      query: meaningsIn(listQuery),
      answers: { 200: "A page of the list", 400: "A parameter is wrong" },
      gives: z.looseObject({ object: z.literal("list"), data: z.array(aSession), next: z.string().nullable() }),
      async handle({ query }) {
        const asked = parse(listQuery, Object.fromEntries(query));
        const { after, q, limit, children, include_children, active, prefix, offset, source, counts } = asked;
        const which = { top: children === "false" && include_children === "false", active: active === "true", prefix };
        const listed = await listFrom(runtime, { place: placeIn(after), limit, q, which }, { offset, source });
        const next = listed.next && cursorOf(listed.next);
        const data = await Promise.all(
          listed.rows.map(async (row) => ({
            ...(counts === "true" && (await sessionRecord(runtime, row))),
            ...shown(row),
          })),
        );
        return ok({ object: "list", data, limit, offset, has_more: next !== null, next });
      },
    }),

    route("POST", "/api/sessions", {
      summary: "Create an empty session",
      body: createBody,
      example: { title: "My project" },
      answers: { 201: "The session", 400: "A field is wrong", 409: "A session with this id exists already" },
      gives: aSession,
      async handle({ body }) {
        const session = body.id ?? newSession();
        if ((await runtime.create({ session, title: body.title ?? "" })) === "taken") throw taken(session);
        if (body.model) await setMarks(runtime, session, { model: body.model });
        return { status: 201, body: await whole(session) };
      },
    }),

    route("GET", "/api/sessions/:id", {
      summary: "Read a session and its status",
      answers: { 200: "The session with its status", 404: "No session has this id" },
      gives: aSession,
      handle: async ({ params: { id = "" } }) => ok({ ...(await whole(id)), status: await runtime.status(id) }),
    }),

    route("PATCH", "/api/sessions/:id", {
      summary: "Rename a session, or set what only clients look at: pinned, archived, …",
      body: changeBody,
      example: { title: "My project" },
      answers: { 200: "The session", 400: "A field cannot be set", 404: "No session has this id" },
      gives: aSession,
      async handle({ params: { id = "" }, body: { title: name, ...marks } }) {
        await found(id);
        const other = Object.keys(marks).find((field) => !(field in changeBody.shape));
        if (other !== undefined || (name === undefined && !Object.keys(marks).length)) {
          const needs = `only ${Object.keys(changeBody.shape).join(", ")} can be set`;
          throw wrongField(other ?? "title", needs, "unsupported_session_field");
        }
        if (name !== undefined) await runtime.retitle(id, name);
        const { end_reason: end, pinned, archived, hidden, unread } = marks;
        const ended = end === undefined ? {} : { end_reason: end, ended_at: end === null ? null : now() };
        const set = { pinned, archived, hidden, unread };
        const given = Object.fromEntries(Object.entries(set).filter(([, value]) => value !== undefined));
        if (Object.keys(marks).length) await setMarks(runtime, id, { ...given, ...ended });
        return ok(await whole(id));
      },
    }),

    route("DELETE", "/api/sessions/:id", {
      summary: "Delete a session with its messages and files",
      answers: { 200: "Deleted", 404: "No session has this id", 409: "A turn of this session is running" },
      async handle({ params: { id = "" } }) {
        const became = await runtime.forget(id);
        if (became === "unknown") throw missing("session", id);
        if (became === "busy") {
          const text = "The session is at work. Stop its run and take back what waits in it, then delete it.";
          throw problem(409, "session_busy", text);
        }
        await setMarks(runtime, id, undefined);
        return ok({ id, object: "hermes.session.deleted", deleted: true });
      },
    }),

    route("GET", "/api/sessions/:id/messages", {
      summary: "List the messages and tool calls of a session, oldest first",
      query: meaningsIn(saidQuery),
      answers: { 200: "A page of the list", 404: "No session has this id" },
      async handle({ params: { id = "" }, query }) {
        const asked = parse(saidQuery, Object.fromEntries(query));
        const { full, after, limit, offset = 0, order = "oldest" } = asked;
        await found(id);
        const paged = query.has("limit") || query.has("offset") || query.has("order");
        const most = paged || query.has("after") ? limit : MOST_MESSAGES;
        const read = (count: number) => readSaid(runtime, id, { after, limit: count, full: full === "true" });
        const latest = order === "latest";
        const { data: all, more } = await read(latest ? Number.MAX_SAFE_INTEGER : offset + most);
        const end = latest ? Math.max(0, all.length - offset) : offset + most;
        const data = all.slice(latest ? Math.max(0, end - most) : offset, end).map((row) => messageRow(id, row));
        const pagination = { limit: most, offset, order, returned: data.length };
        const next = more ? (all.at(-1)?.id ?? null) : null;
        return ok({ object: "list", session_id: id, data, has_more: more, next, ...(paged && { pagination }) });
      },
    }),

    route("POST", "/api/sessions/:id/fork", {
      summary: "Copy a session, completely or up to one of its runs",
      body: forkBody,
      example: { through: "run_…" },
      answers: {
        201: "The new session",
        404: "No session or run has this id",
        409: "A session with this id exists already",
      },
      gives: aSession,
      async handle({ params: { id: from = "" }, body }) {
        const source = await found(from);
        const session = body.id ?? newSession();
        const through = body.through ? { through: body.through } : {};
        const became = await runtime.fork({ from, ...through, session, title: body.title ?? source.title });
        if (became === "taken") throw taken(session);
        if (became === "unknown") throw notThrough(body.through ?? "");
        await setMarks(runtime, from, { end_reason: "branched" });
        return { status: 201, body: await whole(session) };
      },
    }),

    route("POST", "/api/sessions/:id/rollback", {
      summary: "Go back to before a run: the words in a new session, and the files of the workspace",
      body: rollbackBody,
      example: { turn: "run_…", preview: true },
      answers: {
        200: "With `preview`: `summary` says which files would change, `patch` how",
        201: "The new session; `undone` is the message that began the run, `files` says what was restored",
        404: "No session or run has this id",
        409: "The session is at work, or a session with the new id exists already",
      },
      async handle({ params: { id = "" }, body: { turn, preview, id: wanted } }) {
        const { title } = await found(id);
        const turns = await pastTurns(runtime, id, MOST_UNDONE);
        const count = turns.findIndex((past) => past.turn === turn) + 1;
        if (!count) throw notThrough(turn, "turn");
        if (preview) return ok(await previewFiles(runtime, id, turns.slice(0, count)));
        const session = wanted ?? newSession();
        if ((await runtime.status(id)).turn)
          throw problem(409, "session_busy", "The session is at work. Stop its run first.");
        if (await runtime.summary(session)) throw taken(session);
        const back = await rollback(runtime, id, count, () => session);
        await runtime.create({ session, title }); // before its first run there was nothing
        return { status: 201, body: { ...(await whole(session)), undone: back?.undone.text, files: back?.files } };
      },
    }),

    route("POST", "/api/sessions/:id/model", {
      summary: "Choose the model that answers in a session over this API",
      body: z.looseObject({
        model: modelName.nullish().describe("The name of the model"),
        provider: z.string().max(200).nullish().describe("Its provider"),
      }),
      example: { model: "claude-sonnet-5-5" },
      answers: { 200: "It is chosen", 400: "No model was named", 404: "No session has this id" },
      async handle({ params: { id = "" }, body: { model, provider } }) {
        await found(id);
        if (!model) throw wrongField("model", "must be the name of a model", "missing_model");
        await setMarks(runtime, id, { model: modelOf(api, model, provider) ?? model });
        const requested = { provider: provider ?? "", model };
        const chosen = { ...requested, route_source: "raw_request", requested, model_lock: "accepted" };
        return ok({ object: "hermes.session.model_lock", session_id: id, runtime: chosen });
      },
    }),

    route("POST", "/api/sessions/:id/chat", {
      summary: "Send a message and wait for the answer; disconnecting does not stop the run",
      body: chatBody,
      example: { message: "What is in this directory?" },
      starts: true,
      answers: CHAT,
      async handle({ params: { id = "" }, body, headers, response }) {
        const receipt = await chat(id, body, headers);
        const reply = await replyTo(receipt, response).catch((error: unknown) => {
          throw begunProblem(api, headers, receipt, error);
        });
        return ok(reply, { ...echo(headers, receipt), "X-Hermes-Session-Id": id });
      },
    }),

    route("POST", "/api/sessions/:id/chat/stream", {
      summary: "Send a message and stream its run; resume with GET /v1/runs/{id}/events",
      body: chatBody,
      example: { message: "What is in this directory?" },
      starts: true,
      answers: { ...CHAT, 200: "Server-sent events: first the id of the run, then its events, with names" },
      gives: "text/event-stream",
      async handle({ params: { id = "" }, body, headers, stream }) {
        const { id: run, applied, replayed } = await chat(id, body, headers);
        const first = { event: "run.accepted", run_id: run, timestamp: now(), session_id: id, mode: applied, replayed };
        const frames = namedFrames({ session: id, run, text: wordsIn(body).text, runtime: routeTo(null) }, () =>
          endOf(run),
        );
        await stream(
          async function* (signal) {
            yield frames.started(first);
            for await (const { id: place, event } of watchRun(watchingOf(api, run, id), "", signal))
              yield* await frames.of(event, place);
          },
          { headers: { ...echo(headers), "X-Hermes-Session-Id": id } },
        );
        return streamed;
      },
    }),

    ...mirrorRoutes(api),
  ];

  async function chat(session: string, body: z.output<typeof chatBody>, headers: IncomingHttpHeaders) {
    await found(session);
    const { text, images } = wordsIn(body);
    if (!text) throw wrongField("message", "must be the text to say", "missing_message");
    const { mode } = body;
    const instructions = body.instructions ?? body.system_message;
    const model = modelOf(api, body.model) ?? (await marksOf(runtime, session)).model;
    const more = { ...(instructions && { instructions }), ...(model && { model }), ...(images.length && { images }) };
    return begin(api, headers, { session, text, attended: true, mode: mode ?? settings.busyMode, ...more });
  }

  /** Waits for the end of the run, also through a drain. */
  async function replyTo(receipt: Receipt, response: ServerResponse): Promise<Record<string, unknown>> {
    const { id, session } = receipt;
    await whileWaiting(response, async (signal) => {
      for await (const { run } of watchTurn(api, receipt, signal)) if (isOver(run)) return;
    });
    const run = await runtime.run(id);
    if (!run || !isOver(run)) throw leftBefore(id);
    const { status, output, error } = run;
    const route = routeTo(run.model);
    const message = { role: "assistant", content: output || (error ?? "") };
    const reply = {
      object: "hermes.session.chat.completion",
      run_id: id,
      session_id: session,
      message,
      status,
      output,
    };
    return {
      ...reply,
      usage: { ...usageOf(run), runtime: route },
      runtime: route,
      ...(status === "failed" && { error }),
    };
  }

  /** What it was in the end, for the last frames. */
  async function endOf(id: string) {
    const run = await runtime.run(id);
    const route = routeTo(run?.model ?? null);
    const usage = run ? { ...usageOf(run), runtime: route } : null;
    const messages = run ? await turnSaid(runtime, run.session, run.joined ?? id) : [];
    return { content: run?.output || run?.error || "", usage, messages, model: run?.model ?? null };
  }

  function routeTo(model: string | null) {
    const [provider = ""] = settings.models[0]?.split(":", 1) ?? [];
    return { provider, model: model ?? "", route_source: "global", requested: { provider: "", model: "" } };
  }

  /** With the fields of Hermes, flat and in `session`. */
  async function whole(id: string): Promise<Record<string, unknown>> {
    const summary = await found(id);
    const session = await sessionRecord(runtime, summary);
    return { ...session, ...shown(summary), session };
  }

  function now() {
    return api.clock.now() / 1_000;
  }
}

const CHAT = { ...STARTS, 200: "The answer", 404: "No session has this id" };

export const shown = ({ session, title, parent, createdAt, updatedAt, active, entries, snippet }: SessionItem) => ({
  id: session,
  object: "hermes.session",
  title,
  parent_id: parent,
  created_at: createdAt / 1_000,
  updated_at: updatedAt / 1_000,
  active,
  entries,
  ...(snippet !== undefined && { snippet }),
});

// ── What is wrong ─────────────────────────────────────────────────────────────────────────────────────

const quoted = (id: string) => JSON.stringify(id.slice(0, 60));
const taken = (id: string) =>
  problem(409, "session_exists", `There is a session ${quoted(id)} already; use another id.`, { param: "id" });
const notThrough = (run: string, param = "through") =>
  problem(404, "run_not_found", `There is no finished run ${quoted(run)} in this session.`, { param });
const leftBefore = (run: string) =>
  problem(503, "gateway_draining", `The server is about to restart. The run goes on after that: GET /v1/runs/${run}`, {
    headers: { "Retry-After": "1" },
  });
