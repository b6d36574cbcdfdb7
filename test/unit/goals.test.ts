// Loops, heartbeats and goals over the real engine: what goes on in a conversation by itself, whatever people and crashes do.
import { describe, expect, it } from "vitest";
import type { Goal, Job, Wish } from "../../src/core/jobs.ts";
import type { Model } from "../../src/core/ports.ts";
import type { Store } from "../../src/core/store.ts";
import { withGoals } from "../../src/schedule/runtime.ts";
import { createScheduler, type Scheduler } from "../../src/schedule/scheduler.ts";
import { createMemoryStore, type MemoryStore } from "../fakes/memory-store.ts";
import { type BootOptions, bootEngine, calm, handClock, scriptedChannel, scriptedModel } from "../fakes/scripted.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const CHAT = "agent:main:telegram:dm:999";
const TALK = "agent:main:terminal:dm:talk";
const LIMITS = { turns: 5, tokens: 0, cost: 0, seconds: 0 };

type WorldOptions = Pick<BootOptions, "disk" | "between" | "model" | "channel"> & {
  clock?: ReturnType<typeof handClock>;
  standing?: string;
};

async function world({ clock = handClock(), standing = "", ...boot }: WorldOptions = {}) {
  let scheduler: Scheduler | null = null;
  const desk = scriptedModel();
  const observe: BootOptions["observe"] = (session, entries) => scheduler?.observe(session, entries);
  const booted = await bootEngine({ model: desk, staleMs: 365 * 24 * HOUR, ...boot, clock, observe });
  const made = createScheduler({
    runtime: booted.engine,
    notes: booted.engine.notes,
    clock,
    log: () => {},
    delivers: (session) => session === CHAT,
    goalLimits: LIMITS,
    costOf: (_, { output }) => output,
    standingText: () => Promise.resolve(standing),
  });
  scheduler = made;
  made.start();
  await calm();
  return {
    ...booted,
    runtime: withGoals(booted.engine, made, () => {}),
    desk,
    clock,
    scheduler: made,
    async add(wish: Partial<Wish>): Promise<Job> {
      const job = await made.add({ text: "look", session: TALK, createdBy: "terminal", ...wish });
      if ("refused" in job) throw new Error(job.why);
      await calm();
      return job;
    },
    async answer(text: string) {
      const asked = await desk.next();
      asked.answer(text);
      await calm();
      return asked;
    },
    async goal(): Promise<{ enabled: boolean } & Goal> {
      const [job] = await made.list();
      if (!job?.goal) throw new Error("there is no goal");
      return { enabled: job.enabled, ...job.goal };
    },
    inputs: () => inputsOf(booted.disk),
  };
}

const inputsOf = (disk: MemoryStore, session = TALK) =>
  disk.all(session).flatMap((entry) => (entry.kind === "accepted" ? [entry.input.text] : []));

describe("a loop", () => {
  it("speaks in its conversation at once and again, but never while its last message is at work", async () => {
    const { add, answer, clock, inputs, scheduler, desk } = await world();
    const { id } = await add({ every: "45m" });
    expect(inputs()).toEqual(["look"]);
    await clock.pass(100 * MINUTE); // two more times have come and gone
    expect(inputs()).toHaveLength(1);
    await answer("nothing new");
    expect(desk.all).toHaveLength(1);
    await clock.pass(45 * MINUTE);
    expect(inputs()).toHaveLength(2);
    await answer("nothing new");
    await scheduler.remove(id);
    await clock.pass(5 * HOUR);
    expect(inputs()).toHaveLength(2);
    expect(await scheduler.list()).toEqual([]);
    await scheduler.close();
  });

  it("has the model that was chosen in the conversation, and can ask whoever talks there", async () => {
    const { add, answer, send, desk, journal, scheduler } = await world();
    await send(TALK, "hello", { model: "scripted", options: { effort: "low" } });
    await answer("hi");
    await add({ every: "30m" });
    const input = journal(TALK).findLast((entry) => entry.kind === "accepted");
    expect(input).toMatchObject({ input: { model: "scripted", options: { effort: "low" }, reply: "pull" } });
    expect(input).not.toHaveProperty("input.unattended");
    expect(desk.all).toHaveLength(1 + 1);
    await scheduler.close();
  });
});

it("a heartbeat says what HEARTBEAT.md says, and is delivered only if there is something to say", async () => {
  const channel = scriptedChannel();
  const { add, answer, clock, scheduler, journal } = await world({ channel, standing: "look after the plants" });
  await add({ text: "", heartbeat: true, every: "30m", session: CHAT, createdBy: "telegram:999" });
  expect(journal(CHAT)).toEqual([]);
  await clock.pass(31 * MINUTE);
  const { request } = await answer("HEARTBEAT_OK");
  expect(JSON.stringify(request.messages)).toContain("look after the plants");
  expect(journal(CHAT).at(-1)).toMatchObject({ kind: "ended", outcome: "completed" });
  expect(channel.all).toEqual([]);
  await clock.pass(30 * MINUTE);
  await answer("The plants are dry.");
  expect(channel.all.map(({ reply }) => reply.text)).toEqual(["The plants are dry."]);
  await scheduler.close();
});

