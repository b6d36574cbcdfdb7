// The five stories this project comes from, at the level of the engine.
import { describe, expect, it } from "vitest";
import type { Memory, Model, Tool } from "../../src/core/ports.ts";
import type { Entry } from "../../src/core/session.ts";
import { clock as realClock } from "../../src/platform/clock.ts";
import { bootEngine, calm, handClock, scriptedMemory, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

const FORCED = { end: "fault", reason: "RemoteProtocolError: peer closed connection", kind: "network" } as const;
const DAY = 86_400_000;
const use = (tool: string) => ({ tool, args: {} });

describe("seed 000: the lost interrupt", () => {
  const TURN_MS = 60;
  const SESSIONS = 50;
  const ROUNDS = 10;
  const USAGE = { input: 1, output: 1 };

  it("500 messages within 50 ms of a turn's end: none is lost, none doubled, no turn is born cancelled", async () => {
    const asked: string[] = [];
    const model: Model = {
      ...scriptedModel(),
      call: async ({ messages }, { text: say }, signal) => {
        expect(signal.aborted).toBe(false);
        asked.push(messages.at(-1)?.text ?? "");
        await realClock.sleep(TURN_MS, signal);
        if (signal.aborted) return { end: "aborted" };
        say("done");
        return { end: "answer", calls: [], usage: USAGE };
      },
    };
    const { engine, send, ended, journal } = await bootEngine({ model, clock: realClock, limits: { turns: SESSIONS } });

    const turns: { session: string; original: string; urgent: string }[] = [];
    async function talk(session: string, number: number) {
      let last = "run_of_nobody";
      for (let round = 0; round < ROUNDS; round++) {
        const nth = round * SESSIONS + number;
        if (nth % 10 === 0) expect(await engine.stop({ session, turn: last })).toBe("over");
        const one = await send(session, `original ${nth}`, { mode: "interrupt" });
        expect(one.applied).toBe("began");
        await realClock.sleep(TURN_MS - 50 + (100 * nth) / (SESSIONS * ROUNDS));
        const two = await send(session, `urgent ${nth}`, { mode: "interrupt" });
        expect(await ended(session, two.id)).toBe("completed");
        turns.push({ session, original: one.id, urgent: two.id });
        last = two.id;
      }
    }
    await Promise.all(Array.from({ length: SESSIONS }, (_, i) => talk(`s${i}`, i)));

    expect(turns).toHaveLength(500);
    expect(asked.filter((text) => text.startsWith("urgent"))).toHaveLength(500);
    expect(new Set(asked).size).toBe(asked.length);
    const outcomes = { completed: 0, interrupted: 0 };
    for (const { session, original, urgent } of turns) {
      const of = (turn: string) => journal(session).filter((entry) => entry.turn === turn);
      const kinds = (turn: string) => of(turn).map((entry) => entry.kind);
      expect(kinds(urgent)).toEqual(["accepted", "began", "thought", "ended"]);
      const by = of(original).find((entry) => entry.kind === "stopping");
      if (by) expect(by).toMatchObject({ outcome: "interrupted", by: urgent });
      expect(kinds(original)).toEqual(["accepted", "began", by ? "stopping" : "thought", "ended"]);
      outcomes[by ? "interrupted" : "completed"]++;
    }
    expect(outcomes.completed).toBeGreaterThan(0); // both sides of the race were there
    expect(outcomes.interrupted).toBeGreaterThan(0);
  });

  it("a message that comes with the answer already on its way into the journal is the next turn", async () => {
    const model = scriptedModel();
    const { send, ended } = await bootEngine({ model });
    const one = await send("s", "original");
    const call = await model.next();
    call.answer("finished normally");
    const two = await send("s", "urgent new message", { mode: "interrupt" });
    expect(await ended("s", one.id)).toMatch(/completed|interrupted/);
    const next = await model.next();
    expect(next.request.messages.at(-1)?.text).toBe("urgent new message");
    expect(next.signal.aborted).toBe(false);
    next.answer("here I am");
    expect(await ended("s", two.id)).toBe("completed");
  });

  it("a message that interrupts a running turn is the next turn", async () => {
    const model = scriptedModel();
    const { send, ended } = await bootEngine({ model });
    const one = await send("s", "original");
    await model.next();
    const two = await send("s", "redirect please", { mode: "interrupt" });
    expect(await ended("s", one.id)).toBe("interrupted");
    (await model.next()).answer("redirected");
    expect(await ended("s", two.id)).toBe("completed");
  });

  it("a message that interrupts is the next turn also when the process dies right after it was accepted", async () => {
    const before = await bootEngine();
    await before.send("s", "original");
    const two = await before.send("s", "urgent", { mode: "interrupt" });
    before.kill();
    const model = scriptedModel();
    const { ended } = await bootEngine({ model, disk: before.disk });
    const call = await model.next();
    expect(call.request.messages.at(-1)?.text).toBe("urgent");
    call.answer("here");
    expect(await ended("s", two.id)).toBe("completed");
  });
});

describe("seed 001: the cascading abort", () => {
  it("an interrupt whose closing raises a transport error: one upstream request, and the next turn at once", async () => {
    const model = scriptedModel(FORCED);
    const clock = handClock();
    const { engine, send, ended, journal, logs } = await bootEngine({ model, clock });
    const one = await send("s", "one");
    (await model.next()).say("so far");
    const two = await send("s", "two", { mode: "interrupt" });
    const next = await model.next(); // no time has passed
    next.answer("two it is");
    expect(await ended("s", one.id)).toBe("interrupted");
    expect(await ended("s", two.id)).toBe("completed");
    await clock.pass(DAY);
    expect(model.all).toHaveLength(2);
    expect((await engine.run(one.id))?.error).toBeNull();
    expect(journal("s").map((entry) => entry.kind)).not.toContain("failed");
    expect(logs.filter((line) => line.level === "error" || line.level === "warn")).toEqual([]);
  });

  it("a genuine transport error, without an interrupt, is retried", async () => {
    const model = scriptedModel(FORCED);
    const clock = handClock();
    const { send, ended } = await bootEngine({ model, clock });
    const { id } = await send("s", "hi");
    (await model.next()).end(FORCED);
    await clock.pass(1_000);
    (await model.next()).answer("second try");
    expect(await ended("s", id)).toBe("completed");
  });

  it("a genuine transport error that does not go away surfaces", async () => {
    const model = scriptedModel(FORCED);
    const clock = handClock();
    const { engine, send } = await bootEngine({ model, clock });
    const { id } = await send("s", "hi", { attended: true });
    while ((await engine.run(id))?.status === "running") {
      (await model.next()).end(FORCED);
      await clock.pass(10_000);
    }
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: FORCED.reason });
  });

  it("cancellation is local to its request: the next turn's genuine error is retried", async () => {
    const model = scriptedModel(FORCED);
    const clock = handClock();
    const { send, ended } = await bootEngine({ model, clock });
    await send("s", "turn A");
    await model.next();
    const two = await send("s", "turn B", { mode: "interrupt" });
    (await model.next()).end(FORCED);
    await clock.pass(1_000);
    (await model.next()).answer("B");
    expect(await ended("s", two.id)).toBe("completed");
  });

  it("cancellation is local to its request: another session's is not touched", async () => {
    const model = scriptedModel(FORCED);
    const { engine, send, ended } = await bootEngine({ model });
    const a = await send("a", "hi");
    const b = await send("b", "hi");
    const [callA, callB] = [await model.next(), await model.next()];
    await engine.stop({ session: "a", turn: a.id });
    expect([callA.signal.aborted, callB.signal.aborted]).toEqual([true, false]);
    callB.answer("untouched");
    expect(await ended("b", b.id)).toBe("completed");
  });

  it("a worker that outlives its turn neither delays the next one for long nor says anything in it", async () => {
    const model = scriptedModel(null);
    const clock = handClock();
    const { engine, send, ended } = await bootEngine({ model, clock, limits: { graceMs: 2_000 } });
    await send("s", "one");
    const stale = await model.next();
    const two = await send("s", "two", { mode: "interrupt" });
    await clock.pass(2_000);
    const call = await model.next();
    stale.say("from the past");
    stale.answer("from the past");
    call.answer("from now");
    expect(await ended("s", two.id)).toBe("completed");
    expect((await engine.run(two.id))?.output).toBe("from now");
  });
});

