// The one message that shows a turn at work: tools as they run, words as they come. Edited no more often than the platform
// allows; when the answer is there it takes this message's place.
import type { Chat, Place } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Notes } from "../../core/store.ts";
import { after } from "../../core/wait.ts";
import { asRecord } from "./access.ts";
import type { GatewayOptions } from "./gateway.ts";
import type { Tell } from "./notices.ts";
import { faultOf, progressOf } from "./outbox.ts";

export type ProgressView = ReturnType<typeof createView>;

/** An answer that is there sooner needs no message of its own before it. */
const SHOW_TEXT_MS = 2_000;
/** What is on its way when the answer is there gets so long: an edit that comes late would undo the answer. */
const LATE_MS = 5_000;
const MOST_LINES = 12;
/** Before a store that could not be read is asked again. */
const STORE_MS = 5_000;

export const liveName = (turn: string): string => `live/${turn}`;

type ViewOptions = Pick<GatewayOptions, "clock" | "log" | "node"> & { notes: Notes; tell: Tell };
/** `isFirst`: no earlier process can have shown it. */
type ViewedTurn = { chat: Chat; place: Place; turn: string; isFirst: boolean };

export function createView(options: ViewOptions & ViewedTurn) {
  const { chat, place, turn, notes, tell, clock, log, isFirst } = options;
  const node = options.node?.();
  const over = new AbortController();
  const cut = new AbortController();
  const lines = new Map<string, string>();
  let text = "";
  let notice = "";
  let saidAt = 0;
  let shown = "";
  let message: string | null = null;
  let noted = false; // which message it is
  let left = false;
  let dirty = Promise.withResolvers<void>();
  const wake = () => dirty.resolve();

  const body = () => {
    const tools = [...lines.values()].slice(-MOST_LINES).join("\n");
    const whole = [tools, text, notice && `_${notice}_`].filter(Boolean).join("\n\n");
    return whole.length > chat.longest ? `…${whole.slice(1 - chat.longest)}` : whole;
  };
  const worth = () => message !== null || lines.size > 0 || (text !== "" && clock.monotonic() - saidAt >= SHOW_TEXT_MS);

  /** Returns how long the platform wants to be left alone. */
  async function put(content: string): Promise<number> {
    if (!content || content === shown) return 0;
    try {
      if (message === null) message = await chat.send(place, { text: content }, `live.${turn}`, cut.signal);
      else await chat.edit(place, message, { text: content }, cut.signal);
      shown = content;
      await note(message);
      return 0;
    } catch (error) {
      const fault = faultOf(error);
      log("debug", "view.unshown", { turn, error: fault.message });
      return fault.retryAfter ?? 0;
    }
  }

  async function note(sent: string): Promise<void> {
    if (!noted) await notes.set(liveName(turn), noteOf(sent));
    noted = true;
  }
  const noteOf = (sent: string) => ({ message: sent, ...(node !== undefined && { node }) });

  const isNoted = (sent: string): Promise<boolean> =>
    note(sent).then(
      () => true,
      (error: unknown) => {
        log("warn", "view.unnoted", { turn, error: messageOf(error) });
        return false;
      },
    );

  /** Shows what there is, as often as the platform allows. Never rejects. */
  async function pump(): Promise<void> {
    message = isFirst ? null : await shownBefore();
    noted = message !== null;
    for (;;) {
      await dirty.promise;
      dirty = Promise.withResolvers();
      if (text && !worth()) await clock.sleep(SHOW_TEXT_MS, over.signal);
      if (over.signal.aborted) return;
      const wait = worth() ? await put(body()) : 0;
      await clock.sleep(Math.max(wait, chat.editEveryMs), over.signal);
      if (over.signal.aborted) return;
    }
  }
  const pumping = pump();

  /** The message that an earlier process has shown for this turn. Nothing is shown before that is known: it would be a second message. */
  async function shownBefore(): Promise<string | null> {
    while (!over.signal.aborted) {
      try {
        const { message: before, node: by } = asRecord(await notes.get(liveName(turn))) ?? {};
        if (typeof before !== "string") return null;
        if (by === node) return before;
        if (progressOf(await notes.get(`out/${turn}`)).done > 0) return null; // it is the answer by now
        void chat.remove(place, before, cut.signal).catch(() => {}); // an edit of that node's may come late
        return null;
      } catch (error) {
        log("warn", "view.unread", { turn, error: messageOf(error) });
        await clock.sleep(STORE_MS, over.signal);
      }
    }
    return null;
  }

  /** Nothing of it is on its way any more, or nobody will take it for the answer. */
  async function close(): Promise<void> {
    over.abort("over");
    wake();
    const inTime = after(clock, LATE_MS, () => cut.abort("late"));
    await pumping;
    inTime();
    if (message === null) return;
    if (!left && !cut.signal.aborted && (await isNoted(message))) return;
    // What was cut may still arrive there, and no other node may know of it: the answer goes elsewhere.
    cut.abort("elsewhere");
    if (noted) await notes.swap(liveName(turn), noteOf(message), undefined); // another node may have one of its own
    void chat.remove(place, message, new AbortController().signal).catch(() => {});
  }

  return {
    /** The message that the answer can take the place of, once this is closed. */
    message: () => (left || cut.signal.aborted ? null : message),
    /** Another node shows it from now on, in a message of its own. */
    leave(): void {
      left = true;
      cut.abort("left");
    },
    say(more: string) {
      if (!text) saidAt = clock.monotonic();
      text += more;
      wake();
    },
    unsay() {
      text = "";
    },
    notice(said: string) {
      notice = said;
      wake();
    },
    line(key: string, said: string) {
      lines.set(key, said);
      wake();
    },
    close,
    /** There will be no answer: what was shown stays, marked. False: nothing was shown. */
    async end(mark: string): Promise<boolean> {
      await close();
      notice = "";
      if (message === null || cut.signal.aborted) return false;
      const rest = body().slice(0, chat.longest - mark.length - 2);
      void tell.edit(chat, place, message, { text: `${rest}\n\n${mark}`.trim() });
      await notes.set(liveName(turn), undefined);
      return true;
    },
  };
}
