// Replies to chats: in parts that fit, each part noted before and after it is sent, so that whoever takes over after a crash
// sends exactly the rest. Waits out an outage: the turn is over for its person only when they have its answer.
import { type Chat, type Place, SendFault } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Ambient, Channel } from "../../core/ports.ts";
import { replyRoute } from "../../core/reply-route.ts";
import { type ChatKey, parseKey } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { backoff } from "../../core/wait.ts";
import { asRecord } from "./access.ts";
import { splitMarkdown } from "./split.ts";

type Options = Ambient & {
  chats: ReadonlyMap<string, Chat>;
  notes: Notes;
  node?(): string;
};
export type ShownTurn = { message: string | null };
/** `done`: the parts of a reply that have arrived. `trying`: the next part may have arrived. */
type Progress = { done: number; trying: boolean };

const AGAIN = "(Sent again: the first copy may not have arrived.)";
const WAIT_MS = { first: 1_000, most: 60_000 };
/** An outage longer than this is not waited out: the answer stays in the conversation. */
const GIVE_UP_MS = 86_400_000;

export function createOutbox({ chats, notes, clock, log, node = () => "" }: Options) {
  /** `shown`: what is known without the store of a turn that only this process has worked on: the message that shows it, if there is one. */
  const send = async (
    { key, session, turn, text }: Parameters<Channel["send"]>[0],
    signal: AbortSignal,
    shown: ShownTurn | null = null,
  ): ReturnType<Channel["send"]> => {
    const route = await routeFor(session, notes);
    const chat = route && chats.get(route.platform);
    if (!route || !chat) {
      log("error", "reply.nowhere", { session, turn });
      return "undelivered";
    }
    const parts = splitMarkdown(text.trim() || "(There is nothing to say.)", chat.longest - AGAIN.length - 1);
    const name = `out/${key}`;
    const before = shown ? { done: 0, trying: false } : progressOf(await notes.get(name));
    const live = await liveMessage(turn, shown);
    for (const [part, words] of parts.entries()) {
      if (part < before.done) continue;
      const maybe = part === before.done && before.trying;
      const one = { chat, place: route.place, signal, turn, key: `${key}.${part}`, name, part, maybe };
      const there =
        (part === 0 && !maybe && live && (await intoLive(one, live, words))) || (await asMessage(one, words));
      if (!there) return "undelivered";
      // Of the last one, the commit that ends the turn says it.
      if (part + 1 < parts.length) await notes.set(name, { done: part + 1, trying: false });
    }
    // Not waited for: they reach the store before the commit that ends the turn, and one fsync is enough for all of them. Where
    // they are lost the turn is over all the same, or the reply is sent again and says so. Several nodes write them one after the other:
    // whoever takes over leaves the message alone once it is the answer.
    if (live) {
      const noted = notes.set(name, { done: parts.length, trying: false });
      const cleared = (node() ? noted : Promise.resolve()).then(() => notes.set(`live/${turn}`, undefined));
      Promise.all([noted, cleared]).catch((error: unknown) => {
        log("warn", "reply.unnoted", { turn, error: messageOf(error) });
      });
    }
    return "sent";
  };

  type PartWay = { chat: Chat; place: Place; signal: AbortSignal };
  type Part = PartWay & { turn: string; key: string; name: string; part: number; maybe: boolean };

  type LiveMessage = { message: string; by: unknown };
  async function liveMessage(turn: string, shown: ShownTurn | null): Promise<LiveMessage | null> {
    if (shown) return shown.message === null ? null : { message: shown.message, by: node() };
    const { message, node: by = "" } = asRecord(await notes.get(`live/${turn}`)) ?? {};
    return typeof message === "string" ? { message, by } : null;
  }

  /** The message that showed the work becomes the answer; an edit twice is an edit. False: it never will, or it is of another
   *  node: an edit of that node's that comes late would undo the answer. */
  async function intoLive(one: Part, { message, by }: LiveMessage, text: string): Promise<boolean> {
    const { chat, place, signal } = one;
    if (by !== node()) {
      void chat.remove(place, message, signal).catch(() => {});
      return false;
    }
    return insist(one, () => chat.edit(place, message, { text }, signal));
  }

  /** False: it never will arrive. */
  function asMessage(one: Part, text: string): Promise<boolean> {
    const { chat, place, signal } = one;
    let { maybe } = one;
    return insist(one, async () => {
      await notes.set(one.name, { done: one.part, trying: true });
      try {
        await chat.send(place, { text: maybe ? `${AGAIN}\n${text}` : text }, one.key, signal);
      } catch (error) {
        if (faultOf(error).landed === "unknown") maybe = true;
        else if (!maybe) await notes.set(one.name, { done: one.part, trying: false });
        throw error;
      }
    });
  }

  async function insist({ chat, turn, part, signal }: Part, attempt: () => Promise<void>) {
    const began = clock.monotonic();
    for (let tries = 0; ; tries++) {
      if (signal.aborted) throw new Error("aborted");
      try {
        await attempt();
        return true;
      } catch (error) {
        const { landed, message, retryAfter } = faultOf(error);
        log("warn", "reply.failed", { platform: chat.platform, turn, part, tries, landed, error: message });
        if (landed === "never" || clock.monotonic() - began > GIVE_UP_MS) return false;
        await clock.sleep(retryAfter ?? backoff(tries, WAIT_MS), signal);
      }
    }
  }

  return { send };
}

export const faultOf = (error: unknown): SendFault =>
  error instanceof SendFault ? error : new SendFault("unknown", messageOf(error));

/** The chat that gets the answers of a session: the chat in its key, or the one that its reply route names. */
export async function routeFor(session: string, notes: Notes): Promise<Pick<ChatKey, "platform" | "place"> | null> {
  const key = parseKey(session);
  if (key.of !== "job" && key.of !== "background") return key.of === "chat" ? key : null;
  const to = await replyRoute(notes, session);
  const chat = to === null ? null : parseKey(to);
  return chat?.of === "chat" ? chat : null;
}

export function progressOf(note: unknown): Progress {
  const { done, trying } = asRecord(note) ?? {};
  return { done: typeof done === "number" ? done : 0, trying: trying === true };
}
