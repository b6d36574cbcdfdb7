// /v1/runs: start, read, watch, approve, steer and stop a turn.
import * as z from "zod";
import { SCOPES } from "../../../conversation/choice.ts";
import { isOver, type Run } from "../../../core/run.ts";
import { type Ask, type Entry, MODES } from "../../../core/session.ts";
import { type Conversation, message, messages, readConversation, toHistory } from "../openai/messages.ts";
import { problem, wrongField } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged, STARTS, streamed } from "../server/route.ts";
import { cutShortBy, lastEventOf, RUN_EVENTS, usageOf } from "./events.ts";
import {
  begin,
  echo,
  foundRun,
  idempotencyKeyOf,
  modelOf,
  modelOptions,
  one,
  optionsOf,
  sessionId,
  sessionKeyOf,
  shownModel,
} from "./start.ts";
import { checkPlace, watchingOf, watchRun } from "./watch.ts";

const route = routeTagged("runs");

const text = z.string().regex(/\S/, "must not be empty");
const startBody = z.looseObject({
  input: z
    .union([text, messages], "must be text, or a list of messages")
    .describe("A text, or a list of messages of which the last is the user's; pictures as `data:` URLs"),
  session_id: sessionId.nullish().describe("The session to use; default: a new one"),
  instructions: z.string().max(1_000_000).nullish().describe("Text for the system prompt of this run"),
  conversation_history: z
    .array(message.refine(({ content }) => content !== undefined && content !== null, "must have a role and content"))
    .max(10_000)
    .nullish()
    .describe("The earlier messages, for a new session"),
  previous_response_id: z.string().min(1).max(100).nullish().describe("The response to continue from"),
  model: z.string().max(200).nullish().describe("The model to use"),
  provider: z.string().max(50).nullish().describe("The provider of the model, if several are configured"),
  model_options: modelOptions.nullish().describe("Settings of the model call"),
  mode: z.enum(MODES).nullish().describe("What the run does to a session with a running turn"),
});
const approvalBody = z.looseObject({
  choice: z.unknown().optional().describe("One of `choices` of the approval: `once`, `session`, `always` or `deny`"),
  request_id: z.string().max(200).optional().describe("The approval or question; default: the oldest"),
  all: z.unknown().optional().describe("`true`: this choice for all open approvals"),
  resolve_all: z.unknown().optional().describe("Another name for `all`"),
  reason: z.string().max(10_000).optional().describe("With `deny`: the reason, for the model"),
  answer: z.string().max(100_000).optional().describe("The answer to a question"),
});
const steerBody = z.looseObject({
  input: z.string().optional().describe("The message"),
  message: z.string().optional().describe("Another name for `input`"),
  text: z.string().optional().describe("Another name for `input`"),
});

// ── What is answered ──────────────────────────────────────────────────────────────────────────────────

const usage = z.object({ input_tokens: z.number(), output_tokens: z.number(), total_tokens: z.number() });
const runStarted = z.looseObject({
  run_id: z.string(),
  status: z.literal("started"),
  replayed: z.boolean(),
  session_id: z.string(),
  mode: z.enum(["began", ...MODES]),
});
const runStatus = z.looseObject({
  object: z.literal("hermes.run"),
  run_id: z.string(),
  status: z.enum([
    "queued",
    "running",
    "waiting_for_approval",
    "stopping",
    "completed",
    "failed",
    "cancelled",
    "interrupted",
  ]),
  created_at: z.number(),
  updated_at: z.number(),
  session_id: z.string(),
  model: z.string(),
  last_event: z.string().nullable(),
  output: z.string().optional(),
  usage: usage.optional(),
  error: z.string().nullish(),
  finish_reason: z.string().optional(),
  joined: z.string().optional(),
  approval: z.looseObject({ request_id: z.string(), kind: z.string(), choices: z.array(z.string()) }).nullish(),
});
const runApproved = z.looseObject({ object: z.string(), run_id: z.string(), choice: z.string(), resolved: z.int() });
const runSteered = z.looseObject({ object: z.string(), run_id: z.string(), status: z.string(), input_id: z.string() });
const runStopping = z.looseObject({ run_id: z.string(), status: z.literal("stopping") });

const YES: Record<string, string> = { approve: "once", approved: "once", allow: "once" };
const CHOICES = [...SCOPES, "deny"];

