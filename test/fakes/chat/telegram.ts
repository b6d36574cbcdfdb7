// Telegram's Bot API on this machine: what a bot calls, what it gets by polling or by webhook, and the people who write
// to it. It refuses what Telegram refuses, in Telegram's words, and remembers what a client should not have sent.
import { randomBytes } from "node:crypto";
import type { Message, MessageEntity, Update } from "grammy/types";
import type { z } from "zod";
import type { Upload } from "./body.ts";
import { feeds } from "./feeds.ts";
import { type Answer, type Call, type ChatServer, type Fault, type Planted, startServer } from "./server.ts";
import { formatted, found } from "./telegram-entities.ts";
import { ACTIONS, type Button, isMethod, type Markup, type Method, PARAMS, type ParamsOf } from "./telegram-params.ts";
import { updates } from "./telegram-updates.ts";
import { bare, fileOf, type Person, type Room, type Saying, seconds, sizes, world } from "./telegram-world.ts";

type Version = { text: string; entities: MessageEntity[]; buttons: Button[][] };

/** A message of the bot, as it stands now. */
type Sent = Version & {
  chat: number;
  id: number;
  /** The number of the call that sent it. */
  call: number;
  topic: number | undefined;
  replyTo: number | undefined;
  /** What was uploaded, or the file_id or address that was given. */
  file: Upload | string | undefined;
  /** What it was before, oldest first. */
  history: Version[];
  deleted: boolean;
};

type Press = {
  message: { chat: number; id: number };
  /** Its data or its text. One that an edit has since removed can be pressed as well: people are slow. */
  button: string;
  by: Person;
  /** Telegram will no longer take an answer. */
  tooOld?: boolean;
};

