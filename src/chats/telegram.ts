// Telegram, by long polling or by webhook. We poll ourselves: grammy's own loop confirms a batch before it is durable.
import type { Update } from "grammy/types";
import { type Button, type Chat, type ChatHealth, type Ears, type Place, type Said, SendFault } from "../core/chat.ts";
import { ConfigError, messageOf } from "../core/errors.ts";
import type { Clock, Log, Random } from "../core/ports.ts";
import { openApi, TelegramFault } from "./telegram-api.ts";
import type { Reader } from "./telegram-heard.ts";
import { rendered } from "./telegram-html.ts";
import { createIntake, pauseOf } from "./telegram-intake.ts";
import { hookOf, type Receive } from "./telegram-webhook.ts";

export type TelegramOptions = {
  token: string;
  apiRoot?: string | undefined;
  /** Telegram comes to us, at `url`, instead of being asked. */
  webhook?: { url: string; secret: string; listen(receive: Receive): void } | undefined;
  clock: Clock;
  log: Log;
  random: Random;
};

const API_ROOT = "https://api.telegram.org";
const ALLOWED = ["message", "edited_message", "callback_query"] as const;
const MOST_UPDATES = 100;
const POLL_SECONDS = 30;
/** A poll that takes longer than it may is dead, whatever TCP says. */
const GRACE_MS = 15_000;
/** While something is not taken yet, a poll returns it at once: so often we look for what else there is. */
const LOOK_MS = 1_000;
const WEBHOOK_LOOK_MS = 60_000;
const CONFIRM_MS = 3_000;
const SHOW_MS = 5_000;
/** An answer to a press is cut there by Telegram. */
const LONGEST_ANSWER = 200;

