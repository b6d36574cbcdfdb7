// A refusal ends when its cause ends (I26), and what the engine keeps is bounded while it runs.
import { describe, expect, it } from "vitest";
import type { Perform } from "../../src/core/ports.ts";
import type { Effect, Event } from "../../src/core/session.ts";
import { createDispatch } from "../../src/engine/dispatch.ts";
import { faulty } from "../fakes/faulty-store.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import {
  bootEngine,
  calm,
  handClock,
  LIMITS,
  scriptedChannel,
  scriptedMemory,
  scriptedModel,
  scriptedTool,
} from "../fakes/scripted.ts";

describe("a session that could not be read", () => {
  it("is refused until it can be read again, and no longer", async () => {
    const store = faulty();
    const clock = handClock();
    const { engine, send } = await bootEngine({ clock, between: store.between });
    store.down(null, "load");
    const stop = engine.stop({ session: "s", turn: "run_nobody" });
    await clock.pass(1_000);
    await expect(send("s", "hi")).rejects.toMatchObject({ code: "store_unavailable" });
    store.up();
    await clock.pass(5_000);
    expect(await stop).toBe("over");
    expect(await engine.status("s")).toMatchObject({ turn: null });
    expect(await send("s", "hi")).toMatchObject({ applied: "began" });
  });
});

describe("a session that waits for room", () => {
  it("gets it, though a call of a turn that was given up comes back late, from before it was last in memory", async () => {
    const model = scriptedModel(null);
    const clock = handClock();
    const { engine, send, ended } = await bootEngine({ model, clock, limits: { turns: 1, warm: 1 } });
    const stopped = await send("a", "one");
    const deaf = await model.next();
    await engine.stop({ session: "a", turn: stopped.id });
    await clock.pass(2_000);
    expect(await ended("a", stopped.id)).toBe("cancelled");
    await send("b", "works"); // there is memory for one: what was known of a is gone
    const working = await model.next();
    await send("a", "two");
    deaf.answer("at last");
    await calm();
    working.answer("done");
    await calm();
    expect(model.all.map((call) => call.request.session)).toEqual(["a", "b", "a"]);
  });

  it("gets it, though somebody tried to delete it meanwhile; and so do those behind it", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model, limits: { turns: 1 } });
    for (const session of ["a", "b", "c"]) await send(session, "hi");
    expect(await engine.forget("b")).toBe("busy");
    for (let n = 0; n < 3; n++) {
      await calm();
      model.all[n]?.answer("ok");
    }
    expect(model.all.map((call) => call.request.session)).toEqual(["a", "b", "c"]);
  });
});

describe("a session that a memory has not been told of", () => {
  const talk = async () => {
    const model = scriptedModel();
    const memory = scriptedMemory();
    const clock = handClock();
    const booted = await bootEngine({ model, memory, clock });
    const { id } = await booted.send("s", "hi");
    (await model.next()).answer("hello");
    await booted.ended("s", id);
    (await memory.next()).fail("down");
    await clock.pass(60_000);
    return { ...booted, memory, model, clock };
  };

  it("can be deleted while the memory is down, and the memory is not asked about it any more", async () => {
    const { engine, disk, memory, clock } = await talk();
    expect(await engine.forget("s")).toBe("forgotten");
    const asked = memory.all.length;
    memory.all.at(-1)?.fail("down");
    await clock.pass(600_000);
    expect(memory.all).toHaveLength(asked);
    expect(disk.catalog.sessions({ active: true, limit: 9 })).toEqual([]);
  });

  it("can be deleted, and is deleted by age, when the memory is gone from the settings", async () => {
    for (const age of [false, true]) {
      const before = await talk();
      before.kill();
      const { engine, disk } = await bootEngine({ disk: before.disk, clock: before.clock });
      if (age) expect(disk.catalog.prune("", before.clock.now() + 1)).toBe(1);
      else expect(await engine.forget("s")).toBe("forgotten");
      expect(disk.catalog.sessions({ limit: 1 })).toEqual([]);
    }
  });

  it("can be used again at once under the same name, and the memory is told of what is new only", async () => {
    const { engine, send, ended, memory, model } = await talk();
    await engine.forget("s");
    const asked = memory.all.length;
    const { id } = await send("s", "again");
    (await model.next()).answer("hello again");
    await ended("s", id);
    await calm();
    expect(memory.all.slice(asked).map(({ turn }) => turn.user)).toEqual(["again"]);
  });
});

