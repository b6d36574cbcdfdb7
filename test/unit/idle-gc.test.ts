import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { collectWhenIdle } from "../../src/platform/idle-gc.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const REST_MS = 5_000;
const gone = () => {
  const things = Array.from({ length: 50 }, () => new WeakRef({ text: "nobody holds this" }));
  return () => things.some((thing) => thing.deref() === undefined);
};

it("collects after five quiet seconds, once nobody is at work, and only once", async () => {
  let working = true;
  const idle = vi.fn(() => !working);
  const resting = collectWhenIdle(idle);
  const collected = gone();
  resting.active();
  await vi.advanceTimersByTimeAsync(REST_MS - 1);
  resting.active();
  await vi.advanceTimersByTimeAsync(REST_MS - 1);
  expect(idle).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(idle).toHaveBeenCalledTimes(1);
  working = false;
  await vi.advanceTimersByTimeAsync(REST_MS);
  expect(idle).toHaveBeenCalledTimes(2);
  expect(collected()).toBe(true);
  expect(runInNewContext("typeof gc")).toBe("undefined"); // its flag would make V8 refuse all compiled code
  await vi.advanceTimersByTimeAsync(10 * REST_MS);
  expect(idle).toHaveBeenCalledTimes(2);
  resting.close();
});

it("asks nobody after it was closed, and waits on when asking fails", async () => {
  const idle = vi.fn(() => Promise.reject(new Error("the store is closed")));
  const resting = collectWhenIdle(idle);
  resting.active();
  await vi.advanceTimersByTimeAsync(2 * REST_MS);
  expect(idle).toHaveBeenCalledTimes(2);
  resting.close();
  await vi.advanceTimersByTimeAsync(10 * REST_MS);
  expect(idle).toHaveBeenCalledTimes(2);
});
