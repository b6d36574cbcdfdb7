// Discord's messages, edits and deletions on their way to the handler. Discord wants no acknowledgement and keeps nothing for
// us: messages from before a new session are fetched, from the last one that we know on; in a new process, from the cursors
// that the process before it left.
import {
  type APIMessage,
  type APIRole,
  GatewayDispatchEvents,
  type GatewayDispatchPayload,
  type GatewayMessageCreateDispatchData,
  type GatewayMessageDeleteDispatchData,
  type GatewayMessageUpdateDispatchData,
  type GatewayReadyDispatchData,
} from "discord-api-types/v10";
import { z } from "zod";
import { createBounded } from "../../core/bounded.ts";
import type { InboundHandler, Place } from "../../core/chat.ts";
import type { Ambient } from "../../core/ports.ts";
import type { ApiCalls } from "../shared/calls.ts";
import type { Lanes } from "../shared/lanes.ts";
import { recent } from "../shared/recent.ts";
import { type DiscordApi, faultOf } from "./api.ts";
import { type Cursors, isNewer } from "./cursors.ts";
import { type DiscordBot, inboundMessage, isFromPerson, placeOf } from "./inbound.ts";
import type { SavedSession } from "./saved-session.ts";

/** Undefined: a direct message has none. Null: not known. */
type Guild = string | undefined | null;
/** A channel with messages that we know. */
type Known = {
  guild: Guild;
  /** The last message of it that we know. */
  newest: string;
  /** Too many messages wait: new ones stay at Discord and are fetched later. */
  behind: boolean;
};

const MOST_CHANNELS = 200;
const MOST_MESSAGES = 5_000;
const MOST_WAITING = 500;
const PAGE = 100;
/** A gap of more messages than these pages hold is not fetched to its end. */
const MOST_PAGES = 10;
/** The same after a start, when everybody is fetched for at once. */
const MOST_PAGES_AT_START = 5;

/** Discord allows 50 calls a second, and our own messages need some of them. */
const FETCH_EVERY_MS = 40;

type Options = Ambient & {
  api: DiscordApi;
  calls: ApiCalls;
  lanes: Lanes;
  cursors: Cursors;
  handler: InboundHandler;
};

