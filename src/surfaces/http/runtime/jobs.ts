// /api/jobs: what the scheduler does and when, for `hermes cron` and for programs.
import * as z from "zod";
import { type Job, type JobRefused, jobToJson, type RunningJobs, type When } from "../../../core/jobs.ts";
import { deliverOf, durationText, routeTo, wishedTime } from "../../../core/schedule-text.ts";
import { jobSession } from "../../../core/session-key.ts";
import { idempotencyKeyOf, sessionId } from "../runs/start.ts";
import { parse } from "../server/body.ts";
import { problem } from "../server/problem.ts";
import { ok, type Route, type RouteAnswer, routeTagged } from "../server/route.ts";

const route = routeTagged("jobs");

const STATUS = { invalid: 400, unknown: 404, full: 409, busy: 409 };
const CODE = { invalid: "invalid_job", unknown: "job_not_found", full: "too_many_jobs", busy: "job_busy" };

const short = z.string().max(200).optional();
const limit = z.number().min(0).max(1e12).optional();
const goalLimits = z
  .strictObject({ turns: limit, tokens: limit, cost: limit, seconds: limit })
  .transform((given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)));
const body = z.strictObject({
  text: z.string().min(1).max(10_000).optional().describe("The message that starts each turn; the goal itself"),
  name: short.describe("A name for lists"),
  cron: short.describe("A cron expression: `0 9 * * 1-5`"),
  at: short.describe("One time: `2026-11-20T09:00`"),
  in: short.describe("A delay: `20m`, `3h`, `2d`"),
  every: short.describe("An interval: `45m`, `3h`, `2d`"),
  session_id: sessionId.nullish().describe("The session in which the message is sent; default: one of the job's own"),
  heartbeat: z.boolean().optional().describe("The message is what `HEARTBEAT.md` says; only with `session_id`"),
  goal: goalLimits
    .optional()
    .describe(
      "Instead of a time: turns follow each other until the goal is reached, at most these; only with `session_id`",
    ),
  zone: short.describe("The time zone: `Europe/Berlin`; default: that of the server"),
  deliver_to: sessionId.nullish().describe("The chat session that gets the answers"),
  model: z.string().min(1).max(200).nullish().describe("The model to use"),
  unattended: z.enum(["deny", "allow"]).optional().describe("The answer to approvals; default: `approvals.unattended`"),
  catch_up: z.enum(["once", "skip"]).optional().describe("Whether times that were missed are made up for, once"),
});

/** As clients of Hermes ask for one. */
const hermesBody = z.looseObject({
  name: z.string().trim().min(1).max(200),
  schedule: z.string().trim().min(1).max(200),
  prompt: z.string().max(5_000).default(""),
  deliver: z.string().max(500).default("local"),
  skills: z.array(z.string().max(200)).max(20).default([]),
  model: z.string().min(1).max(200).nullish(),
});
const fieldsOfHermes = {
  schedule: short.describe("The time, as in Hermes: `30m`, `every 2h`, a cron expression or a time"),
  prompt: z.string().max(10_000).optional().describe("The message, as in Hermes"),
  deliver: z.string().max(500).optional().describe("The chat for the answers, as in Hermes: `telegram:999`"),
};
const editBody = z.looseObject({
  ...body.partial().shape,
  ...fieldsOfHermes,
  enabled: z.boolean().optional().describe("`false`: the job is paused"),
});
/** Either ours or theirs: which one is seen by its fields. */
const addBody = z.looseObject({
  ...body.partial().shape,
  ...fieldsOfHermes,
  skills: z.unknown().optional().describe("Names of skills to use, as in Hermes"),
});

/** As Hermes has them. */
const errors = z.looseObject({ error: z.string() });

