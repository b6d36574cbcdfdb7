// The reference's tests of memory that must not hold up a turn, one by one, with a clock that passes by hand.
import { expect, test } from "vitest";
import type { Clock, Remembered } from "../../src/core/ports.ts";
import { createMemory } from "../../src/memory/manager.ts";
import type { MemoryProvider } from "../../src/memory/provider.ts";
import { calm, handClock } from "../fakes/scripted.ts";

const redact = (text: string) => text;
const said = (user: string, assistant = "hey"): Remembered => {
  return { session: "s1", turn: user, outcome: "completed", user, assistant };
};
const memoryOf = (clock: Clock, ...providers: MemoryProvider[]) =>
  createMemory({ providers, clock, log: () => {}, redact });
const QUESTION = "what shall we have for dinner";

/** A provider that takes so long over everything, and does not notice that it is aborted. */
function slow(clock: Clock, delayMs: number) {
  const done: string[] = [];
  const take = async (what: string) => {
    await clock.sleep(delayMs);
    done.push(what);
  };
  const provider: MemoryProvider = {
    name: "slow",
    isAvailable: () => true,
    syncTurn: () => take("sync"),
    queuePrefetch: () => take("prefetch"),
  };
  return { provider, done };
}

test("telling a slow provider of a turn does not hold up whoever tells it", async () => {
  const clock = handClock();
  const { provider, done } = slow(clock, 2_000);
  const memory = memoryOf(clock, provider);
  const began = clock.now();
  expect(memory.syncAll(said(QUESTION))).toBeUndefined();
  expect(memory.queuePrefetchAll(QUESTION, { session: "s1" })).toBeUndefined();
  await calm();
  expect(clock.now() - began).toBe(0);
  expect(done).toEqual([]);
});

test("a provider that blocks the whole process is called only after whoever tells it has gone on", async () => {
  const order: string[] = [];
  const provider: MemoryProvider = {
    name: "blocking",
    isAvailable: () => true,
    syncTurn: () => {
      order.push("called");
      return Promise.resolve();
    },
  };
  memoryOf(handClock(), provider).syncAll(said(QUESTION));
  order.push("told");
  await calm();
  expect(order).toEqual(["told", "called"]);
});

test("what is done in the background is done all the same", async () => {
  const clock = handClock();
  const { provider, done } = slow(clock, 100);
  const memory = memoryOf(clock, provider);
  memory.syncAll(said(QUESTION));
  const flushed = memory.flushPending(10_000);
  await clock.pass(1_000);
  expect(await flushed).toBe(true);
  expect(done).toEqual(["sync", "prefetch"]); // the end of a turn is also when the next is prepared
});

test("there is nothing to wait for before anything was told", async () => {
  const clock = handClock();
  expect(await memoryOf(clock, slow(clock, 100).provider).flushPending(1_000)).toBe(true);
});

test("a flush that is not done in time says so", async () => {
  const clock = handClock();
  const memory = memoryOf(clock, slow(clock, 5_000).provider);
  memory.syncAll(said(QUESTION));
  const flushed = memory.flushPending(1_000);
  await clock.pass(1_000);
  expect(await flushed).toBe(false);
});

test("without a provider there is no line of calls, and nothing is done", async () => {
  const asleep: number[] = [];
  const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: async (ms) => void asleep.push(ms) };
  const unavailable: MemoryProvider = { name: "off", isAvailable: () => false, syncTurn: () => Promise.reject() };
  for (const memory of [memoryOf(clock), memoryOf(clock, unavailable)]) {
    memory.syncAll(said(QUESTION));
    memory.queuePrefetchAll(QUESTION, { session: "s1" });
    expect(memory.writers).toEqual([]);
    expect(memory.health()).toEqual([]);
    expect(memory.tools()).toEqual([]);
    expect(await memory.recall({ session: "s1", turn: "t", text: QUESTION }, new AbortController().signal)).toBe("");
    expect(await memory.systemBlock({ session: "s1" })).toBe("");
    await memory.shutdownAll();
  }
  expect(asleep).toEqual([]);
});

test("a provider that never returns does not keep us from leaving: five seconds, in all less than eight", async () => {
  const clock = handClock();
  const { provider } = slow(clock, 30_000);
  const memory = memoryOf(clock, { ...provider, shutdown: () => new Promise(() => {}) });
  memory.syncAll(said(QUESTION));
  const began = clock.now();
  let ended = 0;
  const left = memory.shutdownAll().then(() => {
    ended = clock.now() - began;
  });
  await clock.pass(10_000);
  await left;
  expect(ended).toBeGreaterThanOrEqual(5_000);
  expect(ended).toBeLessThan(8_000);
});

test("turns are written in order", async () => {
  const order: string[] = [];
  const clock = handClock();
  const memory = memoryOf(clock, {
    name: "order",
    isAvailable: () => true,
    syncTurn: async ({ user }) => {
      await clock.sleep(user === "turn-0" ? 500 : 0); // the first would be overtaken by the others
      order.push(user);
    },
  });
  for (let i = 0; i < 5; i++) memory.syncAll(said(`turn-${i}`, "resp"));
  const flushed = memory.flushPending(10_000);
  await clock.pass(1_000);
  expect(await flushed).toBe(true);
  expect(order).toEqual(["turn-0", "turn-1", "turn-2", "turn-3", "turn-4"]);
});
