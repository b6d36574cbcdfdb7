// A job in the words of Hermes: its time as one text, `30m` (once), `every 2h`, a cron expression or a moment, and where its
// answers go: `local`, `telegram`, `telegram:1001`, `telegram:1001:5`.
import type { Wish } from "./jobs.ts";
import { chatSession, parseKey } from "./session-key.ts";

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
