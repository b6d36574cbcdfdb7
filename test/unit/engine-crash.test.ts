// The real engine and the real effects, over a store in memory, driven by hand: crashes, second processes, and a store in trouble.
import { describe, expect, it } from "vitest";
import { turnId } from "../../src/engine/engine.ts";
import { ASK, isOver, kinds, refused, request, use, watch } from "../fakes/engine.ts";
import { faulty, type Trouble } from "../fakes/faulty-store.ts";
import { createMemoryStore } from "../fakes/memory-store.ts";
import { bootEngine, calm, handClock, scriptedChannel, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

describe("after a crash", () => {
  it("a turn goes on by itself, in the next process, and its answer is the only one", async () => {
    const before = await bootEngine();
    const { id } = await before.send("s", "hi");
    before.kill();
    const model = scriptedModel();
    const { engine, ended } = await bootEngine({ model, disk: before.disk });
    const call = await model.next();
    expect(call.request.messages).toEqual([{ role: "user", text: "hi" }]);
    call.answer("hello");
    await ended("s", id);
    expect(await engine.run(id)).toMatchObject({ status: "completed", output: "hello" });
  });

  it("a long talk is there whole, for the model and for a viewer", async () => {
    const first = scriptedModel();
    const before = await bootEngine({ model: first });
    for (let i = 0; i < 600; i++) {
      await before.send("s", `${i}`);
      (await first.next()).answer(`answer to ${i}`);
      await calm();
    }
    before.kill();
    const model = scriptedModel();
    const booted = await bootEngine({ model, disk: before.disk });
    await booted.send("s", "600");
    const { messages } = (await model.next()).request;
    expect(messages.filter((m) => m.role === "user").map((m) => Number(m.text))).toEqual([...Array(601).keys()]);
    const { seen } = watch(booted);
    await calm();
    expect(seen.flatMap((u) => ("entry" in u ? [u.entry.seq] : []))).toEqual(booted.journal("s").map((e) => e.seq));
    expect(seen.at(-1)).toMatchObject({ cursor: "2402" });
  });

  it("a tool that ran is not run again; the model is told that the outcome is unknown", async () => {
    const tool = scriptedTool("pay");
    const first = scriptedModel();
    const before = await bootEngine({ model: first, tools: [tool] });
    await before.send("s", "pay");
    (await first.next()).answer("", use("pay"));
    await tool.next();
    before.kill();
    const model = scriptedModel();
    await bootEngine({ model, tools: [tool], disk: before.disk });
    expect((await model.next()).request.messages.at(-1)).toMatchObject({ role: "tool", outcome: "unknown" });
    expect(tool.all).toHaveLength(1);
  });

  it("a repeatable tool runs again, with the same arguments", async () => {
    const tool = scriptedTool("look", { repeatable: true });
    const first = scriptedModel();
    const before = await bootEngine({ model: first, tools: [tool] });
    await before.send("s", "look");
    (await first.next()).answer("", use("look", { at: "it" }));
    await tool.next();
    before.kill();
    const model = scriptedModel();
    await bootEngine({ model, tools: [tool], disk: before.disk });
    const running = await tool.next();
    expect(running.args).toEqual({ at: "it" });
    running.done("seen");
    expect((await model.next()).request.messages.at(-1)).toMatchObject({ outcome: "ok", text: "seen" });
  });

  it("a question still waits for its answer, and is decided once", async () => {
    const first = scriptedModel();
    const tool = scriptedTool("rm", { gate: ASK });
    const before = await bootEngine({ model: first, tools: [tool] });
    await before.send("s", "clean up");
    (await first.next()).answer("", use("rm"));
    const { call } = await before.entry("s", "asked");
    before.kill();
    const { engine } = await bootEngine({ disk: before.disk, tools: [tool] });
    expect((await engine.status("s")).asking).toMatchObject([{ call, kind: "approval" }]);
    const answer = { session: "s", call, allow: true, text: "", by: "me" };
    const both = await Promise.all([engine.answer(answer), engine.answer({ ...answer, allow: false })]);
    expect(both).toEqual([true, false]);
    await tool.next();
    expect(tool.all).toHaveLength(1);
  });

  it("a turn older than the window ends as interrupted, and what waited goes on", async () => {
    const clock = handClock();
    const before = await bootEngine({ clock });
    const one = await before.send("s", "one");
    await before.send("s", "two");
    before.kill();
    await clock.pass(3_600_000);
    const model = scriptedModel();
    const { ended } = await bootEngine({ clock, model, disk: before.disk });
    expect(await ended("s", one.id)).toBe("interrupted");
    expect((await model.next()).request.messages.at(-1)?.text).toBe("two");
  });

  it.each([
    ["", 0],
    [", also when the clock was set back", -3_600_000],
  ])("nothing goes on by itself when that is off%s", async (_, by) => {
    const clock = handClock();
    const before = await bootEngine({ clock });
    const { id } = await before.send("s", "hi");
    before.kill();
    clock.set(by);
    const model = scriptedModel();
    const { ended } = await bootEngine({ clock, model, disk: before.disk, limits: { resumeWithinMs: 0 } });
    await calm();
    expect(model.all).toHaveLength(0);
    expect(await ended("s", id)).toBe("interrupted");
  });

  it("a session that crashes again and again is parked; a full inbox does not keep anybody from waking it", async () => {
    let last = await bootEngine({ limits: { inbox: 1 } });
    const { disk } = last;
    const { id } = await last.send("s", "crash");
    const waits = await last.send("s", "waits");
    for (let i = 0; i < 4; i++) {
      last.kill();
      last = await bootEngine({ disk, limits: { inbox: 1 } });
    }
    expect(await last.engine.run(id)).toMatchObject({ status: "failed", error: expect.stringContaining("given up") });
    expect(await last.engine.status("s")).toMatchObject({ parked: true, turn: null });
    await last.send("s", "wake up");
    expect(await last.engine.status("s")).toMatchObject({ parked: false, turn: { id: waits.id } });
  });

  it("one that is parked again while its last reply is on its way can still be woken", async () => {
    const disk = createMemoryStore();
    const boot = () => bootEngine({ disk, channel: scriptedChannel(), limits: { inbox: 1 } });
    let last = await boot();
    const crash = async () => {
      last.kill();
      last = await boot();
    };
    const { id } = await last.send("s", "crash", { reply: "push" });
    const waits = await last.send("s", "waits");
    for (let i = 0; i < 4; i++) await crash();
    expect(await last.engine.status("s")).toMatchObject({ parked: true, turn: { id } });
    await refused(last.send("s", "one more"), "inbox_full");
    await crash();
    expect(await last.engine.status("s")).toMatchObject({ parked: true, turn: null });
    await last.send("s", "wake up");
    expect(await last.engine.status("s")).toMatchObject({ parked: false, turn: { id: waits.id } });
  });
});

describe("a second process on the same store", () => {
  it("fences the first: it accepts nothing, writes nothing, sends nothing, starts no tool", async () => {
    const model = scriptedModel(null);
    const tool = scriptedTool("pay");
    const old = await bootEngine({ model, tools: [tool] });
    await old.send("s", "hi");
    const call = await model.next();
    const now = await bootEngine({ disk: old.disk });
    const before = now.journal("s");
    call.answer("from the past", use("pay"));
    await calm();
    expect(now.journal("s")).toEqual(before);
    expect(tool.all).toHaveLength(0);
    await refused(old.send("t", "hi"), "not_owner");
    expect(now.disk.journal.load("t")).toBeNull();
    expect(old.logs.map((line) => line.event)).toContain("engine.fenced");
  });

  it("aborts what the first has in flight as soon as it notices", async () => {
    const model = scriptedModel();
    const old = await bootEngine({ model });
    await old.send("s", "hi");
    await old.send("t", "hi");
    const [one, two] = [await model.next(), await model.next()];
    await bootEngine({ disk: old.disk });
    await refused(old.send("u", "hi"), "not_owner");
    expect([one.signal.aborted, two.signal.aborted]).toEqual([true, true]);
  });

  it("keeps a tool of the first from starting after its takeover", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("pay");
    const store = faulty();
    const old = await bootEngine({ model, tools: [tool], between: store.between });
    await old.send("s", "hi");
    const call = await model.next();
    const go = store.hold("beat");
    call.answer("", use("pay"));
    await old.entry("s", "started");
    await bootEngine({ disk: old.disk, tools: [tool] });
    go();
    await calm();
    expect(tool.all).toHaveLength(0);
  });
});