describe("seed 002: drain and restart", () => {
  it("keeps the running turn, stores a follow-up, refuses new sessions; after the restart the work goes on", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const before = await bootEngine({ model, clock });
    const one = await before.send("busy", "one");
    const call = await model.next();

    const drained = before.engine.drain(60_000);
    const follow = await before.send("busy", "follow up", { mode: "queue" });
    expect(follow.applied).toBe("queue");
    await expect(before.send("fresh", "hello")).rejects.toMatchObject({ code: "draining" });
    expect(call.signal.aborted).toBe(false);
    call.answer("finished in peace");
    expect(await before.ended("busy", one.id)).toBe("completed");
    await clock.pass(70_000);
    expect(await drained).toEqual({ left: [] });
    expect(model.all).toHaveLength(1);

    const next = scriptedModel();
    const { ended } = await bootEngine({ model: next, clock, disk: before.disk });
    const again = await next.next();
    expect(again.request.messages.map((message) => message.text)).toEqual(["one", "finished in peace", "follow up"]);
    again.answer("went on by itself");
    expect(await ended("busy", follow.id)).toBe("completed");
  });

  it("a second request is harmless", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const { engine, send, ended } = await bootEngine({ model, clock });
    const { id } = await send("s", "hi");
    const call = await model.next();
    const both = [engine.drain(60_000), engine.drain(60_000)];
    await calm();
    expect(call.signal.aborted).toBe(false);
    call.answer("ok");
    expect(await ended("s", id)).toBe("completed");
    await clock.pass(70_000);
    expect(await Promise.all(both)).toEqual([{ left: [] }, { left: [] }]);
    expect(await engine.drain(60_000)).toEqual({ left: [] });
  });

  it("a turn that the drain could not wait for goes on after the restart", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const tool = scriptedTool("sleep 120", { repeatable: true, deaf: true });
    const before = await bootEngine({ model, clock, tools: [tool] });
    const { id } = await before.send("s", "hi");
    (await model.next()).answer("", use("sleep 120"));
    await tool.next();
    const drained = before.engine.drain(1_000);
    await clock.pass(10_000);
    expect(await drained).toEqual({ left: [id] });

    const { ended } = await bootEngine({ model, clock, tools: [tool], disk: before.disk });
    (await tool.next()).done("slept");
    (await model.next()).answer("good morning");
    expect(await ended("s", id)).toBe("completed");
  });
});

