// From Telegram's updates to inbound messages.
import type { CallbackQuery, Message, MessageEntity, Update, User } from "grammy/types";
import type { Attachment, ButtonPress, InboundMessage, Person, Place } from "../../core/chat.ts";

export type TelegramEvent =
  | { kind: "message" | "edit"; message: InboundMessage }
  /** `query`: the id to which the answer for the person is sent. */
  | { kind: "press"; press: ButtonPress; query: string };

/** What the words of a message are read against. */
export type UpdateReader = {
  me: { id: number; username: string };
  /** The names in our menu: in a group with one bot people send them without its name. */
  offered: ReadonlySet<string>;
  load(file: string, most: number, signal: AbortSignal): Promise<Uint8Array>;
};

/** Undefined: the update is not for the handler. */
export function eventOf(update: Update, reader: UpdateReader): TelegramEvent | undefined {
  if (update.callback_query) return pressOf(update.callback_query);
  const message = update.message ?? update.edited_message;
  const inbound = message && inboundMessage(message, reader);
  return inbound && { kind: update.message ? "message" : "edit", message: inbound };
}

/** An album is a message for each picture, and the words are with one of them. */
export const albumOf = ({ message }: Update): string | undefined =>
  message?.media_group_id && `${message.chat.id} ${message.media_group_id}`;

export function joined([first, ...others]: [InboundMessage, ...InboundMessage[]]): InboundMessage {
  const all = [first, ...others];
  return {
    ...first,
    text: all.flatMap(({ text }) => text || []).join("\n"),
    attachments: all.flatMap(({ attachments }) => attachments),
    addressed: all.some(({ addressed }) => addressed),
  };
}

function inboundMessage(message: Message, reader: UpdateReader): InboundMessage | undefined {
  const { from, chat, sender_chat } = message;
  // A chat that speaks for itself, as anonymous admins and linked channels do, is nobody whom an allow list could name.
  if (!from || from.is_bot || sender_chat || chat.type === "channel") return undefined;
  const attachments = attachmentsOf(message, reader);
  const content = message.text ?? message.caption ?? "";
  if (content === "" && attachments.length === 0) return undefined;
  const { text, named, others } = readWords(content, message.entities ?? message.caption_entities ?? [], reader);
  const place = placeOf(message);
  const addressed = !others && (place.kind === "dm" || named || isReplyTo(message, reader.me.id));
  return { message: String(message.message_id), place, from: personOf(from), text, attachments, addressed };
}

function pressOf({ id, data, from, message }: CallbackQuery): TelegramEvent | undefined {
  if (data === undefined || !message) return undefined;
  const press = { data, place: placeOf(message), from: personOf(from), message: String(message.message_id) };
  return { kind: "press", press, query: id };
}

const personOf = ({ id, first_name, last_name }: User): Person => ({
  id: String(id),
  name: last_name ? `${first_name} ${last_name}` : first_name,
});

type PlacedMessage = Pick<Message, "chat"> & { message_thread_id?: number; is_topic_message?: boolean };

/** A reply in a supergroup has a thread too; only a forum's topic is one that can be written to. */
function placeOf({ chat, message_thread_id: thread, is_topic_message: isTopic }: PlacedMessage): Place {
  if (chat.type === "private") return { kind: "dm", chat: String(chat.id) };
  if (isTopic && thread !== undefined) return { kind: "thread", chat: String(chat.id), thread: String(thread) };
  return { kind: "group", chat: String(chat.id) };
}

/** A message in a topic looks like a reply to the message that created the topic, which may be ours. */
const isReplyTo = ({ reply_to_message: replied }: Message, me: number) =>
  replied?.from?.id === me && !replied.forum_topic_created;

/** `named`: it is meant for us by its words. `others`: it is a command to another bot. */
type Words = { text: string; named: boolean; others: boolean };

function readWords(content: string, entities: MessageEntity[], { me, offered }: UpdateReader): Words {
  const [first] = entities;
  const wordsOf = ({ offset, length }: MessageEntity) => content.slice(offset, offset + length);
  const mentionsUs = (entity: MessageEntity) =>
    entity.type === "text_mention"
      ? entity.user.id === me.id
      : entity.type === "mention" && isName(wordsOf(entity).slice(1), me.username);
  const named = entities.some(mentionsUs);
  if (first?.offset !== 0) return { text: content, named, others: false };
  const rest = content.slice(first.length);
  if (mentionsUs(first)) return { text: rest.replace(/^[\s,:]+/, ""), named, others: false };
  if (first.type !== "bot_command") return { text: content, named, others: false };
  const [command = "", bot] = wordsOf(first).split("@");
  if (bot === undefined) return { text: content, named: named || offered.has(command.slice(1)), others: false };
  return isName(bot, me.username)
    ? { text: command + rest, named: true, others: false }
    : { text: content, named, others: true };
}

const isName = (given: string, name: string) => given.toLowerCase() === name.toLowerCase();

type TelegramFile = { file_id: string; file_size?: number; mime_type?: string; file_name?: string };

function attachmentsOf(message: Message, { load }: UpdateReader): Attachment[] {
  const { photo, voice, audio, video, video_note: round, animation, document } = message;
  const attached = (
    kind: Attachment["kind"],
    file: TelegramFile | undefined,
    name: string,
    mime: string,
  ): Attachment[] => {
    if (!file) return [];
    const size = file.file_size ?? 0;
    return [
      {
        kind,
        name: file.file_name ?? name,
        mime: file.mime_type ?? mime,
        size,
        load: async (most, signal) => {
          if (size > most) throw new Error(`The file has ${size} bytes, more than ${most}.`);
          return load(file.file_id, most, signal);
        },
      },
    ];
  };
  return [
    ...attached("photo", photo?.at(-1), "photo.jpg", "image/jpeg"), // of its sizes the largest
    ...attached("voice", voice, "voice.ogg", "audio/ogg"),
    ...attached("file", audio, "audio.mp3", "audio/mpeg"),
    ...attached("file", video ?? round, "video.mp4", "video/mp4"),
    // An animation is a document as well, for those who do not know it.
    ...attached("file", animation ?? document, "file", "application/octet-stream"),
  ];
}
