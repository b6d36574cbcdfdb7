// The runtime over HTTP, method by method and unchanged, so that a terminal elsewhere can work as if it were here. Like the
// runtime, and unlike the routes for people, it says false where nothing was to be done, and takes sessions that are still new.

import * as z from "zod";
import { placeOf } from "../../../core/cursor.ts";
import type { AcceptRequest } from "../../../core/runtime.ts";
import { MODES } from "../../../core/session.ts";
import { LARGEST_IMAGE, MOST_IMAGES } from "../openai/messages.ts";
import { foundRun, idempotencyKeyOf, one, sessionId, sessionKeyOf } from "../runs/start.ts";
import { parse } from "../server/body.ts";
import { problem } from "../server/problem.ts";
import { type Api, list, ok, type Route, routeTagged, streamed } from "../server/route.ts";

const route = routeTagged("terminal");

const image = z.looseObject({
  mime: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]),
  data: z
    .string()
    .max(LARGEST_IMAGE)
    .regex(/^[A-Za-z0-9+/]+={0,2}$/, "must be base64"),
});
const by = z.string().min(1).max(256).optional();
const messageBody = z.looseObject({
  text: z.string(),
  key: z.string().optional(),
  mode: z.enum(MODES),
  by,
  attended: z.boolean().optional(),
  unattended: z.enum(["deny", "allow"]).optional(),
  images: z.array(image).max(MOST_IMAGES).optional(),
  model: z.string().min(1).max(200).optional(),
  task: z.enum(["compress"]).optional(),
  instructions: z.string().max(1_000_000).optional(),
  into: z.string().max(512).optional(),
});
const stopBody = z.looseObject({ turn: z.string().max(512), scope: z.enum(["turn", "tree"]).optional() });
const answerBody = z.looseObject({
  call: z.string().max(512),
  allow: z.boolean(),
  text: z.string().max(100_000),
  scope: z.enum(["once", "session", "always"]).optional(),
  by,
});
const moveBody = z.looseObject({ to: z.int().min(0) });
const restoreBody = z.looseObject({ turn: z.string().min(1).max(100).optional() });
const entriesQuery = z.object({
  after: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
});
const searchQuery = z.object({
  q: z.string().max(1_000),
  session: z.string().max(512).optional(),
  limit: z.coerce.number().int().min(1).max(200).default(20),
});

