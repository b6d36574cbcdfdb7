// The memory scope of a conversation. Pure, and the only place that decides it (I25).
//
//   local                             the person at the terminal
//   <platform>:<chat>                 a direct chat
//   <platform>:<chat>:<user>          one person in a group, channel or thread
//   <platform>:shared:<kind>:<chat>   a group or channel with one shared conversation
//   <platform>:shared:thread:<chat>:<thread>
//   key:<name>                        an API client, by its X-Hermes-Session-Key
//   session:<key>                     any other conversation: only this one
//
// No two kinds can be confused: they differ in their number of parts, or in a first part that is not a platform.
// Parts are encoded as in a session's key, so they have no colons.
import {
  type ChatKey,
  chatSession,
  firstGeneration,
  generation,
  keyPart,
  parseKey,
  rootOf,
  TERMINAL,
} from "../core/session-key.ts";

export function scopeOf({ session, by }: { session: string; by?: string | undefined }): string {
  const root = rootOf(session);
  const key = parseKey(root);
  switch (key.of) {
    case "terminal":
      return "local";
    case "chat":
      return chatScope(key);
    case "run":
    case "named":
    case "api":
      return by ? `key:${by}` : `session:${root}`;
    default:
      return `session:${root}`;
  }
}

/** Whether no other session has this scope. */
export const isAlone = (scope: string): boolean => scope.startsWith("session:");

/** Whether it works for another session: only that one's note says for which. */
export const worksForAnother = (session: string): boolean =>
  ["job", "background"].includes(parseKey(rootOf(session)).of);

/** The turn that started this child: the child uses the memory of the person who began that turn. */
export function parentTurnOf(session: string): string | null {
  const key = parseKey(session);
  return (key.of === "child" && key.turn) || null;
}

/** Where to search for sessions that may have the same scope: keys, or beginnings of keys. Check each result with
 *  `scopeOf`. */
export function searchedFrom(session: string): string[] {
  const root = rootOf(session);
  const key = parseKey(root);
  if (key.of === "terminal") return [TERMINAL.replace(/:$/, "")];
  if (key.of !== "chat") return [root];
  const { platform, place } = key;
  const last = Array.from({ length: Math.min(key.generation, MOST_GENERATIONS) }, (_, ago) => key.generation - ago);
  const begun = last.map((number) => generation(firstGeneration(root), number));
  if (place.kind !== "dm") return begun;
  const wholeChat = chatSession({ platform, place: { kind: "dm", chat: place.chat }, generation: 1 });
  return [...new Set([wholeChat, ...begun])];
}

/** Each is a separate search. */
const MOST_GENERATIONS = 4;

function chatScope({ platform, place: { kind, chat, thread }, user }: ChatKey): string {
  const id = keyPart(chat);
  if (kind === "dm") return `${platform}:${id}`; // a thread in it is the same person
  if (user !== undefined) return `${platform}:${id}:${keyPart(user)}`;
  return [platform, "shared", kind, id, ...(thread === undefined ? [] : [keyPart(thread)])].join(":");
}
