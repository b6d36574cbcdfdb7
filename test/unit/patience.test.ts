// How long a turn puts up with trouble: by the kind of the fault, and by whether somebody waits. Driven by hand.
import { describe, expect, it } from "vitest";
import { NO_SERVER } from "../../src/core/errors.ts";
import type { Fault, FaultKind } from "../../src/core/ports.ts";
import {
  type Booted,
  bootEngine,
  calm,
  handClock,
  scriptedChannel,
  scriptedModel,
  scriptedTool,
} from "../fakes/scripted.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const model = (name = "first", context = 1_000_000) => scriptedModel({ end: "aborted" }, { name, context });
type Scripted = ReturnType<typeof model>;

/** Answers every call with this, as time passes, until the turn is over or so long is. Returns how long that took. */
async function suffer(
  { engine }: Booted,
  clock: ReturnType<typeof handClock>,
  models: Scripted[],
  turn: string,
  fault: Omit<Fault, "end">,
  most = 24 * HOUR,
): Promise<number> {
  const began = clock.now();
  const given = new Set<unknown>();
  for (let step = 100; clock.now() - began < most; step = Math.min(30_000, step * 2)) {
    await calm();
    for (const call of models.flatMap((one) => one.all))
      if (!given.has(call) && !call.signal.aborted) {
        given.add(call);
        call.end({ end: "fault", ...fault });
      }
    await calm();
    if ((await engine.run(turn))?.status !== "running") break;
    await clock.pass(step);
  }
  return clock.now() - began;
}

describe("patience", () => {
  it.each<[FaultKind, boolean, number]>([
    ["network", true, 2 * MINUTE],
    ["network", false, 12 * HOUR],
    ["unavailable", true, 2 * MINUTE],
    ["unavailable", false, 30 * MINUTE],
    ["rate_limited", true, 2 * MINUTE],
    ["rate_limited", false, HOUR],
    ["auth", true, 0],
    ["auth", false, 0],
    ["quota", false, 0],
    ["bad_request", false, 0],
    ["filtered", false, 0],
  ])("with %s (somebody waits: %s) lasts %d ms", async (kind, attended, ms) => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    const { id } = await booted.send("s", "hi", { attended });
    const took = await suffer(booted, clock, [first], id, { kind, reason: "no luck" });
    expect(await booted.engine.run(id)).toMatchObject({ status: "failed", error: "no luck" });
    expect(took).toBeGreaterThanOrEqual(ms);
    expect(took).toBeLessThanOrEqual(ms + 70_000);
  });

  it.each<[FaultKind, boolean, number]>([
    ["stalled", true, 3],
    ["stalled", false, 5],
    ["incomplete", true, 4],
    ["incomplete", false, 6],
    ["garbled", true, 4],
    ["garbled", false, 6],
  ])("with %s (somebody waits: %s) is %d tries", async (kind, attended, tries) => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    const { id } = await booted.send("s", "hi", { attended });
    await suffer(booted, clock, [first], id, { kind, reason: "no luck" });
    expect(first.all).toHaveLength(tries);
  });

  it.each([
    [true, 4 * MINUTE, true],
    [true, 6 * MINUTE, false],
    [false, 50 * MINUTE, true],
    [false, 2 * HOUR, false],
  ])("that a provider asks for (somebody waits: %s, %d ms) is granted: %s", async (attended, retryAfter, granted) => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first, staleMs: HOUR });
    const { id } = await booted.send("s", "hi", { attended });
    (await first.next()).end({ end: "fault", kind: "rate_limited", reason: "slow down", retryAfter });
    await clock.pass(retryAfter - 1);
    expect(first.all).toHaveLength(1);
    await clock.pass(retryAfter / 5);
    expect(first.all).toHaveLength(granted ? 2 : 1);
    expect((await booted.engine.run(id))?.status).toBe(granted ? "running" : "failed");
  });

  it("is renewed by every step that was answered", async () => {
    const clock = handClock();
    const [first, look] = [model(), scriptedTool("look")];
    const booted = await bootEngine({ clock, model: first, tools: [look] });
    const { id } = await booted.send("s", "hi", { attended: true });
    for (let n = 0; n < 3; n++) {
      for (let took = 0; took < 100_000; took += 10_000) {
        (await first.next()).fault("reset");
        await clock.pass(10_000);
      }
      (await first.next()).answer("", { tool: "look", args: {} });
      (await look.next()).done("seen");
    }
    (await first.next()).answer("there");
    expect(await booted.ended("s", id)).toBe("completed");
  });

  it("is not used up by a wall clock that is set", async () => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    const { id } = await booted.send("s", "hi", { attended: true });
    for (const by of [86_400_000, -172_800_000]) {
      (await first.next()).fault("reset");
      await calm();
      clock.set(by);
      await clock.pass(10_000);
    }
    (await first.next()).answer("there");
    expect(await booted.ended("s", id)).toBe("completed");
  });

  it("ends at once with a stop, however long the wait was to be, and nothing is asked any more", async () => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    const { id } = await booted.send("s", "hi");
    (await first.next()).end({ end: "fault", kind: "rate_limited", reason: "slow down", retryAfter: 50 * MINUTE });
    await calm();
    await booted.engine.stop({ session: "s", turn: id });
    expect(await booted.ended("s", id)).toBe("cancelled");
    await clock.pass(24 * HOUR);
    expect(first.all).toHaveLength(1);
  });
});