const ACCEPTED = {
  202: "It is durable",
  400: "Something in it is wrong",
  409: "The key was used for something else, or the run does not take it",
  429: "Too much waits or runs already",
  503: "About to restart",
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
      answers: ACCEPTED,
      handle({ params: { id }, body, headers }) {
        const { text, mode, attended, unattended, images, model, task, instructions, into } = body;
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
          ...(task && { task }),
          ...(instructions && { instructions }),
          ...(into && { into }),
        });
      },
    });

  return [
    say("/api/messages", "Say something in a new session"),
    say("/api/sessions/:id/messages", "Say something in a session; a new one begins with it"),

    route("GET", "/api/sessions/:id/events", {
      summary: "Watch a session without end: each entry and all live text, from the beginning or after Last-Event-ID",
      query: { after: "Go on behind this event's id, as Last-Event-ID does" },
      answers: { 200: "Server-sent events", 400: "Not the name of a session", 410: "That event is not one of it" },
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
      summary: "Stop a turn, or with scope `tree` also what its session made",
      body: stopBody,
      answers: { 200: "What became of it: stopping, withdrawn, ending or over" },
      async handle({ params: { id = "" }, body: { turn, scope = "turn" } }) {
        return ok({ stopped: await runtime.stop({ session: id, turn, scope }) });
      },
    }),

    route("POST", "/api/sessions/:id/answer", {
      summary: "Answer what a session asks; the first answer wins",
      body: answerBody,
      answers: { 200: "Whether this was the first answer" },
      async handle({ params: { id = "" }, body, headers }) {
        const { call, allow, text, scope = "once" } = body;
        const who = body.by ?? sessionKeyOf(headers) ?? "api";
        return ok({ answered: await runtime.answer({ session: id, call, allow, text, scope, by: who }) });
      },
    }),

    route("GET", "/api/grants", {
      summary: "The sessions in which something is allowed for the rest of the session",
      answers: { 200: "A list" },
      handle: async () => list(await runtime.granted()),
    }),

    route("GET", "/api/sessions/:id/grants", {
      summary: "What is allowed for the rest of a session",
      answers: { 200: "A list" },
      handle: async ({ params: { id = "" } }) => list(await runtime.grants(id)),
    }),

    route("DELETE", "/api/sessions/:id/grants/:call", {
      summary: "Take back what was allowed for the rest of a session",
      answers: { 200: "Whether it was still allowed" },
      async handle({ params: { id = "", call = "" }, headers }) {
        return ok({ revoked: await runtime.revoke(id, call, sessionKeyOf(headers) ?? "api") });
      },
    }),

    route("DELETE", "/api/sessions/:id/inbox/:input", {
      summary: "Take back a waiting input",
      answers: { 200: "Whether it was still waiting" },
      async handle({ params: { id = "", input = "" } }) {
        return ok({ withdrawn: await runtime.withdraw(id, input) });
      },
    }),

    route("POST", "/api/sessions/:id/inbox/:input", {
      summary: "Move a waiting input to another place, 0 is the first",
      body: moveBody,
      answers: { 200: "Whether it moved" },
      async handle({ params: { id = "", input = "" }, body: { to } }) {
        return ok({ moved: await runtime.move(id, input, to) });
      },
    }),

    route("POST", "/api/sessions/:id/restore-files", {
      summary: "Bring files back to before a run, or to before the last time that this was done here",
      body: restoreBody,
      answers: { 200: "What came of it, in words" },
      async handle({ params: { id = "" }, body: { turn } }) {
        return ok({ text: await runtime.restoreFiles({ session: id, turn }) });
      },
    }),

    route("GET", "/api/sessions/:id/entries", {
      summary: "The journal of a session as it is kept; an empty list is behind its end",
      query: { after: "Only entries behind this number", limit: "1 to 1000 (100); fewer come where they are long" },
      answers: { 200: "A list" },
      async handle({ params: { id = "" }, query }) {
        const { after, limit } = parse(entriesQuery, Object.fromEntries(query));
        return list(await runtime.entries(id, after, limit));
      },
    }),

    route("GET", "/api/search", {
      summary: "Find what was said, best match first",
      query: { q: "Words that were used", session: "Only there (a key, or its first parts)", limit: "1 to 200 (20)" },
      answers: { 200: "A list", 400: "There is nothing to look for" },
      async handle({ query }) {
        const { q, session, limit } = parse(searchQuery, Object.fromEntries(query));
        return list(await runtime.search(q, { ...(session !== undefined && { session }), limit }));
      },
    }),

    route("GET", "/api/runs/:id", {
      summary: "A run as it is kept",
      answers: { 200: "The run", 404: "There is no such run" },
      async handle({ params: { id = "" } }) {
        return ok(await foundRun(runtime, id));
      },
    }),

    route("GET", "/api/runs/:id/entries", {
      summary: "The journal of a run as it is kept",
      answers: { 200: "A list" },
      handle: async ({ params: { id = "" } }) => list(await runtime.turn(id)),
    }),

    route("GET", "/api/inputs/:id", {
      summary: "Where an accepted input is now",
      answers: { 200: "queued, withdrawn, taken or answered", 404: "There is no such input" },
      async handle({ params: { id = "" } }) {
        const whereabouts = await runtime.whereabouts(id);
        if (!whereabouts)
          throw problem(404, "input_not_found", `There is no input ${JSON.stringify(id.slice(0, 60))}.`);
        return ok(whereabouts);
      },
    }),

    route("GET", "/api/load", {
      summary: "Turns that run and inputs that wait, over all sessions",
      answers: { 200: "Counted now" },
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
