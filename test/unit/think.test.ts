// One step of thought over several endpoints, and conversations that grow too long. Driven by hand.
import { describe, expect, it } from "vitest";
import type { FaultKind } from "../../src/core/ports.ts";
import { type Booted, bootEngine, calm, handClock, scriptedModel, scriptedTool } from "../fakes/scripted.ts";

const model = (name: string, context = 1_000_000) => scriptedModel({ end: "aborted" }, { name, context });
type Scripted = ReturnType<typeof model>;

/** What a viewer is told about the session's troubles, in order; empty: taken back. */
function noticesOf({ engine }: Booted, session = "s"): string[] {
  const seen: string[] = [];
  void (async () => {
    for await (const update of engine.follow(session, "", new AbortController().signal))
      if ("notice" in update) seen.push(update.notice);
  })();
  return seen;
}

describe("an empty stream", () => {
  it("in a conversation that cannot be made shorter is told as what it is", async () => {
    const clock = handClock();
    const first = model("first");
    const { engine, send } = await bootEngine({ clock, model: first });
    const { id } = await send("s", "hi");
    for (let n = 0; n < 2; n++) {
      (await first.next()).fault("the answer was an empty stream", "empty");
      await clock.pass(10_000);
    }
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: "the answer was an empty stream" });
  });
});

describe("a fallback with a smaller window", () => {
  it("is asked when the conversation has been made to fit it, not before", async () => {
    const clock = handClock();
    const [first, small] = [model("first"), model("small", 1_000)];
    const { send, ended } = await bootEngine({ clock, model: first, fallbacks: [small], limits: { text: 100_000 } });
    for (const n of [1, 2, 3]) {
      const { id } = await send("s", `${n} ${"word ".repeat(500)}`);
      (await first.next()).answer("hm");
      await ended("s", id);
    }
    const { id } = await send("s", "and now?");
    while (!small.all.length) {
      first.all.at(-1)?.fault("reset");
      await clock.pass(8_000);
    }
    const summary = await small.next();
    expect(summary.request.system).toMatch(/^You write the summary/);
    summary.answer("They counted.");
    const asked = await small.next();
    const texts = asked.request.messages.map(({ text }) => text);
    expect(texts).toEqual([expect.stringContaining("They counted."), "hm", "and now?"]);
    asked.answer("four");
    expect(await ended("s", id)).toBe("completed");
    expect(small.all).toHaveLength(2);
  });
});

