// The scheduler over the real engine: each slot that is due is one turn, whatever the clocks, the crashes and the chats do.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StoreFault } from "../../src/core/errors.ts";
import type { Job, Wish } from "../../src/core/jobs.ts";
import type { Clock, Gate, Model } from "../../src/core/ports.ts";
import type { Store } from "../../src/core/store.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { openJobs } from "../../src/schedule/jobs.ts";
import { createScheduler, type Scheduler } from "../../src/schedule/scheduler.ts";
import { latestSlot, nextSlot } from "../../src/schedule/slots.ts";
import { asStore, createMemoryStore, type MemoryStore } from "../fakes/memory-store.ts";
import {
  type BootOptions,
  bootEngine,
  calm,
  handClock,
  scriptedChannel,
  scriptedModel,
  scriptedTool,
} from "../fakes/scripted.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const CHAT = "agent:main:telegram:dm:999";

const at = (iso: string) => Date.parse(iso);
const iso = (time: number) => new Date(time).toISOString();

/** A clock that stands at this time until the test lets it go on. */
function clockAt(time: string) {
  const clock = handClock();
  clock.set(at(time) - clock.now());
  return clock;
}

type WorldOptions = Pick<BootOptions, "disk" | "between" | "model" | "tools" | "channel" | "made"> & {
  clock?: ReturnType<typeof handClock>;
  /** The scheduler's, if not the engine's. */
  own?: Clock;
  start?: boolean;
};

/** One process with a scheduler. */
async function world({
  clock = clockAt("2026-01-05T08:00:00Z"),
  own = clock,
  start = true,
  ...boot
}: WorldOptions = {}) {
  const logs: { event: string; fields: Record<string, unknown> }[] = [];
  let scheduler: Scheduler | null = null;
  const observe: BootOptions["observe"] = (session, entries) => scheduler?.observe(session, entries);
  const desk = scriptedModel();
  // A turn may take as long as the test likes.
  const booted = await bootEngine({ model: desk, staleMs: 365 * DAY, ...boot, clock, observe });
  const made = createScheduler({
    runtime: booted.engine,
    notes: booted.engine.notes,
    clock: own,
    log: (_level, event, fields = {}) => logs.push({ event, fields }),
    delivers: (session) => session === CHAT,
  });
  scheduler = made;
  if (start) made.start();
  await calm();
  return {
    ...booted,
    desk,
    clock,
    scheduler: made,
    events: (name: string) => logs.filter(({ event }) => event === name).map(({ fields }) => fields),
    async add(wish: Partial<Wish> = {}): Promise<Job> {
      const job = await made.add({ text: "do it", zone: "UTC", createdBy: "test", ...wish });
      if ("refused" in job) throw new Error(job.why);
      return job;
    },
    /** Lets the turn that runs come to its end. */
    async answer(text = "done") {
      (await desk.next()).answer(text);
      await calm();
    },
  };
}

/** Answers at once, so that turns come to their end by themselves. */
const prompt: Model = {
  name: "prompt",
  context: 1_000_000,
  local: false,
  call: async (_request, hear) => {
    hear.text("done");
    return { end: "answer", calls: [], usage: { input: 1, output: 1 } };
  },
};

const sessionOf = ({ id }: Pick<Job, "id">) => `agent:main:schedule:${id}`;

/** The inputs of a job in the order in which they came. */
const inputsOf = (disk: MemoryStore, job: Pick<Job, "id">) =>
  disk.journal.entries(sessionOf(job), 0, 1e6).flatMap((entry) => (entry.kind === "accepted" ? [entry.input] : []));

/** The slots that became turns, by their keys; one for which there are two turns is there twice. */
function slotsRun(engine: Engine, disk: MemoryStore, job: Pick<Job, "id">, candidates: readonly number[]): string[] {
  const slots = new Map(candidates.map((slot) => [engine.idOf("schedule", `${job.id}@${iso(slot)}`), iso(slot)]));
  return inputsOf(disk, job).map(({ id }) => slots.get(id) ?? `an input of another key: ${id}`);
}

function slotsBetween(when: { cron: string; zone: string }, after: string | number, upTo: string | number): number[] {
  const [from, end] = [after, upTo].map((time) => (typeof time === "string" ? at(time) : time)) as [number, number];
  const found: number[] = [];
  for (let slot = nextSlot(when, from); slot !== null && slot <= end; slot = nextSlot(when, slot)) found.push(slot);
  return found;
}

