// Slack on this machine: its Web API, Socket Mode, and the people of one workspace. It refuses what Slack refuses, with
// Slack's names for it, and remembers what a client should not have sent.
import { z } from "zod";
import { misfits } from "../llm/validation.ts";
import type { Params } from "./body.ts";
import { feeds } from "./feeds.ts";
import { type Answer, type Call, type ChatServer, type Fault, type Planted, startServer } from "./server.ts";
import { type Block, blocksSchema, buttonsOf, isMethod, type Method, PARAMS, type ParamsOf } from "./slack-params.ts";
import { type Delivery, type SocketMode, startSocketMode } from "./slack-socket.ts";
import { type Channel, type File, id, type Message, type Person, type Place, Refused, world } from "./slack-world.ts";

type Version = { text: string; blocks: Block[] };

/** A message of the bot, as it stands now. */
export type Sent = Version & {
  channel: string;
  ts: string;
  /** The number of the call that sent it. */
  call: number;
  thread: string | undefined;
  metadata: unknown;
  /** What it was before, oldest first. */
  history: Version[];
  deleted: boolean;
};

type Saying = {
  /** The direct messages of whoever says it, unless named. */
  channel?: string;
  from: Person;
  text: string;
  /** The ts of the message whose thread it is. */
  thread?: string;
  files?: File[];
};
/** What a person did, and what came to its response_url. */
type Action = Delivery & { responses: Params[] };

export type FakeSlack = Pick<ChatServer, "calls" | "violations" | "nextCall" | "until"> &
  SocketMode & {
    /** For `slackApiUrl`. */
    apiRoot: string;
    botToken: string;
    appToken: string;
    team: string;
    bot: { user: string; id: string };
    /** A channel that the bot is in. */
    general: string;
    addChannel(name: string): string;
    /** The channel of a person's direct messages. */
    dm(who: Person): string;
    /** Gives its ts. A mention in a channel makes two events, as at Slack. */
    say(saying: Saying): string;
    edit(message: Place, text: string): void;
    remove(message: Place): void;
    /** By its action_id, its value or its text, also one that an edit has since removed. */
    press(press: { message: Place; button: string; by: Person }): Action;
    command(slash: { command: string; text?: string; by: Person; channel?: string }): Action;
    /** Nobody can write there any more. */
    archive(channel: string): void;
    reactions(message: Place): string[];
    revoke(): void;
    fault(method: Method | "download", fault: Fault, times?: number): Planted;
    sent(channel?: string): Sent[];
    /** Each message to the channel is given once, in order. */
    nextMessage(channel: string): Promise<Sent>;
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
  };