describe("fallbacks", () => {
  it("are asked in order, each after some 15 s of trouble with the one before, and the answer says whose it is", async () => {
    const clock = handClock();
    const [first, second, third] = [model("first"), model("second"), model("third")];
    const booted = await bootEngine({ clock, model: first, fallbacks: [second, third] });
    const { id } = await booted.send("s", "hi");
    const began = clock.now();
    while (!second.all.length) {
      (await first.next()).fault("reset");
      await calm();
      if (!second.all.length) await clock.pass(8_000);
    }
    expect(clock.now() - began).toBeLessThanOrEqual(40_000); // our steps are coarse
    expect(first.all.length).toBeGreaterThan(2);
    (await second.next()).fault("wrong key", "auth"); // no use in asking again
    (await third.next()).answer("here");
    expect(await booted.ended("s", id)).toBe("completed");
    expect([second, third].map((one) => one.all.length)).toEqual([1, 1]);
    const thought = await booted.entry("s", "thought");
    expect(thought).toMatchObject({ text: "here", model: "third" });
    const { firstWord = 0, tries = [] } = thought?.kind === "thought" ? (thought.timing ?? {}) : {};
    expect(tries).toHaveLength(first.all.length + 1);
    expect(tries.at(-1)).toEqual({ model: "second", reason: "wrong key", ms: clock.now() - began });
    expect(firstWord).toBe(clock.now() - began);
  });

  it("that all fail: the turn fails with what the last of them said", async () => {
    const [first, second] = [model("first"), model("second")];
    const { engine, send, entry } = await bootEngine({ model: first, fallbacks: [second] });
    const { id } = await send("s", "hi");
    (await first.next()).fault("no credit", "quota");
    (await second.next()).fault("wrong key", "auth");
    await calm();
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: "wrong key" });
    expect(await entry("s", "failed")).toMatchObject({ tries: [{ reason: "no credit" }, { reason: "wrong key" }] });
  });

  it("get the same request", async () => {
    const [first, second] = [model("first"), model("second")];
    const { send } = await bootEngine({ model: first, fallbacks: [second] });
    await send("s", "hi");
    const asked = await first.next();
    asked.fault("wrong key", "auth");
    expect((await second.next()).request).toEqual(asked.request);
  });

  it.each<FaultKind>(["bad_request", "filtered"])("are not asked about %s: it is the request's own", async (kind) => {
    const clock = handClock();
    const [first, second] = [model("first"), model("second")];
    const { engine, send } = await bootEngine({ clock, model: first, fallbacks: [second] });
    const { id } = await send("s", "hi");
    (await first.next()).fault("no", kind);
    await clock.pass(600_000);
    expect([first.all.length, second.all.length]).toEqual([1, 0]);
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: "no" });
  });

  it("are not asked when we stop, whatever the aborted call ends with", async () => {
    const first = scriptedModel({ end: "fault", kind: "network", reason: "socket closed" });
    const second = model("second");
    const clock = handClock();
    const { engine, send, ended } = await bootEngine({ clock, model: first, fallbacks: [second] });
    const { id } = await send("s", "hi");
    await first.next();
    await engine.stop({ session: "s", turn: id });
    expect(await ended("s", id)).toBe("cancelled");
    await clock.pass(600_000);
    expect([first.all.length, second.all.length]).toEqual([1, 0]);
  });

  it("stand behind a model that the turn asks for by name", async () => {
    const [usual, wanted, second] = [model("usual"), model("wanted"), model("second")];
    const modelNamed = (name: string) => (name === "wanted" ? wanted : null);
    const { send } = await bootEngine({ model: usual, fallbacks: [second], modelNamed });
    await send("s", "hi", { model: "wanted" });
    (await wanted.next()).fault("gone", "auth");
    await second.next();
    expect(usual.all).toHaveLength(0);
  });
});

describe("a notice", () => {
  it("says what, when the next try is and until when; the first word takes it back", async () => {
    const clock = handClock();
    const first = model("first");
    const booted = await bootEngine({ clock, model: first });
    const notices = noticesOf(booted);
    await booted.send("s", "hi");
    (await first.next()).end({ end: "fault", kind: "rate_limited", reason: "slow down", retryAfter: 20_000 });
    await calm();
    expect(notices).toEqual(["Trying again in 21 s, for up to 60 min: slow down"]);
    await clock.pass(21_000);
    const call = await first.next();
    expect(notices).toHaveLength(1); // it is not over before something has come
    call.say("hello");
    await calm();
    expect(notices.at(-1)).toBe("");
  });

  it("says when the next endpoint is asked", async () => {
    const [first, second] = [model("first"), model("second")];
    const booted = await bootEngine({ model: first, fallbacks: [second] });
    const notices = noticesOf(booted);
    await booted.send("s", "hi");
    (await first.next()).fault("wrong key", "auth");
    await second.next();
    await calm();
    expect(notices).toEqual(["first does not answer (wrong key). Trying the next one."]);
  });

  it.each<[string, (call: Awaited<ReturnType<Scripted["next"]>>) => void]>([
    ["tools instead of words", (call) => call.answer("", { tool: "look", args: {} })],
    ["a failure for good", (call) => call.fault("no", "bad_request")],
  ])("is taken back by %s", async (_, end) => {
    const clock = handClock();
    const first = model("first");
    const booted = await bootEngine({ clock, model: first, tools: [scriptedTool("look")] });
    const notices = noticesOf(booted);
    await booted.send("s", "hi");
    (await first.next()).fault("reset");
    await clock.pass(1_000);
    end(await first.next());
    await calm();
    expect(notices).toEqual([expect.stringMatching(/trying again/i), ""]);
  });

  it("is taken back by a stop, and by nothing else that waits", async () => {
    const first = model("first");
    const booted = await bootEngine({ model: first });
    const notices = noticesOf(booted);
    const { id } = await booted.send("s", "hi");
    (await first.next()).fault("reset");
    await booted.send("s", "and then");
    await calm();
    expect(notices).toHaveLength(1);
    await booted.engine.stop({ session: "s", turn: id });
    await calm();
    expect(notices.at(-1)).toBe("");
  });
});

