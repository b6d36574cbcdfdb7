// The real engine and the real effects, over a store in memory, driven by hand: stop and drain.
import { describe, expect, it } from "vitest";
import type { Mode } from "../../src/core/session.ts";
import { ASK, isOver, kinds, refused, request, textOf, use, watch } from "../fakes/engine.ts";
import { faulty } from "../fakes/faulty-store.ts";
import {
  bootEngine,
  calm,
  handClock,
  scriptedChannel,
  scriptedMemory,
  scriptedModel,
  scriptedTool,
} from "../fakes/scripted.ts";

describe("a stop", () => {
  it("answered means: no more text, no tool, no model call, and the turn ends when its work is dead", async () => {
    const model = scriptedModel(null);
    const booted = await bootEngine({ model });
    const { engine, send } = booted;
    const { id } = await send("s", "hi");
    const { seen } = watch(booted);
    const call = await model.next();
    call.say("so far");
    await calm();
    expect(await engine.stop({ session: "s", turn: id })).toBe("stopping");
    call.say(" and more");
    await calm();
    expect(textOf(seen)).toBe("so far");
    expect((await engine.run(id))?.status).toBe("stopping");
    call.answer(" and the end", use("anything"));
    await calm();
    expect((await engine.run(id))?.status).toBe("cancelled");
    expect(textOf(seen)).toBe("so far");
    expect(kinds(booted)).toEqual(["accepted", "began", "cut", "stopping", "ended"]);
  });

  it("shows no word that was said while it was being written", async () => {
    const model = scriptedModel();
    const store = faulty();
    const booted = await bootEngine({ model, between: store.between });
    const { id } = await booted.send("s", "hi");
    const { seen } = watch(booted);
    const call = await model.next();
    call.say("shown");
    await calm();
    const go = store.hold();
    const stopping = booted.engine.stop({ session: "s", turn: id });
    await calm();
    call.say(" not shown");
    await calm();
    go();
    await stopping;
    await calm();
    expect(textOf(seen)).toBe("shown");
  });

  it("gives up on a tool that does not die, after the grace, and says so", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("wedged", { deaf: true });
    const clock = handClock();
    const booted = await bootEngine({ model, clock, tools: [tool], limits: { graceMs: 2_000 } });
    const { id } = await booted.send("s", "hi");
    (await model.next()).answer("", use("wedged"));
    const running = await tool.next();
    await booted.engine.stop({ session: "s", turn: id });
    await clock.pass(1_999);
    expect((await booted.engine.run(id))?.status).toBe("stopping");
    await clock.pass(1);
    expect((await booted.engine.run(id))?.status).toBe("cancelled");
    expect(kinds(booted).slice(-4)).toEqual(["acted", "stopping", "abandoned", "ended"]);
    const before = booted.journal("s");
    running.done("risen");
    await clock.pass(5_000);
    expect(booted.journal("s")).toEqual(before);
  });

  it("of a turn that waits for room: it never asks a model", async () => {
    const model = scriptedModel();
    const { engine, send, ended } = await bootEngine({ model, limits: { turns: 1 } });
    await send("a", "hi");
    const { id } = await send("b", "hi");
    expect(await engine.stop({ session: "b", turn: id })).toBe("stopping");
    expect(await ended("b", id)).toBe("cancelled");
    (await model.next()).answer("ok");
    await calm();
    expect(model.all).toHaveLength(1);
  });

  it("of an input that waits withdraws it, and its run is cancelled", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model });
    await send("s", "one");
    const two = await send("s", "two");
    expect(await engine.stop({ session: "s", turn: two.id })).toBe("withdrawn");
    expect((await engine.run(two.id))?.status).toBe("cancelled");
    (await model.next()).answer("ok");
    await calm();
    expect(model.all).toHaveLength(1);
  });

  it("of a turn whose answer is on its way lets it arrive", async () => {
    const model = scriptedModel();
    const channel = scriptedChannel();
    const { engine, send, ended } = await bootEngine({ model, channel });
    const { id } = await send("s", "hi", { reply: "push" });
    (await model.next()).answer("hello");
    const sending = await channel.next();
    expect(await engine.stop({ session: "s", turn: id })).toBe("ending");
    sending.sent();
    expect(await ended("s", id)).toBe("completed");
  });

  it("reaches children by scope: their turns, what waits in them, and their children", async () => {
    const model = scriptedModel();
    const { engine, send, ended } = await bootEngine({ model });
    const parent = await send("p", "hi");
    const child = await send("c", "hi", { parent: "p" });
    const queued = await send("c", "next", { parent: "p" });
    const grandchild = await send("g", "hi", { parent: "c" });
    const stranger = await send("x", "hi");
    await engine.stop({ session: "p", turn: parent.id, scope: "tree" });
    for (const [session, { id }] of Object.entries({ p: parent, c: child, g: grandchild }))
      expect(await ended(session, id)).toBe("cancelled");
    expect(await engine.whereabouts(queued.id)).toEqual({ at: "withdrawn" });
    expect((await engine.run(stranger.id))?.status).toBe("running");
  });

  it("without that scope leaves children alone", async () => {
    const { engine, send, ended } = await bootEngine();
    const parent = await send("p", "hi");
    const child = await send("c", "hi", { parent: "p" });
    await engine.stop({ session: "p", turn: parent.id });
    expect(await ended("p", parent.id)).toBe("cancelled");
    expect((await engine.run(child.id))?.status).toBe("running");
  });
});

