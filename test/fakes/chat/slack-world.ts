// The people, channels, messages and files of a fake Slack workspace, and the way Slack says no.
import type { Params } from "./body.ts";
import type { Sent } from "./slack.ts";

export type Person = string | { id: string; name: string };
export type Place = { channel: string; ts: string };
export type File = { name: string; type?: string; bytes: Uint8Array };
/** With a user: their direct messages. */
export type Channel = { id: string; name: string; user: string | undefined; archived: boolean };
export type Message = { channel: Channel; ts: string; event: Params; sent: Sent | undefined; reactions: string[] };

/** An answer that is no. With an offence: no client should have asked. */
export class Refused extends Error {
  offence: string | undefined;
  constructor(error: string, offence?: string) {
    super(error);
    this.offence = offence;
  }
}

export function world(url: () => string) {
  const team = id("T");
  const app = id("A");
  const bot = { user: id("U"), id: id("B") };
  const names = new Map([[bot.user, "hermes"]]);
  const channels = new Map<string, Channel>();
  const messages: Message[] = [];
  const files = new Map<string, { file: ReturnType<typeof showFile>; bytes: Uint8Array }>();
  let lastTs = 0;

  function addChannel(name: string, user?: string): string {
    const channel = { id: id(user ? "D" : "C"), name, user, archived: false };
    channels.set(channel.id, channel);
    return channel.id;
  }

  function person(who: Person): string {
    const { id, name } = typeof who === "string" ? { id: who, name: names.get(who) ?? `user${who.slice(-3)}` } : who;
    names.set(id, name);
    return id;
  }

  function direct(user: string): Channel {
    return [...channels.values()].find((one) => one.user === user) ?? channelOf(addChannel("", user));
  }

  function channelOf(id: string): Channel {
    const channel = channels.get(id);
    if (!channel) throw new Refused("channel_not_found");
    return channel;
  }

  function messageOf({ channel, ts }: Place): Message {
    const message = messages.find((one) => one.channel.id === channel && one.ts === ts);
    if (!message) throw new Refused("message_not_found");
    return message;
  }

  const showChannel = ({ id, name, user, archived }: Channel): Params =>
    user
      ? { id, is_im: true, user, is_archived: archived }
      : { id, name, is_channel: true, is_im: false, is_member: true, is_private: false, is_archived: archived };

  function keepFile(given: File, user: string): Params {
    const file = showFile(given, user);
    files.set(file.id, { file, bytes: given.bytes });
    return file;
  }

  function showFile({ name, type: mimetype = "application/octet-stream", bytes }: File, user: string) {
    const file = id("F");
    const address = `${url()}/files-pri/${team}-${file}/${encodeURIComponent(name)}`;
    const addresses = { url_private: address, url_private_download: address };
    return { id: file, name, title: name, mimetype, user, size: bytes.length, ...addresses };
  }

  /** Seconds and microseconds: the time of a message, and its name in its channel. */
  function nextTs(): string {
    lastTs = Math.max(lastTs + 1, Date.now() * 1000);
    return `${Math.floor(lastTs / 1e6)}.${String(lastTs % 1e6).padStart(6, "0")}`;
  }

  return {
    team,
    app,
    bot,
    names,
    messages,
    files,
    addChannel,
    person,
    direct,
    channelOf,
    messageOf,
    showChannel,
    keepFile,
    nextTs,
  };
}

let made = 0;
/** A letter for what it is, then ten signs. */
export function id(prefix: string): string {
  made += 1;
  return `${prefix}07${(1_234_567_890_123 + made * 7_919).toString(36).toUpperCase()}`;
}
