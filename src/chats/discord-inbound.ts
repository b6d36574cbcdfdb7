// What Discord tells us, brought to the ears: messages, edits, deletions. Discord wants no acknowledgement and keeps nothing
// for us; what was said before a new session began is fetched, from the last that we know on.
import type {
  APIMessage,
  Client,
  GatewayDispatchEvents,
  GatewayMessageDeleteDispatchData,
  GatewayReadyDispatchData,
} from "discord.js";
import { z } from "zod";
import type { Ears, Place } from "../core/chat.ts";
import type { Log } from "../core/ports.ts";
import type { Calls } from "./calls.ts";
import { type Api, faultOf } from "./discord-api.ts";
import type { Listen } from "./discord-gateway.ts";
import { heardOf, isSaid, type Me, placeOf } from "./discord-hear.ts";
import type { Lanes } from "./lanes.ts";
import { recent } from "./recent.ts";

/** A channel that we have heard or said something in. */
type Known = {
  guild: string | undefined;
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

export function openInbound(options: { api: Api; calls: Calls; lanes: Lanes; log: Log; ears: Ears }) {
  const { api, calls, lanes, log, ears } = options;
  const channels = new Map<string, Known>();
  const places = new Map<string, Place>();
  const heard = recent(MOST_MESSAGES);
  const ours = recent(MOST_MESSAGES);
  const never = new AbortController().signal;
  let me: Me = { id: "", isMyRole: () => false };

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
      if (!isSaid(message) || heard.has(message.id)) return;
      heard.add(message.id);
      tell(channel_id, guild_id, (place) => ears.heard(heardOf(message, guild_id, place, me, calls)));
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
    void lanes
      .add(channel, async () => take(await placeIn(channel, guild)))
      .then(() => {
        if (channels.get(channel)?.behind && lanes.waiting(channel) === 0) catchUp(channel);
      });
  }

  /** Goes ahead of whatever comes from now on. */
  function catchUp(channel: string): void {
    const known = channels.get(channel);
    if (!known) return;
    known.behind = false;
    const { guild } = known;
    let after = known.newest;
    void lanes.add(channel, async () => {
      for (let page = 0; page < MOST_PAGES; page++) {
        const missed = await messagesAfter(channel, after);
        for (const message of missed) {
          if (isSaid(message) && !heard.has(message.id))
            await ears.heard(heardOf(message, guild, await placeIn(channel, guild), me, calls));
          heard.add(message.id);
          note(channel, guild, message.id);
          after = message.id;
        }
        if (missed.length < PAGE) return;
      }
      log("warn", "chat.gap", { platform: "discord", channel, fetched: MOST_PAGES * PAGE });
    });
  }

  /** Oldest first. */
  async function messagesAfter(channel: string, after: string): Promise<APIMessage[]> {
    try {
      const query = new URLSearchParams({ after, limit: String(PAGE) });
      const page = await api.ask("get", `/channels/${channel}/messages`, { query }, never);
      return areMessages(page) ? page.toSorted((a, b) => (isNewer(a.id, b.id) ? 1 : -1)) : [];
    } catch (error) {
      if (faultOf(error).landed !== "never") throw error;
      channels.delete(channel); // it is gone, or we may no longer look
      return [];
    }
  }

  async function placeIn(channel: string, guild: string | undefined): Promise<Place> {
    if (guild === undefined) return { kind: "dm", chat: channel };
    const place = places.get(channel) ?? (await askPlace(channel, guild));
    if (places.size >= MOST_CHANNELS) places.clear();
    places.set(channel, place);
    return place;
  }

  /** A message does not say whether its channel is a thread. */
  async function askPlace(channel: string, guild: string): Promise<Place> {
    try {
      return placeOf(channelShape.parse(await api.ask("get", `/channels/${channel}`, {}, never)), guild);
    } catch (error) {
      if (faultOf(error).landed !== "never") throw error;
      return { kind: "channel", chat: channel };
    }
  }

  function note(channel: string, guild: string | undefined, message: string): void {
    const known = channels.get(channel) ?? { guild, newest: message, behind: false };
    if (isNewer(message, known.newest)) known.newest = message;
    known.guild ??= guild;
    channels.delete(channel); // and to the end: whoever was silent longest is forgotten first
    channels.set(channel, known);
    for (const oldest of channels.keys()) {
      if (channels.size <= MOST_CHANNELS) break;
      channels.delete(oldest);
    }
  }

  return {
    listen,
    /** A new session has begun. */
    ready({ user }: GatewayReadyDispatchData, client: Client): void {
      const rolesOf = (guild: string) => client.guilds.cache.get(guild)?.roles.cache;
      me = { id: user.id, isMyRole: (guild, role) => rolesOf(guild)?.get(role)?.tags?.botId === user.id };
      for (const channel of channels.keys()) catchUp(channel);
    },
  };
}

const channelShape = z.object({ id: z.string(), type: z.number(), parent_id: z.string().nullish() });

/** Numbers too large for a double, as text. */
const isNewer = (a: string, b: string) => a.length > b.length || (a.length === b.length && a > b);

const areMessages = (value: unknown): value is APIMessage[] =>
  Array.isArray(value) && value.every((one: unknown) => messageShape.safeParse(one).success);
const messageShape = z.object({ id: z.string(), content: z.string(), author: z.object({ id: z.string() }) });
