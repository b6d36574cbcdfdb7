// Waits that end, and leave nothing behind.
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { after, backoff, linked, onAbort, unlessAborted, within } from "../../src/core/wait.ts";
import { clock } from "../../src/platform/clock.ts";
import { handClock } from "../fakes/scripted.ts";

const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;
const never = <T>() => new Promise<T>(() => {});

describe("a linked signal", () => {
  it("aborts with any of the others, with that one's reason", () => {
    const [one, other] = [new AbortController(), new AbortController()];
    const { signal } = linked([one.signal, undefined, other.signal]);
    expect(signal.aborted).toBe(false);
    other.abort("enough");
    expect(signal.reason).toBe("enough");
  });

  it("is aborted from the start where one of the others is", () => {
    expect(linked([AbortSignal.abort("before")]).signal.reason).toBe("before");
  });

  it("aborts by itself, and not the others", () => {
    const one = new AbortController();
    const own = linked([one.signal]);
    own.abort("mine");
    expect(own.signal.reason).toBe("mine");
    expect(one.signal.aborted).toBe(false);
  });

  it("aborts when its time is over, with the reason that was given", async () => {
    const hand = handClock();
    const { signal } = linked([], { clock: hand, ms: 1_000, reason: "late" });
    await hand.pass(999);
    expect(signal.aborted).toBe(false);
    await hand.pass(1);
    expect(signal.reason).toBe("late");
  });

  it("follows nobody once it is released", async () => {
    const hand = handClock();
    const one = new AbortController();
    const own = linked([one.signal], { clock: hand, ms: 1_000 });
    own.release();
    one.abort();
    await hand.pass(2_000);
    expect(own.signal.aborted).toBe(false);
  });
});

describe("work with a deadline", () => {
  it("gives what the work gives, and what it throws", async () => {
    await expect(within(clock, 60_000, Promise.resolve("done"))).resolves.toBe("done");
    await expect(within(clock, 60_000, Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  });

  it("is undefined when the time is over, and when the signal aborts", async () => {
    const stop = new AbortController();
    await expect(within(clock, 1, never())).resolves.toBe(undefined);
    const stopped = within(clock, 60_000, never(), stop.signal);
    stop.abort();
    await expect(stopped).resolves.toBe(undefined);
    await expect(within(clock, 60_000, never(), stop.signal)).resolves.toBe(undefined);
  });

  it("takes what the work gave already, also after the signal", async () => {
    await expect(within(clock, 0, Promise.resolve("done"), AbortSignal.abort())).resolves.toBe("done");
  });

  it("ignores what abandoned work throws later", async () => {
    const work = Promise.withResolvers<void>();
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", note);
    await within(clock, 0, work.promise);
    work.reject(new Error("late"));
    await new Promise(setImmediate);
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  it("leaves no timer behind", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    await within(clock, 60_000, Promise.resolve());
    after(clock, 60_000, () => {})();
    linked([], { clock, ms: 60_000 }).release();
    expect(timers()).toBe(before);
  });
});

it("does not wait for work that cannot be stopped", async () => {
  const stop = new AbortController();
  await expect(unlessAborted(Promise.resolve("done"), stop.signal)).resolves.toBe("done");
  const waiting = unlessAborted(never(), stop.signal);
  stop.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  await expect(unlessAborted(never(), stop.signal)).rejects.toThrow("stopped");
});

it("leaves no listener on a signal that lives long", async () => {
  const { signal } = new AbortController();
  for (let i = 0; i < 100; i++) {
    onAbort(signal, () => {})();
    linked([signal, signal]).release();
    await within(clock, 1_000, Promise.resolve(), signal);
    await unlessAborted(Promise.resolve(), signal);
    await clock.sleep(0, signal);
  }
  await within(clock, 1, never(), signal);
  await within(clock, 1_000, Promise.reject(new Error("broken")), signal).catch(() => {});
  expect(listeners(signal)).toBe(0);
});

it("does not do what was called off", async () => {
  const hand = handClock();
  let done = 0;
  const cancel = after(hand, 1_000, () => done++);
  after(hand, 1_000, () => done++);
  cancel();
  await hand.pass(1_000);
  expect(done).toBe(1);
});

it("waits twice as long each time, up to a limit, and from half of it on where chance is given", () => {
  const pause = { first: 500, most: 10_000 };
  expect([0, 1, 2, 5, 5_000].map((attempt) => backoff(attempt, pause))).toEqual([500, 1_000, 2_000, 10_000, 10_000]);
  expect([backoff(1, pause, 0), backoff(1, pause, 0.5)]).toEqual([500, 750]);
});
