// The real engine and the real effects, over a store in memory, driven by hand: what is accepted, and what becomes of it.
import { describe, expect, it } from "vitest";
import type { RefusalCode } from "../../src/core/errors.ts";
import type { AcceptRequest } from "../../src/core/runtime.ts";
import type { Mode } from "../../src/core/session.ts";
import { turnId } from "../../src/engine/engine.ts";
import { kinds, refused, request, use } from "../fakes/engine.ts";
import { bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

describe("accept", () => {
  it.each<[RefusalCode, string, Partial<AcceptRequest>]>([
    ["empty_text", "nothing", { text: "" }],
    ["empty_text", "blanks only", { text: " \n\t" }],
    ["text_too_long", "1,001 characters", { text: "x".repeat(1_001) }],
    ["invalid_mode", "a mode that is none", { mode: "later" as Mode }],
    ["invalid_session", "no session", { session: "" }],
    ["invalid_session", "a session with a line break", { session: "a\nb" }],
    ["invalid_session", "a session too long", { session: "s".repeat(513) }],
    ["invalid_key", "no key", { key: "" }],
    ["invalid_key", "a key with a zero byte", { key: "k\u0000" }],
    ["invalid_key", "a key too long", { key: "k".repeat(513) }],
    ["invalid_key", "no source", { source: "" }],
  ])("refuses by name (%s): %s, and nothing stays", async (code, _, more) => {
    const model = scriptedModel();
    const { engine, disk } = await bootEngine({ model });
    await refused(engine.accept(request(more)), code);
    await calm();
    expect(disk.catalog.sessions({ limit: 10 })).toEqual([]);
    expect(await engine.whereabouts(turnId("api", "k1"))).toBeNull();
    expect(model.all).toHaveLength(0);
  });

  it("takes the longest text that is allowed", async () => {
    const { engine } = await bootEngine();
    expect(await engine.accept(request({ text: "x".repeat(1_000) }))).toMatchObject({ applied: "began" });
  });

  it("refuses at a full inbox, and has room again when one is withdrawn", async () => {
    const { engine, send, journal } = await bootEngine({ limits: { inbox: 2 } });
    await send("s", "running");
    const { id } = await send("s", "one");
    await send("s", "two");
    const before = journal("s");
    await refused(engine.accept(request()), "inbox_full");
    expect(journal("s")).toEqual(before);
    expect(await engine.whereabouts(turnId("api", "k1"))).toBeNull();
    await engine.withdraw("s", id);
    expect(await engine.accept(request())).toMatchObject({ applied: "queue", replayed: false });
  });

  it.each<[string, Partial<AcceptRequest>]>([
    ["text", { text: "other" }],
    ["session", { session: "t" }],
    ["mode", { mode: "steer" }],
    ["reply", { reply: "push" }],
  ])("refuses a known key with another %s, and nothing of it stays", async (_, more) => {
    const { engine, disk, journal } = await bootEngine();
    await engine.accept(request());
    const before = journal("s");
    await refused(engine.accept(request(more)), "idempotency_key_conflict");
    expect(journal("s")).toEqual(before);
    expect(disk.journal.load("t")).toBeNull();
    expect(disk.check()).toEqual([]);
  });

  it("refuses a steer into a turn that does not run", async () => {
    const model = scriptedModel();
    const { engine, send, ended, disk } = await bootEngine({ model });
    const { id } = await send("s", "one");
    await refused(engine.accept(request({ mode: "steer", into: "run_other" })), "run_not_accepting_steer");
    expect(await engine.accept(request({ mode: "steer", into: id }))).toMatchObject({ applied: "steer" });
    (await model.next()).answer("hm");
    (await model.next()).answer("done");
    await ended("s", id);
    await refused(engine.accept(request({ key: "k2", mode: "steer", into: id })), "run_not_accepting_steer");
    expect(disk.check()).toEqual([]);
  });
});

describe("the same key again", () => {
  const first = { id: turnId("api", "k1"), session: "s", applied: "began", cursor: "0" };

  it("is answered like the first time", async () => {
    const { engine } = await bootEngine();
    expect(await engine.accept(request())).toEqual({ ...first, replayed: false });
    expect(await engine.accept(request())).toEqual({ ...first, replayed: true });
  });

  it("ten times at once is one input and one model call", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    const receipts = await Promise.all(Array.from({ length: 10 }, () => booted.engine.accept(request())));
    expect(receipts.filter((receipt) => receipt.replayed)).toHaveLength(9);
    expect(new Set(receipts.map((receipt) => receipt.id)).size).toBe(1);
    await calm();
    expect(kinds(booted)).toEqual(["accepted", "began"]);
    expect(model.all).toHaveLength(1);
  });

  it("at once with another text: one of them is refused", async () => {
    const booted = await bootEngine();
    const both = await Promise.allSettled([
      booted.engine.accept(request()),
      booted.engine.accept(request({ text: "x" })),
    ]);
    expect(both.map((one) => one.status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(kinds(booted)).toEqual(["accepted", "began"]);
  });

  it("is answered like the first time after a restart, when it is long answered, and when it was withdrawn", async () => {
    const model = scriptedModel();
    const before = await bootEngine({ model });
    await before.engine.accept(request());
    const waits = request({ key: "k2", text: "never mind" });
    await before.engine.accept(waits);
    await before.engine.withdraw("s", turnId("api", "k2"));
    (await model.next()).answer("hi");
    await before.ended("s", first.id);
    before.kill();
    const { engine } = await bootEngine({ disk: before.disk });
    expect(await engine.accept(request())).toEqual({ ...first, replayed: true });
    expect(await engine.accept(waits)).toMatchObject({ applied: "queue", replayed: true });
  });

  it("is answered like the first time at a full inbox and while draining", async () => {
    const { engine, send } = await bootEngine({ limits: { inbox: 1 } });
    await engine.accept(request());
    await send("s", "fills it");
    expect(await engine.accept(request())).toMatchObject({ replayed: true });
    void engine.drain(60_000);
    expect(await engine.accept(request())).toMatchObject({ replayed: true });
  });
});

describe("an input on its way", () => {
  it("is queued, then taken, then answered; or withdrawn; or was never here", async () => {
    const model = scriptedModel();
    const { engine, send, ended } = await bootEngine({ model });
    const one = await send("s", "one");
    const two = await send("s", "two");
    const three = await send("s", "three");
    expect(await engine.whereabouts(one.id)).toEqual({ at: "taken", turn: one.id });
    expect(await engine.whereabouts(two.id)).toEqual({ at: "queued" });
    (await model.next()).answer("1");
    await ended("s", one.id);
    expect(await engine.whereabouts(one.id)).toEqual({ at: "answered", turn: one.id, outcome: "completed" });
    expect(await engine.whereabouts(two.id)).toEqual({ at: "taken", turn: two.id });
    await engine.withdraw("s", three.id);
    expect(await engine.whereabouts(three.id)).toEqual({ at: "withdrawn" });
    expect(await engine.whereabouts("run_nobody")).toBeNull();
  });

  it("that interrupts: the receipt says so, the turn stops, and this one is next", async () => {
    const model = scriptedModel();
    const { send, ended } = await bootEngine({ model });
    const one = await send("s", "one");
    const call = await model.next();
    await send("s", "waits");
    const two = await send("s", "two", { mode: "interrupt" });
    expect(two.applied).toBe("interrupt");
    expect(call.signal.aborted).toBe(true);
    expect(await ended("s", one.id)).toBe("interrupted");
    expect((await model.next()).request.messages.at(-1)).toEqual({ role: "user", text: "two" });
  });

  it("that steers joins at the next boundary, and is answered by that turn", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("look");
    const { engine, send, ended } = await bootEngine({ model, tools: [tool] });
    const one = await send("s", "one");
    (await model.next()).answer("", use("look"));
    const running = await tool.next();
    const two = await send("s", "two", { mode: "steer" });
    expect(two.applied).toBe("steer");
    expect(running.call.signal.aborted).toBe(false);
    running.done("seen");
    const call = await model.next();
    expect(call.request.messages.slice(-2)).toMatchObject([
      { role: "tool", text: "seen" },
      { role: "user", text: "two" },
    ]);
    call.answer("both");
    await ended("s", one.id);
    expect(await engine.whereabouts(two.id)).toEqual({ at: "answered", turn: one.id, outcome: "completed" });
  });

  it("that steers into an answer leaves it whole, and is the next turn", async () => {
    const model = scriptedModel();
    const { engine, send, ended } = await bootEngine({ model });
    const one = await send("s", "one");
    const call = await model.next();
    const two = await send("s", "two", { mode: "steer" });
    call.answer("to one");
    await ended("s", one.id);
    (await model.next()).answer("to two");
    await ended("s", two.id);
    expect(await engine.run(one.id)).toMatchObject({ status: "completed", output: "to one" });
    expect(await engine.run(two.id)).toMatchObject({ status: "completed", output: "to two" });
  });

  it("that interrupts while another one's interrupt is being carried out goes first; the other follows", async () => {
    const model = scriptedModel(null);
    const clock = handClock();
    const { send } = await bootEngine({ model, clock });
    await send("s", "one");
    await model.next();
    for (const text of ["two", "three"])
      expect(await send("s", text, { mode: "interrupt" })).toMatchObject({ applied: "interrupt" });
    await clock.pass(2_000); // the deaf call is given up
    const three = await model.next();
    expect(three.request.messages.at(-1)).toEqual({ role: "user", text: "three" });
    three.answer("ok");
    expect((await model.next()).request.messages.at(-1)).toEqual({ role: "user", text: "two" });
  });

  it("that queues has a turn of its own, in order", async () => {
    const model = scriptedModel();
    const { send } = await bootEngine({ model });
    expect((await send("s", "one")).applied).toBe("began");
    for (const text of ["two", "three"]) expect((await send("s", text)).applied).toBe("queue");
    for (const text of ["one", "two", "three"]) {
      const call = await model.next();
      expect(call.request.messages.at(-1)).toEqual({ role: "user", text });
      call.answer("ok");
    }
  });
});
