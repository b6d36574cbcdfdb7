// Server-sent events on the raw response: written as the reader takes them, so that a slow one holds back nobody and fills
// nothing up. A comment is a line without an empty one behind it: some parsers (httpx-sse) would make an empty event of that.
// (A helper of the framework that does not wait for its reader reached 281 MB.)
import type { ServerResponse } from "node:http";
import { messageOf } from "../../../core/errors.ts";
import type { Clock } from "../../../core/ports.ts";
import { linked } from "../../../core/wait.ts";

export type SseFrame = { id?: string; event?: string; data: unknown };
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

/** Characters. A reader that takes this much in time is slow, not gone. */
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
  open: (signal: AbortSignal) => AsyncIterable<SseFrame>,
  { clock, heartbeatMs, stallMs, leaving, headers, last = "" }: Options,
): Promise<boolean> {
  const gone = linked([leaving]); // the reader, or we
  const leave = () => gone.abort("over");
  response.once("close", leave);
  if (response.destroyed) leave();
  response.writeHead(200, { ...headers, ...HEADERS });
  if (response.req.method === "HEAD") response.flushHeaders(); // no write of a body that is not sent takes them along
  let quietSince = clock.monotonic();
  let held = "";
  let holding = true;
  let begun = false;
  const write = () => {
    if (held) response.write(held);
    else if (!begun) response.flushHeaders();
    held = "";
    begun = true;
  };
  /** At the end of a tick. The headers go out with the first frame, if that comes in the same tick. */
  const letGo = () => {
    holding = false;
    if (!response.writableEnded && !response.destroyed) write();
  };
  setImmediate(letGo);

  /** The first frame of a tick is written at once, the others with one call at its end: a write costs more than what it writes. */
  const push = (piece: string): Promise<void> | undefined => {
    quietSince = clock.monotonic();
    if (gone.signal.aborted) return;
    held += piece;
    if (!holding) {
      holding = true;
      setImmediate(letGo);
    } else if (begun && held.length < PIECE && !response.writableNeedDrain) return;
    write();
    return response.writableNeedDrain ? drain() : undefined;
  };
  const drain = async (): Promise<void> => {
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
      await clock.sleep(Math.max(0, quietSince + heartbeatMs - clock.monotonic()), gone.signal);
      if (!gone.signal.aborted && clock.monotonic() - quietSince >= heartbeatMs) await push(": keepalive\n");
    }
  };
  const beating = beat();
  let whole = false;
  try {
    for await (const frame of open(gone.signal)) {
      for (const piece of encode(frame)) {
        const drained = push(piece);
        if (drained) await drained;
        if (gone.signal.aborted) break;
      }
      if (gone.signal.aborted) break;
    }
    whole = !gone.signal.aborted;
  } catch (error) {
    if (!gone.signal.aborted) await push(`: ${messageOf(error).replaceAll(/\s+/g, " ")}\n`);
  }
  gone.abort("over");
  await beating;
  response.off("close", leave);
  gone.release();
  if (whole) response.end(`${held}${last}: stream closed\n`);
  else response.end(`${held}retry: 1000\n: leaving; come back with Last-Event-ID\n`);
  return whole;
}

/** In pieces, each made when the one before it was taken: many readers may be slow over a long frame. */
function* encode({ id, event, data }: SseFrame): Generator<string> {
  const name = event === undefined ? "" : `event: ${event}\n`;
  const place = id === undefined ? "" : `id: ${id}\n`;
  let piece = `${place}${name}data: `;
  for (const next of typeof data === "string"
    ? [data]
    : lengthOf(data) < PIECE
      ? [JSON.stringify(data)]
      : jsonOf(data)) {
    if (piece.length + next.length > PIECE) {
      yield piece;
      piece = "";
    }
    piece += next;
  }
  yield `${piece}\n\n`;
}

/** About what it takes as JSON. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 8;
  let sum = 0;
  for (const [key, item] of Object.entries(value)) sum += key.length + lengthOf(item);
  return sum;
}

/** What JSON.stringify gives, a long text of it in pieces. Halves of a character are escaped, and whole again when read. */
function* jsonOf(value: unknown): Generator<string> {
  if (typeof value === "string" && value.length > PIECE) {
    yield '"';
    for (let at = 0; at < value.length; at += PIECE) yield JSON.stringify(value.slice(at, at + PIECE)).slice(1, -1);
    yield '"';
  } else if (Array.isArray(value)) {
    yield "[";
    for (const [index, item] of value.entries()) {
      if (index) yield ",";
      yield* jsonOf(item ?? null);
    }
    yield "]";
  } else if (typeof value === "object" && value !== null) {
    let between = "{";
    for (const [key, item] of Object.entries(value)) {
      if (item === undefined) continue;
      yield `${between}${JSON.stringify(key)}:`;
      yield* jsonOf(item);
      between = ",";
    }
    yield between === "{" ? "{}" : "}";
  } else yield JSON.stringify(value);
}
