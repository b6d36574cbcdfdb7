// Any program as a chat: it posts signed messages to us, and gets the answers posted back, signed the same way.
//
// A signature is `sha256=<hex HMAC of "<timestamp>.<raw body>">` in X-Hermes-Signature, the time in seconds in
// X-Hermes-Timestamp. Older or newer than five minutes, or seen before: refused.

import { createHmac, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import {
  type Attachment,
  type Chat,
  type InboundHandler,
  type InboundMessage,
  type OutboundMessage,
  type Place,
  SendFault,
} from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Ambient } from "../../core/ports.ts";
import type { Notes } from "../../core/store.ts";
import { linked } from "../../core/wait.ts";
import { jsonIn } from "../../platform/json.ts";
import type { Receive } from "../shared/channel.ts";

type Options = Ambient & {
  secret: string;
  /** Where answers go; without it they can only be read over the API. */
  url: string | undefined;
  /** Where the signatures are kept that were seen: another node, or the next process, must refuse them too. */
  notes: Pick<Notes, "swap" | "set" | "list">;
};
export type WebhookChat = Chat & {
  /** One request, as it came. */
  receive: Receive;
};
type SignedHeaders = Parameters<Receive>[1];
type Received = Awaited<ReturnType<Receive>>;

const AGE_MS = 300_000;
const SEEN = "seen/webhook/";
const SEND_MS = 15_000;

const id = z.string().min(1).max(200);
const message = z.strictObject({
  id,
  chat: id,
  thread: id.optional(),
  kind: z.enum(["dm", "group", "channel"]).default("dm"),
  user: z.strictObject({ id, name: z.string().max(200).default("") }),
  text: z.string().max(1_000_000).default(""),
  addressed: z.boolean().default(true),
  event: z.enum(["message", "edited", "deleted", "pressed"]).default("message"),
  data: z.string().max(64).default(""),
  attachments: z
    .array(z.strictObject({ name: z.string().max(200), mime: z.string().max(100), data: z.base64() }))
    .max(10)
    .default([]),
});

