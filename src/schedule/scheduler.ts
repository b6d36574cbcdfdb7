// Begins a turn for every slot of every job that is due. The key of the input is the job and the slot, so that a slot is one
// turn by construction (I3): after a crash between the turn and the note of it, and when two processes see it at once.
import { randomUUID } from "node:crypto";
import { messageOf, Refusal, type RefusalCode } from "../core/errors.ts";
import type { Clock, Log, Notes } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Entry } from "../core/session.ts";
import { createAttend } from "./attend.ts";
import { type Job, jobFrom, jobIdOf, keepJobs, MOST_JOBS, type Refused, refused, type Wish } from "./jobs.ts";
import { latestSlot, nextSlot } from "./slots.ts";

type Options = {
  runtime: Pick<Runtime, "accept" | "answer" | "withdraw" | "status" | "idOf" | "whereabouts" | "draining">;
  notes: Notes;
  clock: Clock;
  log: Log;
  /** What jobs that do not say it themselves have said to an approval. */
  unattended?: Job["unattended"];
  /** Whether answers can be delivered to this session. */
  delivers?(session: string): boolean;
};
export type Scheduler = {
  start(): void;
  /** No slot begins after this. Turns that run go on, and their questions are still answered. */
  close(): Promise<void>;
  add(wish: Wish): Promise<Job | Refused>;
  /** What is next first. */
  list(): Promise<Job[]>;
  /** Its running turn goes on to its end; a slot that waits behind it is taken back. */
  remove(id: string): Promise<Job | Refused>;
  pause(id: string): Promise<Job | Refused>;
  /** From the next slot on: what was missed meanwhile stays missed. */
  resume(id: string): Promise<Job | Refused>;
  /** Besides its slots. `key`: the same one again is the same run. */
  runNow(id: string, key?: string): Promise<{ turn: string } | Refused>;
  delivers(session: string): boolean;
  observe(session: string, entries: readonly Entry[]): void;
};

const SOURCE = "schedule";
const PREFIX = "agent:main:schedule:";
/** A sleep does not notice that the clock was set or the machine was asleep. */
const LONGEST_MS = 60_000;
/** Later than this it is missed: we look every minute, and a start takes a while too. */
const ON_TIME_MS = 2 * LONGEST_MS;
const RETRY_MS = 5_000;
/** Slots that wait while an earlier one still works. */
const MOST_WAITING = 1;
const INSTRUCTIONS =
  "This message comes from a schedule. Nobody is there: do not ask, do what can be done. Your answer is delivered as it is.";

