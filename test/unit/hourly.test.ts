import { expect, it } from "vitest";
import { everyHour } from "../../src/platform/hourly.ts";
import { handClock } from "../fakes/scripted.ts";

const HOUR = 3_600_000;

it("does it at the start and every hour, whoever fails, until it is ended", async () => {
  const clock = handClock();
  const done: string[] = [];
  const failures: unknown[] = [];
  const chores = new Set([() => Promise.reject(new Error("the disk is full")), async () => void done.push("swept")]);
  const stop = everyHour(chores, { clock, log: (_level, event, fields) => failures.push([event, fields]) });
  await clock.pass(0);
  expect(done).toHaveLength(1);
  chores.add(async () => void done.push("and more"));
  await clock.pass(2 * HOUR);
  expect(done).toEqual(["swept", "swept", "and more", "swept", "and more"]);
  expect(failures).toHaveLength(3);
  expect(failures[0]).toEqual(["chore.failed", { error: "the disk is full" }]);
  await stop();
  await clock.pass(5 * HOUR);
  expect(done).toHaveLength(5);
});
