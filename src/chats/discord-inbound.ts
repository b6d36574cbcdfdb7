// What Discord tells us, brought to the ears: messages, edits, deletions. Discord wants no acknowledgement and keeps nothing
// for us; what was said before a new session began is fetched, from the last that we know on.
import type {
  APIMessage,
  Client,
  GatewayMessageCreateDispatchData,
  GatewayMessageDeleteBulkDispatchData,
  GatewayMessageDeleteDispatchData,
  GatewayMessageUpdateDispatchData,
} from "discord.js";
import type { Ears, Place } from "../core/chat.ts";
import { messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import type { Calls } from "./calls.ts";
import type { Api } from "./discord-api.ts";
import { heardOf, isSaid, type Me, placeOf } from "./discord-hear.ts";
import type { Lanes } from "./lanes.ts";
import { recent } from "./recent.ts";

/** A channel that we have heard something in. `newest`: the last message of it that we know. */
type Known = { newest: string; guild: string | undefined };

const MOST_CHANNELS = 200;
const MOST_MESSAGES = 5_000;
const PAGE = 100;
/** A gap of more messages than this is not heard to its end. */
const MOST_PAGES = 10;

export function openInbound(options: { api: Api; calls: Calls; lanes: Lanes; log: Log; ears: Ears }) {
  const { api, calls, lanes, log, ears } = options;
  const known = new Map<string, Known>();
  const taken = recent(MOST_MESSAGES);
  const ours = recent(MOST_MESSAGES);
  const places = new Map<string, Place>();
  const never = new AbortController().signal;
  let me: Me = { id: "", isMyRole: () => false };

  function listen(client: Client, events: typeof import("discord.js").GatewayDispatchEvents): void {
    client.ws.on(events.MessageCreate, (message: GatewayMessageCreateDispatchData) => {
      if (!isBehind(message)) create(message, message.guild_id);
    });
    client.ws.on(events.MessageUpdate, (message: GatewayMessageUpdateDispatchData) => {
      // A preview of a link that Discord has added is no edit.
      if (!isSaid(message) || !message.edited_timestamp) return;
      const { channel_id, guild_id } = message;
      tell(channel_id, guild_id, (place) => ears.edited(heardOf(message, guild_id, place, me, calls)));
    });
    const forget = ({ id, channel_id, guild_id }: GatewayMessageDeleteDispatchData) => {
      if (!ours.has(id)) tell(channel_id, guild_id, (place) => ears.deleted(place, id));
    };
    client.ws.on(events.MessageDelete, forget);
    client.ws.on(events.MessageDeleteBulk, ({ ids, ...where }: GatewayMessageDeleteBulkDispatchData) => {
      for (const id of ids) forget({ id, ...where });
    });
  }

  function create(message: APIMessage, guild: string | undefined): void {
    seen(message, guild);
    if (!isSaid(message) || taken.has(message.id)) return;
    taken.add(message.id);
    tell(message.channel_id, guild, (place) => ears.heard(heardOf(message, guild, place, me, calls)));
  }

  function tell(channel: string, guild: string | undefined, take: (place: Place) => Promise<void>): void {
    void lanes.add(channel, async () => take(await placeIn(channel, guild))).then(() => catchUpIfBehind(channel));
  }
