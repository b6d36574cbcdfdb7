// What is Telegram's own: offsets, albums, topics, commands with names, webhooks. The rest is in test/contract/chat.ts.
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import * as fc from "fast-check";
import { Api } from "grammy";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { rendered } from "../../src/chats/telegram/html.ts";
import { createTelegram, type TelegramOptions } from "../../src/chats/telegram/telegram.ts";
import { type Chat, type ChatHealth, type Place, SendFault } from "../../src/core/chat.ts";
import { ConfigError } from "../../src/core/errors.ts";
import { type HastyClock, hastyClock, type Listener, listener, soon } from "../contract/chat.ts";
import { type FakeTelegram, startFakeTelegram } from "../fakes/chat/telegram.ts";
import { formatted } from "../fakes/chat/telegram-entities.ts";

const ANNA = { id: 999, name: "Anna", username: "anna_the_first" };
const BEN = { id: 1001, name: "Ben" };
const GROUP = -4_200_100;
const FORUM = -1_001_234_567_890;
const US = "@hermes_test_bot";
const here: Place = { kind: "dm", chat: "999" };
const group: Place = { kind: "group", chat: String(GROUP) };
const never = new AbortController().signal;
const bytes = (text: string) => new TextEncoder().encode(text);

let telegram: FakeTelegram;
let inbox: Listener;
let clock: HastyClock;
let expected: unknown[];
let chats: Chat[];
let servers: Server[];
beforeEach(async () => {
  telegram = await startFakeTelegram();
  inbox = listener();
  clock = hastyClock();
  [expected, chats, servers] = [[], [], []];
});
afterEach(async () => {
  await Promise.all(chats.map((chat) => chat.close()));
  for (const server of servers) server.close();
  await telegram.close();
  expect(telegram.violations).toEqual(expected);
});

function create(options: Partial<TelegramOptions> = {}): Chat {
  const { token, apiRoot } = telegram;
  const chat = createTelegram({ token, apiRoot, clock, log: () => {}, random: () => 1, ...options });
  chats.push(chat);
  return chat;
}
async function started(options?: Partial<TelegramOptions>): Promise<Chat> {
  const chat = create(options);
  await chat.start(inbox);
  return chat;
}
/** What the fake has no words for: it is the very message that Telegram will bring. */
const also = (message: object, more: object) => Object.assign(message, more);
const nothingPending = () => telegram.until(() => telegram.pending().length === 0);