describe("a notice", () => {
  async function noticed(attended: boolean, faults: Omit<Fault, "end">[]): Promise<string[]> {
    const clock = handClock();
    const first = model();
    const { engine, send } = await bootEngine({ clock, model: first });
    const seen: string[] = [];
    void (async () => {
      for await (const update of engine.follow("s", "", new AbortController().signal))
        if ("notice" in update) seen.push(update.notice);
    })();
    await send("s", "hi", { attended });
    for (const fault of faults) {
      (await first.next()).end({ end: "fault", ...fault });
      await clock.pass(1_000);
    }
    return seen;
  }

  it("says what, since when, when the next try is and until when", async () => {
    const down = { kind: "unavailable" as const, reason: "HTTP 503: overloaded" };
    expect(await noticed(true, [down, down, down])).toEqual([
      "Trying again in 1 s, for up to 2 min: HTTP 503: overloaded",
      "Trying again in 1 s, for up to 119 s (it has lasted 1 s): HTTP 503: overloaded",
      "Trying again in 2 s, for up to 118 s (it has lasted 2 s): HTTP 503: overloaded",
    ]);
  });

  it("where nobody waits says that it is the network", async () => {
    const [said] = await noticed(false, [{ kind: "network", reason: "connect ECONNREFUSED" }]);
    expect(said).toBe(
      `Waiting for the network: trying again in 1 s, for up to 12 h: connect ECONNREFUSED. ${NO_SERVER}`,
    );
  });

  it("counts where tries are counted", async () => {
    const [said] = await noticed(true, [{ kind: "garbled", reason: "nonsense" }]);
    expect(said).toBe("Trying again in 1 s (try 2 of 4): nonsense");
  });
});

