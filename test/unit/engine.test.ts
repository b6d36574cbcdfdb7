// The real engine and the real effects, over a store in memory, driven by hand.
import { describe, expect, it } from "vitest";
import type { RefusalCode } from "../../src/core/errors.ts";
import type { Gate } from "../../src/core/ports.ts";
import type { AcceptRequest, Update } from "../../src/core/runtime.ts";
import type { Mode } from "../../src/core/session.ts";
import { turnId } from "../../src/engine/engine.ts";
import { faulty, type Trouble } from "../fakes/faulty-store.ts";
import {
  type Booted,
  bootEngine,
  calm,
  handClock,
  scriptedChannel,
  scriptedMemory,
  scriptedModel,
  scriptedTool,
} from "../fakes/scripted.ts";

const kinds = (booted: Booted, session = "s") => booted.journal(session).map((entry) => entry.kind);
const refused = (promise: Promise<unknown>, code: RefusalCode) =>
  expect(promise).rejects.toMatchObject({ name: "Refusal", code });
/** Whether it is over without any more time passing. */
const isOver = async (promise: Promise<unknown>) => {
  let over = false;
  void promise.then(() => {
    over = true;
  });
  await calm();
  return over;
};
const request = (more: Partial<AcceptRequest> = {}): AcceptRequest => ({
  session: "s",
  source: "api",
  key: "k1",
  text: "hello",
  mode: "queue",
  reply: "pull",
  ...more,
});
const use = (tool: string, args: unknown = {}) => ({ tool, args });
const ASK: Gate = { gate: "ask", kind: "approval", text: "may I?", choices: ["once", "deny"], timeoutMs: 300_000 };

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
    expect(disk.sessions({ limit: 10 })).toEqual([]);
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
    expect(disk.load("t")).toBeNull();
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

describe("sessions", () => {
  it("work in series, each on one turn; different ones side by side", async () => {
    const model = scriptedModel();
    const { send } = await bootEngine({ model });
    for (const session of ["a", "a", "b", "b"]) await send(session, "hi");
    await calm();
    expect(model.all.map((call) => call.request.session)).toEqual(["a", "b"]);
    (await model.next()).answer("ok");
    await calm();
    expect(model.all.map((call) => call.request.session)).toEqual(["a", "b", "a"]);
  });

  it("see nothing of each other", async () => {
    const model = scriptedModel();
    const { send } = await bootEngine({ model });
    await send("a", "mine");
    await send("b", "yours");
    await calm();
    expect(model.all.map((call) => call.request.messages)).toEqual([
      [{ role: "user", text: "mine" }],
      [{ role: "user", text: "yours" }],
    ]);
  });

  it("share the room fairly: a long queue goes to the back of the line with each turn", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model, limits: { turns: 1 } });
    for (const session of ["a", "a", "a", "b", "c"]) await send(session, "hi");
    expect((await engine.status("b")).held).toBe(true);
    const order: string[] = [];
    for (let i = 0; i < 5; i++) {
      const call = await model.next();
      order.push(call.request.session);
      await calm();
      expect(model.all).toHaveLength(i + 1);
      call.answer("ok");
    }
    expect(order).toEqual(["a", "b", "c", "a", "a"]);
    expect((await engine.status("b")).held).toBe(false);
  });

  it("give their place to others while a person is asked", async () => {
    const model = scriptedModel();
    const { send, entry } = await bootEngine({
      model,
      tools: [scriptedTool("rm", { gate: ASK })],
      limits: { turns: 1 },
    });
    await send("a", "hi");
    await send("b", "hi");
    (await model.next()).answer("", use("rm"));
    await entry("a", "asked");
    expect((await model.next()).request.session).toBe("b");
  });

  it("that another one made are not counted: they cannot wait for their parent's place", async () => {
    const model = scriptedModel();
    const { send } = await bootEngine({ model, limits: { turns: 1 } });
    await send("a", "hi");
    await send("child", "hi", { parent: "a" });
    await calm();
    expect(model.all.map((call) => call.request.session)).toEqual(["a", "child"]);
  });

  it("that are not kept in memory have all they had when they come back", async () => {
    const model = scriptedModel();
    const { send, ended } = await bootEngine({ model, limits: { warm: 1 } });
    for (const session of ["a", "b", "c", "a"]) {
      const { id } = await send(session, `to ${session}`);
      const call = await model.next();
      call.answer("ok");
      await ended(session, id);
    }
    expect(model.all[3]?.request.messages.map((message) => message.text)).toEqual(["to a", "ok", "to a"]);
  });
});