describe("many sessions whose provider is busy", () => {
  /** Twenty sessions that were all told to wait so long, and how long after that each came back. */
  async function busy(retryAfter: number) {
    const clock = handClock();
    const first = model("first");
    let n = 0;
    const random = () => (n++ * 0.618_034) % 1;
    const booted = await bootEngine({ clock, model: first, random, limits: { turns: 20 }, staleMs: 3_600_000 });
    const sessions = Array.from({ length: 20 }, (_, i) => `s${i}`);
    const notices = sessions.map((session) => noticesOf(booted, session));
    const turns = await Promise.all(sessions.map((session) => booted.send(session, "hi")));
    for (let i = 0; i < 20; i++)
      (await first.next()).end({ end: "fault", kind: "rate_limited", reason: "busy", retryAfter });
    await calm();
    const began = clock.now();
    const back = async (until: number, step = 100) => {
      const times: number[] = [];
      while (clock.now() - began < until) {
        await clock.pass(step);
        while (times.length < first.all.length - 20) times.push(clock.now() - began);
      }
      return times;
    };
    return { ...booted, clock, first, sessions, turns, notices, back };
  }

  it.each([
    [20_000, 20_000, 22_000],
    [3_600_000, 3_600_000, 3_960_000], // and they do not all come back at the same moment
  ])("and asks for %d ms come back from %d ms on, spread out to %d", async (retryAfter, from, to) => {
    const { notices, back } = await busy(retryAfter);
    for (const told of notices)
      expect(told).toEqual([expect.stringMatching(/^Trying again in \d\d (s|min), for up to 60 min: busy/)]);
    const times = await back(to + 1_000, from / 200);
    expect(times).toHaveLength(20);
    expect(Math.min(...times)).toBeGreaterThanOrEqual(from);
    expect(Math.max(...times)).toBeLessThanOrEqual(to);
    for (const time of times) expect(times.filter((other) => other === time).length).toBeLessThan(4);
  });

  it("can be stopped while they wait: those never ask again, the others do", async () => {
    const { engine, ended, sessions, turns, first, notices, back } = await busy(20_000);
    for (const { session, id } of turns.slice(0, 10)) await engine.stop({ session, turn: id });
    for (const { session, id } of turns.slice(0, 10)) expect(await ended(session, id)).toBe("cancelled");
    expect(await back(60_000)).toHaveLength(10);
    expect(new Set(first.all.slice(20).map((call) => call.request.session))).toEqual(new Set(sessions.slice(10)));
    for (const told of notices.slice(0, 10)) expect(told.at(-1)).toBe("");
  });
});

describe("an endpoint that goes silent", () => {
  async function silent(fallbacks: Scripted[]) {
    const clock = handClock();
    const first = model("first");
    const booted = await bootEngine({ clock, model: first, fallbacks, staleMs: 80_000 });
    const stall = async () => {
      await first.next();
      await clock.pass(80_000);
    };
    return { ...booted, clock, first, stall };
  }

  it("is left for the next one at once, and for the turns of the next minute", async () => {
    const second = model("second");
    const { first, stall, clock, send, ended } = await silent([second]);
    const one = await send("s", "one");
    await stall();
    (await second.next()).answer("here");
    await ended("s", one.id);
    const two = await send("s", "two");
    (await second.next()).answer("still here");
    await ended("s", two.id);
    expect(first.all).toHaveLength(1);
    await clock.pass(60_000);
    await send("s", "three");
    (await first.next()).answer("back again");
  });

  it.each([
    [true, 3],
    [false, 5],
  ])(
    "and is the only one (somebody waits: %s) is asked %d times, and by the next turn again",
    async (attended, tries) => {
      const { stall, clock, send, engine, first } = await silent([]);
      const { id } = await send("s", "hi", { attended });
      for (let n = 0; n < tries; n++) {
        await stall();
        await clock.pass(30_000);
      }
      expect(await engine.run(id)).toMatchObject({ status: "failed", error: "first sent nothing for 80 s" });
      expect(first.all).toHaveLength(tries);
      await send("s", "again");
      (await first.next()).answer("here");
    },
  );

  it("because we stopped it is not blamed, however often", async () => {
    const second = model("second");
    const { first, clock, send, ended, engine } = await silent([second]);
    for (let turn = 0; turn < 5; turn++) {
      const { id } = await send("s", "hi");
      await first.next();
      await clock.pass(79_000);
      await engine.stop({ session: "s", turn: id });
      await ended("s", id);
      await clock.pass(10_000);
    }
    await send("s", "hi");
    await first.next();
    expect(second.all).toHaveLength(0);
  });
});