export function openIntake({ api, calls, lanes, cursors, clock, log, handler }: Options) {
  const channels = new Map<string, Known>();
  const places = createBounded<Place>(MOST_CHANNELS);
  const seen = recent(MOST_MESSAGES);
  const ours = recent(MOST_MESSAGES);
  const never = new AbortController().signal;
  const myRoles = new Set<string>();
  let me: DiscordBot = { id: "", roles: myRoles };
  const stopping = new AbortController();
  let isFresh = true;
  let nextFetch = 0;

  function dispatch({ t, d }: GatewayDispatchPayload): void {
    switch (t) {
      case GatewayDispatchEvents.GuildCreate:
        return noteRoles(d.roles);
      case GatewayDispatchEvents.GuildRoleCreate:
      case GatewayDispatchEvents.GuildRoleUpdate:
        return noteRoles([d.role]);
      case GatewayDispatchEvents.MessageCreate:
        return created(d);
      case GatewayDispatchEvents.MessageUpdate:
        return updated(d);
      case GatewayDispatchEvents.MessageDelete:
        return deleted(d);
      case GatewayDispatchEvents.MessageDeleteBulk:
        for (const id of d.ids) deleted({ ...d, id });
        return;
      default:
    }
  }

  function noteRoles(roles: readonly APIRole[]): void {
    for (const { id, tags } of roles) if (tags?.bot_id === me.id) myRoles.add(id);
  }

  function created(message: GatewayMessageCreateDispatchData): void {
    const { channel_id, guild_id } = message;
    const known = channels.get(channel_id);
    if (known && (known.behind || lanes.waiting(channel_id) >= MOST_WAITING)) {
      known.behind = true;
      return;
    }
    note(channel_id, guild_id, message.id);
    if (message.author.id === me.id) ours.add(message.id);
    if (seen.has(message.id)) return;
    seen.add(message.id);
    const taking = cursors.inOrder(
      channel_id,
      () => message.id,
      async () => {
        await onMessage(message, guild_id);
        cursors.advance(channel_id, message.id);
      },
    );
    void taking.then(() => afterwards(channel_id));
  }

  function updated(message: GatewayMessageUpdateDispatchData): void {
    // A preview of a link that Discord has added is no edit.
    if (!isFromPerson(message) || !message.edited_timestamp) return;
    enqueue(message.channel_id, message.guild_id, (place) => handler.onEdit(inboundMessage(message, place, me, calls)));
  }

  function deleted({ id, channel_id, guild_id }: GatewayMessageDeleteDispatchData): void {
    if (!ours.has(id)) enqueue(channel_id, guild_id, (place) => handler.onDelete(place, id));
  }

  function enqueue(channel: string, guild: string | undefined, take: (place: Place) => Promise<void>): void {
    const taking = lanes.add(channel, async () => take(await whereIs(channel, guild)));
    void taking.then(() => afterwards(channel));
  }

  function afterwards(channel: string): void {
    if (channels.get(channel)?.behind && lanes.waiting(channel) === 0) catchUp(channel, MOST_PAGES);
  }

  async function onMessage(message: APIMessage, guild: Guild): Promise<void> {
    if (!isFromPerson(message)) return;
    await handler.onMessage(inboundMessage(message, await whereIs(message.channel_id, guild), me, calls));
  }

  function catchUpAll(): void {
    const pages = isFresh ? MOST_PAGES_AT_START : MOST_PAGES;
    isFresh = false;
    // Where somebody spoke last, first.
    for (const channel of [...channels.keys()].toReversed()) catchUp(channel, pages);
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
          if (seen.has(message.id)) return; // it has come live, as will all after it, and waits behind this fetch
          await onMessage(message, guild);
          seen.add(message.id);
          note(channel, guild, message.id);
          cursors.advance(channel, message.id);
          after = message.id;
        }
        if (missed.length < PAGE) return;
      }
      log("warn", "chat.gap", { platform: "discord", channel, fetched: pages * PAGE });
    };
    void cursors.inOrder(channel, () => after, fetchAll);
  }

  /** Oldest first. */
  async function messagesAfter(channel: string, after: string): Promise<APIMessage[]> {
    const query = new URLSearchParams({ after, limit: String(PAGE) });
    const wait = Math.max(0, nextFetch - clock.monotonic());
    nextFetch = clock.monotonic() + wait + FETCH_EVERY_MS;
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

  async function whereIs(channel: string, guild: Guild): Promise<Place> {
    if (guild === undefined) return { kind: "dm", chat: channel };
    const place = places.get(channel) ?? (await askWhere(channel, guild));
    places.set(channel, place);
    return place;
  }

  /** A message does not say whether its channel is a thread, and one that is fetched not even whose it is. */
  async function askWhere(channel: string, guild: string | null): Promise<Place> {
    try {
      const found = channelShape.parse(await api.ask("get", `/channels/${channel}`, {}, never));
      return placeOf(found, guild ?? found.guild_id);
    } catch (error) {
      if (faultOf(error).landed !== "never") throw error;
      return { kind: "channel", chat: channel };
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
    dispatch,
    /** Before the first session: what comes live must find what was missed ahead of it. */
    async load(): Promise<void> {
      for (const { channel, message } of await cursors.load(MOST_CHANNELS)) note(channel, null, message);
    },
    /** A new session has begun. */
    ready({ user }: GatewayReadyDispatchData): void {
      me = { id: user.id, roles: myRoles };
      catchUpAll();
    },
    /** The session of another process is about to be resumed. Discord replays what that process has not heard. What it heard and did not take
     *  is fetched, ahead of that. */
    resumes({ id, roles }: SavedSession["bot"]): void {
      me = { id, roles: myRoles };
      for (const role of roles) myRoles.add(role);
      catchUpAll();
    },
    bot: (): SavedSession["bot"] => ({ id: me.id, roles: [...myRoles] }),
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
