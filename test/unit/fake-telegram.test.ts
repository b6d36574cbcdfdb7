// That the fake speaks Telegram as grammy does, and does to a bot what Telegram does.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Api, Bot, GrammyError, HttpError, InlineKeyboard, InputFile, webhookCallback } from "grammy";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FakeTelegram, startFakeTelegram } from "../fakes/chat/telegram.ts";

const ANNA = { id: 999, name: "Anna", username: "anna_the_first" };
const BEN = { id: 1001, name: "Ben" };
const GROUP = { id: -4_200_100, title: "Planning" };
const FORUM = { id: -1_001_234_567_890, title: "Forum" };

let telegram: FakeTelegram;
let api: Api;
let expected: unknown[];
const bots: Bot[] = [];
const servers: Server[] = [];
beforeEach(async () => {
  expected = [];
  telegram = await startFakeTelegram();
  api = client();
});
afterEach(async () => {
  await Promise.all(bots.splice(0).map((bot) => bot.stop().catch(() => {})));
  for (const server of servers.splice(0)) server.close();
  await telegram.close();
  expect(telegram.violations).toEqual(expected);
});

const client = (token = telegram.token) => new Api(token, { apiRoot: telegram.apiRoot });

function newBot(): Bot {
  const bot = new Bot(telegram.token, { client: { apiRoot: telegram.apiRoot } });
  bots.push(bot);
  return bot;
}

/** Resolves once the bot waits for updates; what becomes of its polling is the promise inside. */
async function polling(bot: Bot): Promise<{ over: Promise<void> }> {
  const over = bot.start();
  over.catch(() => {});
  await telegram.nextCall("getUpdates");
  return { over };
}

const offence = (text: string | RegExp) => expected.push(expect.stringMatching(text));
const refused = (code: number, description: string | RegExp) =>
  expect.objectContaining({ error_code: code, description: expect.stringMatching(description) });

describe("updates", () => {
  it("reach a bot that polls, and its reply reaches the chat", async () => {
    const bot = newBot();
    bot.command("start", (ctx) => ctx.reply(`Welcome, ${ctx.from?.first_name}`));
    await polling(bot);
    telegram.say({ from: ANNA, text: "/start now" });
    expect(await telegram.nextMessage(ANNA.id)).toMatchObject({ text: "Welcome, Anna", chat: 999, history: [] });
    await telegram.until(() => telegram.pending().length === 0);
  });

  it("stay until a higher offset confirms them, so a bot that died gets them again", async () => {
    telegram.say({ from: ANNA, text: "one" });
    telegram.say({ from: ANNA, text: "two" });
    const first = await api.getUpdates({ limit: 1 });
    expect(await api.getUpdates({ limit: 1 })).toEqual(first);
    const id = first[0]?.update_id ?? 0;
    expect(await api.getUpdates({ offset: id + 1 })).toMatchObject([{ update_id: id + 1, message: { text: "two" } }]);
    expect(telegram.pending()).toHaveLength(1);
    expect(await api.getUpdates({ offset: id + 2 })).toEqual([]);
    expect(telegram.pending()).toEqual([]);
  });

  it("can be asked for from the end", async () => {
    for (const text of ["one", "two", "three"]) telegram.say({ from: ANNA, text });
    expect(await api.getUpdates({ offset: -1 })).toMatchObject([{ message: { text: "three" } }]);
    expect(telegram.pending()).toHaveLength(1);
  });

  it("come once more under their old id when Telegram repeats itself", async () => {
    telegram.say({ from: ANNA, text: "once" });
    const [update] = await api.getUpdates();
    const next = (update?.update_id ?? 0) + 1;
    const waiting = api.getUpdates({ offset: next, timeout: 30 });
    await telegram.until(() => telegram.pending().length === 0);
    telegram.redeliver();
    expect(await waiting).toEqual([update]);
    expect(await api.getUpdates({ offset: next })).toEqual([]);
  });

  it("of kinds that were not asked for do not come", async () => {
    await api.getUpdates({ allowed_updates: ["callback_query"] });
    telegram.say({ from: ANNA, text: "unheard" });
    expect(await api.getUpdates()).toEqual([]);
    await api.getUpdates({ allowed_updates: [] });
    telegram.say({ from: ANNA, text: "heard" });
    expect(await api.getUpdates()).toMatchObject([{ message: { text: "heard" } }]);
  });

  it("end an empty poll after its time", async () => {
    expect(await api.getUpdates({ timeout: 1 })).toEqual([]);
  });

  it("go to the newer of two pollers; the older one gets a conflict and ends", async () => {
    const older = newBot();
    const { over } = await polling(older);
    const newer = newBot();
    const text = new Promise((resolve) => newer.on("message:text", (ctx) => resolve(ctx.message.text)));
    await polling(newer);
    await expect(over).rejects.toMatchObject(refused(409, "terminated by other getUpdates request"));
    telegram.say({ from: ANNA, text: "who is there?" });
    expect(await text).toBe("who is there?");
  });

  it("of an edit carry the new text", async () => {
    const message = telegram.say({ from: ANNA, text: "helo" });
    telegram.edit(message, "hello @ben_is_here");
    const [, edited] = await api.getUpdates();
    expect(edited?.edited_message).toMatchObject({
      message_id: message.message_id,
      text: "hello @ben_is_here",
      edit_date: expect.any(Number),
      entities: [{ type: "mention", offset: 6, length: 12 }],
    });
  });
});

