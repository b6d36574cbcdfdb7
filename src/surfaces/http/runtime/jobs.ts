// /api/jobs: what the scheduler does and when, for `hermes cron` and for programs.

import * as z from "zod";
import type { Job, JobRefused, RunningJobs } from "../../../core/jobs.ts";
import { jobSession } from "../../../core/session-key.ts";
import { idempotencyKeyOf, sessionId } from "../runs/start.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("jobs");

const STATUS = { invalid: 400, unknown: 404, full: 409, busy: 409 };
const CODE = { invalid: "invalid_job", unknown: "job_not_found", full: "too_many_jobs", busy: "job_busy" };

const short = z.string().max(200).optional();
const body = z.strictObject({
  text: z.string().min(1).max(10_000).describe("The message that starts each turn"),
  name: short.describe("A name for lists"),
  cron: short.describe("A cron expression: `0 9 * * 1-5`"),
  at: short.describe("One time: `2026-11-20T09:00`"),
  in: short.describe("A delay: `20m`, `3h`, `2d`"),
  zone: short.describe("The time zone: `Europe/Berlin`; default: that of the server"),
  deliver_to: sessionId.nullish().describe("The chat session that gets the answers"),
  model: z.string().min(1).max(200).nullish().describe("The model to use"),
  unattended: z.enum(["deny", "allow"]).optional().describe("The answer to approvals; default: `approvals.unattended`"),
  catch_up: z.enum(["once", "skip"]).optional().describe("Whether times that were missed are made up for, once"),
});

export function jobRoutes(jobs: RunningJobs): Route[] {
  const change = (verb: "pause" | "resume", summary: string) =>
    route("POST", `/api/jobs/:id/${verb}`, {
      summary,
      answers: { 200: "The job", 400: "The time of the job has passed", 404: "No job has this id" },
      handle: async ({ params: { id = "" } }) => ok(shown(allowed(await jobs[verb](id)))),
    });

  return [
    route("GET", "/api/jobs", {
      summary: "List scheduled jobs, the next one first",
      answers: { 200: "The list" },
      handle: async () => list((await jobs.list()).map(shown)),
    }),
    route("POST", "/api/jobs", {
      summary: "Add a scheduled job; give one of `cron`, `at` and `in`",
      body,
      example: { text: "Summarise yesterday's commits.", cron: "0 9 * * 1-5" },
      answers: { 201: "The job", 400: "A field is wrong", 409: "There are too many jobs already" },
      async handle({ body: given, headers }) {
        const { deliver_to, model, catch_up: catchUp, ...wish } = given;
        const key = idempotencyKeyOf(headers);
        const job = await jobs.add({
          ...wish,
          catchUp,
          key: key && `api:${key}`,
          route: deliver_to ?? null,
          model: model ?? null,
          createdBy: "api",
        });
        return { status: 201, body: shown(allowed(job)) };
      },
    }),
    route("DELETE", "/api/jobs/:id", {
      summary: "Delete a job; a turn of it that is running continues",
      answers: { 200: "The deleted job", 404: "No job has this id" },
      handle: async ({ params: { id = "" } }) => ok({ ...shown(allowed(await jobs.remove(id))), deleted: true }),
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
        return { status: 202, body: { run_id: turn, status: "started", session_id: jobSession(id) } };
      },
    }),
  ];
}

function allowed<T extends object>(result: T | JobRefused): T {
  if ("refused" in result) throw problem(STATUS[result.refused], CODE[result.refused], result.why);
  return result;
}

const shown = ({ when, ...job }: Job) => ({
  id: job.id,
  object: "hermes.job",
  name: job.name,
  text: job.text,
  cron: "cron" in when ? when.cron : null,
  zone: "cron" in when ? when.zone : null,
  at: "at" in when ? when.at / 1_000 : null,
  deliver_to: job.route,
  session_id: jobSession(job.id),
  model: job.model,
  unattended: job.unattended,
  catch_up: job.catchUp,
  enabled: job.enabled,
  created_by: job.createdBy,
  created_at: job.createdAt / 1_000,
  last_slot: job.lastSlot === null ? null : job.lastSlot / 1_000,
  next_at: job.nextAt === null ? null : job.nextAt / 1_000,
});
