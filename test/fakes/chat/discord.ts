// Discord on this machine: its REST API and its gateway, and the people of one guild. It refuses what Discord refuses,
// counts what its rate limits count, and remembers what a client should not have sent.
import type { Params, Upload } from "./body.ts";
import { type Draft, drafted, invalid, Refused } from "./discord-draft.ts";
import { type Gateway, INTENT, startGateway } from "./discord-gateway.ts";
import { type Interaction, interactions, type Press, type Slash } from "./discord-interactions.ts";
import { type Channel, DM, type Message, type Person, TEXT, type User, world } from "./discord-world.ts";
import { feeds } from "./feeds.ts";
import { type Answer, type Call, type ChatServer, type Fault, type Planted, startServer } from "./server.ts";

type Version = { content: string; components: unknown[] };

/** A message of the bot, as it stands now. */
export type Sent = Version & {
  channel: string;
  id: string;
  /** The number of the call that sent it. */
  call: number;
  embeds: unknown[];
  replyTo: string | undefined;
  nonce: string | number | undefined;
  files: Upload[];
  /** Only the person who pressed or commanded sees it. */
  ephemeral: boolean;
  /** What it was before, oldest first. */
  history: Version[];
  deleted: boolean;
};

type Saying = {
  /** The direct messages of whoever says it, unless named. */
  channel?: string;
  from: Person;
  content?: string;
  replyTo?: string;
  attachments?: { name: string; type?: string; bytes: Uint8Array }[];
};

export type FakeDiscord = Pick<ChatServer, "calls" | "violations" | "nextCall" | "until"> &
  Pick<Gateway, "sessions" | "reconnect" | "invalidate" | "silence" | "cut"> & {
    /** For `rest: { api }`; the gateway's address comes from there. */
    apiRoot: string;
    token: string;
    bot: { id: string };
    guild: { id: string; general: string; thread: string; botRole: string };
    /** The channel of a person's direct messages. */
    dm(who: Person): string;
    addChannel(name: string): string;
    /** Gives the id of the message. */
    say(saying: Saying): string;
    edit(message: string, content: string): void;
    remove(message: string): void;
    press(press: Press): Interaction;
    command(slash: Slash): Interaction;
    /** Takes no direct messages from the bot any more. */
    block(who: Person): void;
    revoke(): void;
    fault(method: string, fault: Fault, times?: number): Planted;
    sent(channel?: string): Sent[];
    /** Each message to the channel is given once, in order. */
    nextMessage(channel: string): Promise<Sent>;
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
  };

type Options = {
  token?: string;
  heartbeatMs?: number;
  /** Of each route and channel. Discord's own for messages is 5 in 5 seconds. */
  limit?: { calls: number; seconds: number };
  /** How long the first answer to an interaction is taken. */
  interactionMs?: number;
};

export type Ids = Record<string, string>;
type Route = [method: string, handle: (call: Call, ids: Ids) => unknown];

const EPHEMERAL = 64;
/** In parts, so that nobody who looks for lost secrets finds one here. */
const TOKEN = ["MTE5ODc2NTQzMjEwOTg3NjU0Mw", "GfAkE0", "fake".repeat(9).slice(-38)].join(".");