export function createScheduler(options: Options): Scheduler {
  const { runtime, notes, clock, log, unattended = "deny", delivers = () => false } = options;
  const kept = keepJobs(notes, log);
  const attend = createAttend({ runtime, policyOf: async (id) => (await kept.get(id))?.unattended, log, sessionOf });
  const leaving = new AbortController();
  let alarm = new AbortController();
  let working = Promise.resolve();
  let tail: Promise<unknown> = Promise.resolve();
  const wake = () => alarm.abort();

  /** One after the other: a job is read, changed and written by nobody else meanwhile. */
  function inLine<T>(work: () => Promise<T>): Promise<T> {
    const result = tail.then(work);
    tail = result.catch(() => {});
    return result;
  }

  async function work(): Promise<void> {
    await inLine(takeUp).catch((error: unknown) => log("warn", "schedule.untidy", { error: messageOf(error) }));
    while (!leaving.signal.aborted) {
      alarm = new AbortController();
      const wait = await inLine(advance);
      if (!leaving.signal.aborted) await clock.sleep(wait, alarm.signal);
    }
  }

  /** What a process before us left: questions that still wait, and jobs that are over. */
  async function takeUp(): Promise<void> {
    const jobs = await kept.list();
    for (const { id } of jobs) await attend.catchUp(id);
    const routes = (await notes.list(routeName(""))).map(({ key }) => key.slice(routeName("").length));
    for (const id of new Set([...jobs.map((job) => job.id), ...routes])) await tidy(id);
  }

  /** Begins what is due. Returns how long there is nothing else to do. */
  async function advance(): Promise<number> {
    try {
      let wait = LONGEST_MS;
      for (const job of await kept.list()) wait = Math.min(wait, await look(job));
      return Math.max(0, wait);
    } catch (error) {
      return later("all", error);
    }
  }

  async function look(job: Job): Promise<number> {
    if (leaving.signal.aborted || runtime.draining()) return LONGEST_MS;
    try {
      const nextAt = await take(job);
      return nextAt === null ? LONGEST_MS : nextAt - clock.now();
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
      if (next !== null && next < job.nextAt) await kept.put({ ...job, nextAt: next });
      return next;
    }
    const slot = latestSlot(job.when, now);
    let { lastSlot } = job;
    if (slot !== null && slot >= job.nextAt && (await runs(job, slot, now))) lastSlot = slot;
    await kept.put({ ...job, lastSlot, nextAt: next });
    if (next === null) await tidy(job.id);
    return next;
  }

  async function runs(job: Job, slot: number, now: number): Promise<boolean> {
    const about = { job: job.id, name: job.name, slot: new Date(slot).toISOString() };
    if (job.catchUp === "skip" && now - slot > ON_TIME_MS) {
      log("info", "schedule.missed", about);
      return false;
    }
    const begun = await begin(job, slotKey(job.id, slot));
    if ("why" in begun) log("warn", "schedule.skipped", { ...about, why: begun.why });
    else if (!begun.again) log("info", "schedule.began", { ...about, turn: begun.turn });
    return "turn" in begun;
  }

  async function begin(job: Job, key: string): Promise<{ turn: string; again: boolean } | { why: string }> {
    const session = sessionOf(job.id);
    const turn = runtime.idOf(SOURCE, key);
    if (await runtime.whereabouts(turn)) return { turn, again: true }; // before a crash, or before the clock was set back
    const status = await runtime.status(session);
    if (status.turn && status.inbox.length >= MOST_WAITING)
      return { why: "An earlier run still works, and another one waits already." };
    try {
      await runtime.accept({
        session,
        source: SOURCE,
        key,
        text: job.text,
        mode: "queue",
        reply: job.route === null ? "pull" : "push",
        instructions: INSTRUCTIONS,
        ...(job.model !== null && { model: job.model }),
      });
      return { turn, again: false };
    } catch (error) {
      if (!(error instanceof Refusal) || PASSING.has(error.code)) throw error;
      return { why: error.message };
    }
  }

  /** Forgets a job that is over, once nothing of it is at work: its turn still needs to know where its answer goes. */
  async function tidy(id: string): Promise<void> {
    const job = await kept.get(id);
    if (job && job.nextAt !== null) return;
    const { turn, inbox } = await runtime.status(sessionOf(id));
    if (turn || inbox.length) return;
    await notes.set(routeName(id), undefined);
    if (job) await kept.drop(id);
  }

  const changing = (id: string, change: (job: Job) => Promise<Job | Refused> | Job | Refused) =>
    inLine(async () => {
      const job = await kept.get(id);
      if (!job || job.nextAt === null) return unknown(id);
      const changed = await change(job);
      if (!("refused" in changed)) await kept.put(changed);
      wake();
      return changed;
    });

  return {
    start() {
      working = work();
    },
    async close() {
      leaving.abort();
      wake();
      await working;
      await tail;
    },
    add: (wish) =>
      inLine(async () => {
        const id = jobIdOf(wish.key);
        const jobs = await kept.list();
        const known = jobs.find((job) => job.id === id);
        if (known) return known;
        const job = jobFrom(id, wish, { now: clock.now(), unattended, delivers });
        if ("refused" in job) return job;
        if (jobs.filter(isLive).length >= MOST_JOBS)
          return refused("full", `There are ${MOST_JOBS} jobs already; remove one first.`);
        if (job.route !== null) await notes.set(routeName(id), { to: job.route });
        await kept.put(job);
        wake();
        return job;
      }),
    list: async () => (await kept.list()).filter(isLive).toSorted((a, b) => order(a) - order(b)),
    remove: async (id) => {
      const removed = await changing(id, (job) => ({ ...job, enabled: false, nextAt: null }));
      if ("refused" in removed) return removed;
      if (removed.lastSlot !== null)
        await runtime.withdraw(sessionOf(id), runtime.idOf(SOURCE, slotKey(id, removed.lastSlot)));
      await inLine(() => tidy(id));
      return removed;
    },
    pause: (id) => changing(id, (job) => ({ ...job, enabled: false })),
    resume: (id) =>
      changing(id, (job) => {
        if (job.enabled) return job;
        const nextAt = nextSlot(job.when, clock.now());
        return nextAt === null
          ? refused("invalid", "Its time has passed. Run it now, or remove it and add it anew.")
          : { ...job, enabled: true, nextAt };
      }),
    runNow: (id, key = randomUUID()) =>
      inLine(async () => {
        const job = await kept.get(id);
        if (!job || job.nextAt === null) return unknown(id);
        const begun = await begin(job, `${id}@run/${key}`);
        return "why" in begun ? refused("busy", begun.why) : { turn: begun.turn };
      }),
    delivers,
    observe(session, entries) {
      const id = session.startsWith(PREFIX) ? session.slice(PREFIX.length) : "";
      if (!id || id.includes("/")) return; // whoever made a child answers for it
      attend.observe(id, entries);
      if (!entries.some(({ kind }) => kind === "ended" || kind === "withdrawn")) return;
      inLine(() => tidy(id)).catch((error: unknown) =>
        log("debug", "schedule.untidy", { job: id, error: messageOf(error) }),
      ); // at the next start
    },
  };
}

/** The store's or our own: what was refused then can be accepted later. */
const PASSING: ReadonlySet<RefusalCode> = new Set([
  "store_unavailable",
  "rate_limit_exceeded",
  "draining",
  "not_owner",
  "closed",
]);

const sessionOf = (id: string) => `${PREFIX}${id}`;
/** Where whoever delivers looks up to which chat the answers of a session go. */
const routeName = (id: string) => `route/${sessionOf(id)}`;
const slotKey = (id: string, slot: number) => `${id}@${new Date(slot).toISOString()}`;
const isLive = ({ nextAt }: Job) => nextAt !== null;
const order = ({ enabled, nextAt }: Job) => (enabled ? (nextAt ?? 0) : Number.MAX_SAFE_INTEGER);
const unknown = (id: string) => refused("unknown", `There is no job ${JSON.stringify(id.slice(0, 60))}.`);
