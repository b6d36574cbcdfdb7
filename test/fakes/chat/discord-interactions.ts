// Buttons and slash commands: what a person does, and what a bot may answer to it, once and in time.
import { randomBytes } from "node:crypto";
import { isRecord } from "../llm/validation.ts";
import type { Params } from "./body.ts";
import type { Ids, Sent } from "./discord.ts";
import { bodyOf, buttonsOf, type Draft, drafted, Refused } from "./discord-draft.ts";
import type { Gateway } from "./discord-gateway.ts";
import type { Channel, Message, Person, World } from "./discord-world.ts";
import type { Call } from "./server.ts";

export type Press = {
  /** The id of the message. */
  message: string;
  /** Its custom_id or its label. One that an edit has since removed can be pressed as well: people are slow. */
  button: string;
  by: Person;
  /** No answer is taken any more. */
  tooLate?: boolean;
};
export type Slash = {
  name: string;
  options?: Record<string, string>;
  by: Person;
  /** The direct messages, unless named. */
  channel?: string;
};
/** How the bot answered first: 4 a message, 5 "thinking", 6 nothing to see, 7 an edit of the message. */
type Acknowledged = { type: number; data: Params };
export type Interaction = { id: string; acknowledged: Promise<Acknowledged> };

type Asked = {
  id: string;
  type: number;
  until: number;
  channel: Channel;
  pressed: Message | undefined;
  original: Message | undefined;
  acknowledged: PromiseWithResolvers<Acknowledged>;
  done: boolean;
};

type Means = {
  dispatch: Gateway["dispatch"];
  sent: Sent[];
  create(call: Call, channel: Channel, draft: Draft): Message;
  patch(call: Call, message: Message): Params;
  /** How long the first answer is taken. */
  ms: number;
};