describe("what waits", () => {
  it("is listed with its text, in order; can be moved and withdrawn while it waits", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model });
    await send("s", "one");
    const two = await send("s", "two");
    const three = await send("s", "three", { mode: "steer" });
    const texts = async () => (await engine.status("s")).inbox.map((input) => `${input.text} ${input.mode}`);
    expect(await texts()).toEqual(["two queue", "three steer"]);
    expect(await engine.move("s", three.id, 0)).toBe(true);
    expect(await texts()).toEqual(["three steer", "two queue"]);
    expect(await engine.withdraw("s", three.id)).toBe(true);
    expect(await engine.withdraw("s", three.id)).toBe(false);
    expect(await engine.move("s", three.id, 0)).toBe(false);
    expect(await texts()).toEqual(["two queue"]);
    (await model.next()).answer("ok");
    expect((await model.next()).request.messages.at(-1)?.text).toBe("two");
    expect(await engine.withdraw("s", two.id)).toBe(false);
  });
});

// ── Followers ─────────────────────────────────────────────────────────────────────────────────────────

/** A viewer that writes down all it sees. */
function watch({ engine }: Booted, session = "s", cursor = "") {
  const seen: Update[] = [];
  const leave = new AbortController();
  const over = (async () => {
    for await (const update of engine.follow(session, cursor, leave.signal)) seen.push(update);
  })();
  return { seen, leave: () => leave.abort(), over };
}
const textOf = (updates: Update[]) => updates.map((u) => ("delta" in u ? u.delta : "")).join("");
const shape = (updates: Update[]) =>
  updates.map((u) =>
    "entry" in u ? u.entry.kind : "reset" in u ? "reset" : "delta" in u ? `"${u.delta}"` : `(${asideOf(u)})`,
  );
const asideOf = (update: Update) =>
  "notice" in update ? update.notice : "reasoning" in update ? update.reasoning : "";

describe("a follower", () => {
  it("sees entries and live text as they come, each once, the text before its entry", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    const { seen } = watch(booted);
    const { id } = await booted.send("s", "hi");
    const call = await model.next();
    for (const word of ["one ", "two ", "three"]) {
      call.say(word);
      await calm();
    }
    call.answer("");
    await booted.ended("s", id);
    await calm();
    expect(shape(seen)).toEqual(["accepted", "began", '"one "', '"two "', '"three"', "thought", "ended"]);
    expect(new Set(seen.map((update) => update.cursor)).size).toBe(seen.length);
  });

  it("from any place gets exactly the rest", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("look");
    const booted = await bootEngine({ model, tools: [tool] });
    const { seen } = watch(booted);
    const one = await booted.send("s", "one");
    const call = await model.next();
    call.say("let me ");
    await calm();
    await booted.send("s", "between");
    call.say("look");
    await calm();
    call.answer("", use("look"));
    (await tool.next()).done("seen");
    const second = await model.next();
    second.say("half an an");
    await calm();
    await booted.engine.stop({ session: "s", turn: one.id });
    (await model.next()).answer("there you are");
    await calm();
    const entries = (updates: Update[]) => updates.flatMap((u) => ("entry" in u ? [u.entry.seq] : []));
    expect(textOf(seen)).toBe("let me lookhalf an anthere you are");
    for (const [i, { cursor }] of seen.entries()) {
      const again = watch(booted, "s", cursor);
      await calm();
      expect([cursor, textOf(again.seen)]).toEqual([cursor, textOf(seen.slice(i + 1))]);
      expect([cursor, entries(again.seen)]).toEqual([cursor, entries(seen.slice(i + 1))]);
      again.leave();
    }
  });

  it("that comes in the middle of a word gets it from its beginning, and one that comes back from where it was", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    await booted.send("s", "hi");
    const call = await model.next();
    call.say("half");
    const late = watch(booted);
    const back = watch(booted, "s", "2.2");
    await calm();
    call.say("way");
    await calm();
    expect(textOf(late.seen)).toBe("halfway");
    expect(shape(back.seen)).toEqual(['"lf"', '"way"']);
  });

  it("that leaves stops nothing, and leaves nothing behind", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    const viewer = watch(booted);
    const { id } = await booted.send("s", "hi");
    const call = await model.next();
    viewer.leave();
    await viewer.over;
    expect(call.signal.aborted).toBe(false);
    call.answer("ok");
    expect(await booted.ended("s", id)).toBe("completed");
  });

  it("is told to forget the text of a call that died with its process", async () => {
    const model = scriptedModel();
    const before = await bootEngine({ model });
    await before.send("s", "hi");
    const viewer = watch(before);
    (await model.next()).say("half a");
    await calm();
    const cursor = viewer.seen.at(-1)?.cursor;
    before.kill();
    const again = scriptedModel();
    const booted = await bootEngine({ model: again, disk: before.disk });
    const { seen } = watch(booted, "s", cursor);
    (await again.next()).answer("another");
    await calm();
    expect(shape(seen)).toEqual(["reset", "restarted", '"another"', "thought", "ended"]);
  });

  it("sees all the text also when the store could not be read meanwhile", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const store = faulty();
    const booted = await bootEngine({ model, clock, between: store.between });
    const { id } = await booted.send("s", "hi");
    const call = await model.next();
    const { seen } = watch(booted);
    call.say("one ");
    await calm();
    store.down("unknown, landed", "load");
    const waits = booted.send("s", "two");
    await clock.pass(1_000);
    call.say("two ");
    await calm();
    store.up();
    await clock.pass(10_000);
    await waits;
    call.say("three");
    await calm();
    call.answer("");
    await booted.ended("s", id);
    await calm();
    expect(textOf(seen)).toBe("one two three");
  });
});

