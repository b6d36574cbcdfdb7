// From what a chat platform tells us to an accepted input, and the short answers on the way. When `heard` resolves, what was
// said is durable; when it rejects, nothing was taken and the platform brings it again.
import type { Chat, Ears, Heard, Place } from "../../core/chat.ts";
import { Refusal } from "../../core/errors.ts";
import type { Clock, Log, Notes } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Applied, Mode } from "../../core/session.ts";
import type { Access } from "./access.ts";
import { keepAttachments } from "./attachments.ts";
import { type Commands, commandIn } from "./commands.ts";
import { tell } from "./outbox.ts";
import type { Questions } from "./questions.ts";
import { personOf, sessionKey } from "./route.ts";
import type { Sessions } from "./sessions.ts";

export type TalkOptions = {
  runtime: Runtime;
  access: Access;
  sessions: Sessions;
  questions: Questions;
  commands: Commands;
  notes: Notes;
  clock: Clock;
  log: Log;
  newKey(): string;
  /** Where attachments are kept. */
  files: string;
  /** Groups where all share one session. */
  sharedGroups: boolean;
};

const ACK: Record<Applied, string> = {
  began: "",
  interrupt: "⚡ Interrupting current task. I'll respond to your message shortly.",
  queue: "⏳ Queued for the next turn. I'll respond once the current task finishes.",
  steer: "⏩ Steered into current run. Your message arrives after the next tool call.",
};
const DRAINING = {
  fresh: "⏳ Gateway is restarting and is not accepting new work right now.",
  busy: "⏳ Gateway is restarting. Your message is queued for the next turn.",
};
/** Somebody who types three lines is told once. */
const ACK_AGAIN_MS = 3_000;

/** The same for a message that is edited or brought again. */
const keyOf = ({ place, message }: Pick<Heard, "place" | "message">) =>
  [place.chat, place.thread ?? "", message].join("/");

export function createTalk(options: TalkOptions): (chat: Chat) => Ears {
  const { runtime, access, sessions, questions, commands, notes, clock, log, newKey } = options;
  const acked = new Map<string, number>();

  return (chat) => {
    const { platform } = chat;
    const say = (place: Place, text: string, key: string) =>
      tell(chat, place, { text: text.slice(0, chat.longest) }, { key, clock, log });

    async function heard(message: Heard): Promise<void> {
      const { place, from } = message;
      if (!(await access.mayTalk(platform, place, from))) return stranger(message);
      if (!message.addressed) return;
      const key = sessionKey(platform, place, from, options.sharedGroups);
      const session = await sessions.current(key);
      const command = commandIn(message.text);
      if (command) {
        // A platform that did not hear our answer brings a command again, also one that restarted us.
        const once = `did/${platform}/${keyOf(message)}`;
        if (await notes.get(once)) return;
        await notes.set(once, clock.now());
        const done = await commands.run({ ...command, platform, place, from, key, session });
        if (typeof done === "object") return accept(message, session, done.text, done.mode);
        if (done) void say(place, done, `did.${keyOf(message)}`);
        return;
      }
      const answer = await questions.answered(platform, from, session, message.text);
      if (answer) return void say(place, answer, `answer.${keyOf(message)}`);
      await accept(message, session, message.text, await commands.modeOf(key, platform));
    }

    async function accept(message: Heard, session: string, said: string, mode: Mode): Promise<void> {
      const { place, from } = message;
      const source = platform;
      const key = keyOf(message);
      const known = await runtime.whereabouts(runtime.idOf(source, key));
      if (known) return; // brought again: its files need not be fetched twice
      const { images, lines } = await keepAttachments(message.attachments, options.files, newKey);
      const text = [said, ...lines].filter(Boolean).join("\n");
      if (!text.trim()) return;
      try {
        const { applied, replayed } = await runtime.accept({
          session,
          source,
          key,
          text,
          mode,
          reply: "push",
          by: personOf(platform, from),
          ...(images.length && { images }),
        });
        if (!replayed) acknowledge(place, session, applied, key);
      } catch (error) {
        const words = error instanceof Refusal ? refusalText(error) : null;
        if (words === null) throw error; // the store's trouble: it must be brought again
        void say(place, words, `no.${key}`);
      }
    }

    function acknowledge(place: Place, session: string, applied: Applied, key: string) {
      const words = applied !== "began" && runtime.draining() ? DRAINING.busy : ACK[applied];
      const name = `${session} ${words}`;
      if (!words || clock.now() - (acked.get(name) ?? 0) < ACK_AGAIN_MS) return;
      acked.set(name, clock.now());
      if (acked.size > 1_000) acked.clear();
      void say(place, words, `ack.${key}`);
    }

    async function stranger({ place, from, text, message }: Heard): Promise<void> {
      const words = (await access.pair(platform, place, from, text)) ?? (await access.refusal(platform, place, from));
      if (words) await say(place, words, `stranger.${place.chat}.${message}`);
    }

    async function edited(message: Heard): Promise<void> {
      const { place, from } = message;
      if (!(await access.mayTalk(platform, place, from)) || !message.addressed) return;
      const session = await sessions.current(sessionKey(platform, place, from, options.sharedGroups));
      const waits = await waiting(place, message.message, session);
      if (!waits) return; // it has begun: what was said then was said
      const name = `edit/${platform}/${keyOf(message)}`;
      const again = `${keyOf(message)}~${newKey()}`;
      if (!(await runtime.withdraw(session, waits.id))) return;
      await notes.set(name, again);
      const { images, lines } = await keepAttachments(message.attachments, options.files, newKey);
      const { id } = await runtime.accept({
        session,
        source: platform,
        key: again,
        text: [message.text, ...lines].join("\n"),
        mode: "queue",
        reply: "push",
        by: personOf(platform, from),
        ...(images.length && { images }),
      });
      await runtime.move(session, id, waits.index);
    }

    async function deleted(place: Place, message: string): Promise<void> {
      for (const session of await sessionsIn(place)) {
        const waits = await waiting(place, message, session);
        if (waits) await runtime.withdraw(session, waits.id);
      }
    }

    /** The input that a message became, while it waits; also after it was edited. */
    async function waiting(place: Place, message: string, session: string) {
      const edit = await notes.get(`edit/${platform}/${keyOf({ place, message })}`);
      const id = runtime.idOf(platform, typeof edit === "string" ? edit : keyOf({ place, message }));
      const { inbox } = await runtime.status(session);
      const index = inbox.findIndex((input) => input.id === id);
      return index < 0 ? null : { id, index };
    }

    /** A platform that tells of a deletion does not tell whose message it was. */
    async function sessionsIn(place: Place): Promise<string[]> {
      const prefix = sessionKey(platform, place, { id: "", name: "" }, true);
      const rows = await runtime.sessions({ limit: 200 });
      return rows.filter(({ session, active }) => active && session.startsWith(prefix)).map(({ session }) => session);
    }

    return { heard, edited, deleted, pressed: (press) => questions.pressed(platform, press) };
  };
}

/** Null: nothing that the person can do anything about now. */
function refusalText({ code, message }: Refusal): string | null {
  switch (code) {
    case "draining":
      return DRAINING.fresh;
    case "inbox_full":
    case "text_too_long":
    case "empty_text":
      return `⚠️ ${message}`;
    default:
      return null;
  }
}