describe("the slots of a cron expression", () => {
  const berlin = (cron: string, after: string, upTo: string) =>
    slotsBetween({ cron, zone: "Europe/Berlin" }, after, upTo).map(iso);
  const newYork = (cron: string, after: string, upTo: string) =>
    slotsBetween({ cron, zone: "America/New_York" }, after, upTo).map(iso);

  it("are times on the wall of its zone, in summer and in winter", () => {
    expect(berlin("0 9 * * *", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z")).toEqual([
      "2026-03-28T08:00:00.000Z",
      "2026-03-29T07:00:00.000Z",
      "2026-03-30T07:00:00.000Z",
    ]);
  });

  it.each([
    ["Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", ["2026-03-30T00:30:00.000Z"]],
    ["Europe/Berlin", "0 2 * * *", "2026-03-28T12:00:00Z", ["2026-03-30T00:00:00.000Z"]],
    [
      "Europe/Berlin",
      "15,45 2 * * *",
      "2026-03-28T12:00:00Z",
      ["2026-03-30T00:15:00.000Z", "2026-03-30T00:45:00.000Z"],
    ],
    ["America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", ["2026-03-09T06:30:00.000Z"]],
  ])("are not there where the clocks leap over them: %s %s", (zone, cron, after, expected) => {
    expect(slotsBetween({ cron, zone }, after, at(after) + 2 * DAY).map(iso)).toEqual(expected);
  });

  it("go on after the leap with the first that is there", () => {
    expect(berlin("0 * * * *", "2026-03-28T23:30:00Z", "2026-03-29T02:00:00Z")).toEqual([
      "2026-03-29T00:00:00.000Z",
      "2026-03-29T01:00:00.000Z",
      "2026-03-29T02:00:00.000Z",
    ]);
    expect(berlin("0 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z")).toEqual(["2026-03-29T01:00:00.000Z"]);
  });

  it("that the clocks show twice count the first time", () => {
    expect(berlin("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z")).toEqual([
      "2026-10-25T00:30:00.000Z",
      "2026-10-26T01:30:00.000Z",
    ]);
    expect(berlin("15,45 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z")).toEqual([
      "2026-10-25T00:15:00.000Z",
      "2026-10-25T00:45:00.000Z",
    ]);
    expect(newYork("30 1 * * *", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z")).toEqual([
      "2026-11-01T05:30:00.000Z",
      "2026-11-02T06:30:00.000Z",
    ]);
    expect(newYork("*/30 0-2 * * *", "2026-10-31T12:00:00Z", "2026-11-01T12:00:00Z")).toEqual([
      "2026-11-01T04:00:00.000Z",
      "2026-11-01T04:30:00.000Z",
      "2026-11-01T05:00:00.000Z",
      "2026-11-01T05:30:00.000Z",
      "2026-11-01T07:00:00.000Z",
      "2026-11-01T07:30:00.000Z",
    ]);
  });

  it("on a leap day come every four years", () => {
    const leapDay = { cron: "0 12 29 2 *", zone: "Europe/Berlin" };
    expect(iso(nextSlot(leapDay, at("2026-01-01T00:00:00Z")) ?? 0)).toBe("2028-02-29T11:00:00.000Z");
    expect(iso(nextSlot(leapDay, at("2028-02-29T11:00:00Z")) ?? 0)).toBe("2032-02-29T11:00:00.000Z");
    expect(iso(latestSlot(leapDay, at("2031-12-31T00:00:00Z")) ?? 0)).toBe("2028-02-29T11:00:00.000Z");
  });

  it("are the same forwards and backwards, and those of whoever looks at the wall minute by minute", () => {
    const times = fc.record({
      zone: fc.constantFrom("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC"),
      minutes: fc.uniqueArray(fc.integer({ min: 0, max: 59 }), { minLength: 1, maxLength: 4 }),
      hours: fc.uniqueArray(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 5 }),
      from: fc.constantFrom(
        "2026-03-08T00:00:00Z", // New York leaps
        "2026-03-28T20:00:00Z", // Berlin leaps
        "2026-04-04T12:00:00Z", // Lord Howe goes back by half an hour
        "2026-04-23T20:00:00Z", // Cairo leaps at midnight
        "2026-10-24T20:00:00Z", // Berlin goes back
        "2026-10-29T19:00:00Z", // Cairo goes back at midnight
        "2026-11-01T02:00:00Z", // New York goes back
      ),
    });
    fc.assert(
      fc.property(times, ({ zone, minutes, hours, from }) => {
        const when = { cron: `${minutes.join(",")} ${hours.join(",")} * * *`, zone };
        const [begin, end] = [at(from), at(from) + 12 * HOUR];
        const found = slotsBetween(when, begin, end);
        expect(found.map(iso)).toEqual(lookAtTheWall({ zone, minutes, hours }, begin, end).map(iso));
        for (let time = begin; time <= end; time += 7 * MINUTE + 13_500) {
          const last = found.findLast((slot) => slot <= time);
          if (last !== undefined) expect(latestSlot(when, time)).toBe(last);
        }
      }),
      { numRuns: 60 },
    );
  });

  /** What a person with a notebook would do: each minute, note the time that is shown, if it is wanted and not noted yet. */
  function lookAtTheWall(
    { zone, minutes, hours }: { zone: string; minutes: number[]; hours: number[] },
    after: number,
    upTo: number,
  ): number[] {
    const wall = new Intl.DateTimeFormat("en-GB", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
    const noted = new Set<string>();
    const found: number[] = [];
    for (let time = after - 3 * HOUR; time <= upTo; time += MINUTE) {
      const shown = wall.format(time);
      const [hour, minute] = shown.slice(-5).split(":").map(Number) as [number, number];
      if (!hours.includes(hour) || !minutes.includes(minute) || noted.has(shown)) continue;
      noted.add(shown);
      if (time > after) found.push(time);
    }
    return found;
  }
});