// ── Stop ──────────────────────────────────────────────────────────────────────────────────────────────

describe("what is only for the moment", () => {
  it("costs what is new of it, however much was thought before: no more than text does", async () => {
    const model = scriptedModel();
    const { engine, send } = await bootEngine({ model });
    const took = async (session: string, tell: "say" | "reason") => {
      await send(session, "hi");
      const call = await model.next();
      const leave = new AbortController();
      const began = performance.now();
      let heard = 0;
      call[tell]("x".repeat(1_000_000));
      for await (const update of engine.follow(session, "", leave.signal)) {
        const piece = "delta" in update ? update.delta : "reasoning" in update ? update.reasoning : "";
        heard += piece.length;
        if (heard >= 1_100_000) break;
        if (piece) call[tell]("a few words ");
      }
      leave.abort();
      return performance.now() - began;
    };
    const text = await took("text", "say");
    expect(await took("thoughts", "reason")).toBeLessThan(500 + 5 * text);
  });

  it("has a place of its own in the stream, from which exactly the rest follows", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    await booted.engine.accept(request());
    const call = await model.next();
    const first = watch(booted);
    call.reason("hm");
    await calm();
    call.reason(", so");
    call.say("Good");
    await calm();
    const thoughts = first.seen.filter((update) => "reasoning" in update);
    expect(thoughts.map((update) => ("reasoning" in update ? update.reasoning : ""))).toEqual(["hm", ", so"]);
    expect(new Set(first.seen.map(({ cursor }) => cursor)).size).toBe(first.seen.length);
    const again = watch(booted, "s", thoughts.at(-1)?.cursor);
    call.say(" day");
    call.answer("");
    await calm();
    expect(textOf(again.seen)).toBe("Good day");
    for (const viewer of [first, again]) viewer.leave();
    await Promise.all([first.over, again.over]);
  });
});