describe("a webhook", () => {
  async function receiver(bot: Bot, failures: number): Promise<string> {
    const handle = webhookCallback(bot, "http", { secretToken: "s3cret" });
    let left = failures;
    const server = createServer((request, response) => {
      if (left-- > 0) response.writeHead(500).end();
      else void handle(request, response);
    });
    servers.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  }

  it("gets updates in order, with its secret, until it says 2xx", async () => {
    const bot = newBot();
    bot.on("message:text", (ctx) => ctx.reply(ctx.message.text.toUpperCase()));
    const url = await receiver(bot, 2);
    await api.setWebhook(url, { secret_token: "s3cret" });
    telegram.say({ from: ANNA, text: "one" });
    telegram.say({ from: ANNA, text: "two" });
    expect(await telegram.nextMessage(999)).toMatchObject({ text: "ONE" });
    expect(await telegram.nextMessage(999)).toMatchObject({ text: "TWO" });
    await telegram.until(() => telegram.pending().length === 0);
    expect(await api.getWebhookInfo()).toMatchObject({
      url,
      pending_update_count: 0,
      last_error_message: "Wrong response from the webhook: 500 Internal Server Error",
    });
  });

  it("keeps others from polling, until it is deleted", async () => {
    await api.setWebhook("http://127.0.0.1:9/nobody");
    await expect(api.getUpdates()).rejects.toMatchObject(refused(409, "webhook is active"));
    telegram.say({ from: ANNA, text: "kept" });
    await api.deleteWebhook();
    expect(await api.getUpdates()).toMatchObject([{ message: { text: "kept" } }]);
  });

  it("without the secret is not believed", async () => {
    const bot = newBot();
    bot.on("message", (ctx) => ctx.reply("never"));
    await api.setWebhook(await receiver(bot, 0), { secret_token: "another" });
    const [server] = servers;
    telegram.say({ from: ANNA, text: "hello" });
    for (const _tried of ["first", "again"]) await once(server as Server, "request");
    expect(await api.getWebhookInfo()).toMatchObject({ last_error_message: expect.stringContaining("401") });
    expect(telegram.sent()).toEqual([]);
  });
});