describe("seed 003: runs", () => {
  it("a stop by id: running, stopping, cancelled; its stream has its end", async () => {
    const model = scriptedModel(null);
    const { engine, send, ended } = await bootEngine({ model });
    const { id } = await send("s", "hi");
    const call = await model.next();
    expect((await engine.run(id))?.status).toBe("running");
    expect(await engine.stop({ session: "s", turn: id })).toBe("stopping");
    expect(call.signal.aborted).toBe(true);
    expect((await engine.run(id))?.status).toBe("stopping");
    call.end({ end: "aborted" });
    expect(await ended("s", id)).toBe("cancelled");
    expect((await engine.run(id))?.status).toBe("cancelled");
  });

  it("a stop of an unknown run, or of one that is over, finds nothing to stop", async () => {
    const model = scriptedModel();
    const { engine, send, ended, journal } = await bootEngine({ model });
    expect(await engine.stop({ session: "nowhere", turn: "run_nonexistent" })).toBe("over");
    expect(await engine.run("run_nonexistent")).toBeNull();
    const { id } = await send("s", "hi");
    (await model.next()).answer("done");
    await ended("s", id);
    const before = journal("s");
    expect(await engine.stop({ session: "s", turn: id })).toBe("over");
    expect(journal("s")).toEqual(before);
    expect((await engine.run(id))?.status).toBe("completed");
  });

  it("a second stop is answered like the first, at once or later, and once it is dead it is over", async () => {
    const model = scriptedModel(null);
    const { engine, send, ended, journal } = await bootEngine({ model });
    const { id } = await send("s", "hi");
    const call = await model.next();
    const stop = () => engine.stop({ session: "s", turn: id });
    expect(await Promise.all([stop(), stop(), stop()])).toEqual(["stopping", "stopping", "stopping"]);
    expect(await stop()).toBe("stopping");
    call.end({ end: "aborted" });
    expect(await ended("s", id)).toBe("cancelled");
    expect(await stop()).toBe("over");
    const count = (kind: Entry["kind"]) => journal("s").filter((entry) => entry.kind === kind).length;
    expect([count("stopping"), count("ended")]).toEqual([1, 1]);
  });

  it("a failure inside the aborted work does not break the stop: a model", async () => {
    const started = Promise.withResolvers<void>();
    const model: Model = {
      ...scriptedModel(),
      call: (_request, _hear, signal) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(new Error("interrupt failed")));
          started.resolve();
        }),
    };
    const { engine, send, ended } = await bootEngine({ model });
    const { id } = await send("s", "hi");
    await started.promise;
    expect(await engine.stop({ session: "s", turn: id })).toBe("stopping");
    expect(await ended("s", id)).toBe("cancelled");
  });

  it("a failure inside the aborted work does not break the stop: a tool", async () => {
    const model = scriptedModel();
    const started = Promise.withResolvers<void>();
    const tool: Tool = {
      ...scriptedTool("fragile"),
      run: (_args, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(new Error("interrupt failed")));
          started.resolve();
        }),
    };
    const { engine, send, ended } = await bootEngine({ model, tools: [tool] });
    const { id } = await send("s", "hi");
    (await model.next()).answer("", use("fragile"));
    await started.promise;
    expect(await engine.stop({ session: "s", turn: id })).toBe("stopping");
    expect(await ended("s", id)).toBe("cancelled");
    const { id: next } = await send("s", "are you well?");
    (await model.next()).answer("yes");
    expect(await ended("s", next)).toBe("completed");
  });
});

