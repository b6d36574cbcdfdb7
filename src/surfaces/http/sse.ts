// Server-sent events on the raw response: written as the reader takes them, so that a slow one holds back nobody and fills
// nothing up. (A helper of the framework that does not wait for its reader reached 281 MB.)
import type { ServerResponse } from "node:http";
import { messageOf } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";

export type Frame = { id?: string; event?: string; data: unknown };
type Options = {
  clock: Clock;
  /** Silence before a sign of life. */
  heartbeatMs: number;
  /** How long a reader may take nothing before it is cut; it can come back and resume. */
  stallMs: number;
  /** We are leaving: the stream ends here, and its reader comes back with its last id. */
  leaving: AbortSignal;
  headers: Record<string, string>;
  /** The last frame, behind all others. */
  last?: string;
};

/** A reader that takes this much in time is slow, not gone. */
const PIECE = 65_536;

const HEADERS = {
  "Content-Type": "text/event-stream; charset=utf-8",
  "Cache-Control": "no-cache",
  "X-Accel-Buffering": "no",
  Connection: "keep-alive",
};

/** Resolves when the stream is over, for whatever reason. True: the reader has had all of it. */
export async function stream(
  response: ServerResponse,
  open: (signal: AbortSignal) => AsyncIterable<Frame>,
  { clock, heartbeatMs, stallMs, leaving, headers, last = "" }: Options,
): Promise<boolean> {
  const gone = new AbortController(); // the reader, or we
  const leave = () => gone.abort("over");
  response.once("close", leave);
  leaving.addEventListener("abort", leave);
  if (response.destroyed || leaving.aborted) leave();
  response.writeHead(200, { ...headers, ...HEADERS });
  response.flushHeaders();
  let quietSince = clock.now();

  const write = async (text: string): Promise<void> => {
    if (text.length <= PIECE) return push(text);
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length && !gone.signal.aborted; at += PIECE) await push(bytes.subarray(at, at + PIECE));
  };
  const push = async (piece: string | Uint8Array): Promise<void> => {
    quietSince = clock.now();
    if (gone.signal.aborted || response.write(piece)) return;
    const taken = new AbortController();
    const drained = () => taken.abort("drained");
    response.once("drain", drained);
    response.once("close", drained);
    await clock.sleep(stallMs, taken.signal);
    response.off("drain", drained);
    response.off("close", drained);
    if (!taken.signal.aborted) response.destroy();
  };
  const beat = async () => {
    while (!gone.signal.aborted) {
      await clock.sleep(Math.max(0, quietSince + heartbeatMs - clock.now()), gone.signal);
      if (!gone.signal.aborted && clock.now() - quietSince >= heartbeatMs) await write(": keepalive\n\n");
    }
  };
  const beating = beat();
  let whole = false;
  try {
    for await (const frame of open(gone.signal)) {
      await write(encode(frame));
      if (gone.signal.aborted) break;
    }
    whole = !gone.signal.aborted;
  } catch (error) {
    if (!gone.signal.aborted) await write(`: ${messageOf(error).replaceAll(/\s+/g, " ")}\n\n`);
  }
  gone.abort("over");
  await beating;
  response.off("close", leave);
  leaving.removeEventListener("abort", leave);
  if (whole) response.end(`${last}: stream closed\n\n`);
  else response.end("retry: 1000\n: leaving; come back with Last-Event-ID\n\n");
  return whole;
}

function encode({ id, event, data }: Frame): string {
  const name = event === undefined ? "" : `event: ${event}\n`;
  const place = id === undefined ? "" : `id: ${id}\n`;
  return `${place}${name}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
}
