// A job in the words of Hermes: its time as one text, `30m` (once), `every 2h`, a cron expression or a moment, and where its
// answers go: `local`, `telegram`, `telegram:1001`, `telegram:1001:5`.
import type { Job, Wish } from "./jobs.ts";
import { chatSession, parseKey } from "./session-key.ts";

const UNITS: Readonly<Record<string, number>> = { m: 1, min: 1, mins: 1, h: 60, hr: 60, hrs: 60, d: 1_440 };

/** Null: it is none of them. */
export function wishedTime(text: string): Pick<Wish, "cron" | "at" | "in" | "every"> | null {
  const said = text.trim();
  const every = /^every\s+(\d{1,5})\s*([a-z]+)$/i.exec(said);
  if (every) {
    const minutes = Number(every[1]) * (UNITS[String(every[2]).toLowerCase()] ?? 0);
    const cron = everyMinutes(minutes);
    return cron === null ? (minutes ? { every: `${minutes}m` } : null) : { cron };
  }
  const wait = /^(\d{1,5})\s*([mhd])$/i.exec(said);
  if (wait) return { in: said.toLowerCase() };
  if (/^\d{4}-\d\d-\d\d/.test(said)) return { at: said };
  return said.split(/\s+/).length === 5 ? { cron: said } : null;
}

const MINUTE_MS = 60_000;

/** `20m`, `3h`, `2d`, in milliseconds; null: it is none of them. */
export function durationOf(text: string): number | null {
  const [, count = "", unit = ""] = /^(\d{1,5})\s*([a-z]+)$/i.exec(text.trim()) ?? [];
  return Number(count) * (UNITS[unit.toLowerCase()] ?? 0) * MINUTE_MS || null;
}

/** `90m`, `2h`, `3d` */
export function durationText(ms: number): string {
  const minutes = Math.round(ms / MINUTE_MS);
  if (minutes % 1_440 === 0) return `${minutes / 1_440}d`;
  return minutes % 60 === 0 ? `${minutes / 60}h` : `${minutes}m`;
}

/** When a job speaks, for lists. */
export function timeText({ when, goal }: Pick<Job, "when" | "goal">): string {
  if (goal) return "goal";
  if ("every" in when) return `every ${durationText(when.every)}`;
  return "cron" in when ? `${when.cron} ${when.zone}` : "once";
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

/** Null: nowhere but its own conversation. Undefined: it names no chat. `homeChat`: where answers go that name only the platform. */
export function routeTo(
  deliver: string,
  homeChat: (platform: string) => string | undefined,
): string | null | undefined {
  if (deliver === "local" || deliver === "") return null;
  const [platform = "", chat = homeChat(platform), thread] = deliver.split(":");
  if (!platform || !chat) return undefined;
  const place = { kind: chat.startsWith("-") ? ("group" as const) : ("dm" as const), chat, ...(thread && { thread }) };
  return chatSession({ platform, place, generation: 1 });
}

export function deliverOf(route: string | null): string {
  const key = route === null ? null : parseKey(route);
  if (!key || key.of !== "chat") return route ?? "local";
  const { chat, thread } = key.place;
  return [key.platform, chat, ...(thread ? [thread] : [])].join(":");
}
