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
// No two kinds can be confused: they differ in their number of parts, or in a first part that is not a platform. A
// key is `agent:main:<platform>:<kind>:<chat>[:<thread>][:<user>][#<generation>]`, its parts without
// colons.

const CHILD = "/child/";
const TERMINAL = "agent:main:terminal";
const API = "agent:main:api:";
const PLATFORM = /^(?!(?:key|session|terminal|api)$)[a-z][a-z0-9_-]*$/;
const KINDS = new Set(["dm", "group", "channel", "thread"]);
/** A new conversation in the same place is with the same people. */
const GENERATION = /#(\d+)$/;

export function scopeOf({ session, by }: { session: string; by?: string | undefined }): string {
  const talk = talkOf(session);
  if (talk.startsWith(`${TERMINAL}:`)) return "local";
  const chat = chatScope(talk);
  if (chat) return chat;
  const isApi = talk.startsWith(API) || !talk.startsWith("agent:");
  return by && isApi ? `key:${by}` : `session:${talk}`;
}

/** A child belongs to the conversation that started it. */
export const talkOf = (session: string): string => session.split(CHILD, 1)[0] ?? session;

export const isChild = (session: string): boolean => session.includes(CHILD);

/** The turn that started this child: the child uses the memory of the person who began that turn. */
export function parentTurnOf(session: string): string | null {
  const key = session.split(CHILD, 2)[1];
  return key?.split(".", 1)[0] || null;
}

/** Where to search for sessions that may have the same scope: keys, or beginnings of keys. Check each result with
 *  `scopeOf`. */
export function searchedFrom(session: string): string[] {
  const talk = talkOf(session);
  if (talk.startsWith(`${TERMINAL}:`)) return [TERMINAL];
  const chat = chatOf(talk);
  if (!chat) return [talk];
  const base = talk.replace(GENERATION, "");
  const now = Number(GENERATION.exec(talk)?.[1] ?? 1);
  const generations = Array.from({ length: Math.min(now, MOST_GENERATIONS) }, (_, ago) => now - ago);
  const begun = generations.map((number) => (number > 1 ? `${base}#${number}` : base));
  return chat.kind === "dm" ? [...new Set([base.split(":").slice(0, 5).join(":"), ...begun])] : begun;
}

/** Each is a separate search. */
const MOST_GENERATIONS = 4;

function chatScope(talk: string): string | null {
  const chat = chatOf(talk);
  if (!chat) return null;
  const { platform, kind, ids } = chat;
  const [id, second, third] = ids;
  if (kind === "dm") return `${platform}:${id}`; // a thread in a direct chat is the same person
  // In a group the last part is the user. In a thread the second part is the thread, and it is shared unless a user
  // follows.
  const user = kind === "thread" ? third : (third ?? second);
  return user ? `${platform}:${id}:${user}` : [platform, "shared", kind, ...ids].join(":");
}

/** Null if it is not the key of a chat. */
function chatOf(talk: string) {
  const [agent, main, platform = "", kind = "", ...ids] = talk.replace(GENERATION, "").split(":");
  const known = agent === "agent" && main === "main" && PLATFORM.test(platform) && KINDS.has(kind);
  const whole = ids.length >= (kind === "thread" ? 2 : 1) && ids.length <= 3 && ids.every(Boolean);
  return known && whole ? { platform, kind, ids } : null;
}