export function createTelegram({ token, apiRoot, webhook, clock, log, random }: TelegramOptions): Chat {
  const health: ChatHealth = { platform: "telegram", connected: false, heardAt: null, error: "" };
  const stopping = new AbortController();
  const api = openApi({ token, apiRoot: apiRoot ?? API_ROOT, clock, answered });
  const offered = new Set<string>();
  let intake: ReturnType<typeof createIntake> | null = null;
  let running: Promise<void> = Promise.resolve();
  let confirmed: number | undefined;

  function answered() {
    health.heardAt = clock.now();
  }

  // ── Hearing ─────────────────────────────────────────────────────────────────────────────────────────

  async function start(ears: Ears): Promise<void> {
    const hook = webhook && hookOf(webhook.secret, { clock, take });
    const first = Promise.withResolvers<void>();
    running = connect(ears, first);
    if (hook) webhook.listen(hook);
    return first.promise;
  }

  /** `first` learns what came of the first attempt. */
  async function connect(ears: Ears, first: PromiseWithResolvers<void>): Promise<void> {
    for (let attempt = 0; !stopping.signal.aborted; attempt++) {
      try {
        const { id, username } = await greet();
        intake = createIntake({ clock, log, random, ears, reader: readerOf({ id, username }), answer });
        wellAgain();
        break;
      } catch (error) {
        const fault = troubled(error);
        if (isRefused(fault)) return first.reject(new ConfigError(health.error));
        first.resolve();
        await clock.sleep(pauseFor(fault, attempt), stopping.signal);
      }
    }
    first.resolve();
    await (webhook ? watch(webhook) : poll());
  }

  async function greet() {
    const me = await api.call((library, signal) => library.getMe(signal), { signal: stopping.signal });
    if (webhook) await hang(webhook);
    // A webhook that somebody left there would keep everything from us.
    else await api.call((library, signal) => library.deleteWebhook({}, signal), { signal: stopping.signal });
    return me;
  }

  async function poll(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        await pollOnce(POLL_SECONDS, { signal: stopping.signal, ms: POLL_SECONDS * 1_000 + GRACE_MS });
        failures = 0;
        wellAgain();
        await restOrNews();
      } catch (error) {
        if (stopping.signal.aborted) return;
        const fault = troubled(error);
        await clock.sleep(pauseFor(fault, failures), stopping.signal);
        failures += 1;
      }
    }
  }

  async function pollOnce(timeout: number, limits: { signal?: AbortSignal; ms: number }): Promise<void> {
    const offset = intake?.offset();
    const asked = { limit: MOST_UPDATES, timeout, allowed_updates: ALLOWED, ...(offset !== undefined && { offset }) };
    const updates = await api.call((library, signal) => library.getUpdates(asked, signal), limits);
    if (offset !== undefined) intake?.confirmed(offset);
    confirmed = offset;
    if (!stopping.signal.aborted) void intake?.add(updates);
  }

  async function restOrNews(): Promise<void> {
    const enough = new AbortController();
    const end = () => enough.abort();
    stopping.signal.addEventListener("abort", end);
    await Promise.race([intake?.idle(), clock.sleep(LOOK_MS, enough.signal)]);
    stopping.signal.removeEventListener("abort", end);
    end();
  }

  function answer(query: string, text: string): void {
    const shown = { text: text.slice(0, LONGEST_ANSWER) };
    const sending = api.call((library, signal) => library.answerCallbackQuery(query, shown, signal), { ms: SHOW_MS });
    sending.catch((error: unknown) => log("debug", "chat.press_unanswered", said(error)));
  }

  // ── Webhook ─────────────────────────────────────────────────────────────────────────────────────────

  async function take(update: Update): Promise<boolean> {
    if (!intake || stopping.signal.aborted) return false;
    answered();
    // Telegram brings one again whose answer it did not get; it does not look back further than this.
    intake.confirmed(update.update_id - 10 * MOST_UPDATES);
    return intake.add([update]);
  }

  async function hang({ url, secret }: NonNullable<typeof webhook>): Promise<void> {
    const asked = { secret_token: secret, allowed_updates: ALLOWED };
    await api.call((library, signal) => library.setWebhook(url, asked, signal), { signal: stopping.signal });
  }

  /** Whether Telegram still knows where we are, and reaches us. */
  async function watch(hook: NonNullable<typeof webhook>): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; ) {
      await clock.sleep(failures ? pauseOf(failures, random) : WEBHOOK_LOOK_MS, stopping.signal);
      if (stopping.signal.aborted) return;
      try {
        const info = await api.call((library, signal) => library.getWebhookInfo(signal), { signal: stopping.signal });
        if (info.url !== hook.url) await hang(hook);
        const missed = (info.last_error_date ?? 0) * 1_000 > clock.now() - 2 * WEBHOOK_LOOK_MS;
        wellAgain();
        if (missed) health.error = `Telegram cannot reach ${hook.url}: ${info.last_error_message ?? ""}`;
        failures = 0;
      } catch (error) {
        if (!stopping.signal.aborted) troubled(error);
        failures += 1;
      }
    }
  }

  // ── Health ──────────────────────────────────────────────────────────────────────────────────────────

  function wellAgain(): void {
    if (stopping.signal.aborted) return;
    if (!health.connected) log("info", "chat.connected", { platform: "telegram" });
    Object.assign(health, { connected: true, error: "" });
  }

  function troubled(error: unknown): TelegramFault {
    const fault = error instanceof TelegramFault ? error : new TelegramFault(0, "unknown", said(error).error);
    const problem = problemOf(fault);
    if (health.connected || health.error !== problem)
      log("warn", "chat.disconnected", { platform: "telegram", error: problem });
    Object.assign(health, { connected: false, error: problem });
    return fault;
  }

  function pauseFor(fault: TelegramFault, failures: number): number {
    if (fault.retryAfter !== undefined) return fault.retryAfter;
    if (isRefused(fault)) return pauseOf(failures, random, 60_000, 600_000);
    if (fault.code === 409) return pauseOf(failures, random, 5_000);
    return pauseOf(failures, random);
  }

  // ── Saying ──────────────────────────────────────────────────────────────────────────────────────────

  /** As it should look; as plain text where Telegram cannot read our formatting, or it has become too long. */
  async function formatted<T>({ text, buttons = [] }: Said, write: (version: Version) => Promise<T>): Promise<T> {
    const { html, text: plain } = rendered(text);
    const keyboard = buttons.length > 0 && { reply_markup: { inline_keyboard: buttons.map(keysOf) } };
    const options = { link_preview_options: { is_disabled: true }, ...keyboard };
    try {
      return await write({ text: html, options: { ...options, parse_mode: "HTML" } });
    } catch (error) {
      if (!(error instanceof TelegramFault && UNFORMATTED.test(error.message))) throw error;
      log("warn", "chat.unformatted", said(error));
      return write({ text: plain, options });
    }
  }

  const readerOf = (me: Reader["me"]): Reader => ({ me, offered, load: api.load });

  return {
    platform: "telegram",
    longest: 4_096,
    editEveryMs: 2_000,
    start,

    async stop() {
      stopping.abort();
      health.connected = false;
      await Promise.all([running, intake?.stop()]);
      // So that the next process is not told once more what was taken just now.
      if (!webhook && intake?.offset() !== confirmed) await pollOnce(0, { ms: CONFIRM_MS }).catch(() => {});
    },

    async send(place, said, _key, signal) {
      const { chat, thread } = numbersOf(place);
      const reply = said.replyTo && {
        reply_parameters: { message_id: Number(said.replyTo), allow_sending_without_reply: true },
      };
      const { message_id } = await formatted(said, ({ text, options }) =>
        api.call((library, cut) => library.sendMessage(chat, text, { ...options, ...thread, ...reply }, cut), {
          signal,
        }),
      );
      return String(message_id);
    },

    async edit(place, message, said, signal) {
      const { chat } = numbersOf(place);
      await formatted(said, ({ text, options }) =>
        api.call((library, cut) => library.editMessageText(chat, Number(message), text, options, cut), { signal }),
      ).catch(unless(/message is not modified/));
    },

    async remove(place, message, signal) {
      const { chat } = numbersOf(place);
      await api
        .call((library, cut) => library.deleteMessage(chat, Number(message), cut), { signal })
        .catch(unless(/message to delete not found/));
    },

    async typing(place) {
      try {
        const { chat, thread } = numbersOf(place);
        await api.call((library, cut) => library.sendChatAction(chat, "typing", thread, cut), { ms: SHOW_MS });
      } catch (error) {
        log("debug", "chat.typing_failed", said(error));
      }
    },

    async offer(commands) {
      const shown = commands
        .filter(({ name }) => /^[a-z0-9_]{1,32}$/.test(name))
        .map(({ name, description }) => ({ command: name, description: description.slice(0, 256) || name }));
      for (const { name } of commands) offered.add(name);
      try {
        await api.call((library, cut) => library.setMyCommands(shown.slice(0, 100), {}, cut));
      } catch (error) {
        log("warn", "chat.offer_failed", said(error));
      }
    },

    health: () => ({ ...health }),

    async close() {
      stopping.abort();
      health.connected = false;
      void intake?.stop();
      api.close();
      await running;
    },
  };
}