describe("a wish", () => {
  it.each<[string, Partial<Wish>, RegExp]>([
    ["without a time", {}, /exactly one of cron, at, in and every/],
    ["with two times", { cron: "0 9 * * *", in: "5m" }, /exactly one of cron, at, in and every/],
    ["without a text", { text: "  ", in: "5m" }, /no text/],
    ["with too long a text", { text: "x".repeat(10_001), in: "5m" }, /10001 characters; at most 10000/],
    ["more often than once a minute", { cron: "*/10 * * * * *" }, /"\*\/10 \* \* \* \* \*" is not a cron expression/],
    ["at a minute that is none", { cron: "61 9 * * *" }, /Invalid value for minute: 61.*minute, hour, day/],
    ["with a date for an expression", { cron: "2026-05-01T00:00:00" }, /is not a cron expression/],
    ["on the 30th of February", { cron: "0 9 30 2 *" }, /would never run/],
    ["in an hour that is always leapt over", { cron: "30 2 * 3 SUN#L", zone: "Europe/Berlin" }, /would never run/],
    ["in a zone that is none", { cron: "0 9 * * *", zone: "Mars/Olympus" }, /"Mars\/Olympus" is not a time zone/],
    ["once, in the past", { at: "2026-01-05T07:59" }, /2026-01-05T07:59:00.000Z has passed/],
    ["once, at a time that is none", { at: "tomorrow" }, /"tomorrow" is not a time/],
    ["once, on the 31st of June", { at: "2026-06-31T10:00" }, /There is no 2026-06-31 10:00 in UTC/],
    ["once, where the clocks leap", { at: "2026-03-29T02:30", zone: "Europe/Berlin" }, /There is no 2026-03-29 02:30/],
    ["after a wait that is none", { in: "5 parsecs" }, /"5 parsecs" is not a time to wait/],
    ["for a chat that nobody serves", { in: "5m", route: "agent:main:irc:dm:1" }, /Nothing can be delivered/],
  ])("%s is refused with what to do, and nothing is kept", async (_, wish, why) => {
    const { scheduler } = await world();
    const answer = await scheduler.add({ text: "do it", zone: "UTC", createdBy: "test", ...wish });
    expect(answer).toEqual({ refused: "invalid", why: expect.stringMatching(why) as string });
    expect(await scheduler.list()).toEqual([]);
    await scheduler.close();
  });

  it.each([
    ["2026-05-01T09:00", "2026-05-01T07:00:00.000Z"],
    ["2026-05-01 09:00:30", "2026-05-01T07:00:30.000Z"],
    ["2026-05-01T09:00Z", "2026-05-01T09:00:00.000Z"],
    ["2026-05-01T09:00-03:30", "2026-05-01T12:30:00.000Z"],
    ["2026-10-25T02:30", "2026-10-25T00:30:00.000Z"],
    ["2026-05-01T09:00:30.250Z", "2026-05-01T09:00:30.250Z"],
    ["2026-05-01T09:00:30.5", "2026-05-01T07:00:30.500Z"],
    ["2026-05-01T09:00:30.123456+02:00", "2026-05-01T07:00:30.123Z"],
    ["2026-05-01T09:00:00+0200", "2026-05-01T07:00:00.000Z"],
    ["2026-05-01t09:00:00z", "2026-05-01T09:00:00.000Z"],
  ])("for %s in Berlin is for %s", async (time, instant) => {
    const { add, scheduler } = await world();
    const { nextAt } = await add({ at: time, zone: "Europe/Berlin" });
    expect(iso(nextAt ?? 0)).toBe(instant);
    await scheduler.close();
  });

  it("is a job that says all of itself, and is kept through a restart", async () => {
    const first = await world();
    const job = await first.add({ text: "Look at\nthe news", cron: "0 9 * * 1-5", route: CHAT, model: "big" });
    first.kill();
    const { scheduler } = await world({ disk: first.disk, clock: first.clock });
    expect(await scheduler.list()).toEqual([job]);
    expect(job).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{12}$/) as string,
      name: "Look at the news",
      text: "Look at\nthe news",
      when: { cron: "0 9 * * 1-5", zone: "UTC" },
      session: null,
      heartbeat: false,
      goal: null,
      route: CHAT,
      model: "big",
      unattended: "deny",
      catchUp: "once",
      enabled: true,
      createdBy: "test",
      createdAt: at("2026-01-05T08:00:00Z"),
      lastSlot: null,
      nextAt: at("2026-01-05T09:00:00Z"),
    });
    await scheduler.close();
  });

  it("under a key that was used before is the job that it made then", async () => {
    const { add, scheduler } = await world();
    const job = await add({ in: "1h", key: "k" });
    expect(await add({ in: "2h", key: "k" })).toEqual(job);
    expect(await scheduler.list()).toHaveLength(1);
    await scheduler.close();
  });

  it("is refused when there are a hundred jobs", async () => {
    const { add, scheduler } = await world();
    const jobs = await Promise.all(Array.from({ length: 100 }, () => add({ cron: "0 9 * * *" })));
    const more = await scheduler.add({ text: "x", in: "1h", createdBy: "test" });
    expect(more).toMatchObject({ refused: "full", why: expect.stringMatching(/remove one first/) as string });
    await scheduler.remove(jobs[0]?.id ?? "");
    expect(await scheduler.add({ text: "x", in: "1h", createdBy: "test" })).toMatchObject({ enabled: true });
    await scheduler.close();
  });

  it("that a newer version has written is left alone", async () => {
    const disk = createMemoryStore();
    disk.notes.set("job/new", { id: "new", when: { moon: "full" } });
    const { scheduler, events } = await world({ disk });
    expect(await scheduler.list()).toEqual([]);
    expect(events("schedule.unreadable").length).toBeGreaterThan(0);
    await scheduler.close();
    expect(disk.notes.get("job/new")).toEqual({ id: "new", when: { moon: "full" } });
  });
});

