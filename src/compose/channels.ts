// The chat channels as configured: how they are opened, who may talk there, and which sessions they answer.
import { randomBytes, randomUUID } from "node:crypto";
import { CHANNELS } from "../chats/channels.ts";
import type { Config } from "../config/schema.ts";
import { type Chat, type InboundMessage, type PairingDesk, SendFault } from "../core/chat.ts";
import { ConfigError } from "../core/errors.ts";
import { routeTo } from "../core/schedule-text.ts";
import { parseKey } from "../core/session-key.ts";
import type { Notes } from "../core/store.ts";
import type { Engine } from "../engine/engine.ts";
import type { HeldLease } from "../engine/lease.ts";
import { clock } from "../platform/clock.ts";
import { lockToken } from "../platform/token-lock.ts";
import { createAccess } from "../surfaces/gateway/access.ts";
import { splitMarkdown } from "../surfaces/gateway/split.ts";
import type { Door } from "../surfaces/http/runtime/channels.ts";
import type { Running } from "./runtime.ts";

/** Opens each that has its secret. `doors`: where platforms post to us. */
export async function openChannels(running: Running, doors: Map<string, Door>): Promise<Chat[]> {
  const { config, home, log, engine, cluster } = running;
  const chats: Chat[] = [];
  for (const [name, channel] of CHANNELS) {
    const settings = settingsOf(config, name);
    const secret = channel.secretOf(settings);
    if (secret === undefined) continue;
    // One process for each bot: two that listen with the same token take each other's messages.
    if (channel.for === "people" && !cluster) {
      const unlock = lockToken(secret, home.dir);
      if (!unlock)
        throw new ConfigError(`Another gateway on this machine uses the same ${channel.label} token; stop it first.`);
      running.defer(unlock);
    }
    const listen = (door: Door) => void doors.set(name, door);
    const open = () => channel.open(settings, { clock, log, random: Math.random, notes: engine.notes, listen });
    const chat = cluster ? whileLeased(await open(), running.engine) : await open();
    // What a platform posts to us arrives at any node; what we fetch is fetched by one.
    chats.push(cluster && !doors.has(name) ? heardOnOne(chat, open, running) : chat);
  }
  return chats;
}

/** A node that stood still and wakes sends nothing: another one has taken over what it was about. */
function whileLeased(chat: Chat, { leased }: Pick<Engine, "leased">): Chat {
  const sure = async () => {
    if (!leased()) throw new SendFault("no", "this node has lost its lease");
  };
  return {
    ...chat,
    send: (...message) => sure().then(() => chat.send(...message)),
    edit: (...message) => sure().then(() => chat.edit(...message)),
    remove: (...message) => sure().then(() => chat.remove(...message)),
  };
}

/** Sends from every node, and hears on one: each time that becomes us, by a connection of its own. */
function heardOnOne(chat: Chat, open: () => Promise<Chat>, { onOneNode }: Pick<Running, "onOneNode">): Chat {
  let lease: HeldLease | null = null;
  let ear: Chat | null = null;
  let menu: Parameters<Chat["offer"]>[0] = [];
  return {
    ...chat,
    async start(handler) {
      lease = await onOneNode(`chat/${chat.platform}`, async () => {
        const listening = await open();
        ear = listening;
        await listening.start(handler);
        await listening.offer(menu);
        return async () => {
          ear = null;
          await listening.stop();
          await listening.close();
        };
      });
    },
    async stop() {
      await lease?.release();
    },
    async offer(commands) {
      menu = commands;
      await ear?.offer(commands);
    },
    // That another node hears is as it should be.
    health: () => ear?.health() ?? { platform: chat.platform, connected: true, heardAt: null, error: "" },
    async close() {
      await lease?.release();
      await chat.close();
    },
  };
}

/** The platforms that have their secret. */
export const sendable = (config: Config): { platform: string; home: string | null }[] =>
  [...CHANNELS]
    .filter(([name, channel]) => channel.for === "people" && channel.secretOf(settingsOf(config, name)) !== undefined)
    .map(([platform]) => ({ platform, home: homeChatOf(config, platform) ?? null }));