describe("a fork", () => {
  const said = (booted: Booted, session: string) =>
    booted.journal(session).flatMap((entry) => (entry.kind === "forked" ? entry.messages.map(({ text }) => text) : []));

  it("begins with what was said up to a turn, goes on by itself, and leaves the other as it was", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    const { engine } = booted;
    const turns: string[] = [];
    for (const key of ["one", "two"]) {
      turns.push((await engine.accept(request({ key, text: key }))).id);
      (await model.next()).answer(`re ${key}`);
      await calm();
    }
    const before = booted.journal("s");
    expect(await engine.fork({ from: "s", through: turns[0] ?? "", session: "f", title: "a fork" })).toBe("forked");
    expect(said(booted, "f")).toEqual(["one", "re one"]);
    expect(await engine.fork({ from: "s", session: "g", title: "" })).toBe("forked");
    expect(said(booted, "g")).toEqual(["one", "re one", "two", "re two"]);
    await engine.accept(request({ session: "f", key: "three", text: "three" }));
    const call = await model.next();
    expect(call.request.messages.map(({ text }) => text)).toEqual(["one", "re one", "three"]);
    call.answer("re three");
    await calm();
    expect(booted.journal("s")).toEqual(before);
    expect(await engine.summary("f")).toMatchObject({ title: "a fork" });
  });

  it("is refused where there is nothing to begin with, or something already", async () => {
    const model = scriptedModel();
    const { engine } = await bootEngine({ model });
    const { id } = await engine.accept(request());
    expect(await engine.fork({ from: "nobody", session: "f", title: "" })).toBe("unknown");
    expect(await engine.fork({ from: "s", through: id, session: "f", title: "" })).toBe("unknown"); // not over yet
    (await model.next()).answer("hi");
    await calm();
    expect(await engine.fork({ from: "s", session: "s", title: "" })).toBe("taken");
  });
});

describe("forgetting a session", () => {
  it("is refused while it works; then nothing is left of it, and it can begin anew", async () => {
    const model = scriptedModel();
    const booted = await bootEngine({ model });
    const { engine } = booted;
    const { id } = await engine.accept(request());
    expect(await engine.forget("s")).toBe("busy");
    (await model.next()).answer("hi");
    await calm();
    expect(await engine.forget("s")).toBe("forgotten");
    expect(await engine.forget("s")).toBe("unknown");
    expect([await engine.run(id), await engine.entries("s", 0, 9)]).toEqual([null, []]);
    await engine.accept(request({ text: "new" }));
    const call = await model.next();
    expect(call.request.messages.map(({ text }) => text)).toEqual(["new"]);
    call.answer("");
    await calm();
    expect(kinds(booted)).toEqual(["accepted", "began", "thought", "ended"]);
  });
});

describe("what comes with an input", () => {
  it("is given to the model for its turn only: instructions, options, another past", async () => {
    const model = scriptedModel();
    const { engine } = await bootEngine({ model });
    await engine.accept(request({ key: "a", text: "one" }));
    (await model.next()).answer("re one");
    await calm();
    const history = [
      { role: "user" as const, text: "long ago" },
      { role: "assistant" as const, text: "indeed", calls: [] },
    ];
    await engine.accept(
      request({ key: "b", text: "two", history, instructions: "Rhyme.", options: { temperature: 0 } }),
    );
    const call = await model.next();
    expect(call.request.messages.map(({ text }) => text)).toEqual(["long ago", "indeed", "two"]);
    expect(call.request).toMatchObject({ options: { temperature: 0 } });
    expect(call.request.system).toContain("Rhyme.");
    call.answer("re two");
    await calm();
    await engine.accept(request({ key: "c", text: "three" }));
    const last = await model.next();
    expect(last.request.system).not.toContain("Rhyme.");
    expect(last.request.options).toBeUndefined();
    last.answer("");
    await calm();
  });
});

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
    expect(disk.load("s")).toBeNull();
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
    expect(now.disk.load("t")).toBeNull();
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
    const go = store.hold("epoch");
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
    expect(disk.load("s")).toBeNull();
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
    store.down("no", "epoch");
    await refused(send("s", "hi"), "store_unavailable");
    store.up();
    const { id } = await send("s", "hi");
    store.down("no", "epoch");
    await clock.pass(1_000);
    store.up();
    await clock.pass(10_000);
    (await model.next()).answer("ok");
    expect(await ended("s", id)).toBe("completed");
  });
});

// ── Effects ───────────────────────────────────────────────────────────────────────────────────────────

