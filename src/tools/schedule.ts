// The agent's way to have something done later, or again and again. A conversation sees and changes the jobs that were made
// in it, the terminal all of them, and a scheduled turn only its own, which it may end but never multiply.

import * as z from "zod";
import type { Job, RunningJobs } from "../core/jobs.ts";
import type { Clock, Gate, Tool, ToolCall, ToolResult } from "../core/ports.ts";
import { timeText } from "../core/schedule-text.ts";
import { firstGeneration, isTerminal, jobSession, parseKey, rootOf } from "../core/session-key.ts";
import { defineTool, failed, ok } from "./define.ts";

const words = (most: number, least?: number) =>
  (least === undefined ? z.string() : z.string().min(least)).max(most).optional();
const args = z
  .strictObject({
    action: z.enum(["add", "list", "remove", "pause", "resume", "run"]),
    id: words(64, 1).describe("Which job; needed for all but add and list."),
    text: words(10_000, 1).describe("For add: what is to be done then. Whoever does it sees nothing of this talk."),
    name: words(100),
    cron: words(200).describe(
      "For add, again and again: minute, hour, day, month, weekday; 0 9 * * 1-5 is 9:00 on workdays.",
    ),
    at: words(40).describe("For add, once: the time there, as 2026-11-20T09:00."),
    in: words(20).describe("For add, once: so long from now, as 20m, 3h or 2d."),
    every: words(20).describe("For add, again and again: so long after each other, as 45m, 3h or 2d."),
    zone: words(64).describe("Time zone of cron and at, as Europe/Berlin; not given: this machine's."),
    deliver: z
      .enum(["here", "nowhere"])
      .optional()
      .describe("Whether the answers come to this chat; not given: here, if this is a chat."),
    missed: z
      .enum(["once", "skip"])
      .optional()
      .describe("After a time in which nothing could run: what was missed runs once (not given), or not at all."),
  })
  .refine(({ action, text }) => action !== "add" || text, "text is missing: say what is to be done")
  .refine(({ action, id }) => ["add", "list"].includes(action) || id, "id is missing: take one from the action list");
type Args = z.output<typeof args>;

type Options = {
  /** The scheduler works with the engine, which is made with its tools; so it is asked for when it is there. */
  jobs(): RunningJobs;
  clock: Clock;
  /** Of what a new job is to do; without it nobody is asked. */
  judge?: (text: string, session: string) => Promise<Gate>;
};

export function createSchedule({ jobs, clock, judge }: Options): Tool {
  async function add(given: Args, { session, turn, call }: ToolCall): Promise<ToolResult> {
    const { text = "", name, cron, at, in: wait, every, zone, deliver, missed } = given;
    const talk = talkOf(session);
    const here = jobs().delivers(talk);
    if (deliver === "here" && !here) return failed("Not added: this is not a chat that answers can be delivered to.");
    const job = await jobs().add({
      text,
      name,
      cron,
      at,
      in: wait,
      every,
      zone,
      catchUp: missed,
      route: here && deliver !== "nowhere" ? talk : null,
      createdBy: talk,
      key: `${turn}.${call}`, // run again after a crash, it is the same job
    });
    return "refused" in job ? failed(`Not added: ${job.why}`) : ok(`Added.\n${line(job)}`);
  }

  async function list(session: string): Promise<ToolResult> {
    const mine = (await jobs().list()).filter((job) => isOf(session, job));
    const now = `It is ${timeIn(localZone(), clock.now())}.`;
    return ok(mine.length ? `${now}\n${mine.map(line).join("\n")}` : `${now} There are no jobs.`);
  }

  async function change(action: JobChange, id: string, { session, turn, call }: ToolCall): Promise<ToolResult> {
    const mine = (await jobs().list()).some((job) => job.id === id && isOf(session, job));
    if (!mine) return failed(`There is no job ${id} in this conversation. The action list shows them.`);
    const done = action === "run" ? await jobs().runNow(id, `${turn}.${call}`) : await jobs()[action](id);
    return "refused" in done ? failed(done.why) : ok(DONE[action]);
  }

  return defineTool({
    name: "schedule",
    description:
      "Have something done later or again and again, in turns of their own: add, list, remove, pause, resume, run (now, " +
      "besides its times). Nobody can be asked in such a turn. Jobs run while the gateway runs, at most once a minute.",
    args,
    repeatable: true,
    judge: ({ action, text = "" }, session) => {
      if (parseKey(rootOf(session)).of === "job" && ["add", "resume", "run"].includes(action))
        return {
          gate: "refuse",
          result: "Not run: a scheduled turn makes no jobs and starts none. It can end its own.",
        };
      return action === "add" && judge ? judge(text, session) : { gate: "run" };
    },
    run(given, call) {
      const { action, id = "" } = given;
      if (action === "add") return add(given, call);
      return action === "list" ? list(call.session) : change(action, id, call);
    },
  });
}

type JobChange = Exclude<Args["action"], "add" | "list">;
const DONE: Record<JobChange, string> = {
  remove: "Removed. A turn of it that runs goes on to its end.",
  pause: "Paused.",
  resume: "It runs again from its next time on.",
  run: "Started; its answer goes where its answers go.",
};

/** The conversation: children belong to it, and so does what was said before it was begun anew. */
const talkOf = (session: string) => firstGeneration(rootOf(session));

function isOf(session: string, { id, createdBy, session: bound }: Job): boolean {
  const talk = talkOf(session);
  return talk === createdBy || talk === firstGeneration(bound ?? jobSession(id)) || isTerminal(talk);
}

function line(job: Job): string {
  const { id, name, when, session, route, enabled, lastSlot, nextAt } = job;
  const zone = "cron" in when ? when.zone : localZone();
  const next = enabled && nextAt !== null ? `next ${timeIn(zone, nextAt)}` : "paused";
  const last = lastSlot === null ? "" : `, last ${timeIn(zone, lastSlot)}`;
  const what = "cron" in when ? when.cron : timeText(job);
  const where = session !== null ? "in this conversation" : route === null ? "not delivered" : "delivered to the chat";
  return `${id}: ${name} (${what}; ${next}${last}; ${where})`;
}

const localZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

const timeIn = (zone: string, at: number): string =>
  `${new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" }).format(at)} ${zone}`;