describe("what people say", () => {
  it("in a group says who, where, and marks commands and mentions", async () => {
    telegram.say({ from: BEN, chat: GROUP, text: `/status@${telegram.bot.username} please` });
    const [update] = await api.getUpdates();
    expect(update?.message).toMatchObject({
      from: { id: 1001, first_name: "Ben", is_bot: false },
      chat: { id: GROUP.id, type: "group", title: "Planning" },
      entities: [{ type: "bot_command", offset: 0, length: 8 + telegram.bot.username.length }],
    });
  });

  it("in a topic carries its thread, which the bot can answer in", async () => {
    telegram.say({ from: BEN, chat: FORUM, topic: 42, text: "in the topic" });
    const [update] = await api.getUpdates();
    expect(update?.message).toMatchObject({
      chat: { type: "supergroup", is_forum: true },
      message_thread_id: 42,
      is_topic_message: true,
      reply_to_message: { message_id: 42, forum_topic_created: {} },
    });
    await api.sendMessage(FORUM.id, "here", { message_thread_id: 42 });
    expect(await telegram.nextMessage(FORUM.id)).toMatchObject({ topic: 42, text: "here" });
    await expect(api.sendMessage(FORUM.id, "there", { message_thread_id: 43 })).rejects.toMatchObject(
      refused(400, "message thread not found"),
    );
  });

  it("as a reply in a supergroup has a thread that is no topic", async () => {
    const { message_id } = telegram.say({ from: BEN, chat: FORUM, text: "root" });
    const mine = await api.sendMessage(FORUM.id, "answer", { reply_parameters: { message_id } });
    expect(mine).toMatchObject({ reply_to_message: { message_id, text: "root" } });
    telegram.say({ from: ANNA, chat: FORUM, text: "to the bot", replyTo: mine.message_id });
    const reply = (await api.getUpdates()).at(-1)?.message;
    expect(reply).toMatchObject({ message_thread_id: mine.message_id, reply_to_message: { from: { is_bot: true } } });
    expect(reply?.is_topic_message).toBeUndefined();
  });

  it("with a photo, a voice or a document can be downloaded", async () => {
    const bytes = (text: string) => new TextEncoder().encode(text);
    telegram.say({ from: ANNA, text: "look", photo: [bytes("small"), bytes("larger")] });
    telegram.say({ from: ANNA, voice: bytes("ogg") });
    telegram.say({ from: ANNA, document: { name: "plan.txt", type: "text/plain", bytes: bytes("a plan") } });
    const messages = (await api.getUpdates()).map(({ message }) => message);
    expect(messages[0]).toMatchObject({ caption: "look", photo: [{ width: 800 }, { width: 1280, file_size: 6 }] });
    expect(messages[1]).toMatchObject({ voice: { mime_type: "audio/ogg" } });
    expect(messages[2]).toMatchObject({ document: { file_name: "plan.txt", mime_type: "text/plain" } });
    const { file_path } = await api.getFile(messages[2]?.document?.file_id ?? "");
    const response = await fetch(`${telegram.apiRoot}/file/bot${telegram.token}/${file_path}`);
    expect(await response.text()).toBe("a plan");
    await expect(api.getFile("nonsense")).rejects.toMatchObject(refused(400, "wrong file_id"));
  });
});