describe("with a fallback", () => {
  async function pair() {
    const clock = handClock();
    const [first, second] = [model("first"), model("second")];
    const booted = await bootEngine({ clock, model: first, fallbacks: [second] });
    return { clock, first, second, booted };
  }

  it.each([true, false])("nobody waits much longer than 15 s for the first (somebody waits: %s)", async (attended) => {
    const { clock, first, second, booted } = await pair();
    await booted.send("s", "hi", { attended });
    const began = clock.now();
    while (!second.all.length) {
      (await first.next()).fault("HTTP 503", "unavailable");
      await calm();
      const asked = first.all.length;
      while (!second.all.length && first.all.length === asked) await clock.pass(250);
    }
    expect(clock.now() - began).toBeGreaterThan(8_000);
    expect(clock.now() - began).toBeLessThanOrEqual(16_000);
  });

  it("a wait that is longer than that is not waited for", async () => {
    const { first, second, booted } = await pair();
    await booted.send("s", "hi");
    (await first.next()).end({ end: "fault", kind: "rate_limited", reason: "slow down", retryAfter: 60_000 });
    (await second.next()).answer("here");
  });

  it("the first is left alone for a minute; then one try decides, and the rest doubles", async () => {
    const { clock, first, second, booted } = await pair();
    const turn = async () => {
      const { id } = await booted.send("s", "hi");
      (await second.next()).answer("here");
      await booted.ended("s", id);
    };
    const stall = async () => (await first.next()).end({ end: "fault", kind: "stalled", reason: "silence" });
    const begun = booted.send("s", "hi");
    await begun;
    const call = await first.next();
    await clock.pass(20_000);
    call.end({ end: "fault", kind: "stalled", reason: "silence" });
    (await second.next()).answer("here");
    await calm();
    await turn();
    expect(first.all).toHaveLength(1);
    await clock.pass(MINUTE);
    await booted.send("s", "again");
    await stall(); // a fault that took no time, and yet
    (await second.next()).answer("here");
    await calm();
    await clock.pass(MINUTE + 59_000);
    await turn();
    expect(first.all).toHaveLength(2);
    await clock.pass(1_000);
    await booted.send("s", "and again");
    (await first.next()).answer("I am back");
    await calm();
    await booted.send("s", "so");
    (await first.next()).fault("reset"); // forgiven: it is tried again
    await clock.pass(1_000);
    (await first.next()).answer("here");
  });

  it("and both in trouble, it is no longer than with one", async () => {
    const { clock, first, second, booted } = await pair();
    const { id } = await booted.send("s", "hi", { attended: true });
    const took = await suffer(booted, clock, [first, second], id, { kind: "network", reason: "no route" });
    expect(took).toBeGreaterThanOrEqual(2 * MINUTE);
    expect(took).toBeLessThanOrEqual(3 * MINUTE);
    expect(await booted.engine.run(id)).toMatchObject({ status: "failed", error: "no route" });
  });
});

describe("a stream that breaks after words", () => {
  async function begun(fallbacks: Scripted[] = []) {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first, fallbacks });
    const { id } = await booted.send("s", "hi");
    const shown: string[] = [];
    let text = "";
    void (async () => {
      for await (const update of booted.engine.follow("s", "", new AbortController().signal)) {
        if ("delta" in update) text += update.delta;
        if ("reset" in update) text = "";
        if ("reset" in update) shown.push("reset");
      }
    })();
    return { clock, first, booted, id, shown, text: () => text };
  }

  it("is begun again: the words are taken back, and only the second answer counts", async () => {
    const { clock, first, booted, id, shown, text } = await begun();
    const call = await first.next();
    call.say("so f");
    call.fault("reset");
    await calm();
    expect(shown).toEqual(["reset"]);
    await clock.pass(1_000);
    (await first.next()).answer("whole");
    expect(await booted.ended("s", id)).toBe("completed");
    await calm();
    expect([text(), shown]).toEqual(["whole", ["reset"]]);
    expect(await booted.entry("s", "retracted")).toMatchObject({ reason: "reset" });
    expect((await booted.engine.run(id))?.output).toBe("whole");
    await booted.send("s", "and");
    expect(JSON.stringify((await first.next()).request.messages)).not.toContain("so f");
  });

  it.each<FaultKind>(["network", "unavailable", "incomplete", "stalled", "garbled"])(
    "for the fourth time (%s) is the end, with the words that were there",
    async (kind) => {
      const { clock, first, booted, id, shown } = await begun();
      for (let n = 0; n < 4; n++) {
        const call = await first.next();
        call.say(`try ${n}`);
        call.fault("reset", kind);
        await clock.pass(10_000);
      }
      expect(await booted.engine.run(id)).toMatchObject({ status: "failed", error: "reset", output: "try 3" });
      expect(first.all).toHaveLength(4);
      expect(shown).toHaveLength(3);
    },
  );

  it.each<FaultKind>(["bad_request", "filtered"])("with %s is the end at once", async (kind) => {
    const { first, booted, id } = await begun();
    const call = await first.next();
    call.say("so f");
    call.fault("no", kind);
    await calm();
    expect(await booted.engine.run(id)).toMatchObject({ status: "failed", output: "so f" });
  });

  it("because it would not end is begun by another endpoint, or not at all", async () => {
    for (const fallbacks of [[], [model("second")]]) {
      const { clock, first, booted, id } = await begun(fallbacks);
      const call = await first.next();
      call.say("on and on");
      call.fault("larger than 16 MB", "oversized");
      await clock.pass(2_000);
      const [second] = fallbacks;
      if (second) (await second.next()).answer("whole");
      expect(await booted.ended("s", id)).toBe(second ? "completed" : "failed");
      expect(first.all).toHaveLength(1);
    }
  });

  it("twice goes to the fallback", async () => {
    const second = model("second");
    const { clock, first, booted, id } = await begun([second]);
    for (let n = 0; n < 2; n++) {
      const call = await first.next();
      call.say("so f");
      call.fault("reset");
      await clock.pass(2_000);
    }
    (await second.next()).answer("whole");
    expect(await booted.ended("s", id)).toBe("completed");
  });

  it("is begun again by the next process too, if this one dies meanwhile", async () => {
    const { clock, first, booted } = await begun();
    const call = await first.next();
    call.say("so f");
    call.fault("reset");
    await calm();
    booted.kill();
    const next = model();
    const again = await bootEngine({ clock, disk: booted.disk, model: next });
    await clock.pass(1_000);
    (await next.next()).answer("whole");
    const { id } = { id: booted.journal("s")[0]?.turn ?? "" };
    expect(await again.ended("s", id)).toBe("completed");
  });

  it("because we stopped it is not begun again: the words stay, marked as cut", async () => {
    const { clock, first, booted, id } = await begun();
    const call = await first.next();
    call.say("so f");
    await booted.engine.stop({ session: "s", turn: id });
    expect(await booted.ended("s", id)).toBe("cancelled");
    await clock.pass(HOUR);
    expect(first.all).toHaveLength(1);
    expect(booted.journal("s").map(({ kind }) => kind)).not.toContain("retracted");
  });
});

