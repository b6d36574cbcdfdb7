// What Discord tells us, brought to the ears: messages, edits, deletions. Discord wants no acknowledgement and keeps nothing
// for us; what was said before a new session began is fetched, from the last that we know on: in a new process, from the
// marks that the one before it left.
import type {
  APIMessage,
  Client,
  GatewayDispatchEvents,
  GatewayMessageDeleteDispatchData,
  GatewayReadyDispatchData,
} from "discord.js";
import { z } from "zod";
import type { Ears, Place } from "../../core/chat.ts";
import type { Clock, Log } from "../../core/ports.ts";
import type { Calls } from "../shared/calls.ts";
import type { Lanes } from "../shared/lanes.ts";
import { recent } from "../shared/recent.ts";
import { type Api, faultOf } from "./api.ts";
import { isNewer, type Marking } from "./cursors.ts";
import type { Listen } from "./gateway.ts";
import { heardOf, isSaid, type Me, placeOf } from "./inbound.ts";

/** Undefined: there is none, it is a direct message. Null: nobody has told us. */
type Guild = string | undefined | null;
type Where = { place: Place; guild: string | undefined };
/** A channel that we have heard or said something in. */
type Known = {
  guild: Guild;
  /** The last message of it that we know. */
  newest: string;
  /** Too much waits: what comes is left at Discord, to be fetched later. */
  behind: boolean;
};

const MOST_CHANNELS = 200;
const MOST_MESSAGES = 5_000;
const MOST_WAITING = 500;
const PAGE = 100;
/** A gap of more messages than these pages hold is not heard to its end. */
const MOST_PAGES = 10;
/** The same after a start, when everybody is fetched for at once. */
const MOST_PAGES_AT_START = 5;

/** Discord allows 50 calls a second, and what we say needs some of them. */
const FETCH_EVERY_MS = 40;

type Options = { api: Api; calls: Calls; lanes: Lanes; marks: Marking; clock: Clock; log: Log; ears: Ears };

