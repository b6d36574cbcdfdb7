// Telegram's queue of updates. An update stays until it is confirmed: by a higher offset, or by a webhook's 2xx.
import { request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Update, WebhookInfo } from "grammy/types";
import type { Call } from "./server.ts";
import type { ParamsOf } from "./telegram-params.ts";

type Polled = Update[] | { conflict: string };

type Updates = {
  push(kind: keyof Omit<Update, "update_id">, content: unknown): void;
  poll(params: ParamsOf<"getUpdates">, call: Call): Promise<Polled>;
  setWebhook(params: ParamsOf<"setWebhook">): void;
  deleteWebhook(params: ParamsOf<"deleteWebhook">): void;
  webhookInfo(): WebhookInfo;
  /** The last confirmed ones come once more, under their old ids. */
  redeliver(count: number): Update[];
  /** Not confirmed yet. */
  pending: Update[];
  endPoll(): void;
  close(): void;
};

type Webhook = ParamsOf<"setWebhook"> & { lastError?: { at: number; message: string } };
type Poller = { end(polled: Polled): void; limit: number };

/** What Telegram leaves out unless it is asked for by name. */
const SHY = new Set(["chat_member", "message_reaction", "message_reaction_count"]);
const LONGEST_POLL = 50;

export function updates({ retryMs, changed }: { retryMs: number; changed(): void }): Updates {
  const pending: Update[] = [];
  const confirmed: Update[] = [];
  /** Given once more whatever the offset says: confirming them again changes nothing. */
  const repeats: Update[] = [];
  const closed = new AbortController();
  let lastId = 512_340_000;
  let allowed: string[] = [];
  let poller: Poller | undefined;
  let webhook: Webhook | undefined;
  let delivering = false;

  function push(kind: string, content: unknown): void {
    lastId += 1;
    const update = { update_id: lastId, [kind]: content } as unknown as Update;
    if (allowed.length > 0 ? allowed.includes(kind) : !SHY.has(kind)) pending.push(update);
    wake();
  }

  function wake(): void {
    if (webhook) void deliver();
    else if (poller && waiting() > 0) poller.end(batch(poller.limit));
    changed();
  }

  const waiting = () => repeats.length + pending.length;
  const batch = (limit: number) => {
    const again = repeats.splice(0, limit);
    return [...again, ...pending.slice(0, limit - again.length)];
  };

  function confirm(count: number): void {
    confirmed.push(...pending.splice(0, count));
    changed();
  }

  function poll(params: ParamsOf<"getUpdates">, call: Call): Promise<Polled> {
    const { offset = 0, limit = 100, timeout = 0 } = params;
    if (webhook)
      return Promise.resolve({
        conflict: "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
      });
    poller?.end({
      conflict: "terminated by other getUpdates request; make sure that only one bot instance is running",
    });
    if (params.allowed_updates) allowed = params.allowed_updates;
    const first = pending.findIndex(({ update_id }) => update_id >= offset);
    if (offset > 0) confirm(first < 0 ? pending.length : first);
    if (offset < 0) confirm(Math.max(0, pending.length + offset));
    if (waiting() > 0 || timeout === 0) return Promise.resolve(batch(limit));

    return new Promise((resolve) => {
      const mine: Poller = {
        limit,
        end: (polled) => {
          clearTimeout(timer);
          if (poller === mine) poller = undefined;
          resolve(polled);
        },
      };
      const timer = setTimeout(() => mine.end([]), Math.min(timeout, LONGEST_POLL) * 1000);
      poller = mine;
      call.gone.addEventListener("abort", () => mine.end([]), { once: true });
    });
  }

  async function deliver(): Promise<void> {
    if (delivering) return;
    delivering = true;
    while (await deliverNext());
    delivering = false;
  }

  async function deliverNext(): Promise<boolean> {
    const hook = webhook;
    const next = repeats[0] ?? pending[0];
    if (!hook || !next || closed.signal.aborted) return false;
    const trouble = await post(hook, next, closed.signal);
    if (trouble !== undefined) {
      hook.lastError = { at: Math.floor(Date.now() / 1000), message: trouble };
      await sleep(retryMs, undefined, { signal: closed.signal }).catch(() => {});
    } else if (repeats[0] === next) repeats.shift();
    else if (pending[0] === next) confirm(1);
    return true;
  }

  return {
    push,
    poll,
    pending,
    setWebhook: (params) => {
      webhook = params.url ? { ...params } : undefined;
      if (params.allowed_updates) allowed = params.allowed_updates;
      if (params.drop_pending_updates) confirm(pending.length);
      if (webhook) poller?.end({ conflict: "terminated by setWebhook request" });
      wake();
    },
    deleteWebhook: ({ drop_pending_updates }) => {
      webhook = undefined;
      if (drop_pending_updates) confirm(pending.length);
      wake();
    },
    webhookInfo: () => ({
      url: webhook?.url ?? "",
      has_custom_certificate: false,
      pending_update_count: pending.length,
      max_connections: webhook?.max_connections ?? 40,
      ...(webhook?.lastError && {
        last_error_date: webhook.lastError.at,
        last_error_message: webhook.lastError.message,
      }),
    }),
    redeliver: (count) => {
      const again = confirmed.slice(-count);
      repeats.push(...again);
      wake();
      return again;
    },
    endPoll: () => poller?.end([]),
    close: () => {
      closed.abort();
      poller?.end([]);
    },
  };
}

/** Undefined: taken. */
function post(hook: Webhook, update: Update, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const body = JSON.stringify(update);
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      ...(hook.secret_token && { "x-telegram-bot-api-secret-token": hook.secret_token }),
    };
    // No agent: a connection kept alive would keep the receiver from closing.
    const request = httpRequest(hook.url, { method: "POST", headers, agent: false, signal }, (response) => {
      const { statusCode = 0, statusMessage } = response;
      response.resume();
      response.on("error", () => {});
      response.on("close", () =>
        resolve(
          statusCode >= 200 && statusCode < 300
            ? undefined
            : `Wrong response from the webhook: ${statusCode} ${statusMessage}`,
        ),
      );
    });
    request.on("error", (error) => resolve(`Connection failed: ${error.message}`));
    request.end(body);
  });
}