/** In parts, so that nobody who looks for lost secrets finds one here. */
const BOT_TOKEN = ["xoxb", "7654321098765", "7654321098766", "fAkE".repeat(6)].join("-");
const APP_TOKEN = ["xapp", "1", "A07FAKEFAKE", "7654321098767", "fake".repeat(16)].join("-");
const MOST_CHARACTERS = 40_000;
/** An update takes less than a new message. */
const MOST_UPDATED = 4000;
export async function startFakeSlack({
  botToken = BOT_TOKEN,
  appToken = APP_TOKEN,
  ackMs = 3000,
  pingMs = 10_000,
} = {}): Promise<FakeSlack> {
  const here = world(() => `http://127.0.0.1:${server.port}`);
  const { team, app, bot, names, messages, person, direct, channelOf, messageOf, nextTs } = here;
  const sent: Sent[] = [];
  const arrivals = feeds<string, Sent>();
  const actions = new Map<string, Action>();
  let revoked = false;
  const general = here.addChannel("general");

  const server = await startServer({
    name: "Slack",
    methodOf: (_verb, path) =>
      /^\/api\/([\w.]+)$/.exec(path)?.[1] ??
      (path.startsWith("/files-pri/") ? "download" : path.startsWith("/actions/") ? "response_url" : undefined),
    answer,
    failure,
    limited: ({ params }) => (typeof params.channel === "string" ? params.channel : ""),
  });
  const socket = startSocketMode(server, { appId: app, ackMs, pingMs });

  // ── Calls ───────────────────────────────────────────────────────────────────────────────────────────

  function answer(call: Call): Answer {
    if (call.method === "response_url") return respond(call);
    const given = call.headers.authorization?.replace(/^Bearer /, "") ?? call.params.token;
    if (call.method === "download") return download(call.path, given);
    const name = call.method;
    try {
      if (!isMethod(name)) throw new Refused("unknown_method", "Slack or this fake has no such method");
      authorize(name, given);
      return { status: 200, body: { ok: true, ...METHODS[name](call) } };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { message, offence } = error;
      if (offence) server.violations.push(`${name} (call ${call.number}): ${message}, ${offence}`);
      const details = offence && { response_metadata: { messages: [`[ERROR] ${offence}`] } };
      return { status: 200, body: { ok: false, error: message, ...details } };
    }
  }

  function authorize(method: Method, given: unknown): void {
    if (!given) throw new Refused("not_authed");
    if (revoked && (given === botToken || given === appToken)) throw new Refused("token_revoked");
    const [wanted, other] = method === "apps.connections.open" ? [appToken, botToken] : [botToken, appToken];
    if (given === other) throw new Refused("not_allowed_token_type", "the other token is for this method");
    if (given !== wanted) throw new Refused("invalid_auth");
  }

  const METHODS: Record<Method, (call: Call) => Params> = {
    "auth.test": () => ({
      url: "https://fake.slack.com/",
      team: "Fake",
      user: "hermes",
      team_id: team,
      user_id: bot.user,
      bot_id: bot.id,
      is_enterprise_install: false,
    }),
    "apps.connections.open": () => ({ url: socket.url() }),
    "chat.postMessage": (call) => {
      const params = read("chat.postMessage", call);
      const channel = writable(params.channel);
      const version = written(params, MOST_CHARACTERS);
      if (params.thread_ts && !messages.some(({ ts }) => ts === params.thread_ts))
        server.violations.push(`chat.postMessage (call ${call.number}): there is no message ${params.thread_ts}`);
      return post(call, channel, params, version);
    },
    "chat.update": (call) => {
      const params = read("chat.update", call);
      const message = own(params, "cant_update_message");
      const { channel, ts, sent: mine } = message;
      const { text, blocks } = written(params, MOST_UPDATED, mine);
      mine.history.push({ text: mine.text, blocks: mine.blocks });
      Object.assign(mine, { text, blocks });
      change(message, { text, blocks });
      return { channel: channel.id, ts, text, message: message.event };
    },
    "chat.delete": (call) => {
      const params = read("chat.delete", call);
      const message = own(params, "cant_delete_message");
      message.sent.deleted = true;
      drop(message);
      return { channel: params.channel, ts: params.ts };
    },
    "conversations.info": (call) => ({
      channel: here.showChannel(channelOf(read("conversations.info", call).channel)),
    }),
    "users.info": (call) => {
      const { user } = read("users.info", call);
      const name = names.get(user);
      if (name === undefined) throw new Refused("user_not_found");
      const profile = { display_name: name, real_name: name };
      const is_bot = user === bot.user;
      return {
        user: { id: user, team_id: team, name: name.toLowerCase(), deleted: false, is_bot, profile, tz: "UTC" },
      };
    },
    "reactions.add": (call) => {
      const { channel, timestamp, name } = read("reactions.add", call);
      const { reactions } = messageOf({ channel: channelOf(channel).id, ts: timestamp });
      if (!/^[a-z0-9_+'-]+(::skin-tone-[2-6])?$/.test(name)) throw new Refused("invalid_name", name);
      if (reactions.includes(name)) throw new Refused("already_reacted");
      reactions.push(name);
      return {};
    },
    "files.info": (call) => {
      const known = here.files.get(read("files.info", call).file);
      if (!known) throw new Refused("file_not_found");
      return { file: known.file };
    },
  };

  function read<M extends Method>(method: M, call: Call): ParamsOf<M> {
    const result = PARAMS[method].safeParse(call.params);
    if (result.success) return result.data as ParamsOf<M>;
    const problem = z.prettifyError(result.error).replaceAll("\n", " ");
    if (!result.error.issues.every(({ code, path }) => code === "unrecognized_keys" && path.length === 0))
      throw new Refused("invalid_arguments", problem);
    // Slack overlooks what it does not know. Whoever sends it has made a mistake all the same.
    server.violations.push(`${method} (call ${call.number}): ${problem}`);
    return PARAMS[method].strip().parse(call.params) as ParamsOf<M>;
  }

  // ── Messages of the bot ─────────────────────────────────────────────────────────────────────────────

  type Writing = Pick<ParamsOf<"chat.postMessage">, "text" | "markdown_text" | "blocks" | "attachments">;

  /** `before`: blocks that an update does not name stay. */
  function written({ text, markdown_text, blocks, attachments }: Writing, most: number, before?: Version): Version {
    const parsed = blocksSchema.safeParse(blocks ?? before?.blocks ?? []);
    if (!parsed.success) {
      const [misfit] = misfits(parsed.error);
      throw new Refused("invalid_blocks", `${misfit?.message} [json-pointer:/blocks/${misfit?.path.join("/")}]`);
    }
    const words = text ?? markdown_text ?? "";
    if (words === "" && parsed.data.length === 0 && !attachments?.length)
      throw new Refused("no_text", "nothing is said");
    if (words.length > most) throw new Refused("msg_too_long", `${words.length} characters, ${most} are possible`);
    return { text: words, blocks: parsed.data.map((block, i) => ({ ...block, block_id: block.block_id ?? `b${i}` })) };
  }

  function post(call: Call, channel: Channel, params: ParamsOf<"chat.postMessage">, version: Version): Params {
    const ts = nextTs();
    const thread = params.thread_ts;
    const mine: Sent = {
      ...version,
      channel: channel.id,
      ts,
      call: call.number,
      thread,
      metadata: params.metadata,
      history: [],
      deleted: false,
    };
    sent.push(mine);
    arrivals.push(channel.id, mine);
    const event = {
      user: bot.user,
      type: "message",
      ts,
      bot_id: bot.id,
      app_id: app,
      team,
      ...version,
      ...(thread && { thread_ts: thread }),
    };
    messages.push({ channel, ts, event, sent: mine, reactions: [] });
    tell({ ...event, ...placeOf(channel, ts) });
    return { channel: channel.id, ts, message: event };
  }

  function writable(id: string): Channel {
    const channel = channelOf(id);
    if (channel.archived) throw new Refused("is_archived");
    return channel;
  }

  function own(place: Place, refusal: string): Message & { sent: Sent } {
    writable(place.channel);
    const message = messageOf(place);
    if (!message.sent) throw new Refused(refusal, "it is somebody else's");
    return message as Message & { sent: Sent };
  }

  function respond({ path, params }: Call): Answer {
    const action = actions.get(path);
    if (!action) return { status: 404, body: { ok: false, error: "expired_url" } };
    action.responses.push(params);
    return { status: 200, body: { ok: true } };
  }

  // ── Events ──────────────────────────────────────────────────────────────────────────────────────────

  function tell(event: Params): void {
    socket.deliver("events_api", {
      token: "fakefakefakefakefakefake",
      team_id: team,
      api_app_id: app,
      event,
      type: "event_callback",
      event_id: id("Ev"),
      event_time: Math.floor(Date.now() / 1000),
      authorizations: [
        { enterprise_id: null, team_id: team, user_id: bot.user, is_bot: true, is_enterprise_install: false },
      ],
      is_ext_shared_channel: false,
    });
  }

  const placeOf = ({ id, user }: Channel, event_ts: string) => ({
    channel: id,
    channel_type: user ? "im" : "channel",
    event_ts,
  });

  function change(message: Message, difference: Params): void {
    const previous_message = { ...message.event };
    const ts = nextTs();
    const editor = message.sent ? bot.user : message.event.user;
    Object.assign(message.event, difference, { edited: { user: editor, ts } });
    const { channel, event } = message;
    const type = { type: "message", subtype: "message_changed", hidden: true };
    tell({ ...type, message: { ...event }, previous_message, ts, ...placeOf(channel, ts) });
  }

  function drop(message: Message): void {
    messages.splice(messages.indexOf(message), 1);
    const { channel, ts: deleted_ts, event: previous_message } = message;
    const ts = nextTs();
    const type = { type: "message", subtype: "message_deleted", hidden: true };
    tell({ ...type, deleted_ts, previous_message, ts, ...placeOf(channel, ts) });
  }

  // ── People ──────────────────────────────────────────────────────────────────────────────────────────

  function say({ channel: where, from, text, thread, files: given = [] }: Saying): string {
    const user = person(from);
    const channel = where === undefined ? direct(user) : channelOf(where);
    const ts = nextTs();
    const event = {
      user,
      type: "message",
      ts,
      client_msg_id: crypto.randomUUID(),
      text,
      team,
      ...(thread && { thread_ts: thread }),
      ...(given.length > 0 && { subtype: "file_share", files: given.map((file) => here.keepFile(file, user)) }),
    };
    messages.push({ channel, ts, event, sent: undefined, reactions: [] });
    const placed = { ...event, ...placeOf(channel, ts) };
    tell(placed);
    const { channel_type: _type, ...mention } = placed;
    if (!channel.user && text.includes(`<@${bot.user}>`)) tell({ ...mention, type: "app_mention" });
    return ts;
  }

  function press({ message: place, button, by }: Parameters<FakeSlack["press"]>[0]): Action {
    const message = messages.find(({ channel, ts }) => channel.id === place.channel && ts === place.ts);
    const versions = message?.sent ? [message.sent, ...message.sent.history] : [];
    const pressed = versions
      .flatMap(({ blocks }) => buttonsOf(blocks))
      .find(({ action_id, value, text }) => [action_id, value, text.text].includes(button));
    if (!message || !pressed) throw new Error(`Message ${place.ts} never had the button ${button}, or is gone.`);
    const { type, text, value, action_id = "a0", block_id } = pressed;
    const action = { type, action_id, block_id, text, ...(value && { value }), action_ts: nextTs() };
    return act("interactive", {
      type: "block_actions",
      user: { id: person(by), username: names.get(person(by)), team_id: team },
      api_app_id: app,
      token: "fakefakefakefakefakefake",
      container: { type: "message", message_ts: place.ts, channel_id: place.channel, is_ephemeral: false },
      trigger_id: `${Date.now()}.${team}.fake`,
      team: { id: team, domain: "fake" },
      enterprise: null,
      is_enterprise_install: false,
      channel: { id: message.channel.id, name: message.channel.name },
      message: message.event,
      state: { values: {} },
      actions: [action],
    });
  }

  function command({ command, text = "", by, channel: where }: Parameters<FakeSlack["command"]>[0]): Action {
    const user = person(by);
    const channel = where === undefined ? direct(user) : channelOf(where);
    return act("slash_commands", {
      token: "fakefakefakefakefakefake",
      team_id: team,
      team_domain: "fake",
      channel_id: channel.id,
      channel_name: channel.user ? "directmessage" : channel.name,
      user_id: user,
      user_name: names.get(user),
      command,
      text,
      api_app_id: app,
      is_enterprise_install: "false",
      trigger_id: `${Date.now()}.${team}.fake`,
    });
  }

  function act(kind: "interactive" | "slash_commands", payload: Params): Action {
    const path = `/actions/${team}/${actions.size + 1}/fake`;
    const response_url = `http://127.0.0.1:${server.port}${path}`;
    const action = Object.assign(socket.deliver(kind, { ...payload, response_url }), { responses: [] });
    actions.set(path, action);
    return action;
  }

  /** Whoever is not signed in gets a page to sign in on, and a 200 with it. */
  function download(path: string, given: unknown): Answer {
    const known = here.files.get(/-(F\w+)\//.exec(path)?.[1] ?? "");
    if (given !== botToken || revoked || !known) return { status: 200, body: "<!DOCTYPE html><title>Sign in</title>" };
    return { status: 200, body: Buffer.from(known.bytes), headers: { "content-type": known.file.mimetype } };
  }

  async function close(): Promise<void> {
    arrivals.close("the fake Slack was closed");
    socket.close();
    await server.close();
  }

  return {
    apiRoot: `http://127.0.0.1:${server.port}/api/`,
    botToken,
    appToken,
    team,
    bot,
    general,
    calls: server.calls,
    violations: server.violations,
    nextCall: server.nextCall,
    until: server.until,
    fault: server.fault,
    deliveries: socket.deliveries,
    get connections() {
      return socket.connections;
    },
    disconnect: socket.disconnect,
    silence: socket.silence,
    cut: socket.cut,
    redeliver: socket.redeliver,
    addChannel: (name) => here.addChannel(name),
    dm: (who) => direct(person(who)).id,
    say,
    edit: (place, text) => change(messageOf(place), { text }),
    remove: (place) => drop(messageOf(place)),
    press,
    command,
    archive: (channel) => {
      channelOf(channel).archived = true;
    },
    reactions: (place) => messageOf(place).reactions,
    revoke: () => {
      revoked = true;
      socket.disconnect("link_disabled");
    },
    sent: (channel) => sent.filter((one) => channel === undefined || one.channel === channel),
    nextMessage: (channel) => arrivals.next(channel),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function failure(status: number, retryAfter: number | undefined): Answer {
  if (status === 404) return { status: 200, body: { ok: false, error: "unknown_method" } };
  if (status === 400) return { status: 200, body: { ok: false, error: "invalid_form_data" } };
  if (status !== 429) return { status, body: "upstream connect error or disconnect/reset before headers" };
  const headers = { "retry-after": String(Math.ceil(retryAfter ?? 1)) };
  return { status, body: { ok: false, error: "ratelimited" }, headers };
}