export async function startFakeDiscord({
  token = TOKEN,
  heartbeatMs = 41_250,
  limit = { calls: 50, seconds: 1 },
  interactionMs = 3000,
}: Options = {}): Promise<FakeDiscord> {
  const here = world(() => `http://127.0.0.1:${server.port}`);
  const sent: Sent[] = [];
  const arrivals = feeds<string, Sent>();
  const blocked = new Set<string>();
  const buckets = new Map<string, { used: number; resets: number }>();
  let revoked = false;
  const accepts = (given: string) => given === token && !revoked;

  // ── REST ────────────────────────────────────────────────────────────────────────────────────────────

  const ROUTES: Route[] = [
    ["GET /gateway/bot", () => ({ url: gatewayUrl(), shards: 1, session_start_limit: STARTS })],
    ["GET /applications/@me", () => application()],
    ["GET /users/@me", () => here.showUser(here.bot)],
    ["POST /users/@me/channels", ({ params }) => here.showChannel(here.dm(userOf(text(params.recipient_id))))],
    ["GET /users/:user", (_call, { user = "" }) => here.showUser(userOf(user))],
    ["GET /guilds/:guild", () => here.showGuild()],
    ["GET /guilds/:guild/channels", () => here.showGuild().channels],
    ["GET /guilds/:guild/members/:user", (_call, { user = "" }) => here.showMember(userOf(user))],
    ["GET /channels/:channel", (_call, { channel = "" }) => here.showChannel(channelOf(channel))],
    ["GET /channels/:channel/messages", list],
    ["POST /channels/:channel/messages", post],
    ["GET /channels/:channel/messages/:message", (_call, ids) => here.showMessage(messageOf(ids))],
    ["PATCH /channels/:channel/messages/:message", (call, ids) => patch(call, messageOf(ids))],
    ["DELETE /channels/:channel/messages/:message", (_call, ids) => drop(messageOf(ids))],
    ["POST /channels/:channel/typing", (_call, { channel = "" }) => void channelOf(channel)],
    ["GET /applications/:app/commands", () => asked.commands("")],
    ["PUT /applications/:app/commands", (call) => asked.register(call, "")],
    ["GET /applications/:app/guilds/:guild/commands", (_call, { guild = "" }) => asked.commands(guild)],
    ["PUT /applications/:app/guilds/:guild/commands", (call, { guild = "" }) => asked.register(call, guild)],
    ["POST /interactions/:interaction/:token/callback", (call, ids) => asked.acknowledge(call, ids)],
    ["POST /webhooks/:app/:token", (call, ids) => asked.followUp(call, ids)],
    ["GET /webhooks/:app/:token/messages/:message", (_call, ids) => here.showMessage(asked.replyOf(ids))],
    ["PATCH /webhooks/:app/:token/messages/:message", (call, ids) => asked.amend(call, ids)],
    ["DELETE /webhooks/:app/:token/messages/:message", (_call, ids) => drop(asked.replyOf(ids))],
  ];
  const PATTERNS = ROUTES.map(([method, handle]) => {
    const [verb, path = ""] = method.split(" ");
    return { method, verb, handle, path: new RegExp(`^/api/v10${path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`) };
  });
  const DOWNLOAD = "GET /attachments";

  const server = await startServer({
    name: "Discord",
    methodOf: (verb, path) =>
      path.startsWith("/attachments/")
        ? DOWNLOAD
        : PATTERNS.find((one) => one.verb === verb && one.path.test(path))?.method,
    answer,
    failure: (status, retryAfter, call) => failure(status, retryAfter, call.method),
    limited: majorOf,
  });
  const gateway = startGateway(server, {
    heartbeatMs,
    accepts,
    ready: () => ({
      data: {
        v: 10,
        user: here.showUser(here.bot),
        guilds: [{ id: here.guildId, unavailable: true }],
        resume_gateway_url: gatewayUrl(),
        application: { id: here.bot.id, flags: 0 },
        user_settings: {},
        private_channels: [],
      },
      guild: here.showGuild(),
    }),
  });
  const asked = interactions(here, { dispatch: gateway.dispatch, sent, create, patch, ms: interactionMs });
  const gatewayUrl = () => `ws://127.0.0.1:${server.port}`;
  const application = () => ({
    id: here.bot.id,
    name: "Hermes",
    description: "",
    bot: here.showUser(here.bot),
    flags: 0,
  });

  function answer(call: Call): Answer {
    if (call.method === DOWNLOAD) return download(call.path);
    // The token of an interaction is in its path; nothing else is needed.
    const pathIsKey = /\/(interactions|webhooks)\//.test(call.path);
    if (!pathIsKey && !accepts(call.headers.authorization?.replace(/^Bot /, "") ?? ""))
      return failure(401, undefined, call.method);
    const bucket = bucketOf(call);
    if (bucket.used >= limit.calls) return failure(429, (bucket.resets - Date.now()) / 1000, call.method);
    bucket.used += 1;
    const headers = {
      "x-ratelimit-limit": String(limit.calls),
      "x-ratelimit-remaining": String(limit.calls - bucket.used),
      "x-ratelimit-reset": String(bucket.resets / 1000),
      "x-ratelimit-reset-after": String(Math.max(0, bucket.resets - Date.now()) / 1000),
      "x-ratelimit-bucket": hashOf(call.method),
    };
    const route = PATTERNS.find(({ method }) => method === call.method);
    const ids = route?.path.exec(decodeURIComponent(call.path))?.groups ?? {};
    try {
      const body = route?.handle(call, ids);
      return { status: body === undefined ? 204 : 200, headers, ...(body !== undefined && { body }) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { status, message, code, fields, offence } = error;
      if (offence)
        server.violations.push(
          `${call.method} (call ${call.number}): ${message} ${fields ? JSON.stringify(fields) : ""}`,
        );
      return { status, headers, body: { message, code, ...(fields && { errors: fields }) } };
    }
  }

  function bucketOf(call: Call) {
    const key = `${call.method} ${majorOf(call)}`;
    const known = buckets.get(key);
    if (known && known.resets > Date.now()) return known;
    const bucket = { used: 0, resets: Date.now() + limit.seconds * 1000 };
    buckets.set(key, bucket);
    return bucket;
  }

  // ── Messages of the bot ─────────────────────────────────────────────────────────────────────────────

  /** Newest first; after a message the oldest of them, else the newest. */
  function list({ query }: Call, { channel = "" }: Ids): Params[] {
    const { id } = channelOf(channel);
    const after = BigInt(text(query.after) || 0);
    const before = BigInt(text(query.before) || "9223372036854775807");
    const most = Number(query.limit ?? 50);
    const all = [...here.messages.values()].filter(
      (message) => message.channel.id === id && BigInt(message.id) > after && BigInt(message.id) < before,
    );
    return (after ? all.slice(0, most) : all.slice(-most)).toReversed().map((message) => here.showMessage(message));
  }

  function post(call: Call, { channel: id = "" }: Ids): Params {
    const channel = channelOf(id);
    if (channel.recipient && blocked.has(channel.recipient.id))
      throw new Refused(403, 50007, "Cannot send messages to this user");
    const draft = drafted(call);
    // Of one author: the same nonce in another channel gives that other channel's message.
    const twin = sent.find(({ nonce }) => draft.enforceNonce && nonce !== undefined && nonce === draft.nonce);
    const known = twin && here.messages.get(twin.id);
    if (known) return here.showMessage(known);
    return here.showMessage(create(call, channel, draft));
  }

  function create(call: Call, channel: Channel, draft: Draft): Message {
    const { content, components, embeds, flags, nonce, replyTo } = draft;
    const replied = replyTo === undefined ? undefined : here.messages.get(replyTo);
    if (replyTo !== undefined && replied?.channel !== channel && draft.mustExist)
      throw invalid([{ path: ["message_reference"], code: "REPLIES_UNKNOWN_MESSAGE", message: "Unknown message" }]);
    const files = Object.values(call.files);
    const message = here.addMessage(
      {
        channel,
        author: here.bot,
        content,
        components,
        embeds,
        flags,
        ...(nonce !== undefined && { nonce }),
        ...(replied && { replyTo: replied.id }),
      },
      files,
    );
    const ephemeral = (flags & EPHEMERAL) > 0;
    const mine: Sent = {
      channel: channel.id,
      id: message.id,
      call: call.number,
      content,
      components,
      embeds,
      replyTo: replied?.id,
      nonce,
      files,
      ephemeral,
      history: [],
      deleted: false,
    };
    sent.push(mine);
    arrivals.push(channel.id, mine);
    if (!ephemeral) announce("MESSAGE_CREATE", message);
    return message;
  }

  function patch(call: Call, message: Message): Params {
    const mine = sent.find(({ id }) => id === message.id);
    if (!mine) throw new Refused(403, 50005, "Cannot edit a message authored by another user", true);
    const before = {
      ...message,
      nonce: message.nonce,
      enforceNonce: false,
      replyTo: message.replyTo,
      mustExist: false,
    };
    const { content, components, embeds } = drafted(call, before);
    mine.history.push({ content: mine.content, components: mine.components });
    Object.assign(mine, { content, components, embeds });
    Object.assign(message, { content, components, embeds, editedAt: new Date().toISOString() });
    if (!mine.ephemeral) announce("MESSAGE_UPDATE", message);
    return here.showMessage(message);
  }

  function drop(message: Message): void {
    const mine = sent.find(({ id }) => id === message.id);
    if (!mine) throw new Refused(403, 50013, "Missing Permissions", true);
    mine.deleted = true;
    remove(message.id);
  }

  // ── People ──────────────────────────────────────────────────────────────────────────────────────────

  function say({ channel, from, content = "", replyTo, attachments = [] }: Saying): string {
    const author = here.person(from);
    const where = channel === undefined ? here.dm(author) : channelOf(channel);
    const draft = {
      channel: where,
      author,
      content,
      components: [],
      embeds: [],
      flags: 0,
      ...(replyTo && { replyTo }),
    };
    const message = here.addMessage(draft, attachments);
    announce("MESSAGE_CREATE", message);
    return message.id;
  }

  function remove(id: string): void {
    const message = here.messages.get(id);
    if (!message) throw new Error(`There is no message ${id}.`);
    const { channel } = message;
    here.messages.delete(id);
    const gone = { id, channel_id: channel.id, ...(channel.guild_id && { guild_id: channel.guild_id }) };
    gateway.dispatch("MESSAGE_DELETE", (intents) => (intents & intentFor(channel) ? gone : undefined));
  }

  const intentFor = ({ type }: Channel) => (type === DM ? INTENT.directMessages : INTENT.guildMessages);

  /** Without its intent, what is in a guild's message is only for those it mentions. */
  function announce(type: "MESSAGE_CREATE" | "MESSAGE_UPDATE", message: Message): void {
    const { channel, author } = message;
    const shown = here.showMessage(message);
    const guild = channel.guild_id && { guild_id: channel.guild_id, member: here.showMember() };
    const full = { ...shown, ...guild, channel_type: channel.type };
    const mentioned = new Set((shown.mentions as User[]).map(({ id }) => id));
    const meant = channel.type === DM || author.id === here.bot.id || mentioned.has(here.bot.id);
    gateway.dispatch(type, (intents) => {
      if (!(intents & intentFor(channel))) return undefined;
      if (meant || intents & INTENT.messageContent) return full;
      return { ...full, content: "", attachments: [], embeds: [], components: [] };
    });
  }

  function edit(id: string, content: string): void {
    const message = here.messages.get(id);
    if (!message) throw new Error(`There is no message ${id}.`);
    Object.assign(message, { content, editedAt: new Date().toISOString() });
    announce("MESSAGE_UPDATE", message);
  }

  function addChannel(name: string): string {
    const channel = here.addChannel({ type: TEXT, guild_id: here.guildId, name });
    gateway.dispatch("CHANNEL_CREATE", (intents) => (intents & INTENT.guilds ? here.showChannel(channel) : undefined));
    return channel.id;
  }

  const found = <T>(thing: T | undefined, code: number, what: string): T => {
    if (thing !== undefined) return thing;
    throw new Refused(404, code, `Unknown ${what}`);
  };
  const channelOf = (id: string) => found(here.channels.get(id), 10003, "Channel");
  const userOf = (id: string) => found(here.users.get(id), 10013, "User");
  const messageOf = ({ channel = "", message = "" }: Ids) => {
    const one = here.messages.get(message);
    return found(one?.channel === channelOf(channel) ? one : undefined, 10008, "Message");
  };

  function download(path: string): Answer {
    const bytes = here.files.get(path);
    if (!bytes) return { status: 404, body: "" };
    return { status: 200, body: Buffer.from(bytes), headers: { "content-type": "application/octet-stream" } };
  }

  async function close(): Promise<void> {
    arrivals.close("the fake Discord was closed");
    gateway.close();
    await server.close();
  }

  return {
    apiRoot: `http://127.0.0.1:${server.port}/api`,
    token,
    bot: here.bot,
    guild: { id: here.guildId, general: here.general.id, thread: here.thread.id, botRole: here.botRole },
    ...server,
    ...gateway,
    dm: (who) => here.dm(here.person(who)).id,
    addChannel,
    say,
    edit,
    remove,
    press: asked.press,
    command: asked.command,
    block: (who) => blocked.add(here.person(who).id),
    revoke: () => {
      revoked = true;
      gateway.cut(4004);
    },
    sent: (channel) => sent.filter((one) => channel === undefined || one.channel === channel),
    nextMessage: (channel) => arrivals.next(channel),
    close,
    [Symbol.asyncDispose]: close,
  };
}

const STARTS = { total: 1000, remaining: 999, reset_after: 14_400_000, max_concurrency: 1 };

const text = (value: unknown) => (typeof value === "string" ? value : "");
/** What a route's limit is counted by. */
const majorOf = ({ path }: Call) => /\/(?:channels|guilds|webhooks|interactions)\/([^/]+)/.exec(path)?.[1] ?? "";
const hashOf = (method: string) => Buffer.from(method).toString("hex").slice(-32);

function failure(status: number, retryAfter: number | undefined, method: string): Answer {
  if (status === 401) return { status, body: { message: "401: Unauthorized", code: 0 } };
  if (status === 404) return { status, body: { message: "404: Not Found", code: 0 } };
  if (status !== 429) return { status, body: { message: `${status}: Error`, code: 0 } };
  const retry_after = Math.max(0.001, retryAfter ?? 1);
  return {
    status,
    body: { message: "You are being rate limited.", retry_after, global: false },
    headers: {
      "retry-after": String(retry_after),
      "x-ratelimit-limit": "5",
      "x-ratelimit-remaining": "0",
      "x-ratelimit-reset-after": String(retry_after),
      "x-ratelimit-bucket": hashOf(method),
      "x-ratelimit-scope": "user",
    },
  };
}