export type FakeTelegram = Pick<ChatServer, "calls" | "violations" | "nextCall" | "until"> & {
  apiRoot: string;
  token: string;
  /** What a gateway is told of it, and who may talk to it. */
  env(...users: number[]): NodeJS.ProcessEnv;
  bot: { id: number; username: string };
  say(saying: Saying): Message;
  edit(message: Message, text: string): void;
  /** Gives the id of the callback query. */
  press(press: Press): string;
  /** What a press was answered with; undefined while it was not. */
  pressAnswer(query: string): ParamsOf<"answerCallbackQuery"> | undefined;
  block(user: number): void;
  unblock(user: number): void;
  /** The last confirmed updates come once more. */
  redeliver(count?: number): Update[];
  /** Updates that nobody confirmed. */
  pending(): Update[];
  /** The token is worth nothing from now on. */
  revoke(): void;
  fault(method: Method | "download", fault: Fault, times?: number): Planted;
  sent(chat?: number): Sent[];
  /** Each message to the chat is given once, in order. */
  nextMessage(chat: number): Promise<Sent>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

/** In parts, so that nobody who looks for lost secrets finds one here. Each bot has its own: of two gateways on a machine with
 *  one token the second is refused. */
const newToken = () => ["7423456789", `AAF${randomBytes(16).toString("hex")}`].join(":");
const MOST_CHARACTERS = 4096;
const MOST_CAPTION = 1024;
const MOST_DATA = 64;
const NOT_MODIFIED =
  "Bad Request: message is not modified: specified new message content and reply markup are exactly the same " +
  "as a current content and reply markup of the message";
const MOST_DOWNLOAD = 20 * 1024 * 1024;

export async function startFakeTelegram({
  token = newToken(),
  username = "hermes_test_bot",
  webhookRetryMs = 20,
} = {}): Promise<FakeTelegram> {
  const bot = { id: Number(token.split(":")[0]), is_bot: true as const, first_name: "Hermes", username };
  const { rooms, files, person, enter, nextId, store, said } = world();
  const sent: Sent[] = [];
  const arrivals = feeds<number, Sent>();
  const queries = new Map<string, { open: boolean; answer?: ParamsOf<"answerCallbackQuery"> }>();
  const commands = new Map<string, ParamsOf<"setMyCommands">["commands"]>();
  const blocked = new Set<number>();
  let revoked = false;
  let lastQuery = 4_382_000_000_000_000_000n;

  const server = await startServer({
    name: "Telegram",
    methodOf: (_verb, path) =>
      /^\/bot[^/]+\/(\w+)$/.exec(path)?.[1] ?? (/^\/file\/bot[^/]+\/./.test(path) ? "download" : undefined),
    answer,
    failure,
    limited: ({ params }) => JSON.stringify(params.chat_id ?? ""),
  });
  const queue = updates({ retryMs: webhookRetryMs, changed: server.changed });

  // ── Calls ───────────────────────────────────────────────────────────────────────────────────────────

  async function answer(call: Call): Promise<Answer> {
    const [, file, given, rest = ""] = /^\/(file\/)?bot([^/]+)\/(.+)$/.exec(call.path) ?? [];
    if (given !== token || revoked) return failure(401, undefined);
    if (file) return download(rest);
    if (!isMethod(rest)) {
      server.violations.push(`${rest} (call ${call.number}): Telegram or this fake has no such method`);
      return failure(404, undefined);
    }
    try {
      return { status: 200, body: { ok: true, result: await METHODS[rest](call) } };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.offence) server.violations.push(`${rest} (call ${call.number}): ${error.offence}`);
      return { status: error.code, body: { ok: false, error_code: error.code, description: error.message } };
    }
  }

  const METHODS: Record<Method, (call: Call) => unknown> = {
    getMe: () => ({
      ...bot,
      can_join_groups: true,
      can_read_all_group_messages: true,
      supports_inline_queries: false,
      can_connect_to_business: false,
      has_main_web_app: false,
    }),
    getUpdates: async (call) => {
      const polled = await queue.poll(read("getUpdates", call), call);
      if ("conflict" in polled) throw new Refused(409, `Conflict: ${polled.conflict}`);
      return polled;
    },
    setWebhook: (call) => {
      queue.setWebhook(read("setWebhook", call));
      return true;
    },
    deleteWebhook: (call) => {
      queue.deleteWebhook(read("deleteWebhook", call));
      return true;
    },
    getWebhookInfo: () => queue.webhookInfo(),
    setMyCommands: (call) => {
      const params = read("setMyCommands", call);
      commands.set(scopeOf(params), params.commands);
      return true;
    },
    getMyCommands: (call) => commands.get(scopeOf(read("getMyCommands", call))) ?? [],
    sendMessage: (call) => {
      const params = read("sendMessage", call);
      return keep(call, params, written(params.text, params, MOST_CHARACTERS));
    },
    sendPhoto: (call) => sendFile(call, "photo"),
    sendDocument: (call) => sendFile(call, "document"),
    editMessageText: (call) => {
      const params = read("editMessageText", call);
      const mine = own(params, "edit");
      if (mine.file) throw wrong("there is no text in the message to edit");
      const text = written(params.text, params, MOST_CHARACTERS);
      return change(mine, { ...text, buttons: buttonsOf(params.reply_markup) });
    },
    editMessageReplyMarkup: (call) => {
      const params = read("editMessageReplyMarkup", call);
      const mine = own(params, "edit");
      return change(mine, { text: mine.text, entities: mine.entities, buttons: buttonsOf(params.reply_markup) });
    },
    deleteMessage: (call) => {
      const mine = own(read("deleteMessage", call), "delete");
      mine.deleted = true;
      roomOf(mine.chat).messages.delete(mine.id);
      return true;
    },
    sendChatAction: (call) => {
      const params = read("sendChatAction", call);
      open(params.chat_id);
      if (!ACTIONS.has(params.action)) throw wrong("wrong parameter action in request");
      return true;
    },
    answerCallbackQuery: (call) => {
      const params = read("answerCallbackQuery", call);
      const query = queries.get(params.callback_query_id);
      if (!query?.open)
        throw new Refused(400, "Bad Request: query is too old and response timeout expired or query ID is invalid");
      query.open = false;
      query.answer = params;
      return true;
    },
    getFile: (call) => {
      const { file_id } = read("getFile", call);
      const file = files.find(({ id }) => id === file_id);
      if (!file) throw new Refused(400, "Bad Request: wrong file_id or the file is temporarily unavailable");
      if (file.bytes.length > MOST_DOWNLOAD) throw new Refused(400, "Bad Request: file is too big");
      return { ...fileOf(file), file_path: file.path };
    },
  };

  function read<M extends Method>(method: M, call: Call): ParamsOf<M> {
    const result = PARAMS[method].safeParse(call.params);
    if (result.success) return result.data as ParamsOf<M>;
    const problems = result.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`.trim());
    if (result.error.issues.every(({ code, path }) => code === "unrecognized_keys" && path.length === 0)) {
      // Telegram overlooks what it does not know. Whoever sends it has made a mistake all the same.
      server.violations.push(`${method} (call ${call.number}): ${problems.join("; ")}`);
      return PARAMS[method].strip().parse(call.params) as ParamsOf<M>;
    }
    throw wrong(problems.join("; "));
  }

  // ── What the bot sends ──────────────────────────────────────────────────────────────────────────────

  type Sending = z.infer<(typeof PARAMS)["sendMessage" | "sendPhoto" | "sendDocument"]>;

  function keep(call: Call, params: Sending, text: Omit<Version, "buttons">, file?: Sent["file"]): Message {
    const room = open(params.chat_id);
    const topic = params.message_thread_id;
    if (topic !== undefined && !room.topics.has(topic)) throw new Refused(400, "Bad Request: message thread not found");
    const { reply_parameters: reply } = params;
    const replied = reply && room.messages.get(reply.message_id);
    if (reply && !replied && !reply.allow_sending_without_reply)
      throw new Refused(400, "Bad Request: message to be replied not found");
    const mine: Sent = {
      ...text,
      buttons: buttonsOf(params.reply_markup),
      chat: room.chat.id,
      id: nextId(room),
      call: call.number,
      topic,
      replyTo: replied?.message_id,
      file,
      history: [],
      deleted: false,
    };
    sent.push(mine);
    arrivals.push(mine.chat, mine);
    return show(mine, {
      message_id: mine.id,
      from: bot,
      chat: room.chat,
      date: seconds(),
      ...(topic !== undefined && { message_thread_id: topic, is_topic_message: true }),
      ...(replied && { reply_to_message: bare(replied) }),
      ...(file && attached(file, call.method === "sendPhoto")),
    });
  }

  function show(mine: Sent, rest: object): Message {
    const [text, entities] = mine.file ? ["caption", "caption_entities"] : ["text", "entities"];
    const message = {
      ...rest,
      [text]: mine.text,
      [entities]: mine.entities.length > 0 ? mine.entities : undefined,
      reply_markup: mine.buttons.length > 0 ? { inline_keyboard: mine.buttons } : undefined,
    } as unknown as Message;
    roomOf(mine.chat).messages.set(mine.id, message);
    return message;
  }

  function change(mine: Sent, next: Version): Message {
    const { text, entities, buttons } = mine;
    if (JSON.stringify({ text, entities, buttons }) === JSON.stringify(next)) throw new Refused(400, NOT_MODIFIED);
    mine.history.push({ text, entities, buttons });
    Object.assign(mine, next);
    return show(mine, { ...roomOf(mine.chat).messages.get(mine.id), edit_date: seconds() });
  }

  function sendFile(call: Call, kind: "photo" | "document"): Message {
    const params = kind === "photo" ? read("sendPhoto", call) : read("sendDocument", call);
    const given = "photo" in params ? params.photo : "document" in params ? params.document : undefined;
    const file = call.files[given?.replace(/^attach:\/\//, "") ?? kind] ?? given;
    if (!file) throw wrong(`there is no ${kind} in the request`);
    return keep(call, params, written(params.caption ?? "", params, MOST_CAPTION), file);
  }

  function attached(file: Upload | string, photo: boolean): object {
    const upload = typeof file === "string" ? { name: file, bytes: Buffer.from(file) } : file;
    const stored =
      files.find(({ id }) => id === file) ?? store(photo ? "photos" : "documents", upload.name, upload.bytes);
    return photo ? { photo: sizes([stored]) } : { document: { ...fileOf(stored), file_name: upload.name } };
  }

  type Aimed = { chat_id?: number | string | undefined; message_id?: number | undefined };

  function own(params: Aimed, verb: "edit" | "delete"): Sent {
    if (params.chat_id === undefined || params.message_id === undefined)
      throw wrong("message identifier is not specified");
    const room = open(params.chat_id);
    if (!room.messages.has(params.message_id)) throw new Refused(400, `Bad Request: message to ${verb} not found`);
    const mine = sent.find(({ chat, id }) => chat === room.chat.id && id === params.message_id);
    if (!mine) throw wrong(`message can't be ${verb === "edit" ? "edited" : "deleted"}`);
    return mine;
  }

  // ── What people do ──────────────────────────────────────────────────────────────────────────────────

  function say(saying: Saying): Message {
    const message = said(saying);
    queue.push("message", message);
    return message;
  }

  function edit(message: Message, text: string): void {
    const entities = found(text);
    const { entities: _old, ...rest } = message as Message.TextMessage;
    const edited = { ...rest, text, edit_date: seconds(), ...(entities.length > 0 && { entities }) } as Message;
    roomOf(message.chat.id).messages.set(message.message_id, edited);
    queue.push("edited_message", edited);
  }

  function press({ message: { chat, id }, button, by, tooOld = false }: Press): string {
    const mine = sent.find((one) => one.chat === chat && one.id === id);
    const all = [mine?.buttons ?? [], ...(mine?.history.map(({ buttons }) => buttons) ?? [])].flat(2);
    const pressed = all.find(({ text, callback_data }) => callback_data === button || text === button);
    if (!pressed?.callback_data) throw new Error(`Message ${id} in chat ${chat} never had the button ${button}.`);
    lastQuery += 1n;
    const query = String(lastQuery);
    queries.set(query, { open: !tooOld });
    const message = roomOf(chat).messages.get(id) ?? { chat: roomOf(chat).chat, message_id: id, date: 0 };
    const chat_instance = String(BigInt(chat) * 7_919n);
    queue.push("callback_query", { id: query, from: person(by), message, chat_instance, data: pressed.callback_data });
    return query;
  }

  function membership(user: number, from: "member" | "kicked", to: "member" | "kicked"): void {
    const who = person(user);
    queue.push("my_chat_member", {
      chat: enter(user, who).chat,
      from: who,
      date: seconds(),
      old_chat_member: { user: bot, status: from },
      new_chat_member: { user: bot, status: to },
    });
  }

  function roomOf(id: number): Room {
    const room = rooms.get(id);
    if (!room) throw new Refused(400, "Bad Request: chat not found");
    return room;
  }

  /** The chat as the bot may write to it. */
  function open(id: number | string): Room {
    const room = roomOf(Number(id));
    if (blocked.has(room.chat.id)) throw new Refused(403, "Forbidden: bot was blocked by the user");
    return room;
  }

  function download(path: string): Answer {
    const file = files.find((one) => one.path === path);
    if (!file) return failure(404, undefined);
    return { status: 200, body: Buffer.from(file.bytes), headers: { "content-type": "application/octet-stream" } };
  }

  async function close(): Promise<void> {
    arrivals.close("the fake Telegram was closed");
    queue.close();
    await server.close();
  }

  const apiRoot = `http://127.0.0.1:${server.port}`;
  return {
    apiRoot,
    token,
    env: (...users) => ({
      TELEGRAM_BOT_TOKEN: token,
      TELEGRAM_API_ROOT: apiRoot,
      TELEGRAM_ALLOWED_USERS: users.join(),
    }),
    bot,
    calls: server.calls,
    violations: server.violations,
    nextCall: server.nextCall,
    until: server.until,
    fault: server.fault,
    say,
    edit,
    press,
    pressAnswer: (query) => queries.get(query)?.answer,
    block: (user) => {
      membership(user, "member", "kicked");
      blocked.add(user);
    },
    unblock: (user) => {
      blocked.delete(user);
      membership(user, "kicked", "member");
    },
    redeliver: (count = 1) => queue.redeliver(count),
    pending: () => [...queue.pending],
    revoke: () => {
      revoked = true;
      queue.endPoll();
    },
    sent: (chat) => sent.filter((one) => chat === undefined || one.chat === chat),
    nextMessage: (chat) => arrivals.next(chat),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** An answer that is no. With an offence: no client should have asked. */
class Refused extends Error {
  code: number;
  offence: string | undefined;
  constructor(code: number, description: string, offence?: string) {
    super(description);
    this.code = code;
    this.offence = offence;
  }
}

const wrong = (what: string) => new Refused(400, `Bad Request: ${what}`, what);

function written(source: string, { parse_mode }: { parse_mode?: string | undefined }, most: number) {
  if (parse_mode && !/^(HTML|MarkdownV2)$/i.test(parse_mode)) throw wrong("unsupported parse_mode");
  const mode = parse_mode ? (/html/i.test(parse_mode) ? "HTML" : "MarkdownV2") : undefined;
  const result = formatted(source, mode);
  if (typeof result === "string") throw wrong(`can't parse entities: ${result}`);
  const caption = most === MOST_CAPTION;
  if (!caption && result.text.trim() === "") throw wrong("message text is empty");
  // Telegram counts code points here, and UTF-16 units in entities.
  if (Array.from(result.text).length > most) throw wrong(`message ${caption ? "caption " : ""}is too long`);
  return result;
}

function buttonsOf(markup: Markup | undefined): Button[][] {
  const rows = markup && "inline_keyboard" in markup ? (markup.inline_keyboard as Button[][]) : [];
  for (const { text: _text, style: _style, icon_custom_emoji_id: _icon, ...action } of rows.flat()) {
    if (Object.keys(action).length !== 1) throw wrong("inline keyboard button must do exactly one thing");
    const { callback_data: data } = action;
    if (data !== undefined && (data === "" || Buffer.byteLength(data) > MOST_DATA)) throw wrong("BUTTON_DATA_INVALID");
  }
  return rows;
}

const scopeOf = ({ scope, language_code = "" }: { scope?: unknown; language_code?: string | undefined }) =>
  `${JSON.stringify(scope ?? { type: "default" })} ${language_code}`;

function failure(status: number, retryAfter: number | undefined): Answer {
  const description: Record<number, string> = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: `Too Many Requests: retry after ${Math.ceil(retryAfter ?? 1)}`,
    500: "Internal Server Error",
  };
  // What stands before the Bot API answers in HTML.
  if (status === 502 || status === 504)
    return { status, body: `<html><head><title>${status} Bad Gateway</title></head><body>nginx</body></html>` };
  const parameters = status === 429 ? { parameters: { retry_after: Math.ceil(retryAfter ?? 1) } } : {};
  return {
    status,
    body: { ok: false, error_code: status, description: description[status] ?? "Error", ...parameters },
  };
}
