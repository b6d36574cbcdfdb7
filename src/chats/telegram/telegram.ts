// Telegram, by long polling or by webhook. We poll ourselves: grammy's own loop confirms a batch before it is durable.

import type { Update } from "grammy/types";
import {
  type Button,
  type Chat,
  type InboundHandler,
  type OutboundMessage,
  type Place,
  SendFault,
} from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { within } from "../../core/wait.ts";
import type { Receive } from "../shared/channel.ts";
import { createHealth } from "../shared/health.ts";
import { type End, keepConnected } from "../shared/reconnect.ts";
import { openApi, TelegramFault } from "./api.ts";
import { rendered } from "./html.ts";
import type { UpdateReader } from "./inbound.ts";
import { createIntake, type Intake } from "./intake.ts";
import { hookOf } from "./webhook.ts";

export type TelegramOptions = Ambient & {
  token: string;
  apiRoot?: string | undefined;
  /** Telegram posts updates to `url`; without it we poll. */
  webhook?: Webhook | undefined;
  random: Random;
};
/** `listen` is given what answers the posts to `url`; no port is opened here. */
type Webhook = { url: string; secret: string; listen(receive: Receive): void };

const PLATFORM = "telegram";
const API_ROOT = "https://api.telegram.org";
const ALLOWED = ["message", "edited_message", "callback_query"] as const;
const MOST_UPDATES = 100;
const POLL_SECONDS = 30;
/** A poll that takes longer than it may is dead, whatever TCP says. */
const GRACE_MS = 15_000;
/** While an update is not taken yet, a poll returns at once with it: the pause between such polls. */
const LOOK_MS = 1_000;
const WATCH_MS = 60_000;
const CONFLICT_MS = 30_000;
const CONFIRM_MS = 3_000;
const SHOW_MS = 5_000;
/** An answer to a press is cut there by Telegram. */
const LONGEST_ANSWER = 200;