describe("an update", () => {
  it("stays with Telegram until it is taken, and no longer", async () => {
    const gate = Promise.withResolvers<void>();
    inbox.take = ({ text }) => (text === "slow" ? gate.promise : Promise.resolve());
    await started();
    telegram.say({ from: ANNA, text: "slow" });
    telegram.say({ from: BEN, text: "quick" });
    await inbox.texts(2);
    await telegram.until(() => telegram.calls.filter(({ method }) => method === "getUpdates").length > 5);
    expect(telegram.pending().map(({ message }) => message?.text)).toEqual(["slow", "quick"]);
    gate.resolve();
    await nothingPending();
    expect(inbox.messages).toHaveLength(2);
  });

  it("that was taken at the last moment is confirmed by stop, and only that one", async () => {
    const chat = await started();
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    telegram.say({ from: ANNA, text: "taken" });
    telegram.say({ from: ANNA, text: "never begun" });
    await inbox.texts(1);
    await telegram.until(() => telegram.calls.at(-1)?.method === "getUpdates");
    const stopping = chat.stop();
    gate.resolve();
    await stopping;
    expect(telegram.pending().map(({ message }) => message?.text)).toEqual(["never begun"]);
    expect(inbox.messages.map(({ text }) => text)).toEqual(["taken"]);
  });

  it("of hundreds is heard once and in order, although a poll brings no more than a hundred", async () => {
    const gate = Promise.withResolvers<void>();
    inbox.take = ({ text }) => (text === "0" ? gate.promise : Promise.resolve());
    for (let i = 0; i < 250; i++) telegram.say({ from: ANNA, text: String(i) });
    await started();
    await telegram.until(() => telegram.calls.filter(({ method }) => method === "getUpdates").length > 4);
    gate.resolve();
    expect(await inbox.texts(250)).toEqual(Array.from({ length: 250 }, (_, i) => String(i)));
    await nothingPending();
    expect(inbox.messages).toHaveLength(250);
  });

  it("is asked for by kind, without a webhook that somebody left there", async () => {
    const api = new Api(telegram.token, { apiRoot: telegram.apiRoot });
    await api.setWebhook("http://127.0.0.1:1/old");
    await started();
    telegram.say({ from: ANNA, text: "hello" });
    expect(await inbox.texts(1)).toEqual(["hello"]);
    const asked = telegram.calls.find(({ method }) => method === "getUpdates")?.params;
    expect(asked?.allowed_updates).toEqual(["message", "edited_message", "callback_query"]);
  });

  it("goes to another process that polls: health says so, and we come back when it is gone", async () => {
    const states: ChatHealth[] = [];
    const { sleep } = hastyClock(60_000);
    const patient: typeof clock = {
      ...clock,
      sleep: (ms, signal) => {
        states.push(chat.health());
        return sleep(ms, signal);
      },
    };
    const chat = create({ clock: patient });
    await chat.start(inbox);
    const other = new Api(telegram.token, { apiRoot: telegram.apiRoot });
    const theirs = other.getUpdates({ timeout: 50 });
    await expect(theirs).rejects.toMatchObject({ error_code: 409 });
    const conflict = { connected: false, error: expect.stringContaining("Another process") };
    expect(states).toContainEqual(expect.objectContaining(conflict));
    await soon(() => expect(chat.health()).toMatchObject({ connected: true, error: "" }));
  });

  it("is not asked for while Telegram wants to be left alone", async () => {
    clock = hastyClock(500);
    telegram.fault("getUpdates", { status: 429, retryAfter: 1 });
    const chat = await started();
    expect(chat.health()).toMatchObject({ connected: false, error: expect.stringContaining("Too Many Requests") });
    telegram.say({ from: ANNA, text: "patience" });
    expect(await inbox.texts(1)).toEqual(["patience"]);
  });

  it("comes also when Telegram was out of order at the beginning", async () => {
    telegram.fault("getMe", { status: 502 });
    telegram.fault("deleteWebhook", { status: 500 });
    const chat = await started();
    expect(chat.health().connected).toBe(false);
    telegram.say({ from: ANNA, text: "at last" });
    expect(await inbox.texts(1)).toEqual(["at last"]);
    expect(chat.health()).toMatchObject({ connected: true, error: "" });
  });
});

