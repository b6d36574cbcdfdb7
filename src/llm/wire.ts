// HTTP to providers. Silence is judged by our own watchdog, so the library's timeouts are off; an answer can not
// send us (and the key) to another host; and no line of a stream grows without end.
import { Agent, type RequestInit, fetch as undiciFetch } from "undici";

const LONGEST_LINE = 16 * 1024 * 1024;
const CONNECT_MS = 10_000;

const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS } });

export const providerFetch: typeof fetch = async (input, init) => {
  const url = input instanceof Request ? input.url : input.toString();
  const options = { ...init, redirect: "manual", dispatcher };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Node's fetch and undici's own differ in name only
  const response = (await undiciFetch(url, options as RequestInit)) as unknown as Response;
  if (!response.body || !response.ok) return response;
  const { status, statusText, headers } = response;
  const type = headers.get("content-type") ?? "";
  // A web page is what a wrong address, a proxy or a captive portal answers with.
  if (type.includes("text/html")) throw new Error(`${url} answers with a web page; is the base URL right?`);
  const body = type.includes("event-stream") ? response.body.pipeThrough(wellFormed()) : response.body;
  return new Response(body, { status, statusText, headers });
};

/** Bounded lines, and an end that lets the last event out also where the blank line behind it is missing. */
function wellFormed(): TransformStream<Uint8Array, Uint8Array> {
  let line = 0;
  return new TransformStream({
    transform(chunk, controller) {
      const newline = chunk.lastIndexOf(10);
      line = newline === -1 ? line + chunk.length : chunk.length - newline - 1;
      if (line > LONGEST_LINE) controller.error(new Error(`a line of the answer is over ${LONGEST_LINE} bytes`));
      else controller.enqueue(chunk);
    },
    flush: (controller) => controller.enqueue(new TextEncoder().encode("\n\n")),
  });
}