describe("a limit of output", () => {
  const spent = { end: "fault", kind: "exhausted", reason: "used up", spent: 6_000 } as const;

  it("that reasoning used up is raised, not tried again as it was", async () => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    const { id } = await booted.send("s", "hi");
    const limits: unknown[] = [];
    for (let n = 0; n < 2; n++) {
      const call = await first.next();
      limits.push(call.request.options?.maxTokens);
      call.end({ ...spent, spent: 6_000 * 2 ** n });
      await clock.pass(10_000);
    }
    const call = await first.next();
    limits.push(call.request.options?.maxTokens);
    call.answer("there");
    expect(await booted.ended("s", id)).toBe("completed");
    expect(limits).toEqual([undefined, 12_000, 24_000]);
  });

  it("that cannot be raised is told as what it is", async () => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    const { id } = await booted.send("s", "hi");
    (await first.next()).end(spent);
    await clock.pass(10_000);
    (await first.next()).fault("max_tokens must be at most 8192", "bad_request");
    await calm();
    expect(await booted.engine.run(id)).toMatchObject({ status: "failed", error: "used up" });
  });

  it("that whoever asked has set is theirs", async () => {
    const first = model();
    const booted = await bootEngine({ model: first });
    const { id } = await booted.send("s", "hi", { options: { maxTokens: 100 } });
    (await first.next()).end(spent);
    await calm();
    expect(await booted.engine.run(id)).toMatchObject({
      status: "failed",
      error: "used up (100 tokens, as was asked for)",
    });
    expect(first.all).toHaveLength(1);
  });
});

describe("an answer that was cut short", () => {
  it.each([
    ["length", "[cut off: the model reached its limit of output]"],
    ["filter", "[cut off: the provider's filter stopped the answer here]"],
  ] as const)("by %s is told as such in a chat, and is in the journal as it was", async (endedBy, mark) => {
    const [first, channel] = [model(), scriptedChannel()];
    const booted = await bootEngine({ model: first, channel });
    await booted.send("s", "hi", { reply: "push" });
    const call = await first.next();
    call.say("so f");
    call.end({ end: "answer", calls: [], usage: { input: 1, output: 1 }, endedBy });
    expect((await channel.next()).reply.text).toBe(`so f\n\n${mark}`);
    expect(await booted.entry("s", "thought")).toMatchObject({ text: "so f", endedBy });
  });
});

