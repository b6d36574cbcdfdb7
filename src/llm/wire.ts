// HTTP to providers. Silence is judged by our own watchdog, so the library's timeouts are off; an answer can not
// send us (and the key) to another host; and no event of a stream grows without end.
import { pipeline } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { Agent, type RequestInit, request, fetch as undiciFetch } from "undici";
import { cutAfter, firstBytes } from "../platform/capped.ts";

const LONGEST_EVENT = 16_000_000;
/** Errors are read up to this size: the message is at the beginning. */
const LONGEST_ERROR = 65_536;
const CONNECT_MS = 10_000;

const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS } });

export const providerFetch: typeof fetch = async (input, init) => {
  // Not by `instanceof Request`: the name alone makes Node load a second `fetch`, its own (15 ms).
  const url = typeof input === "string" || input instanceof URL ? input.toString() : input.url;
  const options = { ...init, redirect: "manual", dispatcher };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Node's fetch and undici's own differ in name only
  const response = (await undiciFetch(url, options as RequestInit)) as unknown as Response;
  if (!response.ok) return cutAfter(LONGEST_ERROR, response);
  refuseWebPage(url, response.headers.get("content-type"));
  return response;
};

type ProviderPost = { headers: Record<string, string>; body: string; signal?: AbortSignal | undefined };

/** `fetch` copies a body three times, and keeps a record of each call. Throws what the server says instead of an answer. */
export async function providerPost(
  url: string,
  { headers, body: sent, signal }: ProviderPost,
): Promise<AsyncIterable<Uint8Array>> {
  const all = { accept: "*/*", "accept-encoding": "identity", "user-agent": "hermes-ts", ...headers };
  const options = { method: "POST", headers: all, body: sent, dispatcher, ...(signal && { signal }) } as const;
  const { statusCode, statusText, headers: responseHeaders, body: received } = await request(url, options);
  const unpack = UNPACK[String(responseHeaders["content-encoding"]).toLowerCase()]; // not asked for, but some proxies do it
  const body = unpack ? pipeline(received, unpack(), () => {}) : received;
  if (statusCode < 200 || statusCode > 299) {
    const { bytes } = await firstBytes(body, LONGEST_ERROR);
    const responseBody = new TextDecoder().decode(bytes);
    throw Object.assign(new Error(statusText), { statusCode, responseHeaders, responseBody });
  }
  refuseWebPage(url, responseHeaders["content-type"]);
  return body;
}

const WHAT_IS_THERE = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
const UNPACK: Record<string, (() => NodeJS.ReadWriteStream & AsyncIterable<Uint8Array>) | undefined> = {
  gzip: () => createGunzip(WHAT_IS_THERE),
  "x-gzip": () => createGunzip(WHAT_IS_THERE),
  deflate: () => createInflate(WHAT_IS_THERE),
  br: () => createBrotliDecompress(),
};

/** A wrong address, a proxy or a captive portal answers with a web page. */
function refuseWebPage(url: string, type: string | string[] | null | undefined): void {
  if (type?.includes("text/html")) throw new Error(`${url} answers with a web page; is the base URL right?`);
}

/** Called for every chunk of an answer, with the signal of its call: a ping, or a comment, is a sign of life too. */
export type Alive = (signal: AbortSignal) => void;

/** For answers that stream, as a library reads them. The end lets the last event out also where the blank line behind it is
 *  missing. */
export const streamFetch =
  (alive: Alive): typeof fetch =>
  async (input, init) => {
    const response = await providerFetch(input, init);
    if (!response.ok) return response;
    const { body, status, statusText, headers } = response;
    const { see, end } = guardStream(() => init?.signal && alive(init.signal));
    const guarded = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        see(chunk);
        controller.enqueue(chunk);
      },
      flush(controller) {
        end();
        controller.enqueue(new TextEncoder().encode("\n\n"));
      },
    });
    return new Response(body?.pipeThrough(guarded) ?? null, { status, statusText, headers });
  };

/** Both throw what is wrong with the stream. */
export type StreamGuard = { see(chunk: Uint8Array): void; end(): void };

/** Bounded events, and an error where there was none at all: a body in JSON behind HTTP 200, or nothing. */
export function guardStream(alive: () => void): StreamGuard {
  const decoder = new TextDecoder();
  let size = 0; // of the event that is not over yet
  let lineOver = true;
  let events = false;
  let head = "";
  return {
    see(chunk) {
      alive();
      const blank = lastBlankLine(chunk, lineOver);
      size = blank < 0 ? size + chunk.length : chunk.length - blank;
      lineOver = endsLine(chunk, chunk.length, lineOver);
      if (size > LONGEST_EVENT) throw new Error(`an event of the answer is over ${LONGEST_EVENT} bytes`);
      if (!events && head.length < LONGEST_ERROR) {
        head = (head + decoder.decode(chunk, { stream: true })).replaceAll(NO_DATA, "");
        events = /^data:/m.test(head);
      }
    },
    end() {
      if (events || head.length >= LONGEST_ERROR) return;
      // llama.cpp had lines of its own for errors.
      const responseBody = head.replace(/^error:/, "").trim();
      const said = responseBody ? "it answered with something else than a stream" : "it answered with an empty stream";
      const code = responseBody ? "NO_STREAM" : "EMPTY_STREAM";
      throw Object.assign(new Error(said), { code, responseBody });
    },
  };
}
/** Whole lines of a stream that carry nothing. */
const NO_DATA = /^(?::.*|event:.*|id:.*|retry:.*)?\r?\n/gm;

/** Where the last blank line in it is; -1: there is none. */
function lastBlankLine(chunk: Uint8Array, lineOver: boolean): number {
  let at = chunk.lastIndexOf(LF);
  while (at >= 0 && !endsLine(chunk, at, lineOver)) at = at > 0 ? chunk.lastIndexOf(LF, at - 1) : -1;
  return at;
}

/** Whether a line is over before `at`; `before`: one was before the chunk. */
function endsLine(chunk: Uint8Array, at: number, before: boolean): boolean {
  const end = chunk[at - 1] === CR ? at - 1 : at;
  return end > 0 ? chunk[end - 1] === LF : before;
}

const LF = 10;
const CR = 13;
