import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { clock } from "../../src/platform/clock.ts";

const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

describe("the clock", () => {
  it("tells the wall clock's time in milliseconds", () => {
    const before = Date.now();
    const now = clock.now();
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now());
  });

  it("sleeps at least as long as it was told", async () => {
    const before = performance.now();
    await clock.sleep(30);
    expect(performance.now() - before).toBeGreaterThanOrEqual(29);
  });

  it("wakes at once when the signal aborts, without an error and without a timer left behind", async () => {
    const controller = new AbortController();
    const before = timers();
    const asleep = clock.sleep(3_600_000, controller.signal);
    expect(timers()).toBe(before + 1);
    controller.abort(new Error("not an error for a sleeper"));
    await asleep;
    expect(timers()).toBe(before);
  });

  it("does not fall asleep on a signal that is aborted already", async () => {
    const before = timers();
    await clock.sleep(3_600_000, AbortSignal.abort());
    expect(timers()).toBe(before);
  });

  it("leaves no listener on a long-lived signal, however it ended", async () => {
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 100 }, () => clock.sleep(1, signal)));
    expect(getEventListeners(signal, "abort")).toHaveLength(0);

    const controller = new AbortController();
    const asleep = Array.from({ length: 100 }, () => clock.sleep(3_600_000, controller.signal));
    controller.abort();
    await Promise.all(asleep);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  it.each([30 * 24 * 3_600_000, Number.POSITIVE_INFINITY])(
    "sleeps %d ms, longer than a timer can, instead of waking at once",
    async (ms) => {
      const controller = new AbortController();
      let woken = false;
      const asleep = clock.sleep(ms, controller.signal).then(() => {
        woken = true;
      });
      await clock.sleep(20);
      expect(woken).toBe(false);
      controller.abort();
      await asleep;
    },
  );

  it("takes no time for a time that has passed", async () => {
    await clock.sleep(-5);
    await clock.sleep(0);
  });
});