describe("a slot that is due", () => {
  it("begins a turn in the job's own session, once, under the key of the slot", async () => {
    const { add, clock, disk, engine, desk, answer, scheduler } = await world();
    const job = await add({ cron: "30 8 * * *", model: "big", text: "Look at the news" });
    await clock.pass(30 * MINUTE - 1);
    expect(inputsOf(disk, job)).toEqual([]);
    await clock.pass(1);
    const id = engine.idOf("schedule", `${job.id}@2026-01-05T08:30:00.000Z`);
    expect(inputsOf(disk, job)).toMatchObject([
      { id, text: "Look at the news", mode: "queue", reply: "pull", model: "big" },
    ]);
    expect(desk.all[0]?.request.system).toMatch(/Nobody is there/);
    await answer();
    await clock.pass(12 * HOUR);
    expect(inputsOf(disk, job)).toHaveLength(1);
    expect(await scheduler.list()).toMatchObject([
      { lastSlot: at("2026-01-05T08:30:00Z"), nextAt: at("2026-01-06T08:30:00Z") },
    ]);
    await scheduler.close();
  });

  it("is answered to the chat of its job, which is noted before the turn begins", async () => {
    const channel = scriptedChannel();
    const { add, clock, disk, engine, answer, scheduler } = await world({ channel });
    const job = await add({ cron: "*/10 * * * *", route: CHAT });
    expect(disk.notes.get(`route/${sessionOf(job)}`)).toBeUndefined();
    await clock.pass(10 * MINUTE);
    expect(inputsOf(disk, job)).toMatchObject([{ reply: "push" }]);
    expect(disk.notes.get(`route/${sessionOf(job)}`)).toEqual({ to: CHAT });
    await answer("Nothing new.");
    const { reply, sent } = await channel.next();
    expect(reply).toMatchObject({ session: sessionOf(job), text: "Nothing new." });
    sent();
    await calm();
    expect((await engine.status(sessionOf(job))).turn).toBeNull();
    await scheduler.close();
  });

  it("is not late where the job was added while the scheduler slept", async () => {
    const clock = clockAt("2026-01-05T08:00:20Z");
    const { add, disk, scheduler } = await world({ clock });
    await clock.pass(10 * SECOND);
    const job = await add({ cron: "* * * * *" });
    await clock.pass(30 * SECOND);
    expect(inputsOf(disk, job)).toHaveLength(1);
    await scheduler.close();
  });

  it("is not due before the job was made", async () => {
    const { add, clock, disk, scheduler } = await world({ clock: clockAt("2026-01-05T08:30:00Z") });
    const job = await add({ cron: "30 8 * * *" });
    await clock.pass(HOUR);
    expect(inputsOf(disk, job)).toEqual([]);
    await scheduler.close();
  });

  it("of a job that runs through the night when the clocks go back runs once", async () => {
    const clock = clockAt("2026-10-24T12:00:00Z");
    const { add, disk, engine, scheduler } = await world({ clock, model: prompt });
    const job = await add({ cron: "30 2 * * *", zone: "Europe/Berlin" });
    await clock.pass(2 * DAY);
    const slots = ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"];
    const both = [...slots, "2026-10-25T01:30:00.000Z"].map(at);
    expect(slotsRun(engine, disk, job, both)).toEqual(slots);
    await scheduler.close();
  });

  it("waits while the store is in trouble, and is not lost", async () => {
    let broken = false;
    const between = (store: Store): Store => ({
      ...store,
      journal: {
        ...store.journal,
        commit: (change) => (broken ? Promise.reject(new StoreFault("no", "disk full")) : store.journal.commit(change)),
      },
    });
    const { add, clock, disk, events, scheduler } = await world({
      between,
      model: prompt,
    });
    const job = await add({ cron: "30 8 * * *" });
    broken = true;
    await clock.pass(31 * MINUTE);
    expect(inputsOf(disk, job)).toEqual([]);
    expect(events("schedule.delayed").length).toBeGreaterThan(1);
    broken = false;
    await clock.pass(10 * SECOND);
    expect(inputsOf(disk, job)).toHaveLength(1);
    await scheduler.close();
  });

  it("does not begin during a drain, and is caught up after the restart", async () => {
    const first = await world();
    const working = await first.add({ cron: "*/10 8 * * *" });
    const job = await first.add({ cron: "30 8 * * *" });
    await first.clock.pass(10 * MINUTE);
    const drained = first.engine.drain(HOUR);
    await first.clock.pass(35 * MINUTE);
    expect([inputsOf(first.disk, job).length, inputsOf(first.disk, working).length]).toEqual([0, 1]);
    await first.answer();
    await drained;
    await first.scheduler.close();
    const { disk, scheduler, engine } = await world({ disk: first.disk, clock: first.clock, model: prompt });
    expect(slotsRun(engine, disk, job, [at("2026-01-05T08:30:00Z")])).toEqual(["2026-01-05T08:30:00.000Z"]);
    expect(inputsOf(disk, working)).toHaveLength(2);
    await scheduler.close();
  });

  it("waits behind a run that still works; more than one that waits are passed over with a line in the log", async () => {
    const { add, clock, disk, engine, answer, events, scheduler } = await world();
    const job = await add({ cron: "*/10 * * * *" });
    await clock.pass(40 * MINUTE);
    const slots = slotsBetween({ cron: "*/10 * * * *", zone: "UTC" }, "2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z");
    const ran = () => slotsRun(engine, disk, job, slots).map((slot) => slot.slice(11, 16));
    expect(ran()).toEqual(["08:10", "08:20"]);
    expect(events("schedule.skipped")).toMatchObject([
      { job: job.id, slot: "2026-01-05T08:30:00.000Z", why: expect.stringMatching(/another one waits/) as string },
      { slot: "2026-01-05T08:40:00.000Z" },
    ]);
    await answer();
    await clock.pass(10 * MINUTE);
    expect(ran()).toEqual(["08:10", "08:20", "08:50"]);
    expect(await scheduler.list()).toMatchObject([{ lastSlot: at("2026-01-05T08:50:00Z") }]);
    await scheduler.close();
  });
});

