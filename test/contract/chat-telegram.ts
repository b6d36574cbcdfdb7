import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { createTelegram } from "../../src/chats/telegram/telegram.ts";
import { startFakeTelegram } from "../fakes/chat/telegram.ts";
import type { Rig, Spot } from "./chat.ts";

export async function rig(): Promise<Rig> {
  const telegram = await startFakeTelegram();
  const people = {
    anna: { id: 999, name: "Anna" },
    ben: { id: 1001, name: "Ben" },
    bot: { id: 77, name: "Beep", bot: true },
  };
  const ROOM = -1_001_234_567_890;
  const TOPIC = 42;
  const chats = { anna: 999, ben: 1001, room: ROOM, thread: ROOM };
  const topicOf = (spot: Spot) => (spot === "thread" ? { topic: TOPIC } : {});
  const sentTo = (spot: Spot) =>
    telegram.sent(chats[spot]).filter(({ topic }) => topic === (spot === "thread" ? TOPIC : undefined));
  const said = new Map<string, ReturnType<typeof telegram.say>>();

  // A bot can write only where somebody was; Telegram keeps it until an offset confirms it.
  for (const from of [people.anna, people.ben]) telegram.say({ from, text: "/start" });
  telegram.say({ chat: ROOM, topic: TOPIC, from: people.anna, text: "a topic" });
  const forget = get(`${telegram.apiRoot}/bot${telegram.token}/getUpdates?offset=999999999`, { agent: false });
  const [answer] = (await once(forget, "response")) as [IncomingMessage];
  await once(answer.resume(), "close");

  return {
    create: (world, but) =>
      createTelegram({
        token: but === "wrong token" ? `${telegram.token}x` : telegram.token,
        apiRoot: but === "nobody" ? "http://127.0.0.1:1" : telegram.apiRoot,
        ...world,
      }),
    variable: "TELEGRAM_BOT_TOKEN",
    secrets: [telegram.token, telegram.token.split(":")[1] ?? ""],
    people: { anna: { id: "999", name: "Anna" }, ben: { id: "1001", name: "Ben" } },
    place: (spot) => {
      if (spot === "thread") return { kind: "thread", chat: String(ROOM), thread: String(TOPIC) };
      return { kind: spot === "room" ? "group" : "dm", chat: String(chats[spot]) };
    },
    say: ({ where = "anna", from = "anna", text, mention, replyTo, file }) => {
      const us = `@${telegram.bot.username}`;
      const message = telegram.say({
        from: people[from],
        chat: chats[where],
        ...topicOf(where),
        text: mention === "first" ? `${us} ${text}` : mention === "last" ? `${text} ${us}` : text,
        ...(replyTo && { replyTo: Number(replyTo) }),
        ...(file && { document: file }),
      });
      said.set(`${where} ${message.message_id}`, message);
      return String(message.message_id);
    },
    edit: (spot, message, text) => {
      const known = said.get(`${spot} ${message}`);
      if (known) telegram.edit(known, text);
    },
    press: async ({ where, message, button, by }) => {
      const query = telegram.press({ message: { chat: chats[where], id: Number(message) }, button, by: people[by] });
      return telegram.until(() => telegram.pressAnswer(query)?.text);
    },
    command: (where, name) => {
      const text = `/${name}@${telegram.bot.username}`;
      telegram.say({ from: people.anna, chat: chats[where], ...topicOf(where), text });
    },
    sent: (spot) =>
      sentTo(spot).map(({ id, text, buttons, replyTo, deleted }) => ({
        message: String(id),
        text,
        buttons: buttons.map((row) => row.map((key) => ({ label: key.text, data: key.callback_data ?? "" }))),
        replyTo: replyTo === undefined ? undefined : String(replyTo),
        deleted,
      })),
    typed: (spot) =>
      telegram.calls.filter(({ method, params }) => method === "sendChatAction" && params.chat_id === chats[spot])
        .length,
    offered: () => {
      const call = telegram.calls.findLast(({ method }) => method === "setMyCommands");
      return ((call?.params.commands ?? []) as { command: string }[]).map(({ command }) => command);
    },
    violations: () => telegram.violations,
    limit: (seconds) => void telegram.fault("sendMessage", { status: 429, retryAfter: seconds }),
    loseAnswer: () => void telegram.fault("sendMessage", "lost"),
    hang: async () => {
      const trap = telegram.fault("sendMessage", "hang");
      await telegram.until(() => trap.hits > 0);
    },
    shut: (spot) => telegram.block(chats[spot]),
    cut: () => void telegram.fault("getUpdates", "reset", 2),
    silence: async () => {
      const trap = telegram.fault("getUpdates", "hang");
      await telegram.until(() => trap.hits > 0);
    },
    revoke: telegram.revoke,
    redeliver: async () => {
      await telegram.until(() => telegram.pending().length === 0);
      telegram.redeliver();
    },
    remembers: true,
    sendsOnce: false,
    close: telegram.close,
  };
}
