// An MCP server over streamable HTTP. The library waits for its whole time limit when the stream of an answer ends without the
// answer, as it does when a server dies. Here such a request fails at once.
import type { AuthProvider, Transport } from "@modelcontextprotocol/client";
import { failAfter, TooLarge } from "../../platform/capped.ts";
import type { McpLibrary } from "./auth.ts";

/** The code of an answer that we make up. A server that answers with it is given up, which is its own loss. */
const STREAM_ENDED = -31_999;

export function createHttp(
  lib: McpLibrary,
  url: string,
  { headers, authProvider }: { headers: Readonly<Record<string, string>>; authProvider: AuthProvider | undefined },
): Transport {
  const transport = new lib.StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    fetch: fetchCapped,
    ...(authProvider && { authProvider }),
  });
  const open = new Set<string | number>();
  // Called before the library's own handler, which takes its place.
  const onmessage: Transport["onmessage"] = (message) => {
    if (!("method" in message) && message.id !== undefined) open.delete(message.id);
  };
  Object.assign(transport, { onmessage });
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (Array.isArray(message) || !("method" in message) || !("id" in message)) return send(message, options);
    const { id } = message;
    open.add(id);
    const onRequestStreamEnd = () => {
      options?.onRequestStreamEnd?.();
      const error = { code: STREAM_ENDED, message: "the connection was closed before the answer" };
      if (open.delete(id)) transport.onmessage?.({ jsonrpc: "2.0", id, error });
    };
    return send(message, { ...options, onRequestStreamEnd });
  };
  return transport;
}

export const isStreamEnd = (error: unknown): boolean => codeIn(error) === STREAM_ENDED;

/** Nothing can have been done: nobody listens there, or the server does not know the session. */
export function wasRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ("status" in error) return error.status === 404;
  const codes = [codeIn(error), codeIn(error.cause)];
  return codes.some((code) => typeof code === "string" && UNREACHED.has(code));
}
const UNREACHED = new Set("ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH".split(" "));

const codeIn = (error: unknown): unknown =>
  typeof error === "object" && error !== null && "code" in error ? error.code : undefined;

const MOST_BYTES = 10_000_000;
const LINE_END = 0x0a;
const RETURN = 0x0d;

/** Its body fails behind a limit that is counted after unpacking (a bomb of 8 MB took 8.3 GB), and the connection is cut. A stream of events may
 *  go on for ever, but none of its events may be larger. */
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