describe("an answer that is too much for its server", () => {
  it("an empty stream, twice, is taken for a conversation that is too long", async () => {
    const clock = handClock();
    const first = model();
    const booted = await bootEngine({ clock, model: first });
    for (const text of ["one", "two"]) {
      const { id } = await booted.send("s", text);
      (await first.next()).answer(`${text}, yes`);
      await booted.ended("s", id);
    }
    await booted.send("s", "three");
    for (let n = 0; n < 2; n++) {
      (await first.next()).fault("empty", "empty");
      await clock.pass(5_000);
    }
    expect((await first.next()).request.system).toMatch(/^You write the summary/);
  });

  it("too long amid words: they are taken back, and it goes on with a summary", async () => {
    const first = model();
    const booted = await bootEngine({ model: first });
    for (const text of ["one", "two"]) {
      const { id } = await booted.send("s", text);
      (await first.next()).answer(`${text}, yes`);
      await booted.ended("s", id);
    }
    const { id } = await booted.send("s", "three");
    const call = await first.next();
    call.say("so f");
    call.fault("context shift is disabled", "too_long");
    (await first.next()).answer("they counted");
    (await first.next()).answer("whole");
    expect(await booted.ended("s", id)).toBe("completed");
    expect(booted.journal("s").map(({ kind }) => kind)).toContain("retracted");
    expect((await booted.engine.run(id))?.output).toBe("whole");
  });

  it("a result that is larger than the window is cut to fit, and so is it in the next request", async () => {
    const [first, look] = [model("first", 2_000), scriptedTool("look")];
    const booted = await bootEngine({ model: first, tools: [look] });
    const { id } = await booted.send("s", "hi");
    (await first.next()).answer("", { tool: "look", args: {} });
    (await look.next()).done(`begin ${"x".repeat(40_000)} end`);
    const call = await first.next();
    const result = call.request.messages.find(({ role }) => role === "tool");
    expect(result?.text.length).toBeLessThan(2_000 * 4);
    expect(result?.text).toMatch(/^begin x+\n\[… \d+ characters left out.*…\]\nx+ end$/);
    call.answer("", { tool: "look", args: {} });
    (await look.next()).done("short");
    const next = await first.next();
    expect(next.request.messages).toContainEqual(result);
    next.answer("there");
    expect(await booted.ended("s", id)).toBe("completed");
    const kept = booted.journal("s").find(({ kind }) => kind === "acted");
    expect(kept?.kind === "acted" && kept.text.length).toBeGreaterThan(40_000);
  });

  it("many large results at once are cut further, where nothing else can be made shorter", async () => {
    const [first, look] = [model("first", 4_000), scriptedTool("look")];
    const booted = await bootEngine({ model: first, tools: [look] });
    const { id } = await booted.send("s", "hi");
    (await first.next()).answer("", ...Array.from({ length: 4 }, () => ({ tool: "look", args: {} })));
    for (let n = 0; n < 4; n++) (await look.next()).done("x".repeat(40_000));
    const call = await first.next();
    const size = call.request.messages.reduce((sum, { text }) => sum + text.length, 0);
    expect(size).toBeLessThan(4_000 * 4);
    call.answer("there");
    expect(await booted.ended("s", id)).toBe("completed");
  });
});

describe("a summary", () => {
  async function crowded() {
    const clock = handClock();
    const first = model("first", 1_000);
    const booted = await bootEngine({ clock, model: first, limits: { text: 100_000 } });
    const { id } = await booted.send("s", `the beginning ${"word ".repeat(460)}`);
    (await first.next()).answer("noted");
    await booted.ended("s", id);
    const asked = await booted.send("s", `the question ${"word ".repeat(200)}`, { attended: true });
    return { clock, first, booted, id: asked.id };
  }

  it("is tried again like an answer", async () => {
    const { clock, first, booted, id } = await crowded();
    (await first.next()).fault("reset");
    await clock.pass(1_000);
    (await first.next()).answer("they began");
    const call = await first.next();
    expect(call.request.messages[0]?.text).toContain("they began");
    call.answer("there");
    expect(await booted.ended("s", id)).toBe("completed");
  });

  it("that nobody can be asked for shortens nothing: the turn fails, and the next one tries again", async () => {
    const { clock, first, booted, id } = await crowded();
    await suffer(booted, clock, [first], id, { kind: "network", reason: "no route" });
    expect(await booted.engine.run(id)).toMatchObject({ status: "failed", error: "no route" });
    expect(booted.journal("s").map(({ kind }) => kind)).not.toContain("compacted");
  });
});
