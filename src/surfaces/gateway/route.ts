// Session keys of chats, in both directions: where something was said says which session it is, and the session says where
// its answer goes. `agent:main:<platform>:<kind>:<chat>[:<thread>][:<user>][#<generation>]`
import type { Person, Place } from "../../core/chat.ts";

export type Route = { platform: string; place: Place };

const KINDS = ["dm", "group", "channel", "thread"] as const;

/** In groups each person has a session of their own, unless they share one; a thread is shared. */
export function sessionKey(platform: string, { kind, chat, thread }: Place, from: Person, shared = false): string {
  const parts = ["agent", "main", platform, kind, chat];
  if (thread !== undefined) parts.push(thread);
  if ((kind === "group" || kind === "channel") && !shared) parts.push(from.id);
  return parts.map(encode).join(":");
}

/** A session that was begun anew in the same place. */
export const generation = (key: string, number: number): string => (number > 1 ? `${key}#${number}` : key);

export const generationOf = (session: string): number => Number(/#(\d+)$/.exec(session)?.[1] ?? 1);

/** Null: not a session of a chat. */
export function routeOf(session: string): Route | null {
  const [, , platform = "", kindName = "", chat = "", ...rest] = session.replace(/#\d+$/, "").split(":").map(decode);
  const kind = KINDS.find((one) => one === kindName);
  if (!session.startsWith("agent:main:") || !kind || !chat || session.includes("/child/")) return null;
  const thread = kind === "thread" || kind === "dm" ? rest[0] : undefined;
  return { platform, place: { kind, chat, ...(thread !== undefined && { thread }) } };
}

/** What would end a part of the key. */
const encode = (part: string) => part.replaceAll(/[%:#/\s]/g, (one) => encodeURIComponent(one));

/** Anybody who calls the API may name a session: what is not encoded stays as it is. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const personOf = (platform: string, from: Person): string => `${platform}:${from.id}`;