describe("slots that were missed", () => {
  /** A process that is killed at 8:10, and its successor so much later. */
  async function outage(wish: Partial<Wish>, ms: number) {
    const first = await world({ model: prompt });
    const job = await first.add(wish);
    await first.clock.pass(10 * MINUTE);
    first.kill();
    first.clock.set(ms);
    const next = await world({ disk: first.disk, clock: first.clock, model: prompt });
    const soon = Math.floor(first.clock.now() / MINUTE) + 60;
    const candidates = Array.from({ length: 24 * 60 }, (_, minute) => (soon - minute) * MINUTE);
    return {
      ...next,
      job,
      ran: () => slotsRun(next.engine, next.disk, job, candidates).map((slot) => slot.slice(5, 16)),
    };
  }

  it("run once, as the last of them, and then as ever", async () => {
    const { ran, clock, scheduler } = await outage({ cron: "0 * * * *" }, 5 * HOUR + 20 * MINUTE);
    expect(ran()).toEqual(["01-05T13:00"]);
    await clock.pass(HOUR);
    expect(ran()).toEqual(["01-05T13:00", "01-05T14:00"]);
    await scheduler.close();
  });

  it("are found at once, also after a year of minutes", async () => {
    const { ran, clock, scheduler } = await outage({ cron: "* * * * *" }, 365 * DAY); // to leaf through it takes a minute
    expect(ran().slice(10)).toEqual([iso(clock.now()).slice(5, 16)]);
    await scheduler.close();
  });

  it("do not run where the job says so", async () => {
    const { ran, clock, events, scheduler, job } = await outage({ cron: "0 * * * *", catchUp: "skip" }, 5 * HOUR);
    expect(ran()).toEqual([]);
    expect(events("schedule.missed")).toMatchObject([{ job: job.id, slot: "2026-01-05T13:00:00.000Z" }]);
    await clock.pass(HOUR);
    expect(ran()).toEqual(["01-05T14:00"]);
    await scheduler.close();
  });

  it("are not yet missed after the minute that a restart takes", async () => {
    const { ran, scheduler } = await outage({ cron: "0 9 * * *", catchUp: "skip" }, 51 * MINUTE);
    expect(ran()).toEqual(["01-05T09:00"]);
    await scheduler.close();
  });

  it("run late if they were to run once only, or are dropped where the job says so", async () => {
    const late = await outage({ at: "2026-01-05T09:00" }, 5 * HOUR);
    expect(late.ran()).toEqual(["01-05T09:00"]);
    const dropped = await outage({ at: "2026-01-05T09:00", catchUp: "skip" }, 5 * HOUR);
    expect(dropped.ran()).toEqual([]);
    for (const { scheduler, disk } of [late, dropped]) {
      expect(await scheduler.list()).toEqual([]);
      await scheduler.close();
      expect(disk.notes.list("job/")).toEqual([]);
    }
  });
});

