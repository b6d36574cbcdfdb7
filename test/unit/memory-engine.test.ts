// Memories that misbehave behind the real engine: a turn ends when it ends, the next message is answered, and we can
// leave.
import { describe, expect, it } from "vitest";
import type { Clock } from "../../src/core/ports.ts";
import { createMemory } from "../../src/memory/manager.ts";
import type { MemoryProvider } from "../../src/memory/provider.ts";
import { type BootOptions, bootEngine, calm, type HandClock, handClock, scriptedModel } from "../fakes/scripted.ts";

const S = "agent:main:terminal:dm:a";
const SUSPICIOUS_MS = 300_000;

async function boot(
  make: (clock: Clock) => MemoryProvider[],
  more: Omit<BootOptions, "memory"> & { clock?: HandClock } = {},
) {
  const clock = more.clock ?? handClock();
  const memory = createMemory({ providers: make(clock), clock, log: () => {}, redact: (text) => text });
  const model = scriptedModel();
  return { ...(await bootEngine({ ...more, clock, model, memory })), memory, model, clock };
}

/** Notes what it is told; `trouble` comes before. */
function writer(name: string, trouble: () => Promise<unknown> = () => Promise.resolve()) {
  const written: string[] = [];
  const provider: MemoryProvider = {
    name,
    isAvailable: () => true,
    async syncTurn({ key, user, assistant }) {
      await trouble();
      if (!written.includes(`${key} ${user} → ${assistant}`)) written.push(`${key} ${user} → ${assistant}`);
    },
  };
  return { provider, written };
}

describe("a provider that blocks for five minutes, whatever is asked of it", () => {
  const blocking = (clock: Clock): MemoryProvider => {
    const block = async () => {
      await clock.sleep(SUSPICIOUS_MS);
      return "";
    };
    return {
      name: "blocking",
      isAvailable: () => true,
      initialize: async () => void (await block()),
      syncTurn: async () => void (await block()),
      queuePrefetch: async () => void (await block()),
      prefetch: block,
      systemPromptBlock: block,
      onSessionEnd: async () => void (await block()),
      shutdown: async () => void (await block()),
    };
  };

  it("does not hold up the end of a turn: the session is idle at once, and the next message is answered", async () => {
    const { send, model, clock, engine, entry, ended } = await boot((clock) => [blocking(clock)]);
    const { id } = await send(S, "how do I make good tea");
    await clock.pass(300); // what a turn waits for memory at its start, once
    const began = clock.now();
    (await model.next()).answer("with hot water");
    expect(await ended(S, id)).toBe("completed");
    expect(clock.now()).toBe(began);
    expect(await engine.status(S)).toMatchObject({ turn: null, inbox: [], unsaved: ["blocking"] });

    const next = await send(S, "and how long does it take");
    expect(next.applied).toBe("began");
    (await model.next()).answer("three minutes");
    expect(await ended(S, next.id)).toBe("completed");
    expect(clock.now()).toBe(began); // one that was waited for in vain is not waited for again
    expect(await entry(S, "thought", next.id)).not.toHaveProperty("recalled");
  });

  it("does not keep us from leaving, and what it was not told is told after the next start", async () => {
    const before = await boot((clock) => [blocking(clock)]);
    const { id } = await before.send(S, "how do I make good tea");
    await before.clock.pass(300);
    (await before.model.next()).answer("with hot water");
    await before.ended(S, id);
    const began = before.clock.now();
    let ended = 0;
    const left = before.engine
      .drain(60_000)
      .then(() => before.memory.shutdownAll(1_000))
      .then(() => (ended = before.clock.now() - began));
    await before.clock.pass(20_000);
    await left;
    expect(ended).toBeLessThan(8_000);

    const { provider, written } = writer("blocking");
    await boot(() => [provider], { disk: before.disk });
    await calm();
    expect(written).toEqual([`${id} how do I make good tea → with hot water`]);
  });

  it("is left alone after a while, and the others have been told of everything by then", async () => {
    const notes = writer("notes");
    const { send, model, clock, engine, memory, ended } = await boot((clock) => [blocking(clock), notes.provider]);
    const { id } = await send(S, "how do I make good tea");
    await clock.pass(300);
    (await model.next()).answer("with hot water");
    await ended(S, id);
    await calm();
    expect(notes.written).toEqual([`${id} how do I make good tea → with hot water`]);
    expect((await engine.status(S)).unsaved).toEqual(["blocking"]);
    await clock.pass(10 * 60_000);
    expect(memory.health()).toMatchObject([
      { name: "blocking", state: "suspended" },
      { name: "notes", state: "ok", pending: 0 },
    ]);
  });
});