// ── Compaction ────────────────────────────────────────────────────────────────────────────────────────

const isSummary = (call: { request: { system: string } }) => call.request.system.startsWith("You write the summary");
const words = (count: number) => "word ".repeat(count);

describe("a conversation that grows too long", () => {
  /** A window of 1,000 tokens with an exchange of some 600 in it. */
  async function grown(small = model("small", 1_000)) {
    const clock = handClock();
    const booted = await bootEngine({ clock, model: small, limits: { text: 100_000 } });
    const { id } = await booted.send("s", `the beginning ${words(460)}`);
    (await small.next()).answer("noted");
    await booted.ended("s", id);
    return { ...booted, booted, clock, small, before: booted.journal("s") };
  }

  it("is summarised, the call goes on with the summary, and the journal keeps everything", async () => {
    const { booted, send, ended, small, before, journal } = await grown();
    const notices = noticesOf(booted);
    const { id } = await send("s", `the question ${words(200)}`);
    const summary = await small.next();
    expect(isSummary(summary)).toBe(true);
    expect(summary.request).toMatchObject({ tools: [], final: true });
    expect(summary.request.messages[0]?.text).toMatch(/^user: the beginning word/);
    await calm();
    expect(notices).toEqual(["Summarising 2 earlier messages to make room."]);
    summary.answer("they began");
    const call = await small.next();
    expect(call.request.messages.map(({ text }) => text.slice(0, 12))).toEqual(["[Summary of ", "the question"]);
    expect(call.request.messages[0]?.text).toContain("they began");
    call.answer("the answer");
    expect(await ended("s", id)).toBe("completed");
    await calm();
    expect(notices.at(-1)).toBe("");
    expect(journal("s").slice(0, before.length)).toEqual(before);
    const after = journal("s").slice(before.length);
    expect(after.map(({ kind }) => kind)).toEqual(["accepted", "began", "compacted", "thought", "ended"]);
  });

  it("shows no viewer the text of the summary as if it were the answer", async () => {
    const { engine, send, ended, small } = await grown();
    const { id, cursor } = await send("s", `the question ${words(200)}`);
    (await small.next()).answer("they began");
    (await small.next()).answer("the answer");
    await ended("s", id);
    const leave = new AbortController();
    let text = "";
    for await (const update of engine.follow("s", cursor, leave.signal)) {
      if ("delta" in update) text += update.delta;
      if ("entry" in update && update.entry.kind === "ended") leave.abort();
    }
    expect(text).toBe("the answer");
  });

  it.each<[string, (call: Awaited<ReturnType<Scripted["next"]>>, pass: (ms: number) => Promise<void>) => unknown]>([
    ["fails", (call) => call.fault("no", "bad_request")],
    ["is empty", (call) => call.answer(" ")],
    ["does not come", (_, pass) => pass(90_000)],
    [
      "does not end",
      async (call, pass) => {
        for (let n = 0; n < 5; n++) {
          call.say("and ");
          await pass(60_000);
        }
      },
    ],
  ])("goes on with a note of what was left out where its summary %s", async (_, spoil) => {
    const { clock, send, ended, small, logs } = await grown();
    const { id } = await send("s", `the question ${words(200)}`);
    let call = await small.next();
    for (let tries = 0; isSummary(call); tries++) {
      expect(tries).toBeLessThan(6);
      await spoil(call, clock.pass);
      await clock.pass(30_000);
      call = await small.next();
    }
    expect(call.request.messages[0]?.text).toContain("(2 earlier messages are left out here.)");
    expect(call.request.messages[1]?.text).toContain("the question");
    call.answer("the answer");
    expect(await ended("s", id)).toBe("completed");
    expect(logs.map(({ event }) => event)).toContain("summary.failed");
  });

  it("takes a summary without end for what it has said so far", async () => {
    const { send, small } = await grown();
    await send("s", `the question ${words(200)}`);
    const summary = await small.next();
    for (let n = 0; n < 130; n++) summary.say("a hundred characters of it ".padEnd(100, "."));
    const [first] = (await small.next()).request.messages;
    expect(summary.signal.aborted).toBe(true);
    expect(first?.text.length).toBeGreaterThan(11_000);
    expect(first?.text.length).toBeLessThan(13_000);
  });

  it("of one message that does not fit at all fails with a clear reason, and asks no model", async () => {
    const small = model("small", 1_000);
    const { engine, send } = await bootEngine({ model: small, limits: { text: 100_000 } });
    const { id } = await send("s", words(1_000));
    await calm();
    expect(await engine.run(id)).toMatchObject({
      status: "failed",
      error: "The conversation is too long for this model and cannot be made shorter.",
    });
    expect(small.all).toHaveLength(0);
  });

  it("by the provider's word is summarised once; if that does not help, the turn fails with it", async () => {
    const large = model("large"); // as far as we know
    const { engine, send } = await grown(large);
    const { id } = await send("s", "the question");
    (await large.next()).fault("the maximum is 500 tokens", "too_long");
    const summary = await large.next();
    expect(isSummary(summary)).toBe(true);
    summary.answer("they began");
    const again = await large.next();
    expect(again.request.messages.at(-1)?.text).toBe("the question");
    expect(JSON.stringify(again.request.messages)).not.toContain("the beginning");
    again.fault("the maximum is 500 tokens", "too_long");
    await calm();
    expect(await engine.run(id)).toMatchObject({ status: "failed", error: "the maximum is 500 tokens" });
    expect(large.all).toHaveLength(4);
  });

  it("can be stopped while it is summarised: nothing is asked any more, and nothing was shortened", async () => {
    const { engine, send, ended, small, journal, clock } = await grown();
    const { id } = await send("s", `the question ${words(200)}`);
    const summary = await small.next();
    summary.say("they");
    expect(await engine.stop({ session: "s", turn: id })).toBe("stopping");
    expect(summary.signal.aborted).toBe(true);
    expect(await ended("s", id)).toBe("cancelled");
    await clock.pass(600_000);
    expect(small.all).toHaveLength(2);
    expect(journal("s").map(({ kind }) => kind)).not.toContain("compacted");
  });

  it("is summarised by the model that the turn asked for, to fit its window", async () => {
    const [large, small] = [model("large"), model("small", 1_000)];
    const { send, ended } = await bootEngine({ model: large, modelNamed: () => small, limits: { text: 100_000 } });
    const { id } = await send("s", words(460));
    (await large.next()).answer("noted");
    await ended("s", id);
    await send("s", words(200), { model: "small" });
    const summary = await small.next();
    expect(isSummary(summary)).toBe(true);
    summary.answer("they began");
    expect((await small.next()).request.messages).toHaveLength(2);
    expect(large.all).toHaveLength(1);
  });
});

