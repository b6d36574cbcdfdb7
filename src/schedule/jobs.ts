// Jobs as they are kept: one note each, `job/<id>`, so that they can be looked at and changed also while nothing runs them.

import { createHash, randomUUID } from "node:crypto";
import * as z from "zod";
import type { GoalLimits, Job, JobRefused, Jobs, Wish } from "../core/jobs.ts";
import { changeNote } from "../core/notes.ts";
import type { Ambient } from "../core/ports.ts";
import { setReplyRoute } from "../core/reply-route.ts";
import { durationText } from "../core/schedule-text.ts";
import { jobSession } from "../core/session-key.ts";
import type { Notes } from "../core/store.ts";
import { resumed } from "./goal.ts";
import { type JobContext, jobFrom, jobShape, refused } from "./job.ts";
import { nextSlot } from "./slots.ts";

export type JobsOptions = Ambient & {
  notes: Notes;
  /** What jobs that do not say it themselves have said to an approval. */
  unattended?: JobContext["unattended"];
  /** Of jobs that do not name theirs; not given: where this machine is. */
  zone?: string | undefined;
  /** Whether answers can be delivered to this session. */
  delivers?: JobContext["delivers"];
  /** Of goals that do not say theirs. */
  goalLimits?: GoalLimits;
};
/** For whoever runs them. */
export type KeptJobs = ReturnType<typeof openJobs>;
type JobUpdate = (id: string, make: (job: Job) => Job | JobRefused) => Promise<Job | JobRefused>;

const MOST_JOBS = 100;
/** That speak in one conversation. */
const MOST_BOUND = 10;

export function openJobs(options: JobsOptions) {
  const { notes, clock, log, zone, unattended = "deny", delivers = () => false, goalLimits = GOAL_LIMITS } = options;
  const context = (): JobContext => ({ now: clock.now(), unattended, delivers, goalLimits });
  let tail: Promise<unknown> = Promise.resolve();

  /** One after the other within this process. */
  function inLine<T>(work: () => Promise<T>): Promise<T> {
    const result = tail.then(work);
    tail = result.catch(() => {});
    return result;
  }

  function read(value: unknown): Job | null {
    if (value === undefined) return null;
    const { data, error } = jobShape.safeParse(value);
    // Left as it is: a newer version may have written it.
    if (error) log("error", "schedule.unreadable", { error: z.prettifyError(error) });
    return data ?? null;
  }

  const get = async (id: string) => read(await notes.get(nameOf(id)));
  /** Also those that are over. */
  const all = async () => (await notes.list(nameOf(""))).flatMap(({ value }) => read(value) ?? []);

  /** Makes a live job anew from what it is by then; `make` may be called again if another process changes it meanwhile. */
  const update: JobUpdate = async (id, make) => {
    let made: Job | JobRefused = unknown(id);
    await changeNote(notes, nameOf(id), (note) => {
      const job = read(note);
      made = job && isLive(job) ? make(job) : unknown(id);
      return "refused" in made ? note : made;
    });
    return made;
  };
  const change: JobUpdate = (id, make) => inLine(() => update(id, make));

  const jobs: Jobs = {
    add: (wish) =>
      inLine(async () => {
        const id = idOf(wish.key);
        const jobs = await all();
        const known = jobs.find((job) => job.id === id);
        if (known) return known;
        const job = jobFrom(id, { ...wish, zone: wish.zone ?? zone }, context());
        if ("refused" in job) return job;
        const live = jobs.filter((one) => isLive(one) && !one.goal?.reached);
        if (live.length >= MOST_JOBS) return refused("full", `There are ${MOST_JOBS} jobs already; remove one first.`);
        const here = live.filter(({ session }) => session !== null && session === job.session);
        if (here.length >= MOST_BOUND)
          return refused("full", `There are ${MOST_BOUND} jobs in this conversation already; remove one first.`);
        if (job.goal && here.some(({ goal }) => goal))
          return refused("full", "This conversation has a goal already; remove that one first.");
        for (const old of jobs)
          if (job.goal && old.goal?.reached && old.session === job.session) await notes.set(nameOf(old.id), undefined);
        const first = await notes.swap(nameOf(id), undefined, job);
        return first ? job : ((await get(id)) ?? job);
      }),
    list: async () => (await all()).filter(isLive).toSorted((a, b) => order(a) - order(b)),
    edit: (id, wish) =>
      change(id, (job) => {
        const { when, goal } = job;
        const timed = [wish.cron, wish.at, wish.in, wish.every].some((one) => one !== undefined);
        const made = jobFrom(
          id,
          {
            ...job,
            goal: goal?.limits,
            ...(timed ? { zone: "zone" in when ? when.zone : zone } : wishOf(when)),
            ...wish,
          },
          { ...context(), delivers: (session) => session === job.route || delivers(session) },
        );
        if ("refused" in made) return made;
        const { enabled, createdAt, lastSlot, nextAt } = job;
        const sameTime = !timed && ("every" in when || goal) ? { when, nextAt } : {};
        return { ...made, enabled, createdAt, lastSlot, goal, ...sameTime };
      }),
    remove: (id) => change(id, (job) => ({ ...job, enabled: false, nextAt: null })),
    pause: (id) => change(id, (job) => ({ ...job, enabled: false })),
    resume: (id) =>
      change(id, (job) => {
        if (job.enabled) return job;
        if (job.goal) return resumed(job, job.goal);
        const nextAt = nextSlot(job.when, clock.now());
        if (nextAt === null)
          return refused("invalid", "Its time has passed. Run it now, or remove it and add it anew.");
        return { ...job, enabled: true, nextAt };
      }),
  };
  return {
    ...jobs,
    get,
    all,
    update,
    inLine,
    delivers,
    /** From here on, whoever delivers finds to which chat its answers go. */
    async route({ id, route }: Job) {
      if (route !== null) await setReplyRoute(notes, jobSession(id), route);
    },
    async forget(id: string) {
      await setReplyRoute(notes, jobSession(id), null);
      await notes.set(nameOf(id), undefined);
    },
  };
}

const GOAL_LIMITS: GoalLimits = { turns: 20, tokens: 0, cost: 0, seconds: 0 };

function wishOf(when: Job["when"]): Pick<Wish, "cron" | "zone" | "at" | "every"> {
  if ("cron" in when) return when;
  return "at" in when ? { at: new Date(when.at).toISOString() } : { every: durationText(when.every) };
}

const nameOf = (id: string) => `job/${id}`;
const idOf = (key: string = randomUUID()) => createHash("sha256").update(key).digest("hex").slice(0, 12);
export const isLive = ({ nextAt }: Job): boolean => nextAt !== null;
const order = ({ enabled, nextAt }: Job) => (enabled ? (nextAt ?? 0) : Number.MAX_SAFE_INTEGER);
export const unknown = (id: string): JobRefused =>
  refused("unknown", `There is no job ${JSON.stringify(id.slice(0, 60))}.`);