// ── A store in trouble ────────────────────────────────────────────────────────────────────────────────

describe("a store in trouble", () => {
  it("refuses an input by name; nothing of it stays, and the same key works later", async () => {
    const store = faulty();
    const model = scriptedModel();
    const { engine, disk } = await bootEngine({ model, between: store.between });
    store.down("no");
    await refused(engine.accept(request()), "store_unavailable");
    expect(disk.journal.load("s")).toBeNull();
    expect(model.all).toHaveLength(0);
    store.up();
    expect(await engine.accept(request())).toMatchObject({ applied: "began", replayed: false });
  });

  it("loses no result: it is written when the store is back, and the work is not done again", async () => {
    const store = faulty();
    const clock = handClock();
    const model = scriptedModel();
    const tool = scriptedTool("pay");
    const { send, ended } = await bootEngine({ model, clock, tools: [tool], between: store.between });
    const { id } = await send("s", "hi");
    const call = await model.next();
    store.down("no");
    call.answer("", use("pay"));
    await clock.pass(60_000);
    expect(tool.all).toHaveLength(0);
    store.up();
    await clock.pass(5_000);
    const running = await tool.next();
    store.down("no");
    running.done("paid");
    await clock.pass(60_000);
    store.up();
    await clock.pass(5_000);
    const second = await model.next();
    expect(second.request.messages.at(-1)).toMatchObject({ outcome: "ok", text: "paid" });
    second.answer("done");
    await ended("s", id);
    expect([model.all.length, tool.all.length]).toEqual([2, 1]);
  });

  it("refuses an input by name also while a result waits to be written", async () => {
    const store = faulty();
    const clock = handClock();
    const model = scriptedModel();
    const { send } = await bootEngine({ model, clock, between: store.between });
    await send("s", "hi");
    const call = await model.next();
    store.down("no");
    call.answer("ok");
    await calm();
    const answer = send("s", "are you there?").catch((error: { code: string }) => error.code);
    await clock.pass(60_000);
    expect(await isOver(answer)).toBe(true);
    expect(await answer).toBe("store_unavailable");
  });

  it("whose commit landed all the same: the input is accepted, once", async () => {
    const store = faulty();
    const clock = handClock();
    const model = scriptedModel();
    const booted = await bootEngine({ model, clock, between: store.between });
    store.down("unknown, landed");
    expect(await booted.engine.accept(request())).toMatchObject({ applied: "began", replayed: false });
    store.up();
    await calm();
    expect(await booted.engine.accept(request())).toMatchObject({ replayed: true });
    expect(kinds(booted)).toEqual(["accepted", "began"]);
    expect(model.all).toHaveLength(1);
  });

  it("whose commit did not land: the input is refused, and can be sent again", async () => {
    const store = faulty();
    const booted = await bootEngine({ between: store.between });
    store.down("unknown, lost");
    await refused(booted.engine.accept(request()), "store_unavailable");
    store.up();
    expect(await booted.engine.accept(request())).toMatchObject({ replayed: false });
    expect(kinds(booted)).toEqual(["accepted", "began"]);
  });

  it("whose commit landed and that cannot be read: it goes on by itself as soon as it can", async () => {
    const store = faulty();
    const clock = handClock();
    const model = scriptedModel();
    const booted = await bootEngine({ model, clock, between: store.between });
    await booted.engine.status("s");
    store.down("unknown, landed", "load");
    const receipt = booted.engine.accept(request());
    await clock.pass(1_000);
    expect(await receipt).toMatchObject({ id: turnId("api", "k1"), applied: "began" });
    expect(model.all).toHaveLength(0);
    store.up();
    await clock.pass(10_000);
    expect(model.all).toHaveLength(1);
    (await model.next()).answer("ok");
    expect(await booted.ended("s", turnId("api", "k1"))).toBe("completed");
    expect(kinds(booted)).toEqual(["accepted", "began", "thought", "ended"]);
  });

  it.each<Trouble>(["unknown, landed", "unknown, lost"])("has each result once (%s)", async (trouble) => {
    const store = faulty();
    const clock = handClock();
    const model = scriptedModel();
    const booted = await bootEngine({ model, clock, between: store.between });
    const { id } = await booted.send("s", "hi");
    const call = await model.next();
    store.down(trouble);
    call.answer("ok");
    await clock.pass(3_000);
    store.up();
    await clock.pass(10_000);
    await booted.ended("s", id);
    expect(kinds(booted)).toEqual(["accepted", "began", "thought", "ended"]);
    expect(model.all).toHaveLength(1);
  });

  it("never crashes who looks at a session meanwhile, nor its work", async () => {
    const before = await bootEngine();
    for (const text of ["one", "two"]) await before.send("s", text);
    before.kill();
    const store = faulty();
    const clock = handClock();
    const go = store.hold("entries");
    const { engine, send, logs } = await bootEngine({ clock, disk: before.disk, between: store.between });
    const status = engine.status("s").catch((error: Error) => error);
    await calm();
    store.down("unknown, landed", "load");
    const waits = send("s", "three");
    await clock.pass(300);
    go();
    await calm();
    store.up();
    await clock.pass(10_000);
    await waits;
    const answer = await status;
    expect(answer instanceof Error ? answer.name : "Status").toMatch(/^(Refusal|Status)$/);
    expect(logs.map((line) => line.event)).not.toContain("effect.threw");
  });

  it("that cannot be read does not look like another owner", async () => {
    const store = faulty();
    const clock = handClock();
    const model = scriptedModel();
    const { send, ended } = await bootEngine({ model, clock, between: store.between });
    store.down("no", "beat");
    await refused(send("s", "hi"), "store_unavailable");
    store.up();
    const { id } = await send("s", "hi");
    store.down("no", "beat");
    await clock.pass(1_000);
    store.up();
    await clock.pass(10_000);
    (await model.next()).answer("ok");
    expect(await ended("s", id)).toBe("completed");
  });
});