export function jobRoutes(
  jobs: RunningJobs,
  homeChat: (platform: string) => string | undefined = () => undefined,
): Route[] {
  async function addInWordsOfHermes(given: unknown): Promise<RouteAnswer> {
    const read = hermesBody.safeParse(given);
    if (!read.success) {
      const [issue] = read.error.issues;
      return failed(400, `${issue?.path.join(".")}: ${issue?.message}`);
    }
    const { name, schedule, prompt, deliver, skills, model } = read.data;
    const when = wishedTime(schedule);
    const route = routeTo(deliver, homeChat);
    if (!when)
      return failed(400, `schedule: ${JSON.stringify(schedule)} is not a time such as 30m, every 2h or 0 9 * * *`);
    if (route === undefined) return failed(400, `deliver: ${JSON.stringify(deliver)} is not a chat`);
    const text = `${skills.length ? `Use these skills: ${skills.join(", ")}.\n\n` : ""}${prompt || name}`;
    const job = await jobs.add({ ...when, text, name, route, model: model ?? null, createdBy: "api" });
    return "refused" in job ? failed(STATUS[job.refused], job.why) : ok({ job: inWordsOfHermes(job) });
  }

  const change = (verb: "pause" | "resume", summary: string) =>
    route("POST", `/api/jobs/:id/${verb}`, {
      summary,
      answers: { 200: "The job", 400: "The time of the job has passed", 404: "No job has this id" },
      handle: async ({ params: { id = "" } }) => ok(both(allowed(await jobs[verb](id)))),
    });

  return [
    route("GET", "/api/jobs", {
      summary: "List scheduled jobs, the next one first",
      query: { include_disabled: "`true`: paused jobs are in `jobs` too" },
      answers: { 200: "The list: `data`, and `jobs` with the fields of Hermes" },
      async handle({ query }) {
        const all = await jobs.list();
        const shownToHermes = all.filter(({ enabled }) => enabled || query.get("include_disabled") === "true");
        const latest_execution = null;
        const theirs = shownToHermes.map((job) => ({ ...inWordsOfHermes(job), latest_execution }));
        return ok({ object: "list", data: all.map(jobToJson), jobs: theirs });
      },
    }),
    route("GET", "/api/jobs/:id", {
      summary: "Read a job",
      answers: { 200: "The job", 404: "No job has this id" },
      errors,
      async handle({ params: { id = "" } }) {
        const job = (await jobs.list()).find((one) => one.id === id);
        return job ? ok(both(job)) : failed(404, "Job not found");
      },
    }),
    route("PATCH", "/api/jobs/:id", {
      summary: "Change a job: text, name, time, chat or model; what is not given stays",
      body: editBody,
      example: { cron: "0 8 * * 1-5" },
      answers: { 200: "The job", 400: "A field is wrong", 404: "No job has this id" },
      errors,
      async handle({ params: { id = "" }, body: given }) {
        const { schedule, deliver, deliver_to, enabled, cron, at, in: wait, every } = given;
        const { name, zone, model, text = given.prompt } = given;
        const when = schedule === undefined ? { cron, at, in: wait, every } : wishedTime(schedule);
        const route = deliver === undefined ? deliver_to : routeTo(deliver, homeChat);
        if (!when) return failed(400, `schedule: ${JSON.stringify(schedule)} is not a time`);
        if (deliver !== undefined && route === undefined)
          return failed(400, `deliver: ${JSON.stringify(deliver)} is not a chat`);
        const change = Object.fromEntries(
          Object.entries({ ...when, text, name, zone, route, model }).filter(([, value]) => value !== undefined),
        );
        let job = await jobs.edit(id, change);
        if (!("refused" in job) && enabled !== undefined && enabled !== job.enabled)
          job = await jobs[enabled ? "resume" : "pause"](id);
        return ok(both(allowed(job)));
      },
    }),
    route("POST", "/api/jobs", {
      summary:
        "Add a job: give one of `cron`, `at`, `in`, `every` and `goal`, or `schedule` with the other fields of Hermes",
      body: addBody,
      example: { text: "Summarise yesterday's commits.", cron: "0 9 * * 1-5" },
      answers: {
        200: "The job, if it was added with the fields of Hermes",
        201: "The job",
        400: "A field is wrong",
        409: "There are too many jobs already",
      },
      errors,
      async handle({ body: wished, headers }) {
        if ("schedule" in wished || "prompt" in wished) return addInWordsOfHermes(wished);
        const given = parse(body, wished);
        const { deliver_to, model, catch_up: catchUp, session_id: session, text = "", ...wish } = given;
        const key = idempotencyKeyOf(headers);
        const job = await jobs.add({
          ...wish,
          text,
          session,
          catchUp,
          key: key && `api:${key}`,
          route: deliver_to ?? null,
          model: model ?? null,
          createdBy: "api",
        });
        return { status: 201, body: both(allowed(job)) };
      },
    }),
    route("DELETE", "/api/jobs/:id", {
      summary: "Delete a job; a turn of it that is running continues",
      answers: { 200: "The deleted job", 404: "No job has this id" },
      handle: async ({ params: { id = "" } }) =>
        ok({ ...jobToJson(allowed(await jobs.remove(id))), deleted: true, ok: true }),
    }),
    change("pause", "Pause a job"),
    change("resume", "Resume a paused job at its next time"),
    route("POST", "/api/jobs/:id/run", {
      summary: "Run a job now; watch it with GET /v1/runs/{id}/events",
      starts: true,
      answers: {
        202: "The run",
        404: "No job has this id",
        409: "One run of this job is active and another one waits",
        503: "The server is shutting down or restarting",
      },
      async handle({ params: { id = "" }, headers }) {
        const { turn } = allowed(await jobs.runNow(id, idempotencyKeyOf(headers)));
        const job = (await jobs.list()).find((one) => one.id === id);
        const begun = { run_id: turn, status: "started", session_id: job?.session ?? jobSession(id) };
        return { status: 202, body: { ...begun, ...(job && { job: inWordsOfHermes(job) }) } };
      },
    }),
  ];
}

