// Slack's events on their way to the handler. Each is acknowledged once it is taken. Slack sends an event again that is not acknowledged
// within three seconds, and sends each mention twice; an event with a known id is taken once.

import { createBounded } from "../../core/bounded.ts";
import type { InboundHandler, InboundMessage, Person, Place } from "../../core/chat.ts";
import type { Ambient } from "../../core/ports.ts";
import { within } from "../../core/wait.ts";
import { logFailure } from "../../platform/log-failure.ts";
import type { ApiCalls } from "../shared/calls.ts";
import type { Lanes } from "../shared/lanes.ts";
import { recent } from "../shared/recent.ts";
import { reasonOf, type SlackApi } from "./api.ts";
import {
  attachmentsOf,
  commandBody,
  eventBody,
  isDirect,
  isFromPerson,
  isOurs,
  nameIn,
  names,
  placeOf,
  plainText,
  pressBody,
  type SlackAction,
  type SlackBot,
  type SlackCommand,
  type SlackEvent,
  type SlackMessage,
} from "./inbound.ts";
import type { Envelope } from "./socket.ts";

type Options = Ambient & {
  token: string;
  apiRoot: string;
  api: SlackApi;
  calls: ApiCalls;
  lanes: Lanes;
  handler: InboundHandler;
  me(): SlackBot;
};

const MOST_MESSAGES = 5_000;
const MOST_PEOPLE = 2_000;
/** People change their names. */
const NAME_MS = 3_600_000;
/** A press must be acknowledged within three seconds, or Slack shows the person that it failed. */
const PRESS_MS = 2_000;

export function openIntake({ token, apiRoot, api, calls, lanes, clock, log, handler, me }: Options) {
  const taken = recent(MOST_MESSAGES);
  const ours = recent(MOST_MESSAGES);
  const underWay = new Map<string, Promise<boolean>>();
  const people = createBounded<{ name: string; at: number }>(MOST_PEOPLE);
  const pressing = new Set<Promise<void>>();
  const never = new AbortController().signal;
  let stopped = false;

  function onEnvelope({ type, body, ack: acknowledge }: Envelope): void {
    if (stopped) return; // it comes again, to whoever follows us
    const ack = () => {
      // The connection may be gone; then it comes again, and is known.
      acknowledge().catch(logFailure(log, "debug", "chat.unacknowledged", { platform: "slack" }));
    };
    const event = type === "events_api" ? eventBody.safeParse(body).data : undefined;
    const press = type === "interactive" ? pressBody.safeParse(body).data : undefined;
    const command = type === "slash_commands" ? commandBody.safeParse(body).data : undefined;
    if (event) return onEvent(event.event, event.event_id, ack);
    if (command) return onCommand(command, ack);
    if (!press) return ack();
    const answered = onAction(press, ack).catch(logFailure(log, "warn", "chat.unanswered", { platform: "slack" }));
    pressing.add(answered);
    void answered.then(() => pressing.delete(answered));
  }

  function onEvent(event: SlackEvent, id: string, ack: () => void): void {
    const { type, subtype, channel, ts, message, previous_message, deleted_ts } = event;
    if (channel === undefined || (type !== "message" && type !== "app_mention")) return ack();
    if (subtype === "message_deleted" && deleted_ts !== undefined)
      return onDeleted(channel, { ts: deleted_ts, ...previous_message }, id, ack);
    if (subtype === "message_changed" && message?.subtype === "tombstone")
      return onDeleted(channel, { ...previous_message, ts: message.ts }, id, ack);
    if (subtype === "message_changed") {
      // A preview of a link that Slack has added is no edit.
      if (!message || !isFromPerson(message, me()) || message.text === previous_message?.text) return ack();
      const edit = async (place: Place) => handler.onEdit(await inboundMessage(message, place));
      return once(id, placeOf(channel, message), edit, ack);
    }
    if (ts === undefined) return ack();
    const posted = { ...event, ts };
    if (isOurs(posted, me())) ours.add(`${channel} ${ts}`);
    if (!isFromPerson(posted, me())) return ack();
    const take = async (place: Place) => handler.onMessage(await inboundMessage(posted, place));
    once(`${channel} ${ts}`, placeOf(channel, posted), take, ack);
  }

  function onDeleted(channel: string, message: SlackMessage, id: string, ack: () => void): void {
    if (message.user !== undefined && !isFromPerson(message, me())) return ack();
    once(id, placeOf(channel, message), (place) => handler.onDelete(place, message.ts), ack);
  }

  /** Takes an event once, and acknowledges every copy of it when it is taken. */
  function once(name: string, place: Place, take: (place: Place) => Promise<void>, ack: () => void): void {
    if (taken.has(name)) return ack();
    const begun = underWay.get(name) ?? lanes.add(`${place.chat} ${place.thread ?? ""}`, () => take(place));
    underWay.set(name, begun);
    void begun.then((done) => {
      underWay.delete(name);
      if (!done) return;
      taken.add(name);
      ack();
    });
  }

  async function inboundMessage(message: SlackMessage, place: Place): Promise<InboundMessage> {
    const { ts, user = "", text, thread_ts, parent_user_id } = message;
    const words = text ?? "";
    const replied =
      place.thread !== undefined && (parent_user_id === me().user || ours.has(`${place.chat} ${thread_ts}`));
    return {
      message: ts,
      place,
      from: await personOf(user),
      text: await plainText(words, me(), nameOf),
      attachments: attachmentsOf(message, { token, apiRoot, calls }),
      addressed: isDirect(place.chat) || names(words, me().user) || replied,
    };
  }

  function onCommand({ command, text, user_id, channel_id, trigger_id }: SlackCommand, ack: () => void): void {
    const take = async (place: Place) =>
      handler.onMessage({
        message: trigger_id,
        place,
        from: await personOf(user_id),
        text: `${command} ${text}`.trim(),
        attachments: [],
        addressed: true,
      });
    once(trigger_id, placeOf(channel_id, { ts: "" }), take, ack);
  }

  async function onAction(
    { user, channel, message, actions, response_url }: SlackAction,
    ack: () => void,
  ): Promise<void> {
    const data = actions[0]?.value;
    if (data === undefined) return ack();
    const from = await personOf(user.id);
    const answered = handler.onPress({ data, place: placeOf(channel.id, message), from, message: message.ts });
    await within(clock, PRESS_MS, answered);
    ack();
    const text = await answered;
    if (text) await calls.within(never, (signal) => show(response_url, text, signal));
  }

  const show = (address: string, text: string, signal: AbortSignal) =>
    calls.fetch(address, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ response_type: "ephemeral", replace_original: false, text }),
      signal,
    });

  const personOf = async (id: string): Promise<Person> => ({ id, name: await nameOf(id) });

  /** The name of a person; the id, if Slack does not tell the name. Events hold ids only. */
  async function nameOf(user: string): Promise<string> {
    const known = people.get(user);
    if (known && clock.monotonic() - known.at < NAME_MS) return known.name;
    const found = await api
      .ask("users.info", { user }, never)
      .then(nameIn, (error: unknown) => reasonOf(error) && user);
    if (found === undefined) return user;
    people.set(user, { name: found, at: clock.monotonic() });
    return found;
  }

  return {
    onEnvelope,
    /** A message that we have sent. */
    sent: (channel: string, ts: string): void => ours.add(`${channel} ${ts}`),
    /** Takes no more; resolves when what was being taken is over. */
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all([lanes.stop(), ...pressing]);
    },
  };
}
