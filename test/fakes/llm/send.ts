// Sends one answer, with everything that can go wrong on its way.
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { answerOf, type Failure, faultOf, hasFlag, LONG_LINE, type Point, type Reply } from "./reply.ts";
import { type Frame, placeOf, type Told, type Wire, type Wording } from "./wire.ts";

/** A reset drops what the client has not read yet, so it waits until the client had the time to. */
const BEFORE_RESET_MS = 20;
const LONG_PIECE = Buffer.alloc(64 * 1024, "x");
const HTML =
  "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n";

export type Sending = {
  wire: Wire;
  wording: Wording;
  response: ServerResponse;
  /** Fires when the connection is gone. */
  gone: AbortSignal;
  /** The answer waits here. */
  held(point: Point): void;
  sent(bytes: number): void;
  /** We end the connection, not the client. */
  destroy(how: "reset" | "close"): void;
};

/** Rejects only for a reply that cannot be sent as it was scripted; a client that goes away is no error. */
export async function send(reply: Reply, cx: Sending): Promise<void> {
  try {
    await answer(reply, cx);
  } catch (error) {
    if (!cx.gone.aborted) throw error;
  }
}

async function answer(reply: Reply, cx: Sending): Promise<void> {
  const { wire, wording, response } = cx;
  if (await reach("accepted", reply, cx)) return;
  if (reply.delayMs) await sleep(reply.delayMs, undefined, { signal: cx.gone });

  const refused = refusal(reply, cx);
  if (refused) return tell(refused, cx);
  const said = answerOf(reply, () => wording.id(wire.callId));
  if (hasFlag(reply, "split-utf8") && !/[^\x00-\x7f]/.test(JSON.stringify(said)))
    throw new Error("there is no character of more than one byte to split");
  if (wording.read.stream) return stream(reply, wire.frames(said, wording), cx);

  const error = faultOf(reply, "errorEvent");
  const body = error ? wire.failure(error.errorEvent, wording).body : wire.whole(said, wording);
  const long = faultOf(reply, "longLine");
  const text = long ? body.replace(LONG_LINE, "x".repeat(long.longLine)) : body;
  const bytes = Buffer.from(hasFlag(reply, "bom") ? `\uFEFF${text}` : text);
  // Without a length, so that it can end too early and yet well.
  response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  if (await reach("headers", reply, cx)) return;
  const half = bytes.length >> 1;
  await write(bytes.subarray(0, half), reply, cx);
  for (const point of AFTER_HEADERS) if (await reach(point, reply, cx)) return;
  await write(bytes.subarray(half), reply, cx);
  response.end();
}

const AFTER_HEADERS: Point[] = ["reasoning", "text", "arguments", "finish", "done"];

async function stream(reply: Reply, full: Frame[], cx: Sending): Promise<void> {
  const { response, wire, wording } = cx;
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  response.flushHeaders();
  if (await reach("headers", reply, cx)) return;

  const frames = closing(reply, full);
  const points = pointsOf(reply, frames);
  const error = faultOf(reply, "errorEvent");
  const errorAt = error && (error.at ? need(error.at, frames) : (placeOf("text", frames) ?? 0));
  let long = false;
  for (const [place, frame] of [...frames, undefined].entries()) {
    for (const point of points.get(place) ?? []) if (await reach(point, reply, cx)) return;
    if (error && place === errorAt) {
      await write(lines(reply, wire.errorFrame(error.errorEvent, wording, place, error.failed ?? false)), reply, cx);
      break;
    }
    if (!frame) break;
    if (reply.chunkDelayMs) await sleep(reply.chunkDelayMs, undefined, { signal: cx.gone });
    const text = lines(reply, frame, { first: place === 0, last: place === frames.length - 1 });
    const [before, ...after] = text.split(LONG_LINE);
    await write(before ?? "", reply, cx);
    // Formats that repeat the whole text at its end would send it many times over.
    if (after.length > 0 && !long) await writeLong(faultOf(reply, "longLine")?.longLine ?? 0, cx);
    long ||= after.length > 0;
    await write(after.join(""), reply, cx);
  }
  response.end();
}

/** What closes the stream: as it is, missing, or twice. In Responses it is the finish itself. */
function closing(reply: Reply, frames: Frame[]): Frame[] {
  const last = frames.some(({ part }) => part === "done") ? "done" : "finish";
  if (hasFlag(reply, "no-done")) return frames.filter(({ part }) => part !== last);
  if (hasFlag(reply, "done-twice")) return frames.flatMap((frame) => (frame.part === last ? [frame, frame] : [frame]));
  return frames;
}

// ── Points ────────────────────────────────────────────────────────────────────────────────────────────

/** Holds, cuts or falls silent, where the reply says so. True: there is nothing more to send. */
async function reach(point: Point, reply: Reply, cx: Sending): Promise<boolean> {
  if (reply.hold && point === holdPoint(reply)) {
    cx.held(point);
    await orGone(reply.hold, cx.gone);
  }
  if (faultOf(reply, "silence")?.silence === point) {
    cx.held(point);
    await orGone(new Promise(() => {}), cx.gone);
  }
  const cut = faultOf(reply, "cut");
  if (cut?.cut !== point) return false;
  if (cut.by === "end") cx.response.end();
  else {
    if (cx.response.headersSent) await sleep(BEFORE_RESET_MS, undefined, { signal: cx.gone });
    cx.destroy(cut.by ?? "reset");
  }
  return true;
}

