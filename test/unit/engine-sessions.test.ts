// The real engine and the real effects, over a store in memory, driven by hand: sessions, and who follows them.
import { describe, expect, it } from "vitest";
import type { Update } from "../../src/core/runtime.ts";
import { ASK, kinds, request, shape, textOf, use, watch } from "../fakes/engine.ts";
import { faulty } from "../fakes/faulty-store.ts";
import { type Booted, bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

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