describe("what a bot sends", () => {
  beforeEach(() => telegram.say({ from: ANNA, text: "hello" }));

  it("is refused for a wrong token, an unknown chat and somebody who blocked it", async () => {
    await expect(client("1:wrong").getMe()).rejects.toMatchObject(refused(401, "Unauthorized"));
    await expect(api.sendMessage(5, "hello?")).rejects.toMatchObject(refused(400, "chat not found"));
    telegram.block(ANNA.id);
    await expect(api.sendMessage(ANNA.id, "hello?")).rejects.toMatchObject(refused(403, "bot was blocked by the user"));
    telegram.unblock(ANNA.id);
    await api.sendMessage(ANNA.id, "welcome back");
    const states = (await api.getUpdates()).flatMap((update) => update.my_chat_member?.new_chat_member.status ?? []);
    expect(states).toEqual(["kicked", "member"]);
  });

  it("is refused once its token is revoked, in the middle of a poll", async () => {
    const { over } = await polling(newBot());
    telegram.revoke();
    await expect(over).rejects.toMatchObject(refused(401, "Unauthorized"));
  });

  it("may have 4,096 characters, counted as code points after formatting", async () => {
    await api.sendMessage(ANNA.id, "😀".repeat(4096));
    await api.sendMessage(ANNA.id, `<b>${"x".repeat(4096)}</b>`, { parse_mode: "HTML" });
    await expect(api.sendMessage(ANNA.id, "x".repeat(4097))).rejects.toMatchObject(refused(400, "message is too long"));
    await expect(api.sendMessage(ANNA.id, " \n")).rejects.toMatchObject(refused(400, "message text is empty"));
    offence("message is too long");
    offence("message text is empty");
  });

  it.each([
    ['<b>bold</b> &lt;1 &amp; 2&gt; <a href="https://x.y">link</a>', "bold <1 & 2> link", ["bold", "text_link"]],
    ['<pre><code class="language-ts">a &lt; b</code></pre>', "a < b", ["pre"]],
    ["<i>ü<u>😀</u></i>", "ü😀", ["italic", "underline"]],
  ])("in HTML is shown without its tags: %s", async (html, text, types) => {
    const { entities } = await api.sendMessage(ANNA.id, html, { parse_mode: "HTML" });
    expect(telegram.sent(ANNA.id)).toMatchObject([{ text }]);
    expect(entities?.map(({ type }) => type)).toEqual(types);
  });

  it.each([
    ["*bold* _it_ __under__ ~no~ ||sp|| `a.b` \\. [a link](https://x.y/a)", "bold it under no sp a.b . a link", 7],
    ["```ts\nlet a = 1.0;\n```", "let a = 1.0;\n", 1],
    [">one\n>two\nthree", "one\ntwo\nthree", 1],
  ])("in MarkdownV2 is shown without its marks: %s", async (markdown, text, count) => {
    const { entities } = await api.sendMessage(ANNA.id, markdown, { parse_mode: "MarkdownV2" });
    expect(telegram.sent(ANNA.id)).toMatchObject([{ text }]);
    expect(entities).toHaveLength(count);
  });

  it.each([
    ["HTML", "<b>bold", 'Can\'t find end tag corresponding to start tag "b"'],
    ["HTML", "ü <b>bold</i>", 'Unmatched end tag at byte offset 10, expected "</b>", found "</i>"'],
    ["HTML", "1 < 2", 'Unsupported start tag "" at byte offset 2'],
    ["HTML", "<div>x</div>", 'Unsupported start tag "div" at byte offset 0'],
    ["HTML", "x</b>", "Unexpected end tag at byte offset 1"],
    ["MarkdownV2", "*bold", "Can't find end of Bold entity at byte offset 0"],
    ["MarkdownV2", "The end.", "Character '.' is reserved and must be escaped with the preceding '\\'"],
    ["MarkdownV2", "```\ncode", "Can't find end of Pre entity at byte offset 0"],
  ] as const)("in broken %s is refused: %s", async (parse_mode, text, why) => {
    const error = await api.sendMessage(ANNA.id, text, { parse_mode }).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(GrammyError);
    expect(error).toMatchObject({ error_code: 400, description: `Bad Request: can't parse entities: ${why}` });
    expect(telegram.sent()).toEqual([]);
    offence("can't parse entities");
  });

  it("is edited with its history kept, and not when nothing changes", async () => {
    const { message_id } = await api.sendMessage(ANNA.id, "thinking");
    await api.editMessageText(ANNA.id, message_id, "still thinking");
    await api.editMessageText(ANNA.id, message_id, "<b>done</b>", { parse_mode: "HTML" });
    await expect(api.editMessageText(ANNA.id, message_id, "<b>done</b>", { parse_mode: "HTML" })).rejects.toMatchObject(
      refused(400, "message is not modified"),
    );
    expect(telegram.sent(ANNA.id)).toMatchObject([
      { id: message_id, text: "done", history: [{ text: "thinking" }, { text: "still thinking" }] },
    ]);
    await expect(api.editMessageText(ANNA.id, 7, "x")).rejects.toMatchObject(refused(400, "message to edit not found"));
    await api.deleteMessage(ANNA.id, message_id);
    expect(telegram.sent(ANNA.id)).toMatchObject([{ deleted: true }]);
    await expect(api.deleteMessage(ANNA.id, message_id)).rejects.toMatchObject(
      refused(400, "message to delete not found"),
    );
  });

  it("cannot edit what somebody else wrote", async () => {
    const { message_id } = telegram.say({ from: ANNA, text: "mine" });
    await expect(api.editMessageText(ANNA.id, message_id, "x")).rejects.toMatchObject(
      refused(400, "message can't be edited"),
    );
    offence("can't be edited");
  });

  it("may be a file", async () => {
    await api.sendDocument(ANNA.id, new InputFile(Buffer.from("report"), "report.txt"), { caption: "as asked" });
    const [document] = telegram.sent(ANNA.id);
    expect(document).toMatchObject({ text: "as asked", file: { name: "report.txt", bytes: Buffer.from("report") } });
    const { photo } = await api.sendPhoto(ANNA.id, new InputFile(Buffer.from("jpg"), "a.jpg"));
    expect(photo).toHaveLength(1);
    expect(await api.sendPhoto(ANNA.id, photo[0]?.file_id ?? "")).toMatchObject({ photo: [{ file_size: 3 }] });
  });

  it("may be a form as well as JSON", async () => {
    const url = `${telegram.apiRoot}/bot${telegram.token}/sendMessage`;
    const fields = {
      chat_id: "999",
      text: "42",
      reply_markup: '{"inline_keyboard":[[{"text":"A","callback_data":"a"}]]}',
    };
    const form = new FormData();
    for (const [key, value] of Object.entries(fields)) form.set(key, value);
    for (const body of [new URLSearchParams(fields), form])
      expect(await (await fetch(url, { method: "POST", body })).json()).toMatchObject({ ok: true });
    expect(telegram.sent(999)).toMatchObject([{ text: "42", buttons: [[{ text: "A" }]] }, { text: "42" }]);
  });

  it("can be an action, or a list of commands", async () => {
    await api.sendChatAction(ANNA.id, "typing");
    expect((await telegram.nextCall("sendChatAction")).params).toMatchObject({ chat_id: 999, action: "typing" });
    const commands = [{ command: "stop", description: "Stop this turn" }];
    await api.setMyCommands(commands);
    expect(await api.getMyCommands()).toEqual(commands);
    expect(await api.getMyCommands({ scope: { type: "all_group_chats" } })).toEqual([]);
    await expect(api.setMyCommands([{ command: "Stop!", description: "x" }])).rejects.toMatchObject({
      error_code: 400,
    });
    offence("commands.0.command");
  });

  it("is watched for parameters and methods that do not exist", async () => {
    const odd = { chat_id: ANNA.id, text: "x", replyTo: 1 };
    await api.raw.sendMessage(odd);
    expect(telegram.sent(ANNA.id)).toHaveLength(1);
    await expect((api.raw as unknown as { sendTelegram(p: object): Promise<void> }).sendTelegram({})).rejects.toThrow();
    offence("Unrecognized key.*replyTo");
    offence("no such method");
  });
});