function allowed<T extends object>(result: T | JobRefused): T {
  if ("refused" in result) throw problem(STATUS[result.refused], CODE[result.refused], result.why);
  return result;
}

const failed = (status: number, error: string): RouteAnswer => ({ status, body: { error } });

const both = (job: Job) => ({ ...jobToJson(job), job: inWordsOfHermes(job) });

const isoOrNull = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());

/** An interval that divides the hour or the day is a cron expression here. */
function scheduleOf(when: When): Record<string, unknown> & { display: string } {
  if ("every" in when)
    return { kind: "interval", minutes: when.every / 60_000, display: `every ${durationText(when.every)}` };
  if ("at" in when) {
    const at = new Date(when.at).toISOString();
    return { kind: "once", run_at: at, display: `once at ${at}` };
  }
  const [, minutes, hours] = /^(?:\*\/(\d+) \*|0 \*\/(\d+)) \* \* \*$/.exec(when.cron) ?? [];
  const every = minutes ? Number(minutes) : Number(hours ?? 0) * 60;
  if (every)
    return { kind: "interval", minutes: every, display: minutes ? `every ${every}m` : `every ${Number(hours)}h` };
  return { kind: "cron", expr: when.cron, display: when.cron };
}

/** What we do not have is as it is there by default. */
function inWordsOfHermes(job: Job): Record<string, unknown> {
  const schedule = scheduleOf(job.when);
  const nothing = `skill provider provider_snapshot model_snapshot base_url script monitor_script monitor_url monitor_state context_from
    paused_at paused_reason last_status last_error last_delivery_error origin enabled_toolsets workdir profile`;
  return {
    ...Object.fromEntries(nothing.split(/\s+/).map((name) => [name, null])),
    id: job.id,
    name: job.name,
    prompt: job.text,
    skills: [],
    model: job.model,
    no_agent: false,
    schedule,
    schedule_display: schedule.display,
    repeat: { times: "at" in job.when ? 1 : null, completed: 0 },
    enabled: job.enabled,
    state: job.enabled ? "scheduled" : "paused",
    created_at: isoOrNull(job.createdAt),
    next_run_at: isoOrNull(job.nextAt),
    last_run_at: isoOrNull(job.lastSlot),
    failure_streak: 0,
    deliver: deliverOf(job.route),
  };
}
