// The runtime over HTTP, method by method and unchanged, so that a terminal elsewhere can work as if it were here. Like the
// runtime, and unlike the routes for people, it says false where nothing was to be done, and takes sessions that are still new.
import * as z from "zod";
import { placeOf } from "../../../core/cursor.ts";
import type { AcceptRequest } from "../../../core/runtime.ts";
import { EFFORTS, MODES } from "../../../core/session.ts";
import { LARGEST_IMAGE, MOST_IMAGES } from "../openai/messages.ts";
import { foundRun, idempotencyKeyOf, one, sessionId, sessionKeyOf } from "../runs/start.ts";
import { meaningsIn, parse } from "../server/body.ts";
import { missing, problem } from "../server/problem.ts";
import { type Api, list, ok, type Route, routeTagged, streamed } from "../server/route.ts";

const route = routeTagged("terminal");

const image = z.looseObject({
  mime: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]),
  data: z
    .string()
    .max(LARGEST_IMAGE)
    .regex(/^[A-Za-z0-9+/]+={0,2}$/, "must be base64"),
});
const by = z.string().min(1).max(256).optional().describe("The person who writes or answers");
const messageBody = z.looseObject({
  text: z.string().describe("The message"),
  key: z.string().optional().describe("The same key again is the same message; default: the header Idempotency-Key"),
  mode: z.enum(MODES).describe("What the message does while a turn is running"),
  by,
  attended: z.boolean().optional().describe("A person waits for the answer, so retries are shorter"),
  unattended: z.enum(["deny", "allow"]).optional().describe("Nobody can be asked; this is the answer to approvals"),
  images: z.array(image).max(MOST_IMAGES).optional().describe("Pictures: `mime` and base64 `data`"),
  model: z.string().min(1).max(200).optional().describe("The model to use"),
  effort: z.enum(EFFORTS).optional().describe("How much the model reasons"),
  task: z.enum(["compress"]).optional().describe("`compress`: summarise the conversation instead of answering"),
  instructions: z.string().max(1_000_000).optional().describe("Text for the system prompt of this turn"),
  into: z.string().max(512).optional().describe("Only add the message to this turn, while it is running"),
});
const stopBody = z.looseObject({
  turn: z.string().max(512).describe("The id of the turn"),
  scope: z.enum(["turn", "tree"]).optional().describe("`tree` also stops child sessions and background processes"),
});
const answerBody = z.looseObject({
  call: z.string().max(512).describe("The id of the call that asks"),
  allow: z.boolean().describe("Yes or no; true for an answer to a question"),
  text: z.string().max(100_000).describe("The answer to a question, or the reason for a no"),
  scope: z.enum(["once", "session", "always"]).optional().describe("How long a yes is valid"),
  by,
});
const pauseBody = z.looseObject({ by });
const moveBody = z.looseObject({ to: z.int().min(0).describe("The new position; 0 is the first") });
const runName = z.string().min(1).max(100);
const restoreBody = z.looseObject({
  turn: runName.optional().describe("The run; default: undo the last restore"),
  turns: z.array(runName).max(100).optional().describe("Several runs, the newest first"),
  preview: z.boolean().optional().describe("Change nothing, and answer what would change"),
});
const count = (most: number, usual: number) => z.coerce.number().int().min(1).max(most).default(usual);
const entriesQuery = z.object({
  after: z.coerce.number().int().min(0).default(0).describe("Only entries after this number"),
  limit: count(1_000, 100).describe("The number of entries, 1 to 1000 (100); fewer if they are long"),
});
const searchQuery = z.object({
  q: z.string().max(1_000).describe("The words to find"),
  session: z.string().max(512).optional().describe("Only sessions whose id begins with this"),
  limit: count(200, 20).describe("The number of results, 1 to 200 (20)"),
});

const ACCEPTED = {
  202: "The message is stored",
  400: "A field is wrong",
  409: "The key was used for another message, or the run accepts no message",
  429: "Too many messages wait, or too many runs are active",
  503: "The server is shutting down or restarting",
};