describe("deleting a session", () => {
  it("that somebody else has written to meanwhile is not done: another process owns it now", async () => {
    const old = await bootEngine();
    await old.engine.create({ session: "s", title: "" });
    const { send } = await bootEngine({ disk: old.disk });
    await send("s", "hi");
    await expect(old.engine.forget("s")).rejects.toMatchObject({ code: "not_owner" });
    expect(old.disk.journal.load("s")).not.toBeNull();
  });

  it("is refused by name while the store is in trouble, and works when it is not", async () => {
    const store = faulty();
    const { engine } = await bootEngine({ between: store.between });
    await engine.create({ session: "s", title: "" });
    store.down(null, "forget");
    await expect(engine.forget("s")).rejects.toMatchObject({ code: "store_unavailable" });
    store.up();
    expect(await engine.forget("s")).toBe("forgotten");
  });
});

describe("what is kept in memory of idle sessions", () => {
  const dispatch = async () => {
    const store = asStore(createMemoryStore());
    const limits = { ...LIMITS, warm: 50 };
    const rules = { iterations: 5, recoveries: 3, parallel: 4, memory: [] };
    const perform = () => Promise.resolve(null);
    const made = createDispatch({ store, clock: handClock(), log: () => {}, perform, limits, rules });
    await made.start(
      () => true,
      async () => {},
    );
    const begin = { type: "forked", from: "", upTo: 0, messages: [] } satisfies Event;
    return { ...made, create: (key: string) => made.change(key, () => begin, { insist: false }) };
  };

  it("is bounded, however many were deleted", async () => {
    const { slots, create, forget } = await dispatch();
    for (let n = 0; n < 100; n++) {
      await create(`gone ${n}`);
      await forget(`gone ${n}`);
    }
    for (let n = 0; n < 1_000; n++) await create(`s ${n}`);
    expect(slots.size).toBeLessThanOrEqual(51);
  });

  it("is bounded, however many that are in use were there first", async () => {
    const { slots, create, slotOf } = await dispatch();
    for (let n = 0; n < 40; n++) slotOf(`watched ${n}`).view.viewers++;
    for (let n = 0; n < 1_000; n++) await create(`s ${n}`);
    expect(slots.size).toBeLessThanOrEqual(51);
    expect(slots.has("watched 0")).toBe(true);
  });
});

describe("an observer that throws", () => {
  it("does not make an input fail that was accepted, and its turn goes on", async () => {
    const model = scriptedModel();
    const observe = () => {
      throw new Error("the meter is broken");
    };
    const { send, ended, logs } = await bootEngine({ model, observe });
    const { id } = await send("s", "hi");
    (await model.next()).answer("hello");
    expect(await ended("s", id)).toBe("completed");
    expect(logs.map(({ event }) => event)).toContain("observer.threw");
  });
});

