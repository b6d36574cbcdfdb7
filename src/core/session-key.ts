// What a session's key looks like. Keys are built and read here alone.
//
//   agent:main:terminal:dm:<name>                                  a conversation of the terminal
//   agent:main:<platform>:dm:<chat>[:<thread>][#<n>]               a direct chat; #<n>: the n-th conversation in that place
//   agent:main:<platform>:group|channel:<chat>[:<user>][#<n>]      one person in a group, or all who share it
//   agent:main:<platform>:thread:<chat>:<thread>[:<user>][#<n>]
//   agent:main:api:dm:<id>                                         begun over the API
//   agent:main:schedule:<id>                                       the turns of a job
//   agent:main:background:<id>                                     a task beside a conversation
//   run_<hex>                                                      a run without a session, by the id of its turn
//   <parent>/child/<turn>.<call>.<n>                               made by a tool call of another session
//   anything else                                                  as a client of the API named it
//
// What comes from outside is encoded: no id can end its part and forge another key. Only what would be built the same again
// is read as one of ours; whatever else begins with `agent:` belongs to nobody.
import { createBounded } from "./bounded.ts";
import type { Place } from "./chat.ts";

export type ChatKey = { platform: string; place: Place; user?: string; generation: number };
export type SessionKey =
  | { of: "terminal"; name: string }
  | ({ of: "chat" } & ChatKey)
  | { of: "api" | "job" | "background"; id: string }
  | { of: "child"; parent: string; turn: string }
  | { of: "run" | "named" | "unknown" };

/** Keys of one kind begin so: for lists. */
export const TERMINAL = "agent:main:terminal:dm:";
export const BACKGROUND = "agent:main:background:";
export const RUN = "run_";
const API = "agent:main:api:dm:";
const JOB = "agent:main:schedule:";
const CHILD = "/child/";

const KINDS: readonly Place["kind"][] = ["dm", "group", "channel", "thread"];
/** The words of our own that stand where a platform does, here and in a memory's scope. */
const PLATFORM = /^(?!(?:terminal|api|schedule|background|key|session)$)[a-z][a-z0-9_-]*$/;
const GENERATION = /#(\d+)$/;

export const jobSession = (id: string): string => JOB + keyPart(id);
export const backgroundSession = (id: string): string => BACKGROUND + keyPart(id);
export const apiSession = (id: string): string => API + keyPart(id);
export const childSession = (parent: string, turn: string, call: string, n: number): string =>
  `${parent}${CHILD}${turn}.${call}.${n}`;

/** A platform puts a thread of a group or a channel into a place of the kind `thread`. */
export function chatSession({ platform, place, user, generation: number }: ChatKey): string {
  const { kind, chat, thread } = place;
  const inThread = kind === "dm" || kind === "thread" ? thread : undefined;
  const ids = [chat, inThread, kind === "dm" ? undefined : user].filter((id) => id !== undefined);
  return generation(["agent", "main", platform, kind, ...ids.map(keyPart)].join(":"), number);
}

/** The n-th conversation in the place of that key. */
export const generation = (key: string, number: number): string => (number > 1 ? `${key}#${number}` : key);
export const generationOf = (session: string): number => Number(GENERATION.exec(session)?.[1] ?? 1);
/** What the keys of the second one and all later ones begin with. */
export const laterGenerations = (key: string): string => `${key}#`;
export const firstGeneration = (session: string): string => session.replace(GENERATION, "");

/** Characters. A chat message asks ten times what its session's key says: 3 % of its CPU. */
const MOST_PARSED = 100_000;
const parsed = createBounded<Readonly<SessionKey>>(MOST_PARSED);

export function parseKey(session: string): Readonly<SessionKey> {
  const known = parsed.get(session);
  if (known) return known;
  const key = parse(session);
  parsed.set(session, key, session.length);
  return key;
}

function parse(session: string): SessionKey {
  const [parent = "", made] = session.split(CHILD, 2);
  if (made !== undefined) return { of: "child", parent, turn: made.split(".", 1)[0] ?? "" };
  if (session.startsWith(RUN)) return { of: "run" };
  if (!session.startsWith("agent:")) return { of: "named" };
  if (session.startsWith(TERMINAL)) return { of: "terminal", name: session.slice(TERMINAL.length) };
  for (const [of, prefix, build] of IDS) {
    const id = decode(session.slice(prefix.length));
    if (id && session === build(id)) return { of, id };
  }
  const chat = chatKey(session);
  return chat && session === chatSession(chat) ? { of: "chat", ...chat } : { of: "unknown" };
}
const IDS = [
  ["api", API, apiSession],
  ["job", JOB, jobSession],
  ["background", BACKGROUND, backgroundSession],
] as const;

function chatKey(session: string): ChatKey | null {
  const [, , platform = "", kindName, ...ids] = firstGeneration(session).split(":").map(decode);
  const kind = KINDS.find((one) => one === kindName);
  if (!kind || !PLATFORM.test(platform) || !ids.every(Boolean)) return null;
  const [chat, second, third] = ids;
  const thread = kind === "dm" || kind === "thread" ? second : undefined;
  const user = kind === "thread" ? third : kind === "dm" ? undefined : second;
  if (chat === undefined || (kind === "thread" && thread === undefined)) return null;
  const place = { kind, chat, ...(thread !== undefined && { thread }) };
  return { platform, place, ...(user !== undefined && { user }), generation: generationOf(session) };
}

/** The conversation that a child belongs to; any other session itself. */
export const rootOf = (session: string): string => session.split(CHILD, 1)[0] ?? session;
export const isChild = (session: string): boolean => session.includes(CHILD);
export const isTerminal = (session: string): boolean => parseKey(session).of === "terminal";

/** Conversations of the terminal go by their name. */
export const shortName = (session: string): string => (isTerminal(session) ? session.slice(TERMINAL.length) : session);
export const fullName = (name: string): string => (name.includes(":") || name.startsWith(RUN) ? name : TERMINAL + name);

/** `telegram:dm:999` is short for `agent:main:telegram:dm:999`. */
export const wholeKey = (key: string): string => (key.startsWith("agent:") ? key : `agent:main:${key}`);

/** A part of a key, without what would end it. */
export const keyPart = (part: string): string => part.replaceAll(/[%:#/\s]/g, (one) => encodeURIComponent(one));

/** Anybody who calls the API may name a session: what is not encoded stays as it is. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
