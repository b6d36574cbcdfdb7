// What an MCP server sends over HTTP, up to a limit that is counted after unpacking: a bomb of 8 MB took 8.3 GB. A stream of
// events may go on for ever, but none of its events may be larger.
import { failAfter, TooLarge } from "../../platform/capped.ts";

const MOST_BYTES = 10_000_000;
const LINE_END = 0x0a;
const RETURN = 0x0d;

/** Its body fails behind the limit, and the connection is cut. */
export async function fetchCapped(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  const { body, status, statusText, headers } = response;
  if (!headers.get("content-type")?.startsWith("text/event-stream")) return failAfter(MOST_BYTES, response);
  const counting = new TransformStream<Uint8Array, Uint8Array>({ transform: eventCounter() });
  return new Response(body?.pipeThrough(counting) ?? null, { status, statusText, headers });
}

function eventCounter() {
  let size = 0;
  let blank = false; // so far, the line that has begun: at its end an event ends
  return (chunk: Uint8Array, controller: TransformStreamDefaultController<Uint8Array>) => {
    for (const byte of chunk) {
      size = blank && byte === LINE_END ? 0 : size + 1;
      blank = byte === LINE_END || (blank && byte === RETURN);
    }
    if (size > MOST_BYTES) controller.error(new TooLarge(MOST_BYTES));
    else controller.enqueue(chunk);
  };
}