describe("seed 004: memory", () => {
  it("a slow provider does not delay the turn's end, nor the next turn", async () => {
    const model = scriptedModel();
    const memory = scriptedMemory();
    const { engine, send, ended } = await bootEngine({ model, memory });
    for (const text of ["one", "two"]) {
      const { id } = await send("s", text);
      (await model.next()).answer("ok");
      expect(await ended("s", id)).toBe("completed");
      expect((await engine.status("s")).turn).toBeNull();
    }
    expect(memory.all).toHaveLength(1); // still at the first
    expect((await engine.status("s")).unsaved).toEqual(["notes"]);
  });

  it("the writes complete in the background, in the order of the turns", async () => {
    const model = scriptedModel();
    const memory = scriptedMemory();
    const { engine, send, ended } = await bootEngine({ model, memory });
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      const { id } = await send("s", `turn-${i}`);
      (await model.next()).answer("resp");
      await ended("s", id);
      ids.push(id);
    }
    for (let i = 0; i < 5; i++) {
      (await memory.next()).done();
      await calm();
    }
    expect(memory.all.map(({ turn }) => turn.user)).toEqual([0, 1, 2, 3, 4].map((i) => `turn-${i}`));
    expect(memory.all.map(({ key }) => key)).toEqual(ids);
    expect((await engine.status("s")).unsaved).toEqual([]);
  });

  it("a follow-up to a turn whose memory is being written begins, and interrupts nothing", async () => {
    const model = scriptedModel();
    const memory = scriptedMemory();
    const { send, ended } = await bootEngine({ model, memory });
    const one = await send("s", "one");
    (await model.next()).answer("ok");
    await ended("s", one.id);
    await memory.next();
    expect((await send("s", "two", { mode: "interrupt" })).applied).toBe("began");
  });

  it("a wedged provider does not hold up a bounded drain, and is written after the next start, in order", async () => {
    const clock = handClock();
    const model = scriptedModel();
    const wedged = scriptedMemory({ deaf: true });
    const before = await bootEngine({ model, clock, memory: wedged });
    const ids: string[] = [];
    for (const text of ["one", "two"]) {
      const { id } = await before.send("s", text);
      (await model.next()).answer("ok");
      await before.ended("s", id);
      ids.push(id);
    }
    const drained = before.engine.drain(60_000);
    await clock.pass(5_000 + 2_000); // what memory gets, and the grace
    expect(await drained).toEqual({ left: [] });

    const memory = scriptedMemory();
    const { engine } = await bootEngine({ model, clock, memory, disk: before.disk });
    for (const id of ids) {
      const writing = await memory.next();
      expect(writing.key).toBe(id);
      writing.done();
    }
    await calm();
    expect(memory.all).toHaveLength(2);
    expect((await engine.status("s")).unsaved).toEqual([]);
  });

  it("what a dead process had not written is written by the next one, each turn under its one key", async () => {
    const model = scriptedModel();
    const written: string[] = [];
    const memory: Memory = {
      writers: ["notes"],
      recall: () => Promise.resolve(""),
      remember: async (_writer, _turn, key) => {
        written.push(key);
        if (written.length === 1) await new Promise(() => {});
      },
    };
    const before = await bootEngine({ model, memory });
    const { id } = await before.send("s", "one");
    (await model.next()).answer("ok");
    await before.ended("s", id);
    await calm();
    before.kill();
    const after = await bootEngine({ memory, disk: before.disk });
    await calm();
    expect(written).toEqual([id, id]);
    expect((await after.engine.status("s")).unsaved).toEqual([]);
  });
});