export function createTelegram({ token, apiRoot = API_ROOT, webhook, clock, log, random }: TelegramOptions): Chat {
  const health = createHealth(PLATFORM, { clock, log });
  const { alive, changed } = health;
  const api = openApi({ token, apiRoot, clock, answered: alive });
  const line = keepConnected({ platform: PLATFORM, clock, log, random, connect, changed });
  const offered = new Set<string>();
  const reader: UpdateReader = { me: { id: 0, username: "" }, offered, load: api.load };
  let intake: Intake | null = null;
  let confirmed: number | undefined;

  // ── Inbound ─────────────────────────────────────────────────────────────────────────────────────────

  async function start(handler: InboundHandler): Promise<void> {
    if (webhook) webhook.listen(hookOf(webhook.secret, { clock, take }));
    intake = createIntake({ clock, log, random, handler, reader, answer });
    await line.start();
  }

  async function connect(onState: (connected: boolean) => void, signal: AbortSignal): Promise<End> {
    try {
      reader.me = await api.call("getMe", undefined, { signal });
      if (webhook) await hang(webhook, signal);
      // If a webhook is still set, Telegram gives nothing to a poll.
      else await api.call("deleteWebhook", {}, { signal });
      if (!webhook) void intake?.add(await ask(0, { signal }));
      onState(true);
      while (true) await (webhook ? watch(webhook, signal) : poll(signal));
    } catch (error) {
      const fault = error instanceof TelegramFault ? error : new TelegramFault(0, "unknown", messageOf(error));
      const end = endOf(fault);
      const wait = fault.code === 409 ? CONFLICT_MS : fault.retryAfter;
      if (wait !== undefined && !signal.aborted) {
        onState(false);
        changed(false, end.why);
        await clock.sleep(wait, signal);
      }
      return end;
    }
  }

  async function poll(signal: AbortSignal): Promise<void> {
    void intake?.add(await ask(POLL_SECONDS, { signal, ms: POLL_SECONDS * 1_000 + GRACE_MS }));
    await within(clock, LOOK_MS, Promise.resolve(intake?.idle()), signal);
  }

  async function ask(timeout: number, limits: { signal?: AbortSignal; ms?: number }): Promise<Update[]> {
    const offset = intake?.offset();
    const asked = { limit: MOST_UPDATES, timeout, allowed_updates: ALLOWED, ...(offset !== undefined && { offset }) };
    const updates = await api.call("getUpdates", asked, limits);
    confirmed = offset;
    return updates;
  }

  function answer(query: string, text: string): void {
    const shown = { callback_query_id: query, text: text.slice(0, LONGEST_ANSWER) };
    const sending = api.call("answerCallbackQuery", shown, { ms: SHOW_MS });
    sending.catch((error: unknown) => log("debug", "chat.press_unanswered", fieldsOf(error)));
  }

  // ── Webhook ─────────────────────────────────────────────────────────────────────────────────────────

  async function take(update: Update): Promise<boolean> {
    alive();
    return intake ? intake.add([update]) : false;
  }

  async function hang({ url, secret }: Webhook, signal: AbortSignal): Promise<void> {
    await api.call("setWebhook", { url, secret_token: secret, allowed_updates: ALLOWED }, { signal });
  }

  /** Whether Telegram still knows where we are, and reaches us. */
  async function watch(hook: Webhook, signal: AbortSignal): Promise<void> {
    await clock.sleep(WATCH_MS, signal);
    const info = await api.call("getWebhookInfo", undefined, { signal });
    if (info.url !== hook.url) await hang(hook, signal);
    const missed = (info.last_error_date ?? 0) * 1_000 > clock.now() - 2 * WATCH_MS;
    changed(true, missed ? `Telegram cannot reach ${hook.url}: ${info.last_error_message}` : "");
  }

  // ── Outbound ──────────────────────────────────────────────────────────────────────────────────────────

  /** As it should look; as plain text where Telegram cannot read our formatting, or it has become too long. */
  async function formatted<T>(
    { text, buttons = [] }: OutboundMessage,
    write: (version: Version) => Promise<T>,
  ): Promise<T> {
    const { html, text: plain } = rendered(text);
    const keyboard = buttons.length > 0 && { reply_markup: { inline_keyboard: buttons.map(keysOf) } };
    const options = { link_preview_options: { is_disabled: true }, ...keyboard };
    try {
      return await write({ text: html, options: { ...options, parse_mode: "HTML" } });
    } catch (error) {
      if (!(error instanceof TelegramFault && UNFORMATTED.test(error.message))) throw error;
      log("warn", "chat.unformatted", fieldsOf(error));
      return write({ text: plain, options });
    }
  }

  return {
    platform: PLATFORM,
    longest: 4_096,
    editEveryMs: 2_000,
    start,

    async stop() {
      await Promise.all([line.stop(), intake?.stop()]);
      // So that the next process does not get the last updates again.
      if (!webhook && intake?.offset() !== confirmed) await ask(0, { ms: CONFIRM_MS }).catch(() => {});
    },

    async send(place, outbound, _key, signal) {
      const { chat, thread } = numbersOf(place);
      const reply = outbound.replyTo && {
        reply_parameters: { message_id: Number(outbound.replyTo), allow_sending_without_reply: true },
      };
      const { message_id } = await formatted(outbound, ({ text, options }) =>
        api.call("sendMessage", { chat_id: chat, text, ...options, ...thread, ...reply }, { signal }),
      );
      return String(message_id);
    },

    async edit(place, message, outbound, signal) {
      const { chat } = numbersOf(place);
      await formatted(outbound, ({ text, options }) =>
        api.call("editMessageText", { chat_id: chat, message_id: Number(message), text, ...options }, { signal }),
      ).catch(unless(/message is not modified/));
    },

    async remove(place, message, signal) {
      const { chat } = numbersOf(place);
      await api
        .call("deleteMessage", { chat_id: chat, message_id: Number(message) }, { signal })
        .catch(unless(/message to delete not found/));
    },

    async typing(place) {
      try {
        const { chat, thread } = numbersOf(place);
        await api.call("sendChatAction", { chat_id: chat, action: "typing", ...thread }, { ms: SHOW_MS });
      } catch (error) {
        log("debug", "chat.typing_failed", fieldsOf(error));
      }
    },

    async offer(commands) {
      const shown = commands
        .filter(({ name }) => /^[a-z0-9_]{1,32}$/.test(name))
        .map(({ name, description }) => ({ command: name, description: description.slice(0, 256) || name }));
      for (const { name } of commands) offered.add(name);
      try {
        await api.call("setMyCommands", { commands: shown.slice(0, 100) });
      } catch (error) {
        log("warn", "chat.offer_failed", fieldsOf(error));
      }
    },

    health: health.now,

    async close() {
      void intake?.stop();
      await Promise.all([line.stop(), api.close()]);
    },
  };
}

type Version = { text: string; options: { parse_mode?: "HTML"; link_preview_options: { is_disabled: boolean } } };

const UNFORMATTED = /can't parse entities|is too long|TOO_LONG|is empty|non-empty/;

const keysOf = (row: Button[]) => row.map(({ label, data }) => ({ text: label, callback_data: data }));

const fieldsOf = (error: unknown) => ({ platform: PLATFORM, error: messageOf(error) });

const unless = (harmless: RegExp) => (error: unknown) => {
  if (!(error instanceof SendFault && harmless.test(error.message))) throw error;
};

function endOf({ code, message }: TelegramFault): End {
  // Telegram answers 404 to a token that cannot be one.
  if (code === 401 || code === 404)
    return {
      why: "Telegram does not know this bot's token. Set TELEGRAM_BOT_TOKEN to the one that @BotFather shows.",
      final: true,
    };
  if (code === 409)
    return {
      why: "Another process polls this bot: two cannot. Stop the other one, or give this one a bot of its own.",
      final: false,
    };
  return { why: message, final: false };
}

function numbersOf({ kind, chat, thread }: Place) {
  const numbers = [chat, ...(kind === "thread" ? [thread] : [])].map(Number);
  const [id, topic] = numbers;
  if (id === undefined || !numbers.every(Number.isSafeInteger))
    throw new SendFault("never", "Telegram has no such chat: its names are numbers.");
  return { chat: id, thread: topic === undefined ? {} : { message_thread_id: topic } };
}