// ── Drain, restart, replacement ───────────────────────────────────────────────────────────────────────

describe("a drain", () => {
  it("is over when the last turn is, not when its time is", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model });
    await send("s", "hi");
    const call = await model.next();
    const drained = engine.drain(60_000);
    expect(await isOver(drained)).toBe(false);
    call.answer("ok");
    expect(await isOver(drained)).toBe(true);
    expect(await drained).toEqual({ left: [] });
  });

  it("is over at once when nothing runs", async () => {
    const { engine } = await bootEngine();
    expect(await isOver(engine.drain(60_000))).toBe(true);
  });

  it("waits for tools and for a reply on its way", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("look");
    const channel = scriptedChannel();
    const { engine, send } = await bootEngine({ model, channel, tools: [tool] });
    await send("s", "hi", { reply: "push" });
    (await model.next()).answer("", use("look"));
    const drained = engine.drain(60_000);
    (await tool.next()).done("seen");
    (await model.next()).answer("there");
    const sending = await channel.next();
    expect(await isOver(drained)).toBe(false);
    sending.sent();
    expect(await isOver(drained)).toBe(true);
  });

  it.each<Mode>(["queue", "steer", "interrupt"])(
    "keeps a %s message to a busy session, and interrupts nothing",
    async (mode) => {
      const model = scriptedModel();
      const booted = await bootEngine({ model });
      await booted.send("s", "one");
      const call = await model.next();
      const drained = booted.engine.drain(60_000);
      const two = await booted.send("s", "two", { mode });
      expect(two.applied).toBe("queue");
      expect(call.signal.aborted).toBe(false);
      call.answer("ok");
      expect(await isOver(drained)).toBe(true);
      expect(await drained).toEqual({ left: [] });
      expect(await booted.engine.whereabouts(two.id)).toEqual({ at: "queued" });
      expect(model.all).toHaveLength(1);
    },
  );

  it("refuses what is for a session that does nothing, and leaves nothing of it", async () => {
    const { engine, disk } = await bootEngine();
    void engine.drain(60_000);
    expect(engine.draining()).toBe(true);
    await refused(engine.accept(request()), "draining");
    expect(disk.journal.load("s")).toBeNull();
  });

  it("starts no turn that waits for room", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model, limits: { turns: 1 } });
    await send("a", "hi");
    const { id } = await send("b", "hi");
    const drained = engine.drain(60_000);
    (await model.next()).answer("ok");
    expect(await isOver(drained)).toBe(true);
    expect(await drained).toEqual({ left: [id] });
    expect(model.all).toHaveLength(1);
  });

  it("does not wait for the turn that asked for it", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("restart");
    const { engine, send } = await bootEngine({ model, tools: [tool] });
    const { id } = await send("s", "restart yourself");
    (await model.next()).answer("", use("restart"));
    await tool.next();
    const drained = engine.drain(60_000, id);
    expect(await isOver(drained)).toBe(true);
    expect(await drained).toEqual({ left: [id] });
  });

  it("does not wait for a person", async () => {
    const model = scriptedModel();
    const { engine, send, entry } = await bootEngine({ model, tools: [scriptedTool("rm", { gate: ASK })] });
    const { id } = await send("s", "hi");
    (await model.next()).answer("", use("rm"));
    await entry("s", "asked");
    const drained = engine.drain(60_000);
    expect(await isOver(drained)).toBe(true);
    expect(await drained).toEqual({ left: [id] });
  });

  it("is bounded with a tool and a memory that do not die", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const tool = scriptedTool("wedged", { deaf: true });
    const memory = scriptedMemory({ deaf: true });
    const { engine, send } = await bootEngine({ model, clock, memory, tools: [tool], limits: { graceMs: 2_000 } });
    await send("a", "hi");
    (await model.next()).answer("ok");
    await memory.next();
    const { id } = await send("b", "hi");
    (await model.next()).answer("", use("wedged"));
    await tool.next();
    const drained = engine.drain(10_000);
    await clock.pass(9_999);
    expect(await isOver(drained)).toBe(false);
    await clock.pass(1 + 5_000 + 2_000);
    expect(await isOver(drained)).toBe(true);
    expect(await drained).toEqual({ left: [id] });
  });

  it("that is over: nothing is accepted, nothing starts, nothing is written", async () => {
    const model = scriptedModel(null);
    const clock = handClock();
    const { engine, send, journal } = await bootEngine({ model, clock });
    await send("s", "hi");
    const call = await model.next();
    const drained = engine.drain(1_000);
    await clock.pass(5_000);
    await drained;
    const before = journal("s");
    expect(call.signal.aborted).toBe(true);
    call.answer("too late");
    await refused(engine.accept(request()), "closed");
    await clock.pass(60_000);
    expect(journal("s")).toEqual(before);
    expect(model.all).toHaveLength(1);
  });
});
