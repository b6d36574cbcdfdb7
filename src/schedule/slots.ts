// The times that a cron expression means in a time zone. A slot is a local time. When the clocks go forward over it, it
// does not exist; when they go back and show it twice, only the first one counts. croner alone moves the former to
// after the gap, and runs the latter twice for expressions with more than one time per day.
import { Cron } from "croner";
import type { When } from "../core/jobs.ts";
import { attempt } from "../platform/attempt.ts";

/** Clocks go back by one hour, but by 30 minutes on Lord Howe Island, and by two hours at Troll station. */
const BACK_MS = [60, 30, 120].map((minutes) => minutes * 60_000);
/** How many candidates are skipped before we give up: more than the 120 minutes of the longest repeated period. */
const MOST_PASSED = 200;

/** The first slot after that time, or null. */
export function nextSlot(when: When, after: number): number | null {
  if ("at" in when) return when.at > after ? when.at : null;
  if ("every" in when) return when.from + when.every * (Math.floor((after - when.from) / when.every) + 1);
  const pattern = patternOf(when);
  return firstSlot(pattern, when.zone, (from) => pattern.nextRun(from), new Date(after));
}

/** The last slot at or before that time, or null. */
export function latestSlot(when: When, upTo: number): number | null {
  if ("at" in when) return when.at <= upTo ? when.at : null;
  if ("every" in when) return when.from + when.every * Math.floor((upTo - when.from) / when.every);
  const pattern = patternOf(when);
  // croner drops milliseconds and looks before the given time, so we pass the next whole second.
  const behind = new Date(Math.floor(upTo / 1_000) * 1_000 + 1_000);
  return firstSlot(pattern, when.zone, (from) => pattern.previousRuns(1, from)[0] ?? null, behind);
}

/** Throws if it is not a cron expression of five fields or a nickname such as @daily. */
export function patternOf({ cron, zone }: { cron: string; zone: string }): Cron {
  const pattern = new Cron(cron, { timezone: zone, mode: "5-part" });
  if (pattern.getPattern() === undefined) throw new Error("it is a date");
  return pattern;
}

/** The local time: `2026-11-20 09:00`. Throws if the zone does not exist. */
export const wallIn = (zone: string): ((at: number) => string) => {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  return (at) => format.format(at);
};

/** Returns null if the date is not in the calendar, or the clocks skip that time. */
export const instantOf = (date: string, time: string, seconds: string, zone: string): number | null =>
  attempt(() => {
    const at = new Cron(`${date}T${time}${seconds}`, { timezone: zone }).getOnce()?.getTime() ?? 0;
    return wallIn(zone)(at) === `${date} ${time}` ? at : null; // croner would take the next existing time
  }) ?? null;

function firstSlot(pattern: Cron, zone: string, step: (from: Date) => Date | null, from: Date): number | null {
  const wall = wallIn(zone);
  let at = step(from);
  for (let passed = 0; at && passed < MOST_PASSED; passed++) {
    const time = at.getTime();
    if (pattern.match(at) && !BACK_MS.some((back) => wall(time - back) === wall(time))) return time;
    at = step(at);
  }
  return null;
}
