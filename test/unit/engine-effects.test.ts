// The real engine and the real effects, over a store in memory, driven by hand: model calls, tools, questions, replies and memory.
import { describe, expect, it } from "vitest";
import { ASK, kinds, use, watch } from "../fakes/engine.ts";
import {
  bootEngine,
  calm,
  handClock,
  scriptedChannel,
  scriptedMemory,
  scriptedModel,
  scriptedTool,
} from "../fakes/scripted.ts";

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
  it("shows viewers the end of what it prints while it runs, each piece in its own place, and nothing afterwards", async () => {
    const model = scriptedModel();
    const tool = scriptedTool("look");
    const clock = handClock();
    const booted = await bootEngine({ model, tools: [tool], clock });
    await booted.send("s", "hi");
    (await model.next()).answer("", use("look"));
    const { call, done } = await tool.next();
    const viewer = watch(booted);
    for (let i = 0; i < 3_000; i++) call.print?.(`line ${i}\n`);
    await clock.pass(1_000);
    call.print?.("last\n");
    await clock.pass(1_000);
    const printed = () => viewer.seen.flatMap((update) => ("printed" in update ? [update] : []));
    expect(printed().map((update) => update.printed.split("\n").slice(-3))).toEqual([
      ["line 2998", "line 2999", ""],
      ["line 2999", "last", ""],
    ]);
    expect(printed()[0]?.printed).toHaveLength(4_000);
    const again = watch(booted, "s", printed()[0]?.cursor);
    await calm();
    expect(again.seen).toEqual(printed().slice(1));
    done("over");
    await model.next();
    call.print?.("too late\n");
    await clock.pass(1_000);
    expect(printed()).toHaveLength(2);
    for (const { leave } of [viewer, again]) leave();
    await Promise.all([viewer.over, again.over]);
  });

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