describe("a model call", () => {
  it("that fails in a way that passes is made again, later and later", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const { engine, send } = await bootEngine({ model, clock });
    const { id } = await send("s", "hi");
    for (const wait of [375, 750, 1_500, 3_000, 6_000, 12_000, 22_500, 22_500]) {
      (await model.next()).fault("reset");
      const before = model.all.length;
      await clock.pass(wait - 1);
      expect(model.all).toHaveLength(before);
      await clock.pass(1);
      expect(model.all).toHaveLength(before + 1);
    }
    (await model.next()).fault("no such key", "auth");
    await calm();
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: "no such key" });
  });

  it("that succeeds the second time has one answer", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const booted = await bootEngine({ model, clock });
    await booted.send("s", "hi");
    (await model.next()).fault("reset");
    await clock.pass(1_000);
    (await model.next()).answer("hello");
    await calm();
    expect(kinds(booted)).toEqual(["accepted", "began", "thought", "ended"]);
  });

  it.each([
    [20_000, 21_000],
    [1, 375],
  ])("whose provider asks for %d ms waits %d: no less, and a little spread", async (retryAfter, waits) => {
    const model = scriptedModel();
    const clock = handClock();
    const { send } = await bootEngine({ model, clock });
    await send("s", "hi");
    (await model.next()).end({ end: "fault", reason: "slow down", kind: "network", retryAfter });
    await clock.pass(waits - 1);
    expect(model.all).toHaveLength(1);
    await clock.pass(1);
    expect(model.all).toHaveLength(2);
  });

  it.each([
    ["that fails for good", "", "auth"],
    ["that fails for good behind what a person has seen", "so far", "bad_request"],
  ] as const)("%s is not made again", async (_, said, kind) => {
    const model = scriptedModel();
    const clock = handClock();
    const { engine, send } = await bootEngine({ model, clock });
    const { id } = await send("s", "hi");
    const call = await model.next();
    call.say(said);
    call.fault("no", kind);
    await clock.pass(600_000);
    expect(model.all).toHaveLength(1);
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: "no", output: said });
  });

  it("that we aborted is not made again, also not from the wait before the next try", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const { engine, send, ended } = await bootEngine({ model, clock });
    const { id } = await send("s", "hi");
    (await model.next()).fault("reset");
    await calm();
    await engine.stop({ session: "s", turn: id });
    expect(await ended("s", id)).toBe("cancelled");
    await clock.pass(600_000);
    expect(model.all).toHaveLength(1);
  });

  it("may use tools, except the last one of the budget", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("look");
    const { send } = await bootEngine({ model, tools: [tool], rules: { iterations: 1 } });
    await send("s", "hi");
    const first = await model.next();
    first.answer("", use("look"));
    (await tool.next()).done("seen");
    const last = await model.next();
    expect([first, last].map((call) => call.request.final)).toEqual([false, true]);
  });

  it("that wants a tool that is not there, or cannot judge, gets an error for a result and nothing runs", async () => {
    const model = scriptedModel();
    const broken = {
      ...scriptedTool("broken"),
      judge: () => {
        throw new Error("cannot parse that");
      },
    };
    const { send } = await bootEngine({ model, tools: [broken] });
    await send("s", "hi");
    (await model.next()).answer("", use("nothing"), use("broken"));
    expect((await model.next()).request.messages.slice(-2)).toMatchObject([
      { outcome: "error", text: 'Not run: there is no tool "nothing". There are: broken.' },
      { outcome: "error", text: "Not run: cannot parse that" },
    ]);
    expect(broken.all).toHaveLength(0);
  });

  it("always gets one result for each call, however the turn before ended", async () => {
    const model = scriptedModel();
    const { send, ended } = await bootEngine({ model, rules: { iterations: 1 } });
    const one = await send("s", "one");
    (await model.next()).answer("", use("nothing"));
    (await model.next()).answer("once more", use("nothing"));
    await ended("s", one.id);
    await send("s", "two");
    const { messages } = (await model.next()).request;
    const calls = messages.flatMap((m) => (m.role === "assistant" ? m.calls.map((call) => call.id) : []));
    expect(messages.flatMap((m) => (m.role === "tool" ? [m.call] : []))).toEqual(calls);
  });
});