describe("work that throws", () => {
  const MANY_MS = 600_000;
  /** Whatever is to be done of this kind throws; how often, and when it begins to. */
  const broken = (kind: Effect["do"], times = Number.POSITIVE_INFINITY) => {
    let thrown = 0;
    const perform =
      (real: Perform): Perform =>
      async (effect, cx) => {
        if (effect.do !== kind || thrown === times) return real(effect, cx);
        thrown++;
        throw new Error("a defect");
      };
    return { perform, thrown: () => thrown };
  };

  it("a few times is done in the end, and nobody notices", async () => {
    const { perform, thrown } = broken("think", 3);
    const model = scriptedModel();
    const clock = handClock();
    const { send, ended, journal } = await bootEngine({ model, clock, perform });
    const { id } = await send("s", "hi");
    await clock.pass(60_000);
    (await model.next()).answer("hello");
    expect(await ended("s", id)).toBe("completed");
    expect(thrown()).toBe(3);
    expect(journal("s").map(({ kind }) => kind)).toEqual(["accepted", "began", "thought", "ended"]);
  });

  it.each(["think", "compact"] as const)(
    "always, to %s: the turn fails and says why, and the next one begins",
    async (kind) => {
      const { perform, thrown } = broken(kind);
      const clock = handClock();
      const { engine, send } = await bootEngine({ clock, perform });
      const { id } = await send("s", "hi", kind === "compact" ? { task: "compress" } : {});
      const next = await send("s", "still there?", kind === "compact" ? { task: "compress" } : {});
      await clock.pass(MANY_MS);
      expect(await engine.run(id)).toMatchObject({ status: "failed", error: expect.stringContaining("a defect") });
      expect(await engine.run(next.id)).toMatchObject({ status: "failed" });
      expect(thrown()).toBe(10);
    },
  );

  it("always, to act: the call has an error for a result, and the model goes on", async () => {
    const { perform } = broken("act");
    const model = scriptedModel();
    const clock = handClock();
    const { send } = await bootEngine({ model, clock, perform, tools: [scriptedTool("look")] });
    await send("s", "hi");
    (await model.next()).answer("", { tool: "look", args: {} });
    await clock.pass(MANY_MS);
    const [result] = (await model.next()).request.messages.slice(-1);
    expect(result).toMatchObject({ role: "tool", outcome: "error", text: expect.stringContaining("a defect") });
  });

  it("always, to deliver: the reply counts as undelivered", async () => {
    const { perform } = broken("deliver");
    const model = scriptedModel();
    const clock = handClock();
    const { send, entry } = await bootEngine({ model, clock, perform, channel: scriptedChannel() });
    const { id } = await send("s", "hi", { reply: "push" });
    (await model.next()).answer("hello");
    await clock.pass(MANY_MS);
    expect(await entry("s", "delivered", id)).toMatchObject({ how: "undelivered" });
  });

  it("always, to remember: the memory is not told of that turn, the log says so, and the session is at rest", async () => {
    const { perform } = broken("remember");
    const model = scriptedModel();
    const clock = handClock();
    const { send, engine, disk, logs } = await bootEngine({ model, clock, perform, memory: scriptedMemory() });
    await send("s", "hi");
    (await model.next()).answer("hello");
    await clock.pass(MANY_MS);
    expect(await engine.status("s")).toMatchObject({ unsaved: [] });
    expect(disk.catalog.sessions({ active: true, limit: 9 })).toEqual([]);
    expect(logs.at(-1)).toMatchObject({
      level: "error",
      event: "effect.given_up",
      fields: { key: "remember:notes:0" },
    });
  });

  it("behind words that were seen is not begun again: they are kept, and the turn fails", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const perform =
      (real: Perform): Perform =>
      (effect, cx) => {
        if (effect.do !== "think") return real(effect, cx);
        cx.emitText("half a ");
        return Promise.reject(new Error("a defect"));
      };
    const { send, journal } = await bootEngine({ model, clock, perform });
    await send("s", "hi");
    await clock.pass(MANY_MS);
    expect(journal("s").slice(2)).toMatchObject([
      { kind: "cut", text: "half a " },
      { kind: "failed" },
      { kind: "ended" },
    ]);
  });

  it("is given up at once when it is stopped", async () => {
    const { perform } = broken("think");
    const clock = handClock();
    const { engine, send } = await bootEngine({ clock, perform });
    const { id } = await send("s", "hi");
    await clock.pass(1_500);
    await engine.stop({ session: "s", turn: id });
    await calm();
    expect(await engine.run(id)).toMatchObject({ status: "cancelled", error: null });
  });
});