describe("the clock", () => {
  it("is looked at every minute at least", async () => {
    const clock = clockAt("2026-01-05T08:00:00Z");
    const sleeps: number[] = [];
    const own: Clock = {
      now: clock.now,
      monotonic: clock.monotonic,
      sleep: (ms, signal) => {
        sleeps.push(ms);
        return clock.sleep(ms, signal);
      },
    };
    const { add, scheduler } = await world({ clock, own });
    await add({ at: "2027-01-05T09:00" });
    await clock.pass(10 * MINUTE);
    expect(sleeps.length).toBeGreaterThan(9);
    expect(Math.max(...sleeps)).toBe(MINUTE);
    await scheduler.close();
  });

  it("may jump, by hand or while the machine sleeps: what is due runs within a minute, once", async () => {
    const { add, clock, disk, engine, scheduler } = await world({ model: prompt });
    const job = await add({ cron: "0 * * * *" });
    await clock.pass(MINUTE);
    clock.set(8 * HOUR);
    await clock.pass(MINUTE);
    expect(slotsRun(engine, disk, job, [at("2026-01-05T16:00:00Z")])).toEqual(["2026-01-05T16:00:00.000Z"]);
    await scheduler.close();
  });

  it("may be set back: nothing runs twice, and the job goes on by the new time", async () => {
    const { add, clock, disk, engine, scheduler } = await world({ model: prompt });
    const job = await add({ cron: "*/10 * * * *" });
    await clock.pass(30 * MINUTE);
    clock.set(-25 * MINUTE);
    await clock.pass(45 * MINUTE);
    const slots = slotsBetween({ cron: "*/10 * * * *", zone: "UTC" }, "2026-01-05T08:00:00Z", "2026-01-05T08:50:00Z");
    expect(slotsRun(engine, disk, job, slots)).toEqual(slots.map(iso));
    await scheduler.close();
  });

  it("that was years ahead for a while does not keep a job waiting for years", async () => {
    const { add, clock, disk, scheduler } = await world({ model: prompt });
    const job = await add({ cron: "0 9 * * *" });
    clock.set(4 * 365 * DAY);
    await clock.pass(MINUTE);
    expect(inputsOf(disk, job)).toHaveLength(1);
    clock.set(-4 * 365 * DAY);
    await clock.pass(HOUR);
    expect(inputsOf(disk, job)).toHaveLength(2);
    await scheduler.close();
  });
});

describe("a job that runs once", () => {
  it("is gone from the list when its turn is accepted, and from the notes when that has ended", async () => {
    const channel = scriptedChannel();
    const { add, clock, disk, answer, scheduler } = await world({ channel });
    const job = await add({ in: "20m", route: CHAT });
    await clock.pass(20 * MINUTE);
    expect(inputsOf(disk, job)).toHaveLength(1);
    expect(await scheduler.list()).toEqual([]);
    expect(disk.notes.get(`route/${sessionOf(job)}`)).toEqual({ to: CHAT });
    await answer();
    (await channel.next()).sent();
    await calm();
    expect([...disk.notes.list("job/"), ...disk.notes.list("route/")]).toEqual([]);
    await clock.pass(DAY);
    expect(inputsOf(disk, job)).toHaveLength(1);
    await scheduler.close();
  });

  it("is forgotten at the next start where the process died before that", async () => {
    const first = await world();
    const job = await first.add({ in: "20m" });
    await first.clock.pass(20 * MINUTE);
    expect(inputsOf(first.disk, job)).toHaveLength(1);
    first.kill();
    const { disk, scheduler, desk } = await world({ disk: first.disk, clock: first.clock });
    expect(disk.notes.list("job/")).toHaveLength(1);
    (await desk.next()).answer("done");
    await calm();
    expect(disk.notes.list("job/")).toEqual([]);
    expect(inputsOf(disk, job)).toHaveLength(1);
    await scheduler.close();
  });
});

describe("a person", () => {
  it("can pause a job and resume it: what was missed meanwhile stays missed", async () => {
    const { add, clock, disk, scheduler } = await world({ model: prompt });
    const job = await add({ cron: "0 * * * *" });
    expect(await scheduler.pause(job.id)).toMatchObject({ enabled: false });
    await clock.pass(5 * HOUR + 30 * MINUTE);
    expect(inputsOf(disk, job)).toEqual([]);
    expect(await scheduler.resume(job.id)).toMatchObject({ enabled: true, nextAt: at("2026-01-05T14:00:00Z") });
    await clock.pass(10 * MINUTE);
    expect(inputsOf(disk, job)).toEqual([]);
    await clock.pass(20 * MINUTE);
    expect(inputsOf(disk, job)).toHaveLength(1);
    await scheduler.close();
  });

  it("cannot resume what was to run once and has not", async () => {
    const { add, clock, scheduler } = await world();
    const job = await add({ in: "20m" });
    await scheduler.pause(job.id);
    await clock.pass(HOUR);
    expect(await scheduler.resume(job.id)).toMatchObject({ refused: "invalid" });
    expect(await scheduler.list()).toHaveLength(1);
    await scheduler.close();
  });

  it("can remove a job: its turn goes on to its end, what waits behind it is taken back, and it is gone", async () => {
    const { add, clock, disk, engine, answer, scheduler } = await world();
    const job = await add({ cron: "*/10 * * * *" });
    await clock.pass(20 * MINUTE);
    expect(inputsOf(disk, job)).toHaveLength(2);
    expect(await scheduler.remove(job.id)).toMatchObject({ id: job.id });
    expect(await scheduler.list()).toEqual([]);
    await answer();
    const [first, second] = inputsOf(disk, job).map(({ id }) => id) as [string, string];
    expect(await engine.whereabouts(first)).toMatchObject({ at: "answered", outcome: "completed" });
    expect(await engine.whereabouts(second)).toEqual({ at: "withdrawn" });
    expect(disk.notes.list("job/")).toEqual([]);
    await clock.pass(HOUR);
    expect(inputsOf(disk, job)).toHaveLength(2);
    await scheduler.close();
  });

  it("can run a job now, besides its slots, but not more than one behind one that works", async () => {
    const { add, disk, clock, scheduler } = await world();
    const job = await add({ cron: "0 9 * * *" });
    const begun = await scheduler.runNow(job.id, "key");
    expect(await scheduler.runNow(job.id, "key")).toEqual(begun);
    expect(inputsOf(disk, job)).toHaveLength(1);
    await scheduler.runNow(job.id);
    expect(await scheduler.runNow(job.id)).toMatchObject({ refused: "busy" });
    expect(await scheduler.runNow(job.id, "key")).toEqual(begun);
    expect(await scheduler.list()).toMatchObject([{ lastSlot: null, nextAt: at("2026-01-05T09:00:00Z") }]);
    await clock.pass(0);
    await scheduler.close();
  });

  it("is told of a job that is not there", async () => {
    const { scheduler } = await world();
    for (const verb of ["remove", "pause", "resume", "runNow"] as const)
      expect(await scheduler[verb]("nope")).toEqual({ refused: "unknown", why: 'There is no job "nope".' });
    await scheduler.close();
  });

  it("can change jobs while nothing runs them", async () => {
    const clock = clockAt("2026-01-05T08:00:00Z");
    const disk = createMemoryStore();
    const jobs = openJobs({ notes: asStore(disk).notes, clock, log: () => {} });
    const [kept, gone] = await Promise.all(
      [1, 2].map(() => jobs.add({ text: "do it", cron: "0 9 * * *", zone: "UTC", createdBy: "test" })),
    );
    if (!kept || !gone || "refused" in kept || "refused" in gone) throw new Error("refused");
    await jobs.remove(gone.id);
    const { scheduler } = await world({ disk, clock, model: prompt });
    await clock.pass(HOUR);
    expect(disk.notes.list("job/").map(({ key }) => key)).toEqual([`job/${kept.id}`]);
    expect([inputsOf(disk, kept).length, inputsOf(disk, gone).length]).toEqual([1, 0]);
    await scheduler.close();
  });
});