export function runRoutes(api: Api): Route[] {
  const { runtime, settings } = api;
  const found = (id: string) => foundRun(runtime, id);

  async function asksOf(run: Run, calls: readonly (string | undefined)[]): Promise<Ask[]> {
    const entries = await runtime.turn(run.joined ?? run.id);
    return entries.flatMap((entry) => (entry.kind === "asked" && calls.includes(entry.call) ? [entry.ask] : []));
  }
  const asksInWords = async (run: Run, id: string | undefined) =>
    (await asksOf(run, [id ?? run.asking[0]])).some(({ kind }) => kind === "question");

  /** A yes that would not be kept as it was said is not taken at all. */
  async function checkOffered(run: Run, calls: readonly string[], choice: string): Promise<void> {
    const asks = (await asksOf(run, calls)).filter(({ kind }) => kind === "approval");
    const offered = asks.find(({ choices }) => !choices.includes(choice))?.choices;
    if (offered) throw wrongField("choice", `must be one of ${offered.join(", ")} here`, "invalid_approval_choice");
  }

  return [
    route("POST", "/v1/runs", {
      summary: "Start a run",
      body: startBody,
      example: { input: "What is in this directory?", session_id: "my-project" },
      starts: true,
      answers: { ...STARTS, 202: "Accepted and stored", 404: "No response has the id `previous_response_id`" },
      gives: runStarted,
      async handle({ body, headers }) {
        const said: Conversation =
          typeof body.input === "string"
            ? { text: body.input, images: [], history: [], instructions: "" }
            : readConversation(body.input, "input");
        const given = body.conversation_history ? toHistory(body.conversation_history, "conversation_history") : [];
        const history = [...given, ...said.history];
        const instructions = [body.instructions, said.instructions].filter(Boolean).join("\n\n");
        const model = modelOf(api, body.model, body.provider);
        const options = optionsOf(body.model_options ?? {});
        const previous = body.session_id ? null : body.previous_response_id;
        const receipt = await begin(api, headers, {
          ...(body.session_id && { session: body.session_id }),
          ...(previous && { previous }),
          same: body,
          text: said.text,
          mode: body.mode ?? settings.busyMode,
          ...(said.images.length && { images: said.images }),
          ...((history.length || body.conversation_history) && { history }),
          ...(instructions && { instructions }),
          ...(model && { model }),
          ...(options && { options }),
        });
        const { id, replayed, applied } = receipt;
        return {
          status: 202,
          body: { run_id: id, status: "started", replayed, session_id: receipt.session, mode: applied },
          headers: echo(headers, receipt),
        };
      },
    }),

    route("GET", "/v1/runs/:id", {
      summary: "Read the status of a run",
      answers: { 200: "The run with its status", 404: "No run has this id" },
      gives: runStatus,
      handle: async ({ params: { id = "" } }) => ok(await statusOf(api, await found(id))),
    }),

    route("GET", "/v1/runs/:id/events", {
      summary: "Stream the events of a run, from the beginning or after Last-Event-ID",
      events: RUN_EVENTS,
      query: { after: "Only events after this event id; the same as the header Last-Event-ID" },
      answers: {
        200: "Server-sent events",
        204: "The run has ended, and nothing follows this event id: do not reconnect",
        404: "No run has this id",
        410: "The event id does not belong to this run",
      },
      gives: "text/event-stream",
      headers: { "Last-Event-ID": "Go on behind this event" },
      async handle({ params: { id = "" }, query, headers, stream }) {
        const { session } = await found(id);
        const after = one(headers["last-event-id"]) ?? query.get("after") ?? "";
        // EventSource would come back for ever.
        if (await checkPlace(runtime, id, session, after)) return { status: 204 };
        await stream(async function* (signal) {
          for await (const { id: place, event } of watchRun(watchingOf(api, id, session), after, signal))
            yield { id: place, data: event };
        });
        return streamed;
      },
    }),

    route("POST", "/v1/runs/:id/approval", {
      summary: "Answer an approval or a question of a run",
      body: approvalBody,
      example: { choice: "once" },
      answers: {
        200: "Answered",
        400: "Not one of the choices",
        404: "No run has this id",
        409: "The run asks nothing",
      },
      gives: runApproved,
      async handle({ params: { id = "" }, body, headers }) {
        const run = await found(id);
        const given = typeof body.choice === "string" ? (YES[body.choice] ?? body.choice) : body.choice;
        // Words answer a question; they are no consent to anything.
        const words =
          body.choice === undefined && body.answer !== undefined && (await asksInWords(run, body.request_id));
        const choice = words ? "once" : CHOICES.find((one) => one === given);
        if (!choice) throw wrongField("choice", `must be one of ${CHOICES.join(", ")}`, "invalid_approval_choice");
        if (isOver(run))
          throw problem(409, "approval_not_active", "The run is over: nothing of it waits for an answer.");
        const all = body.all === true || body.resolve_all === true; // a text such as "false" is not a yes
        const waiting = body.request_id ? run.asking.filter((call) => call === body.request_id) : run.asking;
        const calls = all ? waiting : waiting.slice(0, 1);
        const allow = choice !== "deny";
        const scope = SCOPES.find((one) => one === choice) ?? "once";
        if (allow && !words) await checkOffered(run, calls, choice);
        const answer = words && body.answer ? body.answer : allow ? choice : body.reason || "The user said no.";
        const by = sessionKeyOf(headers) ?? "api";
        let resolved = 0;
        for (const call of calls)
          if (await runtime.answer({ session: run.session, call, allow, text: answer, scope, by })) resolved++;
        if (!resolved) throw problem(409, "approval_not_pending", "Nothing waits for an answer, or it has been given.");
        return ok({ object: "hermes.run.approval_response", run_id: id, choice, resolved });
      },
    }),

    route("POST", "/v1/runs/:id/steer", {
      summary: "Add a message to a running turn",
      body: steerBody,
      example: { input: "Use TypeScript, please." },
      answers: { 200: "Accepted", 400: "The text is missing", 404: "No run has this id", 409: "The run is not active" },
      gives: runSteered,
      async handle({ params: { id = "" }, body, headers }) {
        const run = await found(id);
        const said = [body.input, body.message, body.text].find((given) => given?.trim());
        if (!said) throw wrongField("input", "must be the text to steer with", "invalid_steer_input");
        const by = sessionKeyOf(headers);
        const receipt = await runtime.accept({
          session: run.session,
          source: "api",
          key: idempotencyKeyOf(headers) ?? api.newKey(),
          text: said,
          mode: "steer",
          reply: "pull",
          into: run.joined ?? id,
          same: body,
          ...(by && { by }),
        });
        const { replayed } = receipt;
        return ok(
          {
            object: "hermes.run.steer",
            run_id: id,
            status: "accepted",
            accepted: true,
            input_id: receipt.id,
            replayed,
          },
          replayed ? { "Idempotency-Replayed": "true" } : {},
        );
      },
    }),

    route("POST", "/v1/runs/:id/stop", {
      summary: "Stop a run with its model call, the processes of its tools and its child agents",
      answers: { 200: "The run is stopping", 404: "No run has this id, or it has ended" },
      gives: runStopping,
      async handle({ params: { id = "" } }) {
        const run = await found(id);
        const over = () => problem(404, "run_not_found", "The run is over: there is nothing to stop.");
        if (isOver(run)) throw over();
        const stopped = await runtime.stop({ session: run.session, turn: run.joined ?? id });
        if (stopped === "over") throw over();
        return ok({ run_id: id, status: "stopping" });
      },
    }),
  ];
}

async function statusOf(api: Api, run: Run & { session: string }): Promise<Record<string, unknown>> {
  const entries = await api.runtime.turn(run.joined ?? run.id);
  return {
    object: "hermes.run",
    run_id: run.id,
    status: run.status,
    created_at: run.createdAt / 1_000,
    updated_at: run.updatedAt / 1_000,
    session_id: run.session,
    model: shownModel(api, run.model),
    last_event: lastEventOf(entries),
    ...(run.joined && { joined: run.joined }),
    ...(run.status === "completed" && { output: run.output, usage: usageOf(run) }),
    ...(run.status === "completed" && cutShortBy(run)),
    ...(run.status === "failed" && { error: run.error }),
    ...(run.asking.length && { approval: askedIn(entries, run.asking) }),
  };
}

/** The oldest question, as `approval.request` tells it. */
function askedIn(entries: readonly Entry[], [oldest]: readonly string[]) {
  const asked = entries.find((entry) => entry.kind === "asked" && entry.call === oldest);
  if (asked?.kind !== "asked") return null;
  const { kind, text: description, choices, until, saves } = asked.ask;
  return {
    request_id: asked.call,
    kind,
    description,
    choices,
    ...(saves && { saves }),
    expires_at: until / 1_000,
  };
}