export function createWebhook({ secret, url, notes, clock, log }: Options): WebhookChat {
  let sweepAt = clock.monotonic();
  let handler: InboundHandler | null = null;
  let heardAt: number | null = null;
  let error = "";
  let sent = 0;
  const sign = (timestamp: string, body: Uint8Array | string) =>
    `sha256=${createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex")}`;

  async function receive(raw: Uint8Array, headers: SignedHeaders): Promise<Received> {
    const wrong = unsigned(raw, headers);
    if (wrong) return refused(401, wrong);
    if (!handler) return refused(503, "Not listening just now; try again.");
    const parsed = message.safeParse(jsonIn(Buffer.from(raw).toString("utf8")));
    if (!parsed.success) return refused(400, z.prettifyError(parsed.error).slice(0, 300));
    heardAt = clock.now();
    const note = SEEN + String(headers["x-hermes-signature"]);
    let isFirst = false;
    try {
      isFirst = await notes.swap(note, undefined, clock.now());
      if (!isFirst) return refused(409, "This request was made before; sign it anew to send it again.");
      void sweep();
      return await dispatch(handler, parsed.data);
    } catch (trouble) {
      log("warn", "webhook.untaken", { error: messageOf(trouble) });
      // Nothing was taken: the same request may come again.
      if (isFirst) await notes.set(note, undefined).catch(() => {});
      return refused(503, "Not taken; try again.");
    }
  }

  function unsigned(raw: Uint8Array, headers: SignedHeaders): string | null {
    const timestamp = headers["x-hermes-timestamp"];
    const given = headers["x-hermes-signature"];
    if (typeof timestamp !== "string" || typeof given !== "string" || !/^\d{1,12}$/.test(timestamp))
      return "Sign the request: X-Hermes-Timestamp and X-Hermes-Signature are missing or malformed.";
    const right = Buffer.from(sign(timestamp, raw));
    const presented = Buffer.from(given);
    if (right.length !== presented.length || !timingSafeEqual(right, presented)) return "The signature is wrong.";
    const age = Math.abs(clock.now() - Number(timestamp) * 1_000);
    return age > AGE_MS ? "The request is too old, or your clock is wrong." : null;
  }

  /** Forgets what is refused by its age. */
  async function sweep(): Promise<void> {
    if (clock.monotonic() < sweepAt) return;
    sweepAt = clock.monotonic() + AGE_MS;
    try {
      for (const { key, value } of await notes.list(SEEN))
        if (clock.now() - Number(value) > 2 * AGE_MS) await notes.set(key, undefined);
    } catch (trouble) {
      log("warn", "webhook.unswept", { error: messageOf(trouble) });
    }
  }

  async function post(place: Place, payload: Record<string, unknown>, key: string, signal: AbortSignal): Promise<void> {
    if (!url) throw new SendFault("never", "gateway.webhook.url is not set: there is nowhere to send answers to");
    const body = JSON.stringify({ chat: place.chat, ...(place.thread && { thread: place.thread }), ...payload });
    const timestamp = String(Math.floor(clock.now() / 1_000));
    const headers = {
      "Content-Type": "application/json",
      "X-Hermes-Timestamp": timestamp,
      "X-Hermes-Signature": sign(timestamp, body),
      "Idempotency-Key": key,
    };
    const cut = linked([signal], { clock, ms: SEND_MS });
    try {
      const answer = await fetch(url, { method: "POST", headers, body, redirect: "error", signal: cut.signal });
      await answer.body?.cancel();
      error = answer.ok ? "" : `it answers ${answer.status}`;
      if (answer.ok) return;
      const wait = Number(answer.headers.get("retry-after"));
      const landed = answer.status >= 400 && answer.status < 500 && answer.status !== 429 ? "never" : "no";
      throw new SendFault(landed, `the webhook answers ${answer.status}`, wait > 0 ? wait * 1_000 : undefined);
    } catch (trouble) {
      if (trouble instanceof SendFault) throw trouble;
      error = messageOf(trouble);
      // Its Idempotency-Key lets the receiver know a second copy.
      throw new SendFault("unknown", `the webhook did not answer: ${error}`);
    } finally {
      cut.release();
    }
  }

  const shape = ({ text, buttons }: OutboundMessage) => ({ text, ...(buttons && { buttons }) });

  return {
    platform: "webhook",
    longest: 100_000,
    editEveryMs: 2_000,
    receive,
    async start(given) {
      handler = given;
    },
    async stop() {
      handler = null;
    },
    async send(place, message, key, signal) {
      const name = `${clock.now().toString(36)}-${sent++}`;
      await post(place, { event: "message", message: name, ...shape(message) }, key, signal);
      return name;
    },
    edit: (place, name, message, signal) =>
      post(place, { event: "edited", message: name, ...shape(message) }, `${name}.${hashOf(message.text)}`, signal),
    remove: (place, name, signal) => post(place, { event: "deleted", message: name }, `${name}.gone`, signal),
    typing: async () => {},
    offer: async () => {},
    health: () => ({ platform: "webhook", connected: handler !== null && error === "", heardAt, error }),
    async close() {
      handler = null;
    },
  };
}

async function dispatch(handler: InboundHandler, request: z.output<typeof message>): Promise<Received> {
  const { event, id: message, chat, thread, kind, user: from, text, addressed, data } = request;
  const place: Place = thread === undefined ? { kind, chat } : { kind: "thread", chat, thread };
  const attachments = request.attachments.map(attachmentOf);
  const inbound: InboundMessage = { message, place, from, text, addressed, attachments };
  if (event === "pressed")
    return { status: 200, body: { text: await handler.onPress({ data, place, from, message }) } };
  if (event === "deleted") await handler.onDelete(place, message);
  else await (event === "edited" ? handler.onEdit(inbound) : handler.onMessage(inbound));
  return { status: 202, body: { status: "accepted" } };
}

function attachmentOf({ name, mime, data }: { name: string; mime: string; data: string }): Attachment {
  const bytes = Buffer.from(data, "base64");
  return {
    kind: mime.startsWith("image/") ? "photo" : mime.startsWith("audio/") ? "voice" : "file",
    name,
    mime,
    size: bytes.length,
    load: async (most) => {
      if (bytes.length > most) throw new Error(`it has more than ${most} bytes`);
      return bytes;
    },
  };
}

const refused = (status: number, text: string): Received => ({ status, body: { error: { message: text } } });

const hashOf = (text: string) => createHmac("sha256", "text").update(text).digest("hex").slice(0, 12);
