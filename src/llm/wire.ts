// HTTP to providers. Silence is judged by our own watchdog, so the library's timeouts are off; an answer can not
// send us (and the key) to another host; and no event of a stream grows without end.
import { Agent, type RequestInit, fetch as undiciFetch } from "undici";
import { cutAfter } from "../platform/capped.ts";

const LONGEST_EVENT = 16_000_000;
/** Errors are read up to this size: the message is at the beginning. */
const LONGEST_ERROR = 65_536;
const CONNECT_MS = 10_000;

const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS } });

export const providerFetch: typeof fetch = async (input, init) => {
  const url = input instanceof Request ? input.url : input.toString();
  const options = { ...init, redirect: "manual", dispatcher };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Node's fetch and undici's own differ in name only
  const response = (await undiciFetch(url, options as RequestInit)) as unknown as Response;
  if (!response.ok) return cutAfter(LONGEST_ERROR, response);
  const type = response.headers.get("content-type") ?? "";
  // A wrong address, a proxy or a captive portal answers with a web page.
  if (type.includes("text/html")) throw new Error(`${url} answers with a web page; is the base URL right?`);
  return response;
};

/** Called for every chunk of an answer, with the signal of its call: a ping, or a comment, is a sign of life too. */
export type Alive = (signal: AbortSignal) => void;

/** For answers that stream. */
export const streamFetch =
  (alive: Alive): typeof fetch =>
  async (input, init) => {
    const response = await providerFetch(input, init);
    if (!response.ok) return response;
    const { body, status, statusText, headers } = response;
    const heard = () => init?.signal && alive(init.signal);
    return new Response(body?.pipeThrough(wellFormed(heard)) ?? null, { status, statusText, headers });
  };

/** Bounded events, an end that lets the last one out also where the blank line behind it is missing, and an error where
 *  there was none at all: a body in JSON behind HTTP 200, or nothing. */
function wellFormed(alive: () => void): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let size = 0; // of the event that is not over yet
  let lineOver = true;
  let events = false;
  let head = "";
  return new TransformStream({
    transform(chunk, controller) {
      alive();
      const blank = lastBlankLine(chunk, lineOver);
      size = blank < 0 ? size + chunk.length : chunk.length - blank;
      lineOver = endsLine(chunk, chunk.length, lineOver);
      if (size > LONGEST_EVENT)
        return controller.error(new Error(`an event of the answer is over ${LONGEST_EVENT} bytes`));
      if (!events && head.length < LONGEST_ERROR) {
        head = (head + decoder.decode(chunk, { stream: true })).replaceAll(NO_DATA, "");
        events = /^data:/m.test(head);
      }
      controller.enqueue(chunk);
    },
    flush(controller) {
      if (events || head.length >= LONGEST_ERROR) return controller.enqueue(new TextEncoder().encode("\n\n"));
      // llama.cpp had lines of its own for errors.
      const responseBody = head.replace(/^error:/, "").trim();
      const said = responseBody ? "it answered with something else than a stream" : "it answered with an empty stream";
      const code = responseBody ? "NO_STREAM" : "EMPTY_STREAM";
      controller.error(Object.assign(new Error(said), { code, responseBody }));
    },
  });
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
