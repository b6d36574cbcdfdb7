// The instants that a cron expression means in a time zone. A slot is a time on the wall: one that the clocks leap over is not
// there, and one that they show twice counts the first time. croner alone moves the former to after the leap, and for
// expressions with more than one time of the day takes the latter twice.
import { Cron } from "croner";
import type { When } from "../core/jobs.ts";

/** Clocks go back by an hour, but by half of one on Lord Howe Island, and by two at Troll station. */
const BACK_MS = [60, 30, 120].map((minutes) => minutes * 60_000);
/** Passed over before it is none at all: more than the 120 minutes of the longest hour that is shown twice. */
const MOST_PASSED = 200;

/** The first slot after that time. Null: there is none. */
export function nextSlot(when: When, after: number): number | null {
  if ("at" in when) return when.at > after ? when.at : null;
  const pattern = patternOf(when);
  return firstSlot(pattern, when.zone, (from) => pattern.nextRun(from), new Date(after));
}

/** The last slot up to and with that time. Null: there was none. */
export function latestSlot(when: When, upTo: number): number | null {
  if ("at" in when) return when.at <= upTo ? when.at : null;
  const pattern = patternOf(when);
  // croner forgets milliseconds and looks before what it is given: the next whole second is behind everything up to now.
  const behind = new Date(Math.floor(upTo / 1_000) * 1_000 + 1_000);
  return firstSlot(pattern, when.zone, (from) => pattern.previousRuns(1, from)[0] ?? null, behind);
}

/** Throws where it is not a cron expression of five parts, or a nickname of one. */
export function patternOf({ cron, zone }: { cron: string; zone: string }): Cron {
  const pattern = new Cron(cron, { timezone: zone, mode: "5-part" });
  if (pattern.getPattern() === undefined) throw new Error("it is a date");
  return pattern;
}

/** What the clocks on the wall show: `2026-11-20 09:00`. Throws where there is no such zone. */
export const wallIn = (zone: string): ((at: number) => string) => {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  return (at) => format.format(at);
};

/** Null: that day is not in the calendar, or the clocks leap over that hour. */
export function instantOf(date: string, time: string, seconds: string, zone: string): number | null {
  try {
    const at = new Cron(`${date}T${time}${seconds}`, { timezone: zone }).getOnce()?.getTime() ?? 0;
    return wallIn(zone)(at) === `${date} ${time}` ? at : null; // croner would take the next one that there is
  } catch {
    return null;
  }
}

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