describe("buttons", () => {
  const ASK = new InlineKeyboard().text("Yes", "yes:1").text("No", "no:1");
  beforeEach(() => telegram.say({ from: ANNA, text: "hello" }));

  it("are pressed by anybody, answered once, and taken away by an edit", async () => {
    const bot = newBot();
    bot.on("callback_query:data", async (ctx) => {
      await ctx.answerCallbackQuery(`${ctx.from.first_name} said ${ctx.callbackQuery.data}`);
      await ctx.editMessageText("Decided.");
    });
    await polling(bot);
    const { message_id: id } = await api.sendMessage(ANNA.id, "Sure?", { reply_markup: ASK });
    const query = telegram.press({ message: { chat: ANNA.id, id }, button: "Yes", by: BEN });
    const [message] = await telegram.until(
      () => telegram.sent().some(({ text }) => text === "Decided.") && telegram.sent(),
    );
    expect(telegram.pressAnswer(query)).toMatchObject({ text: "Ben said yes:1" });
    expect(message).toMatchObject({ buttons: [], history: [{ text: "Sure?", buttons: ASK.inline_keyboard }] });
    await expect(api.answerCallbackQuery(query)).rejects.toMatchObject(refused(400, "query is too old"));
  });

  it("that an edit took away can still be pressed by slow people, and answered too late", async () => {
    const { message_id: id } = await api.sendMessage(ANNA.id, "Sure?", { reply_markup: ASK });
    await api.editMessageReplyMarkup(ANNA.id, id);
    const query = telegram.press({ message: { chat: ANNA.id, id }, button: "no:1", by: ANNA, tooOld: true });
    const pressed = (await api.getUpdates()).at(-1)?.callback_query;
    expect(pressed).toMatchObject({ id: query, data: "no:1", message: { message_id: id, text: "Sure?" } });
    await expect(api.answerCallbackQuery(query)).rejects.toMatchObject(refused(400, "query is too old"));
    expect(() => telegram.press({ message: { chat: ANNA.id, id }, button: "Maybe", by: ANNA })).toThrow("never had");
  });

  it("carry at most 64 bytes", async () => {
    const with_ = (data: string) => ({ reply_markup: new InlineKeyboard().text("x", data) });
    await api.sendMessage(ANNA.id, "fits", with_("ü".repeat(32)));
    await expect(api.sendMessage(ANNA.id, "not", with_("ü".repeat(33)))).rejects.toMatchObject(
      refused(400, "BUTTON_DATA_INVALID"),
    );
    offence("BUTTON_DATA_INVALID");
  });
});

