// Times of a job as one text, as Hermes has them: `30m` (once), `every 2h`, a cron expression, or a moment.
import type { Wish } from "./jobs.ts";

const UNITS: Readonly<Record<string, number>> = { m: 1, min: 1, mins: 1, h: 60, hr: 60, hrs: 60, d: 1_440 };

/** Null: it is none of them. */
export function wishedTime(text: string): Pick<Wish, "cron" | "at" | "in"> | null {
  const said = text.trim();
  const every = /^every\s+(\d{1,5})\s*([a-z]+)$/i.exec(said);
  if (every) {
    const cron = everyMinutes(Number(every[1]) * (UNITS[String(every[2]).toLowerCase()] ?? 0));
    return cron === null ? null : { cron };
  }
  const wait = /^(\d{1,5})\s*([mhd])$/i.exec(said);
  if (wait) return { in: said.toLowerCase() };
  if (/^\d{4}-\d\d-\d\d/.test(said)) return { at: said };
  return said.split(/\s+/).length === 5 ? { cron: said } : null;
}

/** Only what divides an hour or a day: a cron expression begins anew with each. */
function everyMinutes(minutes: number): string | null {
  if (!Number.isInteger(minutes) || minutes < 1) return null;
  if (minutes < 60) return 60 % minutes === 0 ? (minutes === 1 ? "* * * * *" : `*/${minutes} * * * *`) : null;
  const hours = minutes / 60;
  if (!Number.isInteger(hours)) return null;
  if (hours === 1) return "0 * * * *";
  if (hours < 24) return 24 % hours === 0 ? `0 */${hours} * * *` : null;
  return hours === 24 ? "0 0 * * *" : null;
}