it("a provider that fails every second time is told of every turn, once, in order", async () => {
  let n = 0;
  const { provider, written } = writer("shaky", () => (n++ % 2 ? Promise.resolve() : Promise.reject(new Error("no"))));
  const { send, model, clock, engine, ended } = await boot(() => [provider]);
  const ids: string[] = [];
  for (const text of ["one", "two", "three"]) {
    const { id } = await send(S, text);
    ids.push(id);
    (await model.next()).answer("ok");
    await ended(S, id);
  }
  await clock.pass(10_000);
  expect(written).toEqual([`${ids[0]} one → ok`, `${ids[1]} two → ok`, `${ids[2]} three → ok`]);
  expect((await engine.status(S)).unsaved).toEqual([]);
});

it("a provider that writes and then fails is told again under the same key", async () => {
  const keys: string[] = [];
  const provider: MemoryProvider = {
    name: "unsure",
    isAvailable: () => true,
    syncTurn: async ({ key }) => {
      keys.push(key);
      if (keys.length === 1) throw new Error("connection reset");
    },
  };
  const { send, model, clock, ended } = await boot(() => [provider]);
  const { id } = await send(S, "one");
  (await model.next()).answer("ok");
  await ended(S, id);
  await clock.pass(10_000);
  expect(keys).toEqual([id, id]);
});

it("a provider that says 10 MB costs the model 4,000 characters, which are not written again", async () => {
  const { provider, written } = writer("loud");
  const { send, model, entry, ended } = await boot(() => [
    { ...provider, prefetch: () => Promise.resolve(`the kettle is black ${"x".repeat(10_000_000)}`) },
  ]);
  const { id } = await send(S, "what colour is the kettle");
  const asked = await model.next();
  const [message] = asked.request.messages;
  expect(message?.text).toMatch(
    /^<recalled note="[^"]*">\n\[loud\]\nthe kettle is black x+[\s\S]*<\/recalled>\n\nwhat colour/,
  );
  expect(message?.text.length).toBeLessThan(4_100);
  asked.answer(`You said: ${message?.text}`);
  await ended(S, id);
  const { recalled } = await entry(S, "thought", id);
  expect(message?.text.startsWith(recalled ?? "none")).toBe(true);
  await calm();
  expect(written).toEqual([`${id} what colour is the kettle → You said: \n\nwhat colour is the kettle`]);
});

it("a provider that throws in shutdown, or never comes back from it, does not keep us from leaving", async () => {
  const { engine, memory, clock } = await boot(() => [
    { name: "throws", isAvailable: () => true, shutdown: () => Promise.reject(new Error("no")) },
    { name: "hangs", isAvailable: () => true, shutdown: () => new Promise(() => {}) },
  ]);
  const began = clock.now();
  await engine.drain(60_000);
  let ended = 0;
  const left = memory.shutdownAll().then(() => (ended = clock.now() - began));
  await clock.pass(10_000);
  await left;
  expect(ended).toBe(300);
});

it("what a process that was killed had not written is written by the next, in order, each turn once", async () => {
  const clock = handClock();
  const stuck = writer("notes", () => new Promise(() => {}));
  const before = await boot(() => [stuck.provider], { clock });
  const ids: string[] = [];
  for (const text of ["one", "two"]) {
    const { id } = await before.send(S, text);
    ids.push(id);
    (await before.model.next()).answer("ok");
    await before.ended(S, id);
  }
  before.kill();
  const notes = writer("notes");
  const { engine } = await boot(() => [notes.provider], { clock, disk: before.disk });
  await calm();
  expect(notes.written).toEqual([`${ids[0]} one → ok`, `${ids[1]} two → ok`]);
  expect((await engine.status(S)).unsaved).toEqual([]);
});

it("a turn that makes many model calls asks memory once, and all of them see the same", async () => {
  let asked = 0;
  const { send, model, ended } = await boot(() => [
    { name: "notes", isAvailable: () => true, prefetch: async () => `fact ${++asked}` },
  ]);
  const { id } = await send(S, "do a few things for me");
  const seen: string[] = [];
  for (let i = 0; i < 3; i++) {
    const call = await model.next();
    seen.push(call.request.messages[0]?.text ?? "");
    call.answer("", { tool: "none", args: {} });
  }
  const last = await model.next();
  seen.push(last.request.messages[0]?.text ?? "");
  last.answer("done");
  expect(await ended(S, id)).toBe("completed");
  expect(new Set(seen).size).toBe(1);
  expect(seen[0]).toContain("fact 1");
});