const COMMAND = 2;
const COMPONENT = 3;
const NAME = /^[-_'\p{Ll}\p{Lo}\p{N}]{1,32}$/u;
const DESCRIPTION = /^.{1,100}$/su;

export function interactions(here: World, { dispatch, sent, create, patch, ms }: Means) {
  const open = new Map<string, Asked>();
  const registered = new Map<string, Params[]>();

  // ── People ──────────────────────────────────────────────────────────────────────────────────────────

  function press({ message, button, by, tooLate = false }: Press): Interaction {
    const mine = sent.find(({ id }) => id === message);
    const versions = [mine?.components ?? [], ...(mine?.history.map(({ components }) => components) ?? [])];
    const all = versions.flatMap(buttonsOf);
    const custom_id = all.find((one) => one.custom_id === button || one.label === button)?.custom_id;
    const pressed = here.messages.get(message);
    if (!custom_id || !pressed) throw new Error(`Message ${message} never had the button ${button}, or is gone.`);
    return ask(COMPONENT, by, pressed.channel, { component_type: 2, custom_id, id: 2 }, tooLate ? -1 : ms, pressed);
  }

  function command({ name, options = {}, by, channel }: Slash): Interaction {
    const where = channel === undefined ? here.dm(here.person(by)) : here.channels.get(channel);
    const known = [...registered.values()].flat().find((one) => one.name === name);
    if (!known || !where) throw new Error(`The bot has no command ${name}, or there is no such channel.`);
    const given = Object.entries(options).map(([option, value]) => ({ name: option, type: 3, value }));
    return ask(COMMAND, by, where, { id: known.id, name, type: 1, options: given }, ms);
  }

  function ask(type: number, by: Person, channel: Channel, data: Params, wait: number, pressed?: Message): Interaction {
    const user = here.person(by);
    const id = here.snowflake();
    const token = `aW50ZXJhY3Rpb246${randomBytes(48).toString("base64url")}`;
    const acknowledged = Promise.withResolvers<Acknowledged>();
    const until = performance.now() + wait;
    open.set(token, { id, type, until, channel, pressed, original: undefined, acknowledged, done: false });
    const { guild_id } = channel;
    dispatch("INTERACTION_CREATE", () => ({
      id,
      application_id: here.bot.id,
      type,
      data,
      token,
      version: 1,
      channel_id: channel.id,
      channel: here.showChannel(channel),
      ...(guild_id
        ? { guild_id, guild_locale: "en-US", member: here.showMember(user) }
        : { user: here.showUser(user) }),
      ...(pressed && { message: here.showMessage(pressed) }),
      app_permissions: "2248473465835073",
      locale: "en-US",
      entitlements: [],
      authorizing_integration_owners: { 0: guild_id ?? "0" },
      context: guild_id ? 0 : 1,
      attachment_size_limit: 10_485_760,
    }));
    return { id, acknowledged: acknowledged.promise };
  }

  // ── The bot ─────────────────────────────────────────────────────────────────────────────────────────

  function acknowledge(call: Call, ids: Ids): unknown {
    const asked = open.get(ids.token ?? "");
    if (!asked || asked.id !== ids.interaction || performance.now() > asked.until)
      throw new Refused(404, 10062, "Unknown interaction");
    if (asked.done) throw new Refused(400, 40060, "Interaction has already been acknowledged.");
    const body = bodyOf(call);
    const type = isRecord(body) ? Number(body.type) : 0;
    const data = isRecord(body) && isRecord(body.data) ? body.data : {};
    if (![4, 5, 6, 7].includes(type) || (type > 5 && !asked.pressed))
      throw new Refused(400, 50035, `Invalid Form Body: type ${type}`, true);
    const inner = { ...call, params: data };
    if (type === 4) asked.original = create(inner, asked.channel, drafted(inner));
    if (type === 6 || type === 7) asked.original = asked.pressed;
    if (type === 7 && asked.pressed) patch(inner, asked.pressed);
    asked.done = true;
    asked.acknowledged.resolve({ type, data });
    if (call.query.with_response !== "true") return undefined;
    const message = asked.original && here.showMessage(asked.original);
    return { interaction: { id: asked.id, type: asked.type }, resource: { type, ...(message && { message }) } };
  }

  function followUp(call: Call, ids: Ids): Params {
    const asked = answered(ids);
    const message = create(call, asked.channel, drafted(call));
    asked.original ??= message;
    return here.showMessage(message);
  }

  function amend(call: Call, ids: Ids): Params {
    // "Thinking…" becomes a message by its first edit.
    if (ids.message === "@original" && !answered(ids).original) return followUp(call, ids);
    return patch(call, replyOf(ids));
  }

  function replyOf(ids: Ids): Message {
    const { original } = answered(ids);
    const reply = ids.message === "@original" ? original : here.messages.get(ids.message ?? "");
    if (!reply) throw new Refused(404, 10008, "Unknown Message");
    return reply;
  }

  function answered({ token = "" }: Ids): Asked {
    const asked = open.get(token);
    if (!asked?.done) throw new Refused(404, 10015, "Unknown Webhook");
    return asked;
  }

  /** Those of a guild, or of all of Discord: "". */
  function register({ params }: Call, guild: string): Params[] {
    const list = Array.isArray(params.list) ? params.list.filter(isRecord) : [];
    for (const { name, description, type = 1 } of list)
      if (!matches(NAME, name) || (type === 1 && !matches(DESCRIPTION, description)))
        throw new Refused(400, 50035, `Invalid Form Body: command ${JSON.stringify(name)}`, true);
    const commands = list.map((one) => ({
      ...one,
      id: here.snowflake(),
      application_id: here.bot.id,
      type: one.type ?? 1,
      version: here.snowflake(),
      default_member_permissions: null,
      ...(guild && { guild_id: guild }),
    }));
    registered.set(guild, commands);
    return commands;
  }

  return {
    press,
    command,
    acknowledge,
    followUp,
    amend,
    replyOf,
    register,
    commands: (guild: string) => registered.get(guild) ?? [],
  };
}

const matches = (pattern: RegExp, value: unknown) => typeof value === "string" && pattern.test(value);