export function mirrorRoutes(api: Api): Route[] {
  const { runtime } = api;

  /** Into a session at work it is bounded by the inbox: a person's interrupt is not refused because others run. */
  async function accept(request: Omit<AcceptRequest, "source" | "reply" | "admit">) {
    const { turn = null, inbox = [] } = request.session ? await runtime.status(request.session) : {};
    const counts = !turn && !inbox.length;
    const place = api.runs.place();
    try {
      const admit = counts ? { admit: place.enter } : {};
      const receipt = await runtime.accept({ ...request, source: "api", reply: "pull", ...admit });
      if (counts && !receipt.replayed) place.stay(receipt.id);
      return { status: 202, body: receipt };
    } finally {
      place.leave();
    }
  }

  const say = (path: string, summary: string) =>
    route("POST", path, {
      summary,
      body: messageBody,
      example: { text: "Hello", mode: "queue" },
      answers: ACCEPTED,
      handle({ params: { id }, body, headers }) {
        const { text, mode, attended, unattended, images, model, effort, task, instructions, into } = body;
        const said = body.by ?? sessionKeyOf(headers);
        return accept({
          ...(id !== undefined && { session: id }),
          key: body.key ?? idempotencyKeyOf(headers) ?? api.newKey(),
          text,
          mode,
          ...(said && { by: said }),
          ...(attended && { attended }),
          ...(unattended && { unattended }),
          ...(images?.length && { images: images.map(({ mime, data }) => ({ mime, data })) }),
          ...(model && { model }),
          ...(effort && { options: { effort } }),
          ...(task && { task }),
          ...(instructions && { instructions }),
          ...(into && { into }),
        });
      },
    });

  return [
    say("/api/messages", "Send a message to a new session"),
    say("/api/sessions/:id/messages", "Send a message to a session; the session is created if it does not exist"),

    route("GET", "/api/sessions/:id/events", {
      summary: "Stream everything that happens in a session, from the beginning or after Last-Event-ID",
      query: { after: "Only events after this event id; the same as the header Last-Event-ID" },
      answers: {
        200: "Server-sent events",
        400: "The id is not valid",
        410: "The event id does not belong to this session",
      },
      gives: "text/event-stream",
      async handle({ params: { id = "" }, query, headers, stream }) {
        const after = one(headers["last-event-id"]) ?? query.get("after") ?? "";
        await checkCursor(api, id, after);
        await stream(async function* (signal) {
          for await (const update of runtime.follow(id, after, signal)) yield { id: update.cursor, data: update };
        });
        return streamed;
      },
    }),

    route("POST", "/api/sessions/:id/stop", {
      summary: "Stop a turn; with scope `tree`, also the child sessions and background processes",
      body: stopBody,
      example: { turn: "run_…", scope: "tree" },
      answers: { 200: "The result: `stopping`, `withdrawn`, `ending` or `over`" },
      handle: async ({ params: { id = "" }, body: { turn, scope = "turn" } }) =>
        ok({ stopped: await runtime.stop({ session: id, turn, scope }) }),
    }),

    route("POST", "/api/sessions/:id/answer", {
      summary: "Answer an approval or a question of a session; the first answer wins",
      body: answerBody,
      example: { call: "call_…", allow: true, text: "", scope: "once" },
      answers: { 200: "Whether this answer was the first" },
      async handle({ params: { id = "" }, body, headers }) {
        const { call, allow, text, scope = "once" } = body;
        const who = body.by ?? sessionKeyOf(headers) ?? "api";
        return ok({ answered: await runtime.answer({ session: id, call, allow, text, scope, by: who }) });
      },
    }),

    route("GET", "/api/grants", {
      summary: "List the sessions that have grants",
      answers: { 200: "The list" },
      handle: async () => list(await runtime.granted()),
    }),

    route("GET", "/api/sessions/:id/grants", {
      summary: "List the grants of a session: commands that are allowed for the rest of it",
      answers: { 200: "The list" },
      handle: async ({ params: { id = "" } }) => list(await runtime.grants(id)),
    }),

    route("DELETE", "/api/sessions/:id/grants/:call", {
      summary: "Revoke a grant",
      answers: { 200: "Whether the grant was still valid" },
      handle: async ({ params: { id = "", call = "" }, headers }) =>
        ok({ revoked: await runtime.revoke(id, call, sessionKeyOf(headers) ?? "api") }),
    }),

    route("DELETE", "/api/sessions/:id/inbox/:input", {
      summary: "Withdraw a waiting message",
      answers: { 200: "Whether the message was still waiting" },
      handle: async ({ params: { id = "", input = "" } }) => ok({ withdrawn: await runtime.withdraw(id, input) }),
    }),

    route("POST", "/api/sessions/:id/inbox/:input", {
      summary: "Move a waiting message to another position",
      body: moveBody,
      example: { to: 0 },
      answers: { 200: "Whether the message was moved" },
      handle: async ({ params: { id = "", input = "" }, body: { to } }) =>
        ok({ moved: await runtime.move(id, input, to) }),
    }),

    route("POST", "/api/sessions/:id/restore-files", {
      summary: "Restore files as they were before a run; without `turn`, undo the last restore",
      body: restoreBody,
      example: { turn: "run_…" },
      answers: { 200: "What was restored, as `text`; with `preview` also the difference, in `patch`" },
      async handle({ params: { id = "" }, body: { turn, turns = turn ? [turn] : undefined, preview } }) {
        const { summary, patch } = await runtime.restoreFiles({ session: id, turns, preview });
        return ok({ text: summary, summary, patch });
      },
    }),

    route("GET", "/api/sessions/:id/file-changes", {
      summary: "Show what the last run that changed files of the workspace did to them",
      query: {
        turn: "The run; default: the last one that changed files",
        all: "`true`: what is different since before the first such run of the session",
      },
      answers: { 200: "`summary`: which files, or why that is not known; `patch`: the difference, or empty" },
      async handle({ params: { id = "" }, query }) {
        const turn = query.get("turn") ?? undefined;
        return ok(await runtime.fileChanges({ session: id, turn, all: query.get("all") === "true" }));
      },
    }),

    route("GET", "/api/sessions/:id/entries", {
      summary: "Read the journal of a session; an empty list is the end",
      query: meaningsIn(entriesQuery),
      answers: { 200: "The list" },
      async handle({ params: { id = "" }, query }) {
        const { after, limit } = parse(entriesQuery, Object.fromEntries(query));
        return list(await runtime.entries(id, after, limit));
      },
    }),

    route("GET", "/api/search", {
      summary: "Search messages, best match first",
      exampleQuery: { q: "invoice" },
      query: meaningsIn(searchQuery),
      answers: { 200: "The list", 400: "`q` is missing" },
      async handle({ query }) {
        const { q, session, limit } = parse(searchQuery, Object.fromEntries(query));
        return list(await runtime.search(q, { ...(session !== undefined && { session }), limit }));
      },
    }),

    route("GET", "/api/runs/:id", {
      summary: "Read a run as it is stored",
      answers: { 200: "The run", 404: "No run has this id" },
      handle: async ({ params: { id = "" } }) => ok(await foundRun(runtime, id)),
    }),

    route("GET", "/api/runs/:id/entries", {
      summary: "Read the journal of a run",
      answers: { 200: "The list" },
      handle: async ({ params: { id = "" } }) => list(await runtime.turn(id)),
    }),

    route("GET", "/api/inputs/:id", {
      summary: "Find out what happened to a message",
      answers: { 200: "`queued`, `withdrawn`, `taken` or `answered`", 404: "No input has this id" },
      async handle({ params: { id = "" } }) {
        const whereabouts = await runtime.whereabouts(id);
        if (!whereabouts) throw missing("input", id);
        return ok(whereabouts);
      },
    }),

    route("GET", "/api/pause", {
      summary: "Find out whether the server is paused",
      answers: { 200: "`paused`: by whom and when, or null" },
      handle: async () => ok({ paused: await runtime.paused() }),
    }),

    route("POST", "/api/pause", {
      summary:
        "Pause the server: no turn begins until it is resumed; running turns finish, and messages are accepted and wait",
      body: pauseBody,
      example: { by: "anna" },
      answers: { 200: "`paused`: by whom and when" },
      async handle({ body, headers }) {
        await runtime.pause(body.by ?? sessionKeyOf(headers) ?? "api");
        return ok({ paused: await runtime.paused() });
      },
    }),

    route("DELETE", "/api/pause", {
      summary: "Resume the server after a pause",
      answers: { 200: "`paused` is null" },
      async handle() {
        await runtime.resume();
        return ok({ paused: null });
      },
    }),

    route("GET", "/api/load", {
      summary: "Count active turns and waiting messages in all sessions",
      answers: { 200: "The current numbers" },
      handle: async () => ok(await runtime.load()),
    }),
  ];
}

/** Refuses a place that the stream of this session cannot have named. */
async function checkCursor({ runtime }: Api, session: string, after: string): Promise<void> {
  if (!sessionId.safeParse(session).success)
    throw problem(
      400,
      "invalid_session_id",
      "A session's id has 1 to 512 characters, none of them a control character.",
    );
  if (after === "") return;
  const place = placeOf(after);
  const newest = (await runtime.summary(session))?.entries ?? 0;
  if (place && place.seq <= newest) return;
  const text = `There is no event ${JSON.stringify(after.slice(0, 50))} in this session; start without it.`;
  throw problem(410, "event_id_unknown", text);
}
