// Replies to chats: in parts that fit, each part noted before and after it is sent, so that whoever takes over after a crash
// sends exactly the rest. Waits out an outage: the turn is over for its person only when they have its answer.
import { type Chat, type Place, type Said, SendFault } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Channel, Clock, Log, Notes } from "../../core/ports.ts";
import type { Delivery } from "../../core/session.ts";
import { asRecord } from "./access.ts";
import { type Route, routeOf } from "./route.ts";
import { splitMarkdown } from "./split.ts";

type Options = {
  chats: ReadonlyMap<string, Chat>;
  notes: Notes;
  clock: Clock;
  log: Log;
};
/** Of one reply: so many parts have arrived; `trying`: the next one may have. */
type Progress = { done: number; trying: boolean };

const AGAIN = "(Sent again: the first copy may not have arrived.)";
const LONGEST_WAIT_MS = 60_000;
/** An outage longer than this is not waited out: the answer stays in the conversation. */
const GIVE_UP_MS = 86_400_000;

export function createOutbox({ chats, notes, clock, log }: Options): Channel {
  async function send({ key, session, turn, text, again }: Parameters<Channel["send"]>[0], signal: AbortSignal) {
    const route = await routeFor(session, notes);
    const chat = route && chats.get(route.platform);
    if (!route || !chat) {
      log("error", "reply.nowhere", { session, turn });
      return "undelivered";
    }
    const parts = splitMarkdown(text.trim() || "(There is nothing to say.)", chat.longest - AGAIN.length - 1);
    const name = `out/${key}`;
    const progress = progressOf(await notes.get(name));
    let how: Delivery = "sent";
    for (let part = progress.done; part < parts.length; part++) {
      const maybe = part === progress.done && progress.trying && again;
      const landed = await deliver(
        chat,
        route.place,
        { turn, key: `${key}.${part}`, name, part, maybe },
        parts[part] ?? "",
        signal,
      );
      if (landed === "undelivered") return part > 0 ? "maybe" : "undelivered";
      if (landed === "maybe") how = "maybe";
      await notes.set(name, { done: part + 1, trying: false });
    }
    await notes.set(`live/${turn}`, undefined);
    return how;
  }

  type Part = { turn: string; key: string; name: string; part: number; maybe: boolean };

  async function deliver(chat: Chat, place: Place, one: Part, text: string, signal: AbortSignal): Promise<Delivery> {
    const live = one.part === 0 ? asRecord(await notes.get(`live/${one.turn}`)) : null;
    const began = clock.now();
    let { maybe } = one;
    for (let attempt = 0; ; attempt++) {
      if (signal.aborted) throw new Error("aborted");
      try {
        // An edit twice is an edit: the message that showed the work becomes the answer.
        if (live) await chat.edit(place, String(live["message"]), { text }, signal);
        else {
          await notes.set(one.name, { done: one.part, trying: true });
          await chat.send(place, { text: maybe ? `${AGAIN}\n${text}` : text }, one.key, signal);
        }
        return "sent";
      } catch (error) {
        const fault = error instanceof SendFault ? error : new SendFault("unknown", messageOf(error));
        log("warn", "reply.failed", {
          platform: chat.platform,
          turn: one.turn,
          attempt,
          landed: fault.landed,
          error: fault.message,
        });
        if (fault.landed === "never" && live) return deliver(chat, place, { ...one, turn: "" }, text, signal);
        if (fault.landed === "never") return "undelivered";
        if (fault.landed === "unknown" && !live) maybe = true;
        if (clock.now() - began > GIVE_UP_MS) return maybe ? "maybe" : "undelivered";
        await clock.sleep(fault.retryAfter ?? Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** attempt), signal);
      }
    }
  }

  return { send };
}

/** Where answers of a session go: by its key, or where somebody said they should. */
export async function routeFor(session: string, notes: Notes): Promise<Route | null> {
  const direct = routeOf(session);
  if (direct) return direct;
  const told = asRecord(await notes.get(`route/${session}`));
  return typeof told?.["to"] === "string" ? routeOf(told["to"]) : null;
}

function progressOf(note: unknown): Progress {
  const { done, trying } = asRecord(note) ?? {};
  return { done: typeof done === "number" ? done : 0, trying: trying === true };
}

/** For what is said besides the answers: tried a few times, then let be. False: it did not arrive. */
export async function tell(
  chat: Chat,
  place: Place,
  said: Said,
  { key, clock, log }: { key: string; clock: Clock; log: Log },
): Promise<string | null> {
  const never = new AbortController().signal;
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      return await chat.send(place, said, key, never);
    } catch (error) {
      const fault = error instanceof SendFault ? error : new SendFault("unknown", messageOf(error));
      log("warn", "notice.failed", { platform: chat.platform, attempt, error: fault.message });
      if (fault.landed !== "no") return null;
      await clock.sleep(Math.min(fault.retryAfter ?? 1_000 * 2 ** attempt, 10_000), never);
    }
  }
  return null;
}