const SEND_MS = 60_000;
/** Whoever only sends has nothing to remember. */
const NO_NOTES: Notes = {
  get: async () => undefined,
  set: async () => {},
  list: async () => [],
  swap: async () => true,
};

/** The names of the messages. No gateway is needed, and one that runs is not disturbed. */
export async function sendTo(config: Config, to: string, text: string): Promise<string[]> {
  const route = routeTo(to, (platform) => homeChatOf(config, platform));
  const key = route ? parseKey(route) : null;
  if (key?.of !== "chat") throw new Error("it is not a chat such as telegram:1001, and the platform has no home chat");
  const channel = CHANNELS.get(key.platform);
  const settings = settingsOf(config, key.platform);
  if (channel?.for !== "people" || channel.secretOf(settings) === undefined)
    throw new Error(`${key.platform} is not configured here`);
  const world = { clock, log: () => {}, random: Math.random, notes: NO_NOTES, listen: () => {} };
  const chat = await channel.open(settings, world);
  try {
    const ids: string[] = [];
    const once = randomUUID();
    for (const [index, part] of splitMarkdown(text, chat.longest).entries())
      ids.push(await chat.send(key.place, { text: part }, `send.${once}.${index}`, AbortSignal.timeout(SEND_MS)));
    return ids;
  } finally {
    await chat.close();
  }
}

export function listsOf(config: Config, platform: string) {
  if (CHANNELS.get(platform)?.for === "program") return { allowed: ["*"], admins: [] };
  const { allowed_users: allowed = [], admin_users: admins = [] } = peopleOf(config, platform);
  return { allowed, admins };
}

export const busyModeOf = (config: Config, platform: string) =>
  peopleOf(config, platform).busy_input_mode ?? config.display.busy_input_mode;

export const homeChatOf = (config: Config, platform: string) => peopleOf(config, platform).home_chat;

export const progressOf = (config: Config, platform: string) =>
  peopleOf(config, platform).tool_progress ?? config.display.tool_progress;

/** Whether a message of that place is for us. In a private chat every message is. */
export function hearsIn(config: Config, platform: string, { place, addressed }: InboundMessage): boolean {
  const { require_mention = true, free_response_chats = [], allowed_chats = [] } = peopleOf(config, platform);
  if (place.kind === "dm") return addressed;
  if (allowed_chats.length && !allowed_chats.includes(place.chat)) return false;
  return addressed || !require_mention || free_response_chats.includes(place.chat);
}

/** Nobody sits behind a program: nobody presses a button there. */
export const unattendedOf = (config: Config, platform: string) =>
  CHANNELS.get(platform)?.for === "program" ? config.approvals.unattended : undefined;

/** How approvals of a job that speaks in this conversation are decided; undefined: whoever talks there is asked. */
export function unattendedIn(config: Config, session: string) {
  const key = parseKey(session);
  if (key.of === "chat") return unattendedOf(config, key.platform);
  return key.of === "terminal" ? undefined : config.approvals.unattended;
}

/** Whether answers can be delivered to that session. */
export const deliversBy =
  (config: Config) =>
  (session: string): boolean => {
    const key = parseKey(session);
    return key.of === "chat" && CHANNELS.get(key.platform)?.secretOf(settingsOf(config, key.platform)) !== undefined;
  };

/** Who is paired stands in the notes: no gateway need run for it. */
export const pairingDesk = (notes: Notes): PairingDesk =>
  createAccess({ lists: () => ({ allowed: [], admins: [] }), notes, clock, randomBytes });

const settingsOf = ({ gateway }: Config, name: string): unknown => Reflect.get(gateway, name);

/** What all channels for people have. */
type PeopleSettings = Omit<Config["gateway"]["discord"], "token">;

function peopleOf({ gateway }: Config, platform: string): Partial<PeopleSettings> {
  const settings = new Map(Object.entries(gateway)).get(platform);
  return typeof settings === "object" && "allowed_users" in settings ? settings : {};
}