type Version = { text: string; options: { parse_mode?: "HTML"; link_preview_options: { is_disabled: boolean } } };

const UNFORMATTED = /can't parse entities|is too long|TOO_LONG|is empty|non-empty/;

const keysOf = (row: Button[]) => row.map(({ label, data }) => ({ text: label, callback_data: data }));

const said = (error: unknown) => ({ platform: "telegram", error: messageOf(error) });

const unless = (harmless: RegExp) => (error: unknown) => {
  if (!(error instanceof SendFault && harmless.test(error.message))) throw error;
};

const isRefused = ({ code }: TelegramFault) => code === 401 || code === 404;

function problemOf(fault: TelegramFault): string {
  if (isRefused(fault))
    return "Telegram does not know this bot's token. Set TELEGRAM_BOT_TOKEN to the one that @BotFather shows.";
  if (fault.code === 409)
    return "Another process polls this bot: two cannot. Stop the other one, or give this one a bot of its own.";
  return fault.message;
}

function numbersOf({ kind, chat, thread }: Place) {
  const numbers = [chat, ...(kind === "thread" ? [thread] : [])].map(Number);
  const [id, topic] = numbers;
  if (id === undefined || !numbers.every(Number.isSafeInteger))
    throw new SendFault("never", "Telegram has no such chat: its names are numbers.");
  return { chat: id, thread: topic === undefined ? {} : { message_thread_id: topic } };
}
