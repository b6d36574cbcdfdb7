// Requests and event streams to a hermes server, with nothing but `fetch`. A stream that breaks is taken up again where it
// was; a request is sent again only where a second copy does no harm.
import { createSseParser, type Frame, type Heard } from "../core/sse.ts";
import { backoff, linked } from "../core/wait.ts";
import { cutAfter, failAfter, TooLarge } from "../platform/capped.ts";
import { clock } from "../platform/clock.ts";

export type ServerConnection = {
  /** Where the server is: `http://127.0.0.1:8642`. */
  url: string;
  /** Not given: `fetch` says who asks, as the web console does with its cookie. */
  key?: string;
  fetch?: typeof fetch;
  /** Silence after which a stream counts as broken; the server says something every 15 s. */
  silenceMs?: number;
  /** How long a request that is no stream may take. */
  answerMs?: number;
  /** False: nothing is tried again, and a stream that breaks throws. For who looks for another server then. */
  patient?: boolean;
};

/** What the server said no with; `status` 0 and `code` "unreachable" where none was heard. */
export class HermesError extends Error {
  override readonly name = "HermesError";
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  constructor(status: number, code: string | null, message: string, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

export type RequestOptions = {
  body?: unknown;
  headers?: Record<string, string>;
  /** It does no harm twice: send it again when the connection breaks. */
  again?: boolean;
};
/** `broken`: why there is nothing for now. `whole`: the server had said that this was all. */
type Streamed = Frame | { opened: true } | { broken: string; whole: boolean };
export type Wire = ReturnType<typeof createWire>;

const SOONEST_MS = 250;
const LATEST_MS = 5_000;
/** Between the tries of one request: a server that restarts is back within these. */
const AGAIN_MS = [250, 500, 1_000, 2_000];
const SILENCE_MS = 60_000;
/** Bytes of one answer that is no stream: a thousand entries of a journal, with pictures, are the largest. */
export const LONGEST_ANSWER = 256_000_000;
const LONGEST_ERROR = 65_536;

export function createWire(connection: ServerConnection) {
  const { url, key, fetch: given, silenceMs = SILENCE_MS, patient = true, answerMs } = connection;
  const base = url.replace(/\/+$/, "");
  const send = given ?? fetch;

  async function call(method: string, path: string, { body, headers }: RequestOptions, signal?: AbortSignal) {
    const type = body === undefined ? {} : { "Content-Type": "application/json" };
    try {
      return await send(`${base}${path}`, {
        method,
        headers: { ...(key !== undefined && { Authorization: `Bearer ${key}` }), ...type, ...headers },
        redirect: "error", // the key is for this server
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      });
    } catch (error) {
      throw unreachable(error);
    }
  }

  async function json<T>(method: string, path: string, more: RequestOptions = {}): Promise<T> {
    const { again = method === "GET" } = more;
    for (const wait of [...AGAIN_MS, null]) {
      try {
        const tooLate = answerMs === undefined ? undefined : AbortSignal.timeout(answerMs);
        const response = await call(method, path, more, tooLate);
        if (!response.ok) throw await errorOf(response);
        return parse(await textOf(failAfter(LONGEST_ANSWER, response)), response.status);
      } catch (error) {
        if (!again || !patient || wait === null || !isUnreachable(error)) throw error;
        await clock.sleep(wait);
      }
    }
    throw unreachable(null);
  }

  /** Without end, until the signal aborts or the server says no for good. */
  async function* stream(path: string, from: { after: string; signal: AbortSignal }): AsyncGenerator<Streamed> {
    const { signal } = from;
    let { after } = from;
    let retry = SOONEST_MS;
    for (let failures = 0; !signal.aborted; failures++) {
      let broken = "The server ended the stream.";
      let whole = false;
      try {
        for await (const heard of connect(path, after, signal)) {
          if ("opened" in heard) yield heard;
          else if ("retry" in heard) ({ retry } = heard);
          else if ("comment" in heard) whole = heard.comment === "stream closed";
          else {
            failures = 0;
            after = heard.id || after;
            yield heard;
          }
        }
      } catch (error) {
        if (!signal.aborted && isFinal(error)) throw error;
        broken = error instanceof Error ? error.message : String(error);
      }
      if (signal.aborted) return;
      if (!patient) throw new HermesError(0, "unreachable", broken);
      yield { broken, whole };
      await clock.sleep(pause(failures, retry), signal);
    }
  }

  /** One connection, until it ends. */
  async function* connect(path: string, after: string, signal: AbortSignal): AsyncGenerator<Heard | { opened: true }> {
    const over = linked([signal]);
    const silent = () => over.abort(new Error(`nothing was heard for ${silenceMs / 1_000} s`));
    /** Only while we wait for the server: whoever reads may take their time. */
    const heardFrom = async <T>(work: Promise<T>): Promise<T> => {
      const silence = setTimeout(silent, silenceMs);
      try {
        return await work;
      } finally {
        clearTimeout(silence);
      }
    };
    try {
      const headers = { Accept: "text/event-stream", ...(after && { "Last-Event-ID": after }) };
      const response = await heardFrom(call("GET", path, { headers }, over.signal));
      if (!response.ok) throw await heardFrom(errorOf(response));
      if (response.status === 204) return void (yield { comment: "stream closed" });
      if (!response.body || !response.headers.get("Content-Type")?.startsWith("text/event-stream"))
        throw new HermesError(response.status, "no_events", `${base}${path} does not send events; check the address.`);
      yield { opened: true };
      const reader = response.body.getReader();
      const take = createSseParser();
      for (;;) {
        const { done, value } = await heardFrom(
          reader.read().catch((error: unknown) => {
            throw unreachable(error);
          }),
        );
        if (done) return;
        yield* take(value);
      }
    } finally {
      over.release();
      over.abort();
    }
  }

  const unreachable = (error: unknown) => {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = cause instanceof Error ? cause.message || cause.name : String(cause);
    return new HermesError(0, "unreachable", `Cannot reach ${base}: ${why}`);
  };

  const textOf = (response: Response): Promise<string> =>
    response.text().catch((error: unknown) => {
      if (error instanceof TooLarge) throw new HermesError(response.status, "too_large", `${base}: ${error.message}.`);
      throw unreachable(error);
    });

  const errorOf = async (response: Response): Promise<HermesError> =>
    refusedWith(base, response.status, await textOf(cutAfter(LONGEST_ERROR, response)));

  function parse(text: string, status: number) {
    try {
      return JSON.parse(text);
    } catch {
      throw new HermesError(status, "no_json", `${base} did not answer with JSON; check the address.`);
    }
  }

  return { json, stream };
}

/** `text`: the body of an answer that is not ok. */
export function refusedWith(base: string, status: number, text: string): HermesError {
  try {
    const { error }: { error: { message: unknown; code?: unknown; param?: unknown } } = JSON.parse(text);
    return new HermesError(status, textOrNull(error.code), String(error.message), textOrNull(error.param));
  } catch {
    return new HermesError(status, null, `${base} answered ${status} and no reason; check the address.`);
  }
}

const textOrNull = (value: unknown) => (typeof value === "string" ? value : null);
const isUnreachable = (error: unknown) => error instanceof HermesError && error.status === 0;

/** Another try would be told the same. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof HermesError)) return true;
  const { status } = error;
  return status !== 0 && status < 500 && status !== 408 && status !== 429;
}

/** Longer each time, and not all viewers of a server at once. */
function pause(failures: number, retry: number): number {
  const soonest = Math.min(LATEST_MS, Math.max(SOONEST_MS, retry));
  const latest = backoff(failures, { first: soonest, most: LATEST_MS });
  return soonest + Math.random() * (latest - soonest);
}