describe("a goal", () => {
  const goal = (limits: Wish["goal"] = {}) => ({ text: "ship it", goal: limits });

  it("is worked on step after step until the model says that it is reached", async () => {
    const { add, answer, inputs, goal: now, desk, scheduler } = await world();
    await add(goal());
    const { request } = await answer("I have begun.\nGOAL: not yet");
    expect(request.system).toContain("<goal>\nship it\n</goal>");
    await answer("Nearly.");
    await answer("All is there.\n\n**GOAL: DONE** the tests pass");
    expect(inputs()).toEqual([
      "ship it",
      "Go on with the goal. This is step 2.",
      "Go on with the goal. This is step 3.",
    ]);
    expect(await now()).toMatchObject({
      enabled: false,
      reached: true,
      why: "the tests pass",
      used: { turns: 3, tokens: 9, cost: 3 },
    });
    expect(desk.all).toHaveLength(3);
    expect(await scheduler.add({ ...goal(), session: TALK, createdBy: "terminal" })).not.toHaveProperty("refused");
    await calm();
    expect(await scheduler.list()).toHaveLength(1);
    await scheduler.close();
  });

  it("waits while a person is answered, and goes on", async () => {
    const { add, answer, send, inputs, runtime, scheduler } = await world();
    await add(goal());
    await send(TALK, "how far are you?", { mode: "interrupt" });
    await calm();
    expect((await runtime.status(TALK)).inbox).toHaveLength(1);
    await answer("cut off");
    await answer("halfway");
    expect(inputs()).toEqual(["ship it", "how far are you?", "Go on with the goal. This is step 2."]);
    await scheduler.close();
  });

  it("is paused by a stop, and nothing of it begins until it is resumed", async () => {
    const { add, inputs, goal: now, runtime, clock, scheduler, answer, send } = await world();
    const { id } = await add(goal());
    const { turn } = await runtime.status(TALK);
    await runtime.stop({ session: TALK, turn: turn?.id ?? "" });
    await clock.pass(HOUR);
    expect(await now()).toMatchObject({ enabled: false, why: "It was stopped." });
    expect(inputs()).toEqual(["ship it"]);
    await scheduler.resume(id);
    await calm();
    expect(inputs()).toEqual(["ship it", "Go on with the goal. This is step 2."]);
    // A stop of the person's own turn is one too: the step that waits behind it never begins.
    const { id: mine } = await send(TALK, "wait", { mode: "interrupt" });
    await calm();
    await runtime.stop({ session: TALK, turn: mine });
    await clock.pass(HOUR);
    expect(await now()).toMatchObject({ enabled: false, step: 3 });
    expect(await runtime.status(TALK)).toMatchObject({ turn: null, inbox: [] });
    await answer("cut off");
    await scheduler.close();
  });

  it.each([
    ["turns", { turns: 2 }, "2 turns"],
    ["tokens", { tokens: 3 }, "3 tokens"],
    ["cost", { cost: 1 }, "$1"],
  ])("reports and is paused at its limit of %s; resumed, it has as much again", async (_, limits, words) => {
    const { add, answer, inputs, goal: now, scheduler, clock } = await world();
    const { id } = await add(goal(limits));
    await answer("one");
    expect(inputs().at(-1)).toBe(
      `The limit of this goal is reached (${words}). Begin nothing new: say what is done and what is left.`,
    );
    await answer("so far");
    await clock.pass(HOUR);
    expect(inputs()).toHaveLength(2);
    expect(await now()).toMatchObject({ enabled: false, why: `The limit is reached: ${words}` });
    await scheduler.resume(id);
    await calm();
    expect(inputs().at(-1)).toBe("Go on with the goal. This is step 3.");
    await scheduler.close();
  });

  it("is paused when it is blocked, and when a step fails", async () => {
    const { add, answer, desk, goal: now, scheduler } = await world();
    const { id } = await add(goal());
    await answer("GOAL: BLOCKED I need the password");
    expect(await now()).toMatchObject({ enabled: false, why: "It is blocked: I need the password" });
    await scheduler.resume(id);
    (await desk.next()).fault("no such model", "bad_request");
    await calm();
    expect(await now()).toMatchObject({ enabled: false, why: expect.stringContaining("no such model") });
    await scheduler.close();
  });

  it("has every step once, when the process dies before or after any of its writes", async () => {
    /** Says the number of the step; the third is the last. */
    const model: Model = {
      name: "counts",
      context: 1_000_000,
      local: false,
      call: async ({ messages }, hear) => {
        hear.text(messages.filter(({ role }) => role === "user").length === 3 ? "GOAL: DONE" : "on");
        return { end: "answer", calls: [], usage: { input: 1, output: 1 } };
      },
    };
    async function scenario(crash: { write: number; landed: boolean } | null): Promise<number> {
      const disk = createMemoryStore();
      const clock = handClock();
      let writes = 0;
      let running: Awaited<ReturnType<typeof world>> | null = null;
      let died = false;
      const between = (store: Store): Store => {
        const write = async <T>(work: () => Promise<T>): Promise<T> => {
          if (!crash || crash.write !== ++writes || died) return work();
          died = true;
          if (crash.landed) await work();
          running?.kill();
          return new Promise<never>(() => {});
        };
        return {
          ...store,
          journal: { ...store.journal, commit: (change) => write(() => store.journal.commit(change)) },
          notes: { ...store.notes, swap: (key, from, to) => write(() => store.notes.swap(key, from, to)) },
        };
      };
      running = await world({ disk, clock, between, model });
      void running.add(goal()).catch(() => {});
      await clock.pass(MINUTE);
      if (died) running = await world({ disk, clock, model });
      const [job] = await running.scheduler.list();
      if (!job) await running.add(goal()); // the first write was the goal itself
      await clock.pass(2 * MINUTE);
      expect(inputsOf(disk)).toEqual([
        "ship it",
        "Go on with the goal. This is step 2.",
        "Go on with the goal. This is step 3.",
      ]);
      expect(await running.goal()).toMatchObject({ reached: true, step: 3, used: { turns: 3, tokens: 6 } });
      await running.scheduler.close();
      return writes;
    }
    for (let write = 1; write <= 20; write++) for (const landed of [true, false]) await scenario({ write, landed });
  });
});
