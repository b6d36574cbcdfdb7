// From what a chat platform tells us to an accepted input, and the short answers on the way. When `heard` resolves, what was
// said is durable; when it rejects, nothing was taken and the platform brings it again. What is brought twice is done once.
import { SCOPES } from "../../conversation/choice.ts";
import { thanks } from "../../conversation/commands/answers.ts";
import type { CommandResult } from "../../conversation/commands/command.ts";
import { commandIn, type Typed } from "../../conversation/commands/commands.ts";
import { modeNamed, modeWhileAsked, takenText } from "../../conversation/modes.ts";
import { createBounded } from "../../core/bounded.ts";
import type { Chat, InboundHandler, InboundMessage, Person, Place } from "../../core/chat.ts";
import { Refusal } from "../../core/errors.ts";
import type { Receipt } from "../../core/runtime.ts";
import type { Image, Task } from "../../core/session.ts";
import { chatSession } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { sessionDir } from "../../platform/session-dirs.ts";
import { type Access, asRecord, personOf } from "./access.ts";
import { keepAttachments, readPictures } from "./attachments.ts";
import type { Commands } from "./commands.ts";
import type { GatewayOptions } from "./gateway.ts";
import type { Tell } from "./notices.ts";
import type { QuestionDecision, Questions } from "./questions.ts";
import type { PlaceSessions } from "./sessions.ts";
import { createVoices, type SpokenMessage, type Voices } from "./voices.ts";

type Options = Pick<
  GatewayOptions,
  "runtime" | "clock" | "log" | "newKey" | "files" | "sharedGroups" | "hears" | "strangers" | "transcribe"
> & {
  chats: ReadonlyMap<string, Chat>;
  access: Access;
  sessions: PlaceSessions;
  questions: Questions;
  commands: Commands;
  tell: Tell;
  notes: Notes;
};

const DRAINING = {
  fresh: "⏳ Gateway is restarting and is not accepting new work right now.",
  busy: "⏳ Gateway is restarting. Your message is queued for the next turn.",
};
const DEAF =
  "🔇 I cannot listen to recordings: nothing is set up to transcribe them. I get yours as a file. (Admins: set `stt` in config.yaml.)";
/** Somebody who types three lines is told once. */
const ACK_AGAIN_MS = 3_000;
const MOST_ACKED = 1_000;

/** The same for a message that is edited or brought again. */
const keyOf = ({ place, message }: Pick<InboundMessage, "place" | "message">) =>
  [place.chat, place.thread ?? "", message].join("/");

type CommandMessage = NonNullable<CommandResult["send"]>;
/** What becomes an input. */
type InboundInput = Pick<SpokenMessage, "platform" | "key" | "session" | "place" | "from" | "mode"> & {
  text: string;
  images: Image[];
  task?: Task;
};

