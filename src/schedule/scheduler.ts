// Begins a turn for every slot of every job that is due. The key of the input is the job and the slot, so that a slot is one
// turn by construction (I3): after a crash between the turn and the note of it, and when two processes see it at once. Likewise for the
// steps of a goal (goals.ts).

import { randomUUID } from "node:crypto";
import { lastEntries } from "../conversation/commands/shown.ts";
import { messageOf, Refusal, type RefusalCode } from "../core/errors.ts";
import type { Job, RunningJobs } from "../core/jobs.ts";
import type { Runtime } from "../core/runtime.ts";
import { type Entry, HEARTBEAT_SOURCE, type Unattended } from "../core/session.ts";
import { jobSession, parseKey } from "../core/session-key.ts";
import { logFailure } from "../platform/log-failure.ts";
import { stepKey } from "./goal.ts";
import { type Begun, createGoals, type GoalOptions } from "./goals.ts";
import { refused } from "./job.ts";
import { isLive, type JobsOptions, openJobs, unknown } from "./jobs.ts";
import { latestSlot, nextSlot } from "./slots.ts";

type Options = JobsOptions &
  Pick<GoalOptions, "costOf"> & {
    runtime: GoalOptions["runtime"] &
      Pick<Runtime, "accept" | "withdraw" | "status" | "draining" | "paused" | "summary" | "entries">;
    /** The sessions that this process works in. Jobs of others wait for a process that does. */
    mine?(session: string): boolean;
    /** How approvals are decided in that conversation, if nobody can be asked there. */
    unattendedIn?(session: string): Unattended | undefined;
    /** Those of the inputs whose sender may not talk there any more. */
    barred?(session: string, inputs: readonly string[]): Promise<readonly string[]>;
    /** What HEARTBEAT.md says now; empty: there is none. */
    standingText?(): Promise<string>;
    /** At least so often all jobs are looked at. */
    longestMs?: number;
  };
export type Scheduler = ReturnType<typeof createScheduler>;

const SOURCE = "schedule";
/** A sleep does not notice that the clock was set or the machine was asleep. */
const LONGEST_MS = 60_000;
/** Later than this it is missed: we look every minute, and a start takes a while too. */
const ON_TIME_MS = 2 * LONGEST_MS;
const RETRY_MS = 5_000;
/** Slots that wait while an earlier one still works. */
const MOST_WAITING = 1;
const INSTRUCTIONS =
  "This message comes from a schedule. Nobody is there: do not ask, do what can be done. Your answer is delivered as it is.";
const LOOP = "This message comes by itself, again and again, as a person in this conversation has asked for.";
const HEARTBEAT =
  "This message comes by itself, as a person in this conversation has asked for: look whether something is to be done. Do not repeat " +
  "what was done before. If nothing needs attention, answer HEARTBEAT_OK and nothing else: such an answer is not delivered.";
/** Entries that are looked through for the last message of a conversation. */
const LAST = 200;