describe("/compress", () => {
  const compress = { task: "compress" as const };

  it("is a turn that only summarises, and is no part of the conversation", async () => {
    const large = model("large");
    const { send, ended, entry } = await bootEngine({ model: large });
    for (const text of ["one", "two", "three"]) {
      const { id } = await send("s", text);
      (await large.next()).answer(`${text}, yes`);
      await ended("s", id);
    }
    const { id } = await send("s", "/compress", compress);
    const summary = await large.next();
    expect(isSummary(summary)).toBe(true);
    summary.answer("they counted");
    expect(await ended("s", id)).toBe("completed");
    expect(await entry("s", "compacted")).toMatchObject({ summary: "they counted" });
    await send("s", "four");
    const { messages } = (await large.next()).request;
    expect(messages[0]?.text).toContain("they counted");
    expect(JSON.stringify(messages)).not.toContain("/compress");
    expect(messages.at(-1)?.text).toBe("four");
  });

  it("that finds nothing to shorten is done, and asks no model", async () => {
    const large = model("large");
    const { send, ended, entry } = await bootEngine({ model: large });
    const { id } = await send("s", "/compress", compress);
    expect(await ended("s", id)).toBe("completed");
    expect(await entry("s", "compacted")).toMatchObject({ summary: "", upTo: 0 });
    expect(large.all).toHaveLength(0);
  });
});