export function openInbound({ api, calls, lanes, marks, clock, log, ears }: Options) {
  const channels = new Map<string, Known>();
  const places = new Map<string, Where>();
  const heard = recent(MOST_MESSAGES);
  const ours = recent(MOST_MESSAGES);
  const never = new AbortController().signal;
  let me: Me = { id: "", isMyRole: () => false };
  const stopping = new AbortController();
  let isFresh = true;
  let nextFetch = 0;

  function listen(on: Listen, events: typeof GatewayDispatchEvents): void {
    on(events.MessageCreate, (message) => {
      const { channel_id, guild_id } = message;
      const known = channels.get(channel_id);
      if (known && (known.behind || lanes.waiting(channel_id) >= MOST_WAITING)) {
        known.behind = true;
        return;
      }
      note(channel_id, guild_id, message.id);
      if (message.author.id === me.id) ours.add(message.id);
      if (heard.has(message.id)) return;
      heard.add(message.id);
      const hearing = marks.inTurn(
        channel_id,
        () => message.id,
        async () => {
          await hear(message, guild_id);
          marks.taken(channel_id, message.id);
        },
      );
      void hearing.then(() => afterwards(channel_id));
    });
    on(events.MessageUpdate, (message) => {
      // A preview of a link that Discord has added is no edit.
      if (!isSaid(message) || !message.edited_timestamp) return;
      const { channel_id, guild_id } = message;
      tell(channel_id, guild_id, (place) => ears.edited(heardOf(message, guild_id, place, me, calls)));
    });
    const forget = ({ id, channel_id, guild_id }: GatewayMessageDeleteDispatchData) => {
      if (!ours.has(id)) tell(channel_id, guild_id, (place) => ears.deleted(place, id));
    };
    on(events.MessageDelete, forget);
    on(events.MessageDeleteBulk, ({ ids, ...where }) => {
      for (const id of ids) forget({ id, ...where });
    });
  }

  function tell(channel: string, guild: string | undefined, take: (place: Place) => Promise<void>): void {
    const telling = lanes.add(channel, async () => take((await whereIs(channel, guild)).place));
    void telling.then(() => afterwards(channel));
  }

  function afterwards(channel: string): void {
    if (channels.get(channel)?.behind && lanes.waiting(channel) === 0) catchUp(channel, MOST_PAGES);
  }

  async function hear(message: APIMessage, told: Guild): Promise<void> {
    if (!isSaid(message)) return;
    const { place, guild } = await whereIs(message.channel_id, told);
    await ears.heard(heardOf(message, guild, place, me, calls));
  }

  /** Goes ahead of whatever comes from now on. */
  function catchUp(channel: string, pages: number): void {
    const known = channels.get(channel);
    if (!known) return;
    known.behind = false;
    const { guild } = known;
    let after = known.newest;
    const fetchAll = async () => {
      for (let page = 0; page < pages; page++) {
        const missed = await messagesAfter(channel, after);
        for (const message of missed) {
          if (heard.has(message.id)) return; // it has come by itself, as will all after it, and waits behind us
          await hear(message, guild);
          heard.add(message.id);
          note(channel, guild, message.id);
          marks.taken(channel, message.id);
          after = message.id;
        }
        if (missed.length < PAGE) return;
      }
      log("warn", "chat.gap", { platform: "discord", channel, fetched: pages * PAGE });
    };
    void marks.inTurn(channel, () => after, fetchAll);
  }

  /** Oldest first. */
  async function messagesAfter(channel: string, after: string): Promise<APIMessage[]> {
    const query = new URLSearchParams({ after, limit: String(PAGE) });
    const wait = Math.max(0, nextFetch - clock.now());
    nextFetch = clock.now() + wait + FETCH_EVERY_MS;
    if (wait > 0) await clock.sleep(wait, stopping.signal);
    try {
      const page = await api.ask("get", `/channels/${channel}/messages`, { query }, stopping.signal);
      return areMessages(page) ? page.toSorted((a, b) => (isNewer(a.id, b.id) ? 1 : -1)) : [];
    } catch (error) {
      if (faultOf(error).landed !== "never") throw error;
      channels.delete(channel); // it is gone, or we may no longer look
      return [];
    }
  }

  async function whereIs(channel: string, guild: Guild): Promise<Where> {
    if (guild === undefined) return { place: { kind: "dm", chat: channel }, guild };
    const where = places.get(channel) ?? (await askWhere(channel, guild));
    if (places.size >= MOST_CHANNELS) places.clear();
    places.set(channel, where);
    return where;
  }

  /** A message does not say whether its channel is a thread, and one that is fetched not even whose it is. */
  async function askWhere(channel: string, told: string | null): Promise<Where> {
    try {
      const found = channelShape.parse(await api.ask("get", `/channels/${channel}`, {}, never));
      const guild = told ?? found.guild_id;
      return { place: placeOf(found, guild), guild };
    } catch (error) {
      if (faultOf(error).landed !== "never") throw error;
      return { place: { kind: "channel", chat: channel }, guild: told ?? undefined };
    }
  }

  function note(channel: string, guild: Guild, message: string): void {
    const known = channels.get(channel) ?? { guild, newest: message, behind: false };
    if (isNewer(message, known.newest)) known.newest = message;
    if (known.guild === null) known.guild = guild;
    channels.delete(channel); // and to the end: whoever was silent longest is forgotten first
    channels.set(channel, known);
    for (const oldest of channels.keys()) {
      if (channels.size <= MOST_CHANNELS) break;
      channels.delete(oldest);
    }
  }

  return {
    listen,
    /** Before the first session: what comes live must find what was missed ahead of it. */
    async load(): Promise<void> {
      for (const { channel, message } of await marks.load(MOST_CHANNELS)) note(channel, null, message);
    },
    /** A new session has begun. */
    ready({ user }: GatewayReadyDispatchData, client: Client): void {
      const rolesOf = (guild: string) => client.guilds.cache.get(guild)?.roles.cache;
      me = { id: user.id, isMyRole: (guild, role) => rolesOf(guild)?.get(role)?.tags?.botId === user.id };
      const pages = isFresh ? MOST_PAGES_AT_START : MOST_PAGES;
      isFresh = false;
      // Where somebody spoke last, first.
      for (const channel of [...channels.keys()].toReversed()) catchUp(channel, pages);
    },
    /** Fetches nothing more: the next process does. */
    stop(): void {
      stopping.abort();
    },
  };
}

const channelShape = z.object({
  id: z.string(),
  type: z.number(),
  parent_id: z.string().nullish(),
  guild_id: z.string().optional(),
});

const areMessages = (value: unknown): value is APIMessage[] =>
  Array.isArray(value) && value.every((one: unknown) => messageShape.safeParse(one).success);
const messageShape = z.object({ id: z.string(), content: z.string(), author: z.object({ id: z.string() }) });