describe("a store that cannot be read while a reply is on its way", () => {
  it("is waited for, however long: a reply that is not kept in memory is sent when it can be read", async () => {
    const long = "hello ".repeat(20_000);
    const store = faulty();
    const model = scriptedModel();
    const channel = scriptedChannel();
    const clock = handClock();
    const { send } = await bootEngine({ model, clock, channel, between: store.between });
    await send("s", "hi", { reply: "push" });
    const call = await model.next();
    store.down(null, "entries");
    call.answer(long);
    await clock.pass(600_000);
    expect(channel.all).toHaveLength(0);
    store.up();
    await clock.pass(10_000);
    expect((await channel.next()).reply.text).toBe(long);
  });
});

describe("a turn that waits between two attempts", () => {
  /** Room for one turn. The first session's model cannot be reached. */
  const waiting = async () => {
    const clock = handClock();
    const model = scriptedModel();
    const booted = await bootEngine({ clock, model, limits: { turns: 1 } });
    const first = await booted.send("first", "hi");
    (await model.next()).fault("no route");
    await calm();
    return { ...booted, clock, model, first: first.id };
  };

  it("does not keep others from working", async () => {
    const { send, model, ended } = await waiting();
    const { id } = await send("second", "hi");
    (await model.next()).answer("hello");
    expect(await ended("second", id)).toBe("completed");
  });

  it("gets its place back in line: after those who came before it, before those who came later", async () => {
    const { send, model, clock, engine } = await waiting();
    await send("second", "hi");
    const second = await model.next();
    await send("third", "hi");
    await clock.pass(10_000);
    await send("fourth", "hi");
    expect(model.all).toHaveLength(2);
    expect(await engine.status("first")).toMatchObject({ held: true });
    for (const session of ["third", "first", "fourth"]) {
      model.all.at(-1)?.answer("hello");
      await calm();
      expect(model.all.at(-1)?.request.session).toBe(session);
    }
    expect(second.signal.aborted).toBe(false);
  });

  it("says that it waits for a place, once its own wait is over", async () => {
    const { send, clock, model, engine } = await waiting();
    await send("second", "hi");
    await model.next();
    const leave = new AbortController();
    const notices: string[] = [];
    const following = (async () => {
      for await (const update of engine.follow("first", "", leave.signal))
        if ("notice" in update) notices.push(update.notice);
    })();
    await clock.pass(10_000);
    leave.abort();
    await following;
    expect(notices).toEqual([expect.stringMatching(/no route/), expect.stringMatching(/waiting for a place/i)]);
  });

  it.each([0, 10_000])("can be stopped at any moment (after %i ms), and keeps nobody's place", async (ms) => {
    const { send, model, clock, engine, ended, first } = await waiting();
    const { id } = await send("second", "hi");
    const call = await model.next();
    await clock.pass(ms);
    await engine.stop({ session: "first", turn: first });
    expect(await ended("first", first)).toBe("cancelled");
    call.answer("hello");
    expect(await ended("second", id)).toBe("completed");
    await send("third", "hi");
    expect((await model.next()).request.session).toBe("third");
    await clock.pass(60_000);
    expect(model.all).toHaveLength(3);
  });

  it("works on in a drain, which begins nothing else", async () => {
    const { send, model, clock, engine, ended, first } = await waiting();
    const { id } = await send("second", "hi");
    const call = await model.next();
    await send("third", "hi");
    const drained = engine.drain(60_000);
    await clock.pass(10_000);
    call.answer("hello");
    expect(await ended("second", id)).toBe("completed");
    const again = await model.next();
    expect(again.request.session).toBe("first");
    again.answer("hello");
    expect(await ended("first", first)).toBe("completed");
    await drained;
    expect(model.all).toHaveLength(3);
  });
});