describe("faults", () => {
  beforeEach(() => telegram.say({ from: ANNA, text: "hello" }));
  const send = (text = "hi") => api.sendMessage(ANNA.id, text);
  const impatient = "before the rate limit was over";

  it("429 says how long to wait, and who does not wait is seen", async () => {
    telegram.fault("sendMessage", { status: 429, retryAfter: 1 });
    await expect(send()).rejects.toMatchObject({ error_code: 429, parameters: { retry_after: 1 } });
    await new Promise((resolve) => setTimeout(resolve, 200));
    await expect(send()).rejects.toMatchObject({ error_code: 429 });
    telegram.say({ from: BEN, text: "another chat" });
    await api.sendMessage(BEN.id, "is not limited");
    await new Promise((resolve) => setTimeout(resolve, 800));
    await send("patient");
    expect(telegram.sent().map(({ text }) => text)).toEqual(["is not limited", "patient"]);
    offence(impatient);
  });

  it("500 is Telegram's own, 502 is HTML, each as often as asked for", async () => {
    telegram.fault("sendMessage", { status: 500 }, 2);
    telegram.fault("sendMessage", { status: 502 });
    await expect(send()).rejects.toMatchObject(refused(500, "Internal Server Error"));
    await expect(send()).rejects.toMatchObject({ error_code: 500 });
    await expect(send()).rejects.toBeInstanceOf(HttpError);
    await send();
    expect(telegram.sent()).toHaveLength(1);
  });

  it("a reset comes before the message was taken, a lost answer after", async () => {
    telegram.fault("sendMessage", "reset");
    await expect(send("first")).rejects.toBeInstanceOf(HttpError);
    expect(telegram.sent()).toEqual([]);
    telegram.fault("sendMessage", "lost");
    await expect(send("second")).rejects.toBeInstanceOf(HttpError);
    expect(telegram.sent()).toMatchObject([{ text: "second" }]);
    expect(await telegram.calls.at(-1)?.answered).toBeUndefined();
  });

  it("a call hangs until it is released, and is forgotten when its client gave up", async () => {
    const trap = telegram.fault("sendMessage", "hang", 2);
    const patient = send("patient");
    const impatience = new AbortController();
    // grammy's types want the signal of another library.
    const given = api.sendMessage(ANNA.id, "given up", {}, impatience.signal as never);
    await telegram.until(() => trap.hits === 2);
    impatience.abort();
    await expect(given).rejects.toThrow();
    expect(await telegram.calls.find(({ params }) => params.text === "given up")?.answered).toBeUndefined();
    trap.release();
    await patient;
    expect(telegram.sent()).toMatchObject([{ text: "patient" }]);
  });

  it("an answer can be late although the message is there", async () => {
    const trap = telegram.fault("sendMessage", "late");
    const sending = send("early");
    expect(await telegram.nextMessage(ANNA.id)).toMatchObject({ text: "early" });
    trap.release();
    expect(await sending).toMatchObject({ text: "early" });
  });
});