describe("a tool", () => {
  it("that throws or fails gives an error for a result, and is not run again", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("pay", { repeatable: true });
    const { send } = await bootEngine({ model, tools: [tool] });
    await send("s", "hi");
    (await model.next()).answer("", use("pay"), use("pay"));
    (await tool.next()).fail("boom");
    (await tool.next()).done("not enough", false);
    expect((await model.next()).request.messages.slice(-2)).toMatchObject([
      { outcome: "error", text: "The tool failed: boom" },
      { outcome: "error", text: "not enough" },
    ]);
    expect(tool.all).toHaveLength(2);
  });

  it("that says too much is cut in the middle", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("cat");
    const { send } = await bootEngine({ model, tools: [tool] });
    await send("s", "hi");
    (await model.next()).answer("", use("cat"));
    (await tool.next()).done(`start${"x".repeat(1_000_000)}end`);
    const text = (await model.next()).request.messages.at(-1)?.text ?? "";
    expect(text.length).toBeLessThan(200_100);
    expect(text).toMatch(/^startx+\n\[… \d+ characters left out …\]\nx+end$/);
  });
});

describe("a question to a person", () => {
  async function asked() {
    const model = scriptedModel();
    const clock = handClock();
    const tool = scriptedTool("rm", { gate: ASK });
    const booted = await bootEngine({ model, clock, tools: [tool] });
    await booted.send("s", "clean up");
    (await model.next()).answer("", use("rm"));
    const { call } = await booted.entry("s", "asked");
    return { ...booted, model, clock, tool, answer: { session: "s", call, allow: true, text: "", by: "me" } };
  }

  it("that nobody answers is a no, when its time is over", async () => {
    const { model, clock, tool, engine, answer } = await asked();
    await clock.pass(299_999);
    expect((await engine.status("s")).asking).toHaveLength(1);
    await clock.pass(1);
    expect((await model.next()).request.messages.at(-1)).toMatchObject({
      outcome: "denied",
      text: "Not run: nobody answered in time.",
    });
    expect(await engine.answer(answer)).toBe(false);
    expect(tool.all).toHaveLength(0);
  });

  it("is not answered by a clock that was set back", async () => {
    const { clock, engine } = await asked();
    clock.set(-200_000);
    await clock.pass(300_000);
    expect((await engine.status("s")).asking).toHaveLength(1);
    await clock.pass(200_000);
    expect((await engine.status("s")).asking).toHaveLength(0);
  });

  it("runs nothing before it is answered, and exactly that once it is", async () => {
    const { engine, tool, answer, clock } = await asked();
    await clock.pass(1_000);
    expect(tool.all).toHaveLength(0);
    expect(await engine.answer(answer)).toBe(true);
    (await tool.next()).done("gone");
    expect(await engine.answer(answer)).toBe(false);
    expect(tool.all).toHaveLength(1);
  });

  it("that is answered leaves the tool that runs beside it alone", async () => {
    const model = scriptedModel();
    const look = scriptedTool("look");
    const { engine, send, entry } = await bootEngine({ model, tools: [look, scriptedTool("rm", { gate: ASK })] });
    await send("s", "clean up");
    (await model.next()).answer("", use("look"), use("rm"));
    const running = await look.next();
    const { call } = await entry("s", "asked");
    await engine.answer({ session: "s", call, allow: false, text: "not today", by: "me" });
    await calm();
    expect(running.call.signal.aborted).toBe(false);
    running.done("seen");
    expect((await model.next()).request.messages.slice(-2)).toMatchObject([
      { outcome: "denied", text: "not today" },
      { outcome: "ok", text: "seen" },
    ]);
  });

  it("stays when somebody says something else", async () => {
    const { engine, send } = await asked();
    await send("s", "by the way");
    expect((await engine.status("s")).asking).toHaveLength(1);
  });

  it("is over when its turn is stopped", async () => {
    const { engine, tool, answer } = await asked();
    const { turn } = await engine.status("s");
    await engine.stop({ session: "s", turn: turn?.id ?? "" });
    expect(await engine.answer(answer)).toBe(false);
    expect(tool.all).toHaveLength(0);
  });
});