const holdPoint = (reply: Reply): Point => reply.holdAt ?? (reply.text?.length ? "text" : "finish");

function pointsOf(reply: Reply, frames: Frame[]): Map<number, Point[]> {
  const wanted = new Set([
    reply.hold && holdPoint(reply),
    faultOf(reply, "silence")?.silence,
    faultOf(reply, "cut")?.cut,
  ]);
  return Map.groupBy(
    AFTER_HEADERS.filter((point) => wanted.has(point)),
    (point) => need(point, frames),
  );
}

function need(point: Point, frames: Frame[]): number {
  const place = placeOf(point, frames);
  if (place === undefined) throw new Error(`this answer has no ${point} to stop at`);
  return place;
}

/** Rejects when the connection goes first. */
async function orGone(promise: Promise<unknown>, gone: AbortSignal): Promise<void> {
  gone.throwIfAborted();
  const left = Promise.withResolvers<never>();
  const leave = () => left.reject(gone.reason);
  gone.addEventListener("abort", leave, { once: true });
  try {
    await Promise.race([promise, left.promise]);
  } finally {
    gone.removeEventListener("abort", leave);
  }
}

// ── Answers that are none ─────────────────────────────────────────────────────────────────────────────

const BY_STATUS: Record<number, Failure> = {
  401: "auth",
  403: "forbidden",
  404: "not-found",
  429: "rate-limit",
  500: "server",
  503: "overloaded",
  529: "overloaded",
};

function refusal(reply: Reply, { wire, wording }: Sending): Told | undefined {
  const redirect = faultOf(reply, "redirect");
  if (redirect) return { status: redirect.status ?? 307, headers: { location: redirect.redirect }, body: "" };
  const html = { "content-type": "text/html; charset=utf-8" };
  if (hasFlag(reply, "html")) return { status: 200, headers: html, body: HTML };
  if (hasFlag(reply, "context-overflow")) return wire.failure("context-overflow", wording);
  const fault = faultOf(reply, "status");
  if (!fault) return undefined;
  const { status, retryAfter, headers, body } = fault;
  const gateway = status === 502 ? { status, headers: html, body: HTML } : undefined;
  const told = gateway ?? wire.failure(BY_STATUS[status] ?? (status < 500 ? "bad-request" : "server"), wording);
  const after = retryAfter instanceof Date ? retryAfter.toUTCString() : retryAfter?.toString();
  return {
    status,
    headers: { ...told.headers, ...(after === undefined ? {} : { "retry-after": after }), ...headers },
    body: body ?? told.body,
  };
}

export function tell({ status, headers, body }: Told, { response, sent }: Pick<Sending, "response" | "sent">): void {
  const length = Buffer.byteLength(body);
  sent(length);
  response.writeHead(status, { "content-type": "application/json", "content-length": length, ...headers });
  response.end(body);
}

// ── Bytes ─────────────────────────────────────────────────────────────────────────────────────────────

/** One event as text, with what the faults do to lines. */
function lines(reply: Reply, { event, data }: Frame, { first, last } = { first: false, last: false }): string {
  const bare = last && hasFlag(reply, "no-last-blank-line");
  const text = [
    first && hasFlag(reply, "bom") ? "\uFEFF" : "",
    hasFlag(reply, "comments") ? ": keep-alive\n\n:\n: one more\n\n" : "",
    event ? `event: ${event}\n` : "",
    `data: ${data}\n`,
    bare ? "" : "\n",
  ].join("");
  return hasFlag(reply, "crlf") ? text.replaceAll("\n", "\r\n") : text;
}

async function write(data: string | Buffer, reply: Reply, cx: Sending): Promise<void> {
  const bytes = typeof data === "string" ? Buffer.from(data) : data;
  const slow = faultOf(reply, "byteEvery")?.byteEvery;
  const splits = hasFlag(reply, "split-utf8");
  for (const piece of slow !== undefined ? single(bytes) : splits ? split(bytes) : [bytes]) {
    await put(piece, cx);
    if (slow) await sleep(slow, undefined, { signal: cx.gone });
    // Else a client finds the pieces put together again when it comes to read them.
    else if (splits) await sleep(1, undefined, { signal: cx.gone });
  }
}

async function writeLong(bytes: number, cx: Sending): Promise<void> {
  for (let left = bytes; left > 0; left -= LONG_PIECE.length)
    await put(LONG_PIECE.subarray(0, Math.min(left, LONG_PIECE.length)), cx);
}

/** One HTTP chunk; done when the system has it, so that a hold holds nothing back and a slow reader slows us down. */
async function put(bytes: Buffer, { response, gone, sent }: Sending): Promise<void> {
  if (bytes.length === 0) return;
  gone.throwIfAborted();
  sent(bytes.length);
  await orGone(new Promise((resolve) => response.write(bytes, resolve)), gone);
}

const single = (bytes: Buffer): Buffer[] => Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));

/** Cut after the first byte of every character that has more than one. */
function split(bytes: Buffer): Buffer[] {
  const cuts = [...bytes.keys()].filter((i) => (bytes[i] ?? 0) >= 0xc0).map((i) => i + 1);
  return [0, ...cuts].map((from, i) => bytes.subarray(from, cuts[i] ?? bytes.length));
}
