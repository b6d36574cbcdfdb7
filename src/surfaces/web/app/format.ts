// Times, sizes and names for people, in their own zone.
import { parseKey, shortName } from "../../../core/session-key.ts";

/** The ids of conversations that were begun here. */
export const WEB = "web-";
const DAY_MS = 86_400_000;

export function ago(at: number, now = Date.now()): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  if (now - at < 7 * DAY_MS) return `${Math.floor((now - at) / DAY_MS)} d`;
  return new Date(at).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

export const timeOf = (at: number): string =>
  new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
export const clockOf = (at: number): string =>
  new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });

export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString()} ${count === 1 ? one : many}`;

/** 12,345 as 12.3 k. */
export const short = (count: number): string =>
  count < 1_000
    ? String(count)
    : count < 1_000_000
      ? `${(count / 1_000).toFixed(count < 10_000 ? 1 : 0)} k`
      : `${(count / 1_000_000).toFixed(1)} M`;

/** Where a conversation is held. */
export function sourceOf(session: string): string {
  const key = parseKey(session);
  if (key.of === "chat") return key.platform;
  if (key.of === "api" && key.id.startsWith(WEB)) return "console";
  return SOURCES[key.of] ?? key.of;
}
const SOURCES: Readonly<Record<string, string>> = {
  api: "API",
  run: "API",
  named: "API",
  unknown: "API",
  job: "schedule",
};

/** What there is of these, on one line. */
export const dotted = (...parts: (string | false | null | undefined)[]): string => parts.filter(Boolean).join(" · ");

export const nameOf = (session: string, title: string): string => title || shortName(session);