describe("a reply to a chat", () => {
  async function replied() {
    const model = scriptedModel();
    const clock = handClock();
    const channel = scriptedChannel();
    const booted = await bootEngine({ model, clock, channel });
    const { id } = await booted.send("s", "hi", { reply: "push" });
    (await model.next()).answer("hello");
    return { ...booted, clock, channel, id };
  }

  it("is sent once, under the turn's key, and then the turn ends", async () => {
    const { channel, id, ended, entry } = await replied();
    const sending = await channel.next();
    expect(sending.reply).toEqual({ key: id, session: "s", turn: id, text: "hello", again: false });
    sending.sent("maybe");
    expect(await ended("s", id)).toBe("completed");
    expect((await entry("s", "delivered")).how).toBe("maybe");
    expect(channel.all).toHaveLength(1);
  });

  it("that fails is sent again, marked, under the same key, and in the end counts as undelivered", async () => {
    const { channel, clock, id, entry, ended } = await replied();
    const sent: [string, boolean][] = [];
    for (const wait of [1_000, 5_000, 20_000, 0]) {
      const sending = await channel.next();
      sent.push([sending.reply.key, sending.reply.again]);
      sending.fail("no route");
      await clock.pass(wait);
    }
    expect(sent).toEqual([
      [id, false],
      [id, true],
      [id, true],
      [id, true],
    ]);
    expect((await entry("s", "delivered")).how).toBe("undelivered");
    expect(await ended("s", id)).toBe("completed");
  });

  it("whose process died is sent again, marked, under the same key", async () => {
    const before = await replied();
    await before.channel.next();
    before.kill();
    const channel = scriptedChannel();
    await bootEngine({ channel, disk: before.disk });
    expect((await channel.next()).reply).toEqual({
      key: before.id,
      session: "s",
      turn: before.id,
      text: "hello",
      again: true,
    });
  });

  it("says why when there is no answer", async () => {
    const model = scriptedModel();
    const channel = scriptedChannel();
    const { send } = await bootEngine({ model, channel });
    await send("s", "hi", { reply: "push" });
    (await model.next()).fault("no credit left", "quota");
    expect((await channel.next()).reply.text).toBe("no credit left");
  });
});

describe("memory", () => {
  it("gets what was said in the turn, steers too, under the turn's key", async () => {
    const model = scriptedModel();
    const memory = scriptedMemory();
    const tool = scriptedTool("look");
    const { send } = await bootEngine({ model, memory, tools: [tool] });
    const one = await send("s", "one");
    (await model.next()).answer("hm", use("look"));
    const running = await tool.next();
    await send("s", "two", { mode: "steer" });
    running.done("seen");
    (await model.next()).answer("both");
    const writing = await memory.next();
    expect(writing.key).toBe(one.id);
    expect(writing.turn).toEqual({
      session: "s",
      turn: one.id,
      outcome: "completed",
      user: "one\ntwo",
      assistant: "both",
    });
  });

  it("that fails is written again until it is written, before the next turn's", async () => {
    const model = scriptedModel();
    const clock = handClock();
    const memory = scriptedMemory();
    const { engine, send } = await bootEngine({ model, clock, memory });
    for (const text of ["one", "two"]) {
      await send("s", text);
      (await model.next()).answer("ok");
    }
    (await memory.next()).fail("down");
    await clock.pass(1_000);
    (await memory.next()).done();
    (await memory.next()).done();
    await calm();
    expect(memory.all.map(({ turn }) => turn.user)).toEqual(["one", "one", "two"]);
    expect((await engine.status("s")).unsaved).toEqual([]);
  });

  it("of a turn before is written on while the next one is stopped", async () => {
    const model = scriptedModel();
    const memory = scriptedMemory();
    const { engine, send, ended, logs } = await bootEngine({ model, memory });
    const one = await send("s", "one");
    (await model.next()).answer("ok");
    await ended("s", one.id);
    const writing = await memory.next();
    const two = await send("s", "two");
    await engine.stop({ session: "s", turn: two.id });
    expect(await ended("s", two.id)).toBe("cancelled");
    writing.done();
    expect((await memory.next()).key).toBe(two.id);
    expect(logs.map((line) => line.event)).not.toContain("memory.failed");
  });

  it("is not asked when there is none", async () => {
    const model = scriptedModel();
    const { engine, send, ended } = await bootEngine({ model });
    const { id } = await send("s", "hi");
    (await model.next()).answer("ok");
    await ended("s", id);
    expect((await engine.status("s")).unsaved).toEqual([]);
  });
});