describe("what a scheduled turn asks", () => {
  const approval: Gate = { gate: "ask", kind: "approval", text: "Run it?", choices: [], timeoutMs: HOUR };
  const question: Gate = { gate: "ask", kind: "question", text: "Which?", choices: [], timeoutMs: HOUR };

  it.each<["deny" | "allow", Gate, boolean]>([
    ["deny", approval, false],
    ["allow", approval, true],
    ["allow", question, false],
  ])("of a job that says %s is answered at once", async (unattended, gate, allow) => {
    const tool = scriptedTool("shell", { gate });
    const { add, clock, desk, disk, entry, scheduler } = await world({ tools: [tool] });
    const job = await add({ in: "5m", unattended }); // it is over as a job while its turn runs
    await clock.pass(5 * MINUTE);
    (await desk.next()).answer("", { tool: "shell", args: {} });
    expect(await entry(sessionOf(job), "decided")).toMatchObject({ allow, by: "unattended" });
    expect(tool.all).toHaveLength(allow ? 1 : 0);
    if (allow) (await tool.next()).done("ran");
    (await desk.next()).answer("done");
    await calm();
    expect(disk.notes.list("job/")).toEqual([]);
    await scheduler.close();
  });

  it("is decided in the commit that asks it: a process that dies right then leaves no question", async () => {
    const tool = scriptedTool("shell", { gate: approval });
    const disk = createMemoryStore();
    let dying = () => {};
    // The question is durable, and this process says nothing more.
    const between = (store: Store): Store => ({
      ...store,
      journal: {
        ...store.journal,
        commit: async (change) => {
          const verdict = await store.journal.commit(change);
          if (change.entries.some(({ kind }) => kind === "asked")) dying();
          return verdict;
        },
      },
    });
    const first = await world({ disk, tools: [tool], between });
    dying = first.kill;
    const job = await first.add({ cron: "*/30 * * * *", unattended: "deny" });
    await first.clock.pass(30 * MINUTE);
    (await first.desk.next()).answer("", { tool: "shell", args: {} });
    await calm();
    const next = await world({ disk, clock: first.clock, tools: [tool] });
    expect(await next.entry(sessionOf(job), "decided")).toMatchObject({ allow: false, by: "unattended" });
    expect((await next.engine.status(sessionOf(job))).asking).toEqual([]);
    await next.scheduler.close();
  });

  it("in a session that is not scheduled is left to the people there", async () => {
    const tool = scriptedTool("shell", { gate: approval });
    const { desk, engine, entry, send, scheduler } = await world({ tools: [tool] });
    await send(CHAT, "do it");
    (await desk.next()).answer("", { tool: "shell", args: {} });
    await entry(CHAT, "asked");
    await calm();
    expect((await engine.status(CHAT)).asking).toHaveLength(1);
    await scheduler.close();
  });
});