describe("what is heard", () => {
  it.each([
    ["a command with our name, in a group", `/status${US} now`, { text: "/status now", addressed: true }],
    ["our name in other letters", "@Hermes_Test_Bot, hello", { text: "hello", addressed: true }],
    ["a command from our menu without a name", "/status", { text: "/status", addressed: true }],
    ["a command that we do not have", "/dance", { text: "/dance", addressed: false }],
    ["a command to another bot", "/status@other_bot now", { text: "/status@other_bot now", addressed: false }],
    ["a command to another bot that names us", `/ask@other_bot ${US}`, { addressed: false }],
    ["a name that begins like ours", `${US}2 hello`, { text: `${US}2 hello`, addressed: false }],
  ])("%s", async (_what, text, heard) => {
    const chat = await started();
    await chat.offer([{ name: "status", description: "What is going on" }]);
    telegram.say({ from: ANNA, chat: GROUP, text });
    await inbox.texts(1);
    expect(inbox.messages[0]).toMatchObject({ place: group, ...heard });
  });

  it("a command to another bot is not for us in a direct talk either", async () => {
    await started();
    telegram.say({ from: ANNA, text: "/start@other_bot" });
    await inbox.texts(1);
    expect(inbox.messages[0]).toMatchObject({ text: "/start@other_bot", addressed: false });
  });

  it("a mention by a link to us, also under a picture", async () => {
    await started();
    const user = { id: telegram.bot.id, is_bot: true, first_name: "Hermes" };
    telegram.say({
      from: ANNA,
      chat: GROUP,
      text: "Hermes look",
      photo: [bytes("jpg")],
      entities: [{ type: "text_mention", offset: 0, length: 6, user }],
    });
    await inbox.texts(1);
    expect(inbox.messages[0]).toMatchObject({ text: "look", addressed: true, attachments: [{ kind: "photo" }] });
  });

  it("in a topic is in a thread, in answer to somebody in a supergroup is not", async () => {
    await started();
    const topic = telegram.say({ from: ANNA, chat: FORUM, topic: 42, text: "in the topic" });
    telegram.say({ from: BEN, chat: FORUM, replyTo: topic.message_id, text: "an answer" });
    await inbox.texts(2);
    expect(inbox.messages.map(({ place }) => place)).toEqual([
      { kind: "thread", chat: String(FORUM), thread: "42" },
      { kind: "group", chat: String(FORUM) },
    ]);
  });

  it("in a topic that we made is no answer to us", async () => {
    const message = telegram.say({ from: ANNA, chat: FORUM, topic: 42, text: "hello all" });
    also(message.reply_to_message ?? {}, { from: { id: telegram.bot.id, is_bot: true, first_name: "Hermes" } });
    await started();
    await inbox.texts(1);
    expect(inbox.messages[0]?.addressed).toBe(false);
  });

  it("is nothing that a channel, a group or nobody says", async () => {
    const chat = { id: FORUM, type: "channel", title: "News" };
    also(telegram.say({ from: ANNA, chat: GROUP, text: "as the group" }), { sender_chat: chat });
    also(telegram.say({ from: ANNA, chat: FORUM, text: "in a channel" }), { chat });
    also(telegram.say({ from: ANNA, chat: GROUP, text: "" }), { new_chat_members: [BEN] });
    also(telegram.say({ from: ANNA, chat: GROUP, text: "from nobody" }), { from: undefined });
    telegram.say({ from: { ...ANNA, name: "Anna" }, chat: GROUP, text: "a person" });
    await started();
    await nothingPending();
    expect(inbox.messages.map(({ text }) => text)).toEqual(["a person"]);
  });

  it("is one message for an album that came together, with all its pictures and the words", async () => {
    const album = ["first", "second", "third"].map((name, i) =>
      telegram.say({ from: ANNA, text: i === 1 ? "our holidays" : "", photo: [bytes("small"), bytes(name)] }),
    );
    for (const picture of album) also(picture, { media_group_id: "13371337" });
    telegram.say({ from: ANNA, text: "nice?" });
    await started();
    expect(await inbox.texts(2)).toEqual(["our holidays", "nice?"]);
    expect(inbox.messages[0]?.message).toBe(String(album[0]?.message_id));
    const pictures = inbox.messages[0]?.attachments ?? [];
    const loaded = await Promise.all(pictures.map((one) => one.load(100, never)));
    expect(loaded.map((one) => Buffer.from(one).toString())).toEqual(["first", "second", "third"]);
    await nothingPending();
  });

  it("is each kind of file by its name and type, a photo in its largest size", async () => {
    const file = { file_id: "f", file_unique_id: "u", file_size: 5, duration: 1 };
    telegram.say({ from: ANNA, photo: [bytes("small"), bytes("larger")] });
    telegram.say({ from: ANNA, voice: bytes("ogg") });
    also(telegram.say({ from: ANNA }), { audio: { ...file, file_name: "song.flac", mime_type: "audio/flac" } });
    also(telegram.say({ from: ANNA }), { video: { ...file, mime_type: "video/mp4" } });
    also(telegram.say({ from: ANNA }), { animation: file, document: { ...file, file_name: "cat.gif" } });
    await started();
    await inbox.texts(5);
    const attachments = inbox.messages.flatMap((message) => message.attachments);
    expect(attachments).toMatchObject([
      { kind: "photo", name: "photo.jpg", mime: "image/jpeg", size: 6 },
      { kind: "voice", name: "voice.ogg", mime: "audio/ogg", size: 3 },
      { kind: "file", name: "song.flac", mime: "audio/flac", size: 5 },
      { kind: "file", name: "video.mp4", mime: "video/mp4", size: 5 },
      { kind: "file", name: "file", mime: "application/octet-stream", size: 5 },
    ]);
  });

  it("is a file whose size Telegram did not tell, but not more of it than allowed", async () => {
    const { document } = telegram.say({ from: ANNA, document: { name: "big.bin", bytes: bytes("x".repeat(5_000)) } });
    also(document ?? {}, { file_size: undefined });
    await started();
    await inbox.texts(1);
    const [file] = inbox.messages[0]?.attachments ?? [];
    expect(file?.size).toBe(0);
    await expect(file?.load(4_999, never)).rejects.toThrow("larger than 4999 bytes");
    expect(await file?.load(5_000, never)).toHaveLength(5_000);
  });
});

