// The people, chats, messages and files that a fake Telegram knows.
import type { Chat, Message, MessageEntity, PhotoSize, User } from "grammy/types";
import { found } from "./telegram-entities.ts";

export type Person = number | { id: number; name?: string; username?: string; bot?: boolean };
/** Above 0: private. From -1000000000000 down: a supergroup. Between: a group. */
type Place = number | { id: number; title?: string };

export type Saying = {
  /** The private chat of whoever says it, unless named. */
  chat?: Place;
  from: Person;
  /** With a file: its caption. */
  text?: string;
  /** Commands, mentions and links are marked without it. */
  entities?: MessageEntity[];
  replyTo?: number;
  /** A topic of a forum; the chat is one from then on. */
  topic?: number;
  /** The sizes of one photo, smallest first. */
  photo?: Uint8Array[];
  voice?: Uint8Array;
  document?: { name: string; type?: string; bytes: Uint8Array };
};

export type Room = { chat: Chat; messages: Map<number, Message>; topics: Set<number>; lastId: number };
export type Stored = { id: string; path: string; bytes: Uint8Array };

export type World = {
  /** A chat is known once somebody has said something in it. */
  rooms: Map<number, Room>;
  files: Stored[];
  person(who: Person): User;
  enter(place: Place, who: User, topic?: number): Room;
  nextId(room: Room): number;
  store(folder: string, name: string, bytes: Uint8Array): Stored;
  said(saying: Saying): Message;
};

const EDGES = [90, 320, 800, 1280];

export function world(): World {
  const rooms = new Map<number, Room>();
  const people = new Map<number, User>();
  const files: Stored[] = [];
  let lastId = 100;

  function said(saying: Saying): Message {
    const from = person(saying.from);
    const room = enter(saying.chat ?? from.id, from, saying.topic);
    const reply = saying.replyTo === undefined ? undefined : room.messages.get(saying.replyTo);
    if (saying.replyTo !== undefined && !reply)
      throw new Error(`There is no message ${saying.replyTo} in chat ${room.chat.id} to reply to.`);
    const entities = saying.entities ?? found(saying.text ?? "");
    const marks = entities.length > 0 ? entities : undefined;
    const media = mediaOf(saying);
    const text = media
      ? { ...media, ...(saying.text && { caption: saying.text }), ...(marks && { caption_entities: marks }) }
      : { text: saying.text ?? "", ...(marks && { entities: marks }) };
    const message_id = nextId(room);
    const thread = threadOf(room, saying.topic, reply);
    const message = { message_id, from, chat: room.chat, date: seconds(), ...thread, ...text } as Message;
    room.messages.set(message_id, message);
    return message;
  }

  function mediaOf({ photo, voice, document }: Saying): object | undefined {
    if (photo) return { photo: sizes(photo.map((bytes) => store("photos", "photo.jpg", bytes))) };
    if (voice) return { voice: { ...fileOf(store("voice", "voice.oga", voice)), duration: 3, mime_type: "audio/ogg" } };
    if (!document) return undefined;
    const { name, type = "application/octet-stream", bytes } = document;
    return { document: { ...fileOf(store("documents", name, bytes)), file_name: name, mime_type: type } };
  }

  function enter(place: Place, who: User, topic?: number): Room {
    const { id, title = "A group" } = typeof place === "number" ? { id: place } : place;
    const name = { first_name: who.first_name, ...(who.username && { username: who.username }) };
    const type = id > 0 ? "private" : id < -1e12 ? "supergroup" : "group";
    const room = rooms.get(id) ?? { messages: new Map(), topics: new Set(), lastId: 0 };
    if (topic !== undefined) room.topics.add(topic);
    const forum = room.topics.size > 0 && { is_forum: true };
    const chat = (type === "private" ? { id, type, ...name } : { id, type, title, ...forum }) as Chat;
    const entered = Object.assign(room, { chat });
    rooms.set(id, entered);
    return entered;
  }

  function person(who: Person): User {
    const { id, name, username, bot: is_bot = false } = typeof who === "number" ? { id: who } : who;
    const known = people.get(id);
    const first_name = name ?? known?.first_name ?? `User ${id}`;
    const handle = username ?? known?.username;
    const user: User = { id, is_bot, first_name, language_code: "en", ...(handle && { username: handle }) };
    people.set(id, user);
    return user;
  }

  /** Supergroups count for themselves: the same number means other messages in other chats. */
  function nextId(room: Room): number {
    if (room.chat.type !== "supergroup") return ++lastId;
    return ++room.lastId;
  }

  function store(folder: string, name: string, bytes: Uint8Array): Stored {
    const number = files.length;
    const extension = /\.\w+$/.exec(name)?.[0] ?? "";
    const id = `AgACAgIAAxkBAA${Buffer.from(`file-${number}`).toString("base64url")}`;
    const file = { id, path: `${folder}/file_${number}${extension}`, bytes };
    files.push(file);
    return file;
  }

  return { rooms, files, person, enter, nextId, store, said };
}

/** A reply in a supergroup belongs to a thread although it is no topic; what is said in a topic replies to its birth. */
function threadOf(room: Room, topic: number | undefined, reply: Message | undefined): object {
  if (topic !== undefined) {
    const forum_topic_created = { name: "A topic", icon_color: 0x6fb9f0 };
    const reply_to_message = reply ? bare(reply) : { message_id: topic, chat: room.chat, date: 0, forum_topic_created };
    return { message_thread_id: topic, is_topic_message: true, reply_to_message };
  }
  if (!reply) return {};
  const thread = room.chat.type === "supergroup" && { message_thread_id: reply.message_thread_id ?? reply.message_id };
  return { ...thread, reply_to_message: bare(reply) };
}

/** A message inside another one carries no third. */
export function bare(message: Message): Message {
  const { reply_to_message: _third, ...rest } = message;
  return rest;
}

export const sizes = (files: Stored[]): PhotoSize[] =>
  files.map((file, i) => {
    const width = EDGES[EDGES.length - files.length + i] ?? 90;
    return { ...fileOf(file), width, height: Math.round(width * 0.75) };
  });

export const fileOf = (file: Stored) => ({
  file_id: file.id,
  file_unique_id: `AQAD${file.id.slice(-6)}`,
  file_size: file.bytes.length,
});

export const seconds = () => Math.floor(Date.now() / 1000);