describe("each slot that is due is exactly one turn", () => {
  /** A life of a home: processes come and go, the disk and the clock stay. */
  function life(start: string) {
    const disk = createMemoryStore();
    const clock = clockAt(start);
    let writes = 0;
    let crash: { write: number; landed: boolean } | null = null;
    let running: Awaited<ReturnType<typeof world>> | null = null;
    let died = false;

    /** Every write can be the last thing that a process does, or the first that it does not. */
    const between = (store: Store): Store => {
      const write = async <T>(work: () => Promise<T>): Promise<T> => {
        const last = crash?.write === ++writes ? crash : null;
        if (!last) return work();
        crash = null;
        died = true;
        if (last.landed) await work();
        running?.kill();
        return new Promise<never>(() => {});
      };
      return {
        ...store,
        journal: { ...store.journal, commit: (change) => write(() => store.journal.commit(change)) },
        notes: {
          ...store.notes,
          set: (key, value) => write(() => store.notes.set(key, value)),
          swap: (key, from, to) => write(() => store.notes.swap(key, from, to)),
        },
      };
    };

    async function boot() {
      died = false;
      running = await world({ disk, clock, between, model: prompt });
      await calm();
      return running;
    }
    return {
      disk,
      clock,
      boot,
      current: () => {
        if (!running) throw new Error("nothing runs");
        return running;
      },
      writes: () => writes,
      crashAt: (write: number, landed: boolean) => {
        crash = { write, landed };
      },
      /** Whoever dies is replaced at once. */
      async pass(minutes: number) {
        for (let minute = 0; minute < minutes; minute++) {
          await clock.pass(MINUTE);
          while (died) await boot();
        }
      },
      async outage(minutes: number) {
        running?.kill();
        await clock.pass(minutes * MINUTE);
        await boot();
        while (died) await boot();
      },
    };
  }

  const EVERY = { cron: "*/5 * * * *", zone: "UTC" };
  const START = "2026-01-05T08:00:00Z";

  it("when the process dies before or after any of its writes", async () => {
    async function scenario(crash: { write: number; landed: boolean } | null) {
      const home = life(START);
      const { add, writes } = { ...(await home.boot()), writes: home.writes };
      const [again, once] = [await add(EVERY), await add({ at: "2026-01-05T08:10" })];
      const before = writes();
      if (crash) home.crashAt(before + crash.write, crash.landed);
      await home.pass(16);
      const { engine, scheduler } = home.current();
      const slots = slotsBetween(EVERY, START, home.clock.now());
      expect(slotsRun(engine, home.disk, again, slots)).toEqual(slots.map(iso));
      expect(slotsRun(engine, home.disk, once, slots)).toEqual(["2026-01-05T08:10:00.000Z"]);
      for (const job of [again, once])
        for (const { id } of inputsOf(home.disk, job))
          expect(await engine.whereabouts(id)).toMatchObject({ at: "answered", outcome: "completed" });
      expect(await scheduler.list()).toMatchObject([{ id: again.id, lastSlot: slots.at(-1) }]);
      expect(home.disk.notes.get(`job/${once.id}`)).toBeUndefined();
      await scheduler.close();
      return writes() - before;
    }
    const all = await scenario(null);
    expect(all).toBeGreaterThan(10);
    for (let write = 1; write <= all; write++) for (const landed of [false, true]) await scenario({ write, landed });
  });

  it("in any life of crashes, outages and clock changes", async () => {
    const step = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({ do: fc.constant("pass" as const), minutes: fc.integer({ min: 1, max: 90 }) }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ do: fc.constant("outage" as const), minutes: fc.integer({ min: 1, max: 300 }) }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant("crash" as const),
          write: fc.integer({ min: 1, max: 30 }),
          landed: fc.boolean(),
        }),
      },
    );
    const lives = fc.record({
      zone: fc.constantFrom("Europe/Berlin", "America/New_York"),
      cron: fc.constantFrom("*/7 * * * *", "30 * * * *", "30 2 * * *", "15,45 1-3 * * *", "0 */2 * * *"),
      start: fc.constantFrom(
        "2026-03-28T22:00:00Z",
        "2026-10-24T22:00:00Z",
        "2026-03-08T04:00:00Z",
        "2026-11-01T03:00:00Z",
        "2028-02-28T22:00:00Z",
      ),
      steps: fc.array(step, { minLength: 3, maxLength: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(lives, async ({ zone, cron, start, steps }) => {
        const home = life(start);
        const job = await (await home.boot()).add({ cron, zone });
        const expected: number[] = [];
        for (const one of steps) {
          const from = home.clock.now();
          if (one.do === "crash") home.crashAt(home.writes() + one.write, one.landed);
          else await home[one.do](one.minutes);
          const passed = slotsBetween({ cron, zone }, from, home.clock.now());
          expected.push(...(one.do === "outage" ? passed.slice(-1) : passed));
        }
        const { engine, disk, scheduler } = { ...home.current(), disk: home.disk };
        expect(slotsRun(engine, disk, job, slotsBetween({ cron, zone }, start, home.clock.now()))).toEqual(
          expected.map(iso),
        );
        void scheduler.close();
      }),
      { numRuns: 60 },
    );
  });

  it("when two processes have the same home, and when two schedulers have the same process", async () => {
    const clock = clockAt(START);
    const first = await world({ clock, model: prompt });
    const job = await first.add(EVERY);
    const second = await world({ clock, disk: first.disk, model: prompt });
    const twin = createScheduler({
      runtime: second.engine,
      notes: second.engine.notes,
      clock,
      log: () => {},
    });
    twin.start();
    await clock.pass(20 * MINUTE);
    const slots = slotsBetween(EVERY, START, clock.now());
    expect(slotsRun(second.engine, first.disk, job, slots)).toEqual(slots.map(iso));
    expect(first.events("schedule.began")).toEqual([]);
    await Promise.all([first, second].map(({ scheduler }) => scheduler.close()));
    await twin.close();
  });
});