export function createTalk(options: Options): { handlerOf(chat: Chat): InboundHandler; voices: Voices | null } {
  const { runtime, chats, access, sessions, questions, commands, tell, notes, clock, log, newKey, transcribe } =
    options;
  const acked = createBounded<number>(MOST_ACKED);
  const voices =
    transcribe &&
    createVoices({
      notes,
      access,
      clock,
      log,
      transcribe,
      say: ({ platform, place, key }, text) => sayIn(platform, place, text, `voice.${key}`),
      async accept({ said, lines, pictures, ...spoken }, words) {
        const text = [said, words, ...lines].filter(Boolean).join("\n");
        await take({ ...spoken, text, images: await readPictures(pictures) });
      },
    });
  return { handlerOf, voices };

  function sayIn(platform: string, place: Place, text: string, key: string) {
    const chat = chats.get(platform);
    if (chat && text) void tell.say(chat, place, { text: fitting(text, chat.longest) }, key);
  }

  async function take({ platform, key, session, place, from, mode, text, images, task }: InboundInput): Promise<void> {
    const request = { session, source: platform, key, text, mode, by: personOf(platform, from) };
    const receipt = await runtime.accept({
      ...request,
      reply: "push",
      ...(await commands.chosenIn(session, platform)),
      ...(task && { task }),
      ...(images.length && { images }),
    });
    if (!receipt.replayed) acknowledge(platform, place, receipt, key);
  }

  function acknowledge(platform: string, place: Place, receipt: Receipt, key: string) {
    const words = receipt.applied !== "began" && runtime.draining() ? DRAINING.busy : takenText(receipt);
    const name = `${receipt.session} ${words}`;
    if (clock.monotonic() - (acked.get(name) ?? Number.NEGATIVE_INFINITY) < ACK_AGAIN_MS) return;
    acked.set(name, clock.monotonic());
    sayIn(platform, place, words, `ack.${key}`);
  }

  function handlerOf({ platform }: Chat): InboundHandler {
    const say = (place: Place, text: string, key: string) => sayIn(platform, place, text, key);
    const onceOf = (message: InboundMessage) => `did/${platform}/${keyOf(message)}`;
    const isTaken = async (message: InboundMessage) =>
      (await runtime.whereabouts(runtime.idOf(platform, keyOf(message)))) !== null;

    async function onMessage(message: InboundMessage): Promise<void> {
      const { place, from } = message;
      if (!(await access.mayTalk(platform, place, from))) return stranger(message);
      if (!options.hears(platform, message)) return;
      const user = (place.kind === "group" || place.kind === "channel") && !options.sharedGroups ? from.id : undefined;
      const key = chatSession({ platform, place, ...(user !== undefined && { user }), generation: 1 });
      // Side by side: each is a question to the store's thread, and the person waits for all of them.
      const [session, before, mode] = await Promise.all([
        sessions.current(key),
        notes.get(onceOf(message)),
        commands.modeOf(key, platform),
        access.noteAdmin(platform, place, from),
      ]);
      if (before === "done") return;
      try {
        const command = commandIn(message.text.trim());
        if (command) return await obey(message, command, key, session, before !== undefined);
        const { asking } = await runtime.status(session);
        // An "ok" that began a turn is no answer to what that turn asks, and files are loaded once. Else `accept` knows it.
        if ((asking.length || message.attachments.length) && (await isTaken(message))) return;
        if (await answer(message, session, answerOf(before))) return;
        await accept(message, session, { text: message.text, mode: asking.length ? modeWhileAsked(mode) : mode });
      } catch (error) {
        if (error instanceof Refusal && error.code === "idempotency_key_conflict") return; // taken before a setting changed
        const words = error instanceof Refusal ? refusalText(error) : null;
        if (words === null) throw error; // the store's trouble: it must be brought again
        await notes.set(onceOf(message), "done");
        say(place, words, `no.${keyOf(message)}`);
      }
    }

    /** `twice`: a crash caught it once. */
    async function obey(message: InboundMessage, command: Typed, key: string, session: string, twice: boolean) {
      const { place, from } = message;
      const once = onceOf(message);
      const caught = twice && commands.once(command.name);
      if (caught === "look") say(place, caughtText(command.name), `caught.${keyOf(message)}`);
      if (caught) return notes.set(once, "done");
      await notes.set(once, "begun");
      try {
        const done = await commands.run({ ...command, platform, from, key, session, message: keyOf(message) });
        say(place, done.say, `did.${keyOf(message)}`);
        // Else its files are here already.
        if (done.send && !(await isTaken(message))) await accept(message, await sessions.current(key), done.send);
      } catch (error) {
        await notes.set(once, undefined); // it failed as a whole: brought again it is done anew
        throw error;
      }
      await notes.set(once, "done");
    }

    /** Whether it was one. Noted first: brought again, it is no answer to whatever is asked by then. */
    async function answer(message: InboundMessage, session: string, before: QuestionDecision | null): Promise<boolean> {
      const { place, from, text } = message;
      const given = before ?? (await questions.answerIn(platform, from, session, text));
      if (!given) return false;
      if (typeof given === "string") {
        await notes.set(onceOf(message), "done");
        say(place, given, `answer.${keyOf(message)}`);
        return true;
      }
      if (!before) await notes.set(onceOf(message), given);
      const first = await questions.decide(platform, from, given);
      if (first) say(place, thanks(given), `answer.${keyOf(message)}`);
      return true;
    }

    async function accept(message: InboundMessage, session: string, send: CommandMessage): Promise<void> {
      const { place, from } = message;
      const { text: said, mode, task } = send;
      const key = keyOf(message);
      if (message.attachments.length && (await voices?.has(platform, key))) return; // it is being transcribed
      const kept = await keepAttachments(message.attachments, sessionDir(options.files, session), newKey);
      const { images, pictures, recordings, lines } = kept;
      const given = { platform, key, session, place, from, mode };
      if (voices && recordings.length) return voices.take({ ...given, said, lines, pictures, recordings });
      if (recordings.length) await cannotHear(place, from);
      const text = [said, ...lines].filter(Boolean).join("\n");
      if (!text.trim()) return;
      await take({ ...given, text, images: [...(send.images ?? []), ...images], ...(task && { task }) });
    }

    /** Once. */
    async function cannotHear(place: Place, from: Person): Promise<void> {
      const name = `deaf/${platform}/${from.id}`;
      if ((await notes.get(name)) !== undefined || !(await notes.swap(name, undefined, clock.now()))) return;
      say(place, DEAF, `deaf.${from.id}`);
    }

    async function stranger({ place, from, text, message }: InboundMessage): Promise<void> {
      if (options.strangers === "ignore") return;
      const words = (await access.pair(platform, place, from, text)) ?? (await access.refusal(platform, place, from));
      if (words) say(place, words, `stranger.${place.chat}.${message}`);
    }

    /** An edit changes a message that still waits; a turn that has begun keeps the old text. */
    async function onEdit(message: InboundMessage): Promise<void> {
      const { place, from } = message;
      if (!(await access.mayTalk(platform, place, from)) || !options.hears(platform, message)) return;
      const waits = await waiting(place, message.message);
      const command = commandIn(message.text.trim());
      const said = command && modeNamed(command.name) ? command.rest : message.text;
      if (!waits || !said.trim() || said === waits.text) return;
      const { session, index } = waits;
      const again = `${keyOf(message)}~${runtime.idOf(waits.id, said)}`; // the same when it is brought again
      const id = runtime.idOf(platform, again);
      try {
        // The new one is there before the old one goes: a crash between them loses neither.
        if (!(await runtime.whereabouts(id))) {
          const { images, lines } = await keepAttachments(
            message.attachments,
            sessionDir(options.files, session),
            newKey,
          );
          await runtime.accept({
            session,
            source: platform,
            key: again,
            text: [said, ...lines].join("\n"),
            mode: waits.mode === "interrupt" ? "queue" : waits.mode,
            reply: "push",
            by: personOf(platform, from),
            ...(await commands.chosenIn(session, platform)),
            ...(images.length && { images }),
          });
        }
        const old = await runtime.withdraw(session, waits.id);
        if (!old) return void (await runtime.withdraw(session, id));
        await notes.set(editName(message), again);
        await runtime.move(session, id, index);
      } catch (error) {
        const words = error instanceof Refusal ? refusalText(error) : null;
        if (words === null) throw error;
        say(place, words, `no.${again}`);
      }
    }

    async function onDelete(place: Place, message: string): Promise<void> {
      await voices?.forget(platform, keyOf({ place, message }));
      const waits = await waiting(place, message);
      if (waits) await runtime.withdraw(waits.session, waits.id);
    }

    const editName = (message: Pick<InboundMessage, "place" | "message">) => `edit/${platform}/${keyOf(message)}`;

    /** The input that a message became, while it waits; also after it was edited. */
    async function waiting(place: Place, message: string) {
      const edit = await notes.get(editName({ place, message }));
      const id = runtime.idOf(platform, typeof edit === "string" ? edit : keyOf({ place, message }));
      const session = (await runtime.run(id))?.session;
      if (session === undefined) return null;
      const { inbox } = await runtime.status(session);
      const index = inbox.findIndex((input) => input.id === id);
      const input = inbox[index];
      return input ? { ...input, session, index } : null;
    }

    return { onMessage, onEdit, onDelete, onPress: (press) => questions.pressed(platform, press) };
  }
}

const fitting = (text: string, longest: number) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);

const caughtText = (name: string) =>
  `⚠️ I was restarted in the middle of \`/${name}\`. Check whether it was done, and send it again if not.`;

function answerOf(note: unknown): QuestionDecision | null {
  const { session, call, allow, text, scope } = asRecord(note) ?? {};
  return typeof session === "string" && typeof call === "string" && typeof text === "string"
    ? { session, call, allow: allow === true, text, scope: SCOPES.find((one) => one === scope) ?? "once" }
    : null;
}

/** Null: nothing that the person can do anything about now. */
function refusalText({ code, message }: Refusal): string | null {
  if (code === "draining") return DRAINING.fresh;
  return ["inbox_full", "text_too_long", "empty_text"].includes(code) ? `⚠️ ${message}` : null;
}
