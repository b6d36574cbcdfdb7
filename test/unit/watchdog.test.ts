// A model call that cannot hang, and endpoints that are left alone after they did.
import { describe, expect, it } from "vitest";
import { createBreaker } from "../../src/agent/breaker.ts";
import { staleMs, watchedCall } from "../../src/agent/watchdog.ts";
import type { ModelResult } from "../../src/core/ports.ts";
import { calm, handClock, scriptedModel } from "../fakes/scripted.ts";

const REQUEST = { session: "s", system: "", messages: [], tools: [], final: false };
const ANSWER: ModelResult = { end: "answer", calls: [], usage: { input: 1, output: 1 } };

/** One call with 80 s of patience. */
async function watched(model = scriptedModel()) {
  const clock = handClock();
  const abort = new AbortController();
  const heard: string[] = [];
  const hear = {
    text: (text: string) => void heard.push(text),
    reasoning: (text: string) => void heard.push(`(${text})`),
    alive: () => {},
  };
  let ended: ModelResult | null = null;
  void watchedCall({ clock, model, request: REQUEST, staleMs: 80_000 }, hear, abort.signal).then((result) => {
    ended = result;
  });
  return { clock, abort, heard, call: await model.next(), ended: () => ended };
}

describe("a call that is watched", () => {
  it("is ended by silence, as a fault that names the endpoint and the time", async () => {
    const { clock, call, ended } = await watched();
    await clock.pass(79_999);
    expect(ended()).toBeNull();
    expect(call.signal.aborted).toBe(false);
    await clock.pass(1);
    expect(call.signal.aborted).toBe(true);
    expect(ended()).toEqual({ end: "fault", kind: "stalled", reason: "scripted sent nothing for 80 s" });
  });

  it.each(["say", "alive"] as const)("is kept by life (%s), as long as it lasts", async (sign) => {
    const { clock, call, ended } = await watched();
    for (let n = 0; n < 20; n++) {
      await clock.pass(70_000);
      call[sign]("x");
    }
    expect(ended()).toBeNull();
    await clock.pass(90_000);
    expect(ended()).toMatchObject({ kind: "stalled" });
  });

  it("is not ended by a wall clock that is set forward, or back", async () => {
    const { clock, call, ended } = await watched();
    clock.set(86_400_000);
    await clock.pass(40_000);
    clock.set(-172_800_000);
    await clock.pass(30_000);
    expect(ended()).toBeNull();
    call.end(ANSWER);
    await calm();
    expect(ended()).toEqual(ANSWER);
  });

  it("that we abort is no stall, also when the provider calls it a failure", async () => {
    const { abort, ended } = await watched(scriptedModel({ end: "fault", kind: "network", reason: "socket closed" }));
    abort.abort();
    await calm();
    expect(ended()).toEqual({ end: "aborted" });
  });

  it("that we abort is no stall, also when the provider does not notice", async () => {
    const { clock, abort, ended } = await watched(scriptedModel(null));
    abort.abort();
    await clock.pass(100_000);
    expect(ended()).toEqual({ end: "aborted" });
  });

  it("whose provider does not notice that it is given up ends all the same, two seconds later", async () => {
    const { clock, ended } = await watched(scriptedModel(null));
    await clock.pass(81_999);
    expect(ended()).toBeNull();
    await clock.pass(1);
    expect(ended()).toMatchObject({ kind: "stalled" });
  });

  it("is not heard any more once it is given up", async () => {
    const { clock, call, heard } = await watched(scriptedModel(null));
    call.say("before");
    await clock.pass(90_000);
    call.say("after");
    expect(heard).toEqual(["before"]);
  });

  it("whose provider answers after it was given up is a stall still: nobody saw the answer", async () => {
    const { clock, call, ended } = await watched(scriptedModel(null));
    await clock.pass(80_500);
    call.answer("too late");
    await calm();
    expect(ended()).toMatchObject({ kind: "stalled" });
  });

  it("that is over is not touched by an abort of ours that comes later", async () => {
    const { clock, call, ended, abort } = await watched();
    call.end(ANSWER);
    await calm();
    abort.abort();
    await clock.pass(1_000_000);
    expect(call.signal.aborted).toBe(false);
    expect(ended()).toEqual(ANSWER);
  });

  it("does not begin when we have aborted before", async () => {
    const model = scriptedModel();
    const hear = { text: () => {}, reasoning: () => {}, alive: () => {} };
    const result = await watchedCall(
      { clock: handClock(), model, request: REQUEST, staleMs: 1 },
      hear,
      AbortSignal.abort(),
    );
    expect(result).toEqual({ end: "aborted" });
    expect(model.all).toHaveLength(0);
  });
});

it.each([
  [1_000, false, 180_000],
  [50_000, false, 180_000],
  [50_001, false, 240_000],
  [100_000, false, 240_000],
  [100_001, false, 300_000],
  [1_000, true, 900_000],
])("silence with %d tokens (local: %s) is too long after %d ms", (tokens, local, expected) => {
  expect(staleMs(tokens, local)).toBe(expected);
});

describe("the breaker", () => {
  it("leaves an endpoint alone for a minute, and then each time for twice as long, up to an hour", async () => {
    const clock = handClock();
    const breaker = createBreaker(clock);
    const model = scriptedModel();
    expect(breaker.resting(model)).toBe(false);
    for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
      breaker.rest(model);
      await clock.pass(minutes * 60_000 - 1);
      expect(breaker.resting(model)).toBe(true);
      await clock.pass(1);
      expect(breaker.resting(model)).toBe(false);
      expect(breaker.doubtful(model)).toBe(true);
    }
  });

  it("forgets everything with an answer", async () => {
    const clock = handClock();
    const breaker = createBreaker(clock);
    const model = scriptedModel();
    breaker.rest(model);
    breaker.rest(model);
    breaker.answered(model);
    expect([breaker.resting(model), breaker.doubtful(model)]).toEqual([false, false]);
    breaker.rest(model);
    await clock.pass(60_000);
    expect(breaker.resting(model)).toBe(false);
  });

  it("knows endpoints apart that serve a model of the same name", () => {
    const breaker = createBreaker(handClock());
    const [here, there] = [scriptedModel(), scriptedModel()];
    expect(here.name).toBe(there.name);
    breaker.rest(here);
    expect([breaker.resting(here), breaker.resting(there)]).toEqual([true, false]);
  });

  it("is not fooled by a clock that is set, back or forward", () => {
    const clock = handClock();
    const breaker = createBreaker(clock);
    const model = scriptedModel();
    breaker.rest(model);
    clock.set(7_200_000);
    expect(breaker.resting(model)).toBe(true);
    clock.set(-10_800_000);
    clock.leap(60_000);
    expect(breaker.resting(model)).toBe(false);
  });
});