describe("a press", () => {
  const ask = { text: "Sure?", buttons: [[{ label: "Yes", data: "yes" }]] };
  const press = (id: string, tooOld = false) =>
    telegram.press({ message: { chat: ANNA.id, id: Number(id) }, button: "Yes", by: ANNA, tooOld });

  it("that is too old to be answered counts all the same", async () => {
    telegram.say({ from: ANNA, text: "hello" });
    const chat = await started();
    press(await chat.send(here, ask, "k", never), true);
    await inbox.until(() => inbox.presses.length > 0);
    await nothingPending();
    expect(chat.health()).toMatchObject({ connected: true, error: "" });
  });

  it("that was not taken is told again, and answered once", async () => {
    telegram.say({ from: ANNA, text: "hello" });
    const chat = await started();
    let failures = 2;
    inbox.answer = async () => {
      if (failures-- > 0) throw new Error("the store is full");
      return "Approved.".padEnd(300, "!");
    };
    const query = press(await chat.send(here, ask, "k", never));
    const answer = await telegram.until(() => telegram.pressAnswer(query));
    expect(answer.text).toBe("Approved.".padEnd(200, "!"));
    expect(inbox.presses).toHaveLength(3);
  });
});

describe("what we say", () => {
  beforeEach(() => telegram.say({ from: ANNA, text: "hello" }));
  const last = () => telegram.calls.findLast(({ method }) => method === "sendMessage")?.params;

  it("shows Markdown as Telegram's formatting, and no previews of links", async () => {
    await create().send(here, { text: "# Title\n**bold** _it_ ~~no~~ `a<b`\n> quote\n```ts\nlet a;\n```" }, "k", never);
    const [sent] = telegram.sent(ANNA.id);
    expect(sent?.text).toBe("Title\nbold it no a<b\nquote\nlet a;");
    expect(sent?.entities.map(({ type }) => type)).toEqual([
      "bold",
      "bold",
      "italic",
      "strikethrough",
      "code",
      "blockquote",
      "pre",
    ]);
    expect(last()).toMatchObject({ parse_mode: "HTML", link_preview_options: { is_disabled: true } });
  });

  it("goes out as plain text when it is too long with its formatting", async () => {
    const row = `| ${"wide ".repeat(20)}| x |`;
    const text = ["| name | size |", "|---|---|", row, ...Array.from({ length: 60 }, () => "| a | b |")].join("\n");
    expect(text.length).toBeLessThan(4_096);
    await create().send(here, { text }, "k", never);
    expect(telegram.sent(ANNA.id)).toMatchObject([{ text, entities: [] }]);
    expected.push(expect.stringContaining("message is too long"));
  });

  it("stands alone when what it replies to is gone", async () => {
    await create().send(here, { text: "so what", replyTo: "4711" }, "k", never);
    expect(telegram.sent(ANNA.id)).toMatchObject([{ text: "so what", replyTo: undefined }]);
  });

  it("shows in a topic that we are at work", async () => {
    telegram.say({ from: ANNA, chat: FORUM, topic: 42, text: "hello" });
    await create().typing({ kind: "thread", chat: String(FORUM), thread: "42" });
    expect((await telegram.nextCall("sendChatAction")).params).toEqual({
      chat_id: FORUM,
      message_thread_id: 42,
      action: "typing",
    });
  });

  it("offers only commands that Telegram can show", async () => {
    await create().offer([
      { name: "stop", description: "x".repeat(300) },
      { name: "Not-A-Command", description: "no" },
      { name: "new", description: "" },
    ]);
    expect((await telegram.nextCall("setMyCommands")).params.commands).toEqual([
      { command: "stop", description: "x".repeat(256) },
      { command: "new", description: "new" },
    ]);
  });

  it.each([
    ["a server error may have landed", { status: 500 }, "unknown"],
    ["a broken gateway may have landed", { status: 502 }, "unknown"],
    ["a reset may have landed", "reset", "unknown"],
    ["a token that is refused has not landed", { status: 401 }, "no"],
  ] as const)("%s", async (_what, fault, landed) => {
    telegram.fault("sendMessage", fault);
    const sending = create().send(here, { text: "hi" }, "k", never);
    await expect(sending).rejects.toBeInstanceOf(SendFault);
    await expect(sending).rejects.toMatchObject({ landed });
  });

  it("to a place that cannot be Telegram's is refused before it is sent", async () => {
    const nowhere: Place = { kind: "thread", chat: "999", thread: "general" };
    await expect(create().send(nowhere, { text: "hi" }, "k", never)).rejects.toMatchObject({ landed: "never" });
    expect(telegram.calls).toEqual([]);
  });

  it("can be taken back twice, and an edit of what is gone will never land", async () => {
    const chat = create();
    const message = await chat.send(here, { text: "oops" }, "k", never);
    await chat.remove(here, message, never);
    await chat.remove(here, message, never);
    await expect(chat.edit(here, message, { text: "x" }, never)).rejects.toMatchObject({ landed: "never" });
  });

  it("is formatting that Telegram takes, whatever the Markdown, with every word in it", () => {
    const marks = [
      "*",
      "**",
      "***",
      "_",
      "__",
      "~~",
      "`",
      "```",
      "```\n",
      "[",
      "](https://a.b/c_d)",
      "](",
      ")",
      "|",
      "> ",
      "# ",
    ];
    const others = [
      "\n",
      "\n\n",
      " ",
      "- ",
      "1. ",
      "|---|---|\n",
      "<b>",
      "</i>",
      "&amp;",
      "\\",
      "é",
      "😀",
      "https://x.y/_z_",
    ];
    const words = ["alpha", "beta", "gamma"];
    const markdown = fc.array(fc.constantFrom(...marks, ...others, ...words), { maxLength: 60 });
    fc.assert(
      fc.property(markdown, (pieces) => {
        const text = pieces.join("");
        fc.pre(!/^\s{0,3}(`{3,}|~{3,}).*\w/m.test(text)); // words behind a fence are its language
        const { html } = rendered(text);
        const shown = formatted(html, "HTML");
        if (typeof shown === "string") throw new Error(`${shown}: ${html}`);
        const count = (whole: string) => words.map((word) => whole.split(word).length);
        expect(count(shown.text)).toEqual(count(text));
      }),
      { numRuns: 1_500, seed: 1 },
    );
  });
});

describe("a webhook", () => {
  const SECRET = "a-secret-of-some-length";
  type Receive = Parameters<NonNullable<TelegramOptions["webhook"]>["listen"]>[0];
  let receive: Receive | undefined;
  let url: string;

  beforeEach(async () => {
    receive = undefined;
    const server = createServer((asked, response) => {
      void (async () => {
        const { status, body } = receive ? await receive(await read(asked), asked.headers) : { status: 503, body: {} };
        response.writeHead(status, { connection: "close" }).end(JSON.stringify(body));
      })();
    });
    servers.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/telegram`;
  });
  const hooked = (secret = SECRET) => ({
    webhook: { url, secret, listen: (given: Receive) => void (receive = given) },
  });

  async function read(asked: IncomingMessage): Promise<Buffer> {
    const chunks: Buffer[] = [];
    for await (const chunk of asked) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  }
  async function post(body: string, headers: Record<string, string>): Promise<number> {
    const asked = request(url, { method: "POST", agent: false, headers });
    asked.end(body);
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    answer.resume();
    return answer.statusCode ?? 0;
  }

  it("is told where we are, brings what is said, and is answered once that is taken", async () => {
    const chat = await started(hooked());
    expect(telegram.calls.find(({ method }) => method === "setWebhook")?.params).toEqual({
      url,
      secret_token: SECRET,
      allowed_updates: ["message", "edited_message", "callback_query"],
    });
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    telegram.say({ from: ANNA, text: "hello" });
    expect(await inbox.texts(1)).toEqual(["hello"]);
    expect(telegram.pending()).toHaveLength(1);
    gate.resolve();
    await nothingPending();
    expect(chat.health()).toMatchObject({ connected: true, error: "" });
    expect(telegram.calls.some(({ method }) => method === "getUpdates")).toBe(false);
  });

  it("that Telegram repeats is not told again", async () => {
    await started(hooked());
    telegram.say({ from: ANNA, text: "once" });
    await nothingPending();
    telegram.redeliver();
    telegram.say({ from: ANNA, text: "after" });
    expect(await inbox.texts(2)).toEqual(["once", "after"]);
  });

  it.each([
    ["without the secret", {}],
    ["with another secret", { "x-telegram-bot-api-secret-token": "another-secret-of-length" }],
    ["with the beginning of the secret", { "x-telegram-bot-api-secret-token": SECRET.slice(0, -1) }],
  ])("that is posted %s is refused", async (_how, headers) => {
    await started(hooked());
    telegram.say({ from: ANNA, text: "real" });
    await nothingPending();
    const update = JSON.stringify({ ...telegram.redeliver()[0], update_id: 1 });
    expect(await post(update, headers)).toBe(401);
    expect(await inbox.texts(1)).toEqual(["real"]);
  });

  it("that is no update is refused", async () => {
    await started(hooked());
    const headers = { "x-telegram-bot-api-secret-token": SECRET };
    for (const body of ["", "{", "[]", '{"update_id":"7"}']) expect(await post(body, headers)).toBe(400);
  });

  it("brings again what was not taken before we stopped", async () => {
    const chat = await started(hooked());
    inbox.take = () => Promise.reject(new Error("the store is full"));
    telegram.say({ from: ANNA, text: "keep it" });
    await inbox.texts(1);
    await chat.stop();
    expect(telegram.pending()).toHaveLength(1);
    inbox.take = async () => {};
    await started(hooked());
    await nothingPending();
    expect(inbox.messages.at(-1)?.text).toBe("keep it");
  });

  it("that somebody took away is put back", async () => {
    clock = hastyClock(60_000);
    await started(hooked());
    const api = new Api(telegram.token, { apiRoot: telegram.apiRoot });
    await api.deleteWebhook();
    telegram.say({ from: ANNA, text: "where are you?" });
    expect(await inbox.texts(1)).toEqual(["where are you?"]);
  });

  it("needs a secret that nobody guesses", async () => {
    for (const secret of ["", "short", "with spaces in between it"])
      await expect(create(hooked(secret)).start(inbox)).rejects.toBeInstanceOf(ConfigError);
    expect(receive).toBeUndefined();
  });
});
