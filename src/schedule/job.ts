// What a job is, and how a request becomes a job or is refused.
import * as z from "zod";
import type { Goal, GoalLimits, Job, JobRefused, When, Wish } from "../core/jobs.ts";
import { durationOf } from "../core/schedule-text.ts";
import { attempt } from "../platform/attempt.ts";
import { instantOf, nextSlot, patternOf, wallIn } from "./slots.ts";

const limits = z.object({ turns: z.number(), tokens: z.number(), cost: z.number(), seconds: z.number() });
const goalShape: z.ZodType<Goal> = z.object({
  limits,
  used: limits,
  step: z.number(),
  counted: z.number(),
  reached: z.boolean(),
  why: z.string(),
});
export const jobShape: z.ZodType<Job> = z.object({
  id: z.string(),
  name: z.string(),
  text: z.string(),
  when: z.union([
    z.object({ cron: z.string(), zone: z.string() }),
    z.object({ at: z.number() }),
    z.object({ every: z.number(), from: z.number() }),
  ]),
  session: z.string().nullable().default(null),
  heartbeat: z.boolean().default(false),
  goal: goalShape.nullable().default(null),
  route: z.string().nullable(),
  model: z.string().nullable(),
  unattended: z.enum(["deny", "allow"]).nullable(),
  catchUp: z.enum(["once", "skip"]),
  enabled: z.boolean(),
  createdBy: z.string(),
  createdAt: z.number(),
  lastSlot: z.number().nullable(),
  nextAt: z.number().nullable(),
});
/** Values that do not come from the request. */
export type JobContext = {
  now: number;
  unattended: Job["unattended"];
  goalLimits: GoalLimits;
  delivers(session: string): boolean;
};

const LONGEST_TEXT = 10_000;
const LONGEST_NAME = 100;
const TITLE = 60;
const HEARTBEAT = "Heartbeat";
const NOTHING: GoalLimits = { turns: 0, tokens: 0, cost: 0, seconds: 0 };

export const refused = (kind: JobRefused["refused"], why: string): JobRefused => ({ refused: kind, why });

export function jobFrom(id: string, wish: Wish, context: JobContext): Job | JobRefused {
  const { now, unattended, delivers, goalLimits } = context;
  const { route = null, session = null, heartbeat = false, createdBy } = wish;
  const text = wish.text.trim() || (heartbeat ? HEARTBEAT : "");
  if (!text) return refused("invalid", "There is no text: say what is to be done.");
  if (text.length > LONGEST_TEXT)
    return refused("invalid", `The text has ${text.length} characters; at most ${LONGEST_TEXT} fit.`);
  if (route !== null && !delivers(route))
    return refused(
      "invalid",
      `Nothing can be delivered to ${JSON.stringify(route)}: it is not a chat of this gateway.`,
    );
  if (session === null && (wish.goal || heartbeat))
    return refused("invalid", "A goal and a heartbeat belong to a conversation: name its session.");
  if (session !== null && route !== null)
    return refused("invalid", "Answers of a job that speaks in a conversation go nowhere else.");
  const when = wish.goal ? { at: now } : whenOf(wish, now);
  if ("refused" in when) return when;
  // A loop begins at once.
  const nextAt = wish.goal || ("every" in when && session !== null && !heartbeat) ? now : nextSlot(when, now);
  if (nextAt === null) return refused("invalid", `It would never run: ${lateOrNever(when)}.`);
  return {
    id,
    name: oneLine(wish.name ?? "", LONGEST_NAME) || oneLine(text, TITLE),
    text,
    when,
    session,
    heartbeat,
    goal: wish.goal ? newGoal({ ...goalLimits, ...wish.goal }) : null,
    route,
    model: wish.model ?? null,
    unattended: wish.unattended ?? (session === null ? unattended : null),
    catchUp: wish.catchUp ?? "once",
    enabled: true,
    createdBy,
    createdAt: now,
    lastSlot: null,
    nextAt,
  };
}

const newGoal = (limits: GoalLimits): Goal => ({
  limits,
  used: NOTHING,
  step: 0,
  counted: 0,
  reached: false,
  why: "",
});

function whenOf({ cron, at, in: wait, every: interval, zone = localZone() }: Wish, now: number): When | JobRefused {
  if ([cron, at, wait, interval].filter((one) => one !== undefined).length !== 1)
    return refused("invalid", "Say when with exactly one of cron, at, in and every.");
  if (!isZone(zone))
    return refused("invalid", `${JSON.stringify(zone)} is not a time zone. Use a name like Europe/Berlin.`);
  if (wait !== undefined) return fromNow(wait, now);
  if (interval !== undefined) return eachTime(interval, now);
  return at === undefined ? every(cron ?? "", zone) : once(at, zone);
}

function every(cron: string, zone: string): When | JobRefused {
  try {
    patternOf({ cron, zone });
    return { cron, zone };
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^CronPattern: /, "").replace(/\.$/, "") : "";
    const need = "Use five parts: minute, hour, day, month, weekday, as in 0 9 * * 1-5";
    return refused("invalid", `${JSON.stringify(cron)} is not a cron expression: ${why}. ${need}.`);
  }
}

/** ISO 8601, also as programs write it: `2026-11-20T08:00:00.000Z`. */
const MOMENT = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$/;

function once(moment: string, zone: string): When | JobRefused {
  const [whole, date = "", time = "", seconds = ":00", part = "", offset = zone] =
    MOMENT.exec(moment.trim().toUpperCase()) ?? [];
  if (!whole) return refused("invalid", `${JSON.stringify(moment)} is not a time. Write it as 2026-11-20T09:00.`);
  const there = offset === "Z" ? "UTC" : offset.replace(/^([+-]\d\d)(\d\d)$/, "$1:$2");
  const at = instantOf(date, time, seconds, there);
  if (at === null) return refused("invalid", `There is no ${date} ${time} in ${there}. Choose another time.`);
  return { at: at + Number(part.slice(1, 4).padEnd(3, "0")) };
}

function fromNow(wait: string, now: number): When | JobRefused {
  const ms = durationOf(wait);
  if (!ms) return refused("invalid", `${JSON.stringify(wait)} is not a time to wait. Write it as 20m, 3h or 2d.`);
  return { at: now + ms };
}

function eachTime(interval: string, now: number): When | JobRefused {
  const every = durationOf(interval);
  return every
    ? { every, from: now }
    : refused("invalid", `${JSON.stringify(interval)} is not an interval. Write it as 20m, 3h or 2d.`);
}

const lateOrNever = (when: When) =>
  "cron" in when
    ? `no day has a time like ${JSON.stringify(when.cron)} in ${when.zone}`
    : `${new Date("at" in when ? when.at : when.from).toISOString()} has passed`;

const localZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

const isZone = (zone: string): boolean => zone !== "" && attempt(() => wallIn(zone)) !== undefined;

function oneLine(text: string, longest: number): string {
  const line = text.trim().replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, " ");
  return line.length > longest ? `${line.slice(0, longest - 1)}…` : line;
}