export function createScheduler(options: Options) {
  const { runtime, clock, log, mine = () => true, unattendedIn = () => undefined, longestMs = LONGEST_MS } = options;
  const jobs = openJobs(options);
  const goals = createGoals({ ...options, jobs, say, leaving: () => leaving.signal.aborted || runtime.draining() });
  let leaving = new AbortController();
  let alarm = new AbortController();
  let working = Promise.resolve();
  let began = 0;

  async function work(): Promise<void> {
    await jobs.inLine(takeUp).catch(logFailure(log, "warn", "schedule.untidy"));
    while (!leaving.signal.aborted) {
      alarm = new AbortController();
      const wait = await jobs.inLine(advance);
      if (!leaving.signal.aborted) await clock.sleep(wait, alarm.signal);
    }
  }

  /** Jobs that were over when a process before us ended. */
  async function takeUp(): Promise<void> {
    for (const { id } of await jobs.all()) await tidy(id);
  }

  /** Begins what is due. Returns how long there is nothing else to do. */
  async function advance(): Promise<number> {
    try {
      if (await runtime.paused()) return longestMs; // what is due then is begun after it, once
      let wait = longestMs;
      for (const job of await jobs.all()) wait = Math.min(wait, await look(job));
      return Math.max(0, wait);
    } catch (error) {
      return later("all", error);
    }
  }

  async function look(job: Job): Promise<number> {
    if (leaving.signal.aborted || runtime.draining() || !mine(sessionOf(job))) return longestMs;
    try {
      if (job.goal) {
        await goals.advance(job);
        return longestMs;
      }
      const nextAt = await take(job);
      return nextAt === null ? longestMs : nextAt - clock.now();
    } catch (error) {
      return later(job.id, error);
    }
  }

  /** Nothing is lost: it is still due. */
  function later(job: string, error: unknown): number {
    log("warn", "schedule.delayed", { job, error: messageOf(error) });
    if (error instanceof Refusal && (error.code === "not_owner" || error.code === "closed")) leaving.abort();
    return RETRY_MS;
  }

  /** Begins the slot that is due, if one is. Returns when the next one is. */
  async function take(job: Job): Promise<number | null> {
    if (!job.enabled || job.nextAt === null) return null;
    const now = clock.now();
    const next = nextSlot(job.when, now);
    if (job.nextAt > now) {
      // Sooner than was noted: the clock has been set back. What has run already is known by its key.
      if (next !== null && next < job.nextAt) await jobs.update(job.id, (now) => ({ ...now, nextAt: next }));
      return next;
    }
    const slot = latestSlot(job.when, now);
    const ran = slot !== null && slot >= job.nextAt && (await runs(job, slot, now));
    await jobs.update(job.id, (now) => ({ ...now, nextAt: next, ...(ran && { lastSlot: slot }) }));
    if (next === null) await tidy(job.id);
    return next;
  }

  /** False: it was passed over. */
  async function runs(job: Job, slot: number, now: number): Promise<boolean> {
    const about = { job: job.id, name: job.name, slot: new Date(slot).toISOString() };
    const key = slotKey(job.id, slot);
    if (await begunAs(job, key)) return true;
    if (job.catchUp === "skip" && now - slot > ON_TIME_MS) {
      log("info", "schedule.missed", about);
      return false;
    }
    const begun = await begin(job, key);
    if ("why" in begun) log("warn", "schedule.skipped", { ...about, why: begun.why });
    else {
      began++;
      log("info", "schedule.began", { ...about, turn: begun.turn });
    }
    return "turn" in begun;
  }

  /** What was accepted already: before a crash, or before the clock was set back. */
  async function begunAs(job: Job, key: string): Promise<{ turn: string } | null> {
    const turn = runtime.idOf(sourceOf(job), key);
    return (await runtime.whereabouts(turn)) && { turn };
  }

  async function begin(job: Job, key: string): Promise<Begun> {
    if (await isBehind(job)) return { why: "An earlier run still works, and another one waits already." };
    const { heartbeat, session, text } = job;
    const standing = heartbeat ? await options.standingText?.() : "";
    const instructions = heartbeat ? HEARTBEAT : session === null ? INSTRUCTIONS : LOOP;
    return say(job, key, [text, standing].filter(Boolean).join("\n\n"), instructions);
  }

  /** In a conversation one at a time; in a session of its own, one more may wait. */
  async function isBehind(job: Job): Promise<boolean> {
    if (job.session === null) {
      const { turn, inbox } = await runtime.status(jobSession(job.id));
      return turn !== null && inbox.length >= MOST_WAITING;
    }
    const last = job.lastSlot === null ? null : await runtime.whereabouts(slotTurn(job, job.lastSlot));
    return last?.at === "queued" || last?.at === "taken";
  }

  async function say(job: Job, key: string, text: string, instructions: string): Promise<Begun> {
    const session = sessionOf(job);
    const before = job.session === null ? null : lastTurn(job);
    if (before && (await options.barred?.(session, [before]))?.length)
      return { why: "Whoever asked for this may not talk here any more." };
    await jobs.route(job);
    const { model = job.model, options: chosen } = (job.session !== null && (await lastInput(session))) || {};
    const unattended = job.unattended ?? unattendedIn(session);
    const delivered = job.session === null ? job.route !== null : jobs.delivers(session);
    const by = job.session !== null && parseKey(session).of === "chat" && job.createdBy;
    try {
      const { id: turn } = await runtime.accept({
        session,
        source: sourceOf(job),
        key,
        text,
        mode: "queue",
        reply: delivered ? "push" : "pull",
        instructions,
        same: key,
        ...(by && { by }),
        ...(unattended && { unattended }),
        ...(model !== null && { model }),
        ...(chosen?.effort && { options: { effort: chosen.effort } }),
      });
      return { turn };
    } catch (error) {
      if (!(error instanceof Refusal) || PASSING.has(error.code)) throw error;
      return { why: error.message };
    }
  }

  /** What a person has chosen for the conversation is in its last message. */
  async function lastInput(session: string) {
    const last = (await lastEntries(runtime, session, LAST)).findLast(({ kind }) => kind === "accepted");
    return last?.kind === "accepted" ? last.input : null;
  }

  function lastTurn(job: Job): string | null {
    if (job.goal) return job.goal.counted ? runtime.idOf(SOURCE, stepKey(job, job.goal.counted)) : null;
    return job.lastSlot === null ? null : slotTurn(job, job.lastSlot);
  }

  const slotTurn = (job: Job, slot: number) => runtime.idOf(sourceOf(job), slotKey(job.id, slot));

  /** Forgets a job that is over, once nothing of it is at work: its turn must still know what it may and where it answers. */
  async function tidy(id: string): Promise<void> {
    const job = await jobs.get(id);
    if (!job || isLive(job)) return;
    if (job.session !== null) return jobs.forget(id);
    const { turn, inbox } = await runtime.status(jobSession(id));
    if (!turn && !inbox.length) await jobs.forget(id);
  }

  async function changed<T>(change: Promise<T>): Promise<T> {
    const result = await change;
    alarm.abort();
    return result;
  }

  const running: RunningJobs = {
    list: jobs.list,
    delivers: jobs.delivers,
    add(wish) {
      if (wish.goal && wish.session) goals.watch(wish.session);
      return changed(jobs.add(wish));
    },
    edit: (id, wish) => changed(jobs.edit(id, wish)),
    pause: (id) => changed(jobs.pause(id)),
    resume: (id) => changed(jobs.resume(id)),
    /** Lets a running turn go on to its end, and takes back a slot that waits behind it. */
    async remove(id) {
      const removed = await jobs.remove(id);
      if ("refused" in removed) return removed;
      const { lastSlot } = removed;
      if (lastSlot !== null) await runtime.withdraw(sessionOf(removed), slotTurn(removed, lastSlot));
      if (removed.goal) await goals.halt(removed);
      await jobs.inLine(() => tidy(id));
      return removed;
    },
    runNow: (id, name = randomUUID()) =>
      jobs.inLine(async () => {
        const job = await jobs.get(id);
        if (!job || !isLive(job)) return unknown(id);
        if (job.goal) return refused("invalid", "A goal goes on by itself. Resume it, if it is paused.");
        const key = `${id}@run/${name}`;
        const begun = (await begunAs(job, key)) ?? (await begin(job, key));
        return "why" in begun ? refused("busy", begun.why) : begun;
      }),
  };
  return {
    ...running,
    /** Also again, after `close`. */
    start() {
      leaving = new AbortController();
      working = work();
    },
    /** Begins what is due now, once. Returns how many turns that began. */
    async tick() {
      const before = began;
      await jobs.inLine(advance);
      return began - before;
    },
    /** No slot begins after this. Turns that run go on. */
    async close() {
      leaving.abort();
      alarm.abort();
      await working;
    },
    /** A person stops what runs in that session: its goal is paused, and nothing of it begins after this. */
    stopGoal: goals.stop,
    observe(session: string, entries: readonly Entry[]): void {
      goals.observe(entries);
      const key = parseKey(session);
      if (key.of !== "job") return; // also not a child's
      const { id } = key;
      if (!entries.some(({ kind }) => kind === "ended" || kind === "withdrawn")) return;
      jobs
        .inLine(() => tidy(id))
        // The next start does it.
        .catch(logFailure(log, "debug", "schedule.untidy", { job: id }));
    },
  };
}

const sessionOf = ({ id, session }: Job) => session ?? jobSession(id);
const sourceOf = ({ heartbeat }: Job) => (heartbeat ? HEARTBEAT_SOURCE : SOURCE);
const slotKey = (id: string, slot: number) => `${id}@${new Date(slot).toISOString()}`;

/** What is refused for these reasons can be accepted later. */
const PASSING: ReadonlySet<RefusalCode> = new Set([
  "store_unavailable",
  "rate_limit_exceeded",
  "draining",
  "not_owner",
  "closed",
]);
