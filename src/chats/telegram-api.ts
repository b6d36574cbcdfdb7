// Calls to Telegram's Bot API. Each is bounded in time and ends with us; what goes wrong is a SendFault that says whether it
// may have been done. The token stands in every address, so no error of the library or of a socket is passed on as it is.
import { type IncomingMessage, Agent as PlainAgent, get as plainGet } from "node:http";
import { Agent as SecureAgent, get as secureGet } from "node:https";
import type { Api } from "grammy";
import { SendFault } from "../core/chat.ts";
import { messageOf } from "../core/errors.ts";
import type { Clock } from "../core/ports.ts";

type TheirSignal = NonNullable<Parameters<Api["getMe"]>[0]>;
type Work<T> = (api: Api, signal: TheirSignal) => Promise<T>;
type Limits = { signal?: AbortSignal; ms?: number };

export type TelegramApi = {
  /** Throws a TelegramFault. */
  call<T>(work: Work<T>, limits?: Limits): Promise<T>;
  /** A file of a message, by its id. Throws an Error that anybody may read. */
  load(file: string, most: number, signal: AbortSignal): Promise<Uint8Array>;
  close(): void;
};

/** `code`: Telegram's, 0 where it did not answer. */
export class TelegramFault extends SendFault {
  readonly code: number;
  constructor(code: number, landed: SendFault["landed"], message: string, retryAfter?: number) {
    super(landed, message, retryAfter);
    this.code = code;
  }
}

type Options = {
  token: string;
  apiRoot: string;
  clock: Clock;
  /** Telegram has said something, be it no. */
  answered(): void;
};

const CALL_MS = 30_000;
/** Telegram closes connections that nobody uses; one that it closes under our hands looks like a lost message. */
const IDLE_MS = 10_000;
/** Before anything could be sent. */
const NOT_CONNECTED =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|ENETDOWN|EHOSTUNREACH|EHOSTDOWN|EADDRNOTAVAIL|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_)/;

export function openApi({ token, apiRoot, clock, answered }: Options): TelegramApi {
  const root = apiRoot.replace(/\/+$/, "");
  const secure = root.startsWith("https:");
  const agent = new (secure ? SecureAgent : PlainAgent)({ keepAlive: true, timeout: IDLE_MS });
  const closed = new AbortController();
  let opening: ReturnType<typeof library> | null = null;

  /** Loaded with the first call: most people have no bot at Telegram. */
  async function library() {
    const { Api, GrammyError, HttpError } = await import("grammy");
    return {
      api: new Api(token, { apiRoot: root, baseFetchConfig: { agent, compress: true } }),
      GrammyError,
      HttpError,
    };
  }

  async function call<T>(work: Work<T>, { signal, ms = CALL_MS }: Limits = {}): Promise<T> {
    if (signal?.aborted || closed.signal.aborted)
      throw new TelegramFault(0, "no", "It was called off before it began.");
    opening ??= library();
    const { api, GrammyError, HttpError } = await opening;
    const cut = new AbortController();
    const abort = () => cut.abort();
    let late = false;
    for (const one of [signal, closed.signal]) one?.addEventListener("abort", abort);
    void clock.sleep(ms, cut.signal).then(() => {
      late = !cut.signal.aborted;
      abort();
    });
    try {
      const answer = await work(api, theirs(cut.signal));
      answered();
      return answer;
    } catch (error) {
      if (error instanceof GrammyError) {
        answered();
        throw refusal(error.error_code, error.description, error.parameters.retry_after);
      }
      if (late) throw new TelegramFault(0, "unknown", `Telegram has not answered within ${ms / 1_000} s.`);
      if (cut.signal.aborted) throw new TelegramFault(0, "unknown", "It was called off before Telegram answered.");
      throw outage(error instanceof HttpError ? error.error : error);
    } finally {
      for (const one of [signal, closed.signal]) one?.removeEventListener("abort", abort);
      abort();
    }
  }

  async function load(file: string, most: number, signal: AbortSignal): Promise<Uint8Array> {
    const { file_path: path } = await call((api, cut) => api.getFile(file, cut), { signal });
    if (!path) throw new Error("Telegram does not say where the file is.");
    try {
      return await download(`${root}/file/bot${token}/${path}`, most, signal);
    } catch (error) {
      throw error instanceof Unloaded ? error : new Unloaded(`Telegram did not give the file (${codeOf(error)}).`);
    }
  }

  async function download(address: string, most: number, signal: AbortSignal): Promise<Uint8Array> {
    const get = secure ? secureGet : plainGet;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      get(address, { agent, signal }, resolve).on("error", reject);
    });
    if (response.statusCode !== 200) {
      response.destroy();
      throw new Unloaded(`Telegram did not give the file (${response.statusCode}).`);
    }
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let size = 0;
      response.on("data", (chunk: Buffer) => {
        size += chunk.length;
        chunks.push(chunk);
        if (size > most) response.destroy(new Unloaded(`The file has more than ${most} bytes.`));
      });
      response.on("error", reject);
      response.on("end", () => resolve(Buffer.concat(chunks)));
    });
  }

  return {
    call,
    load,
    close: () => {
      closed.abort();
      agent.destroy();
    },
  };
}

class Unloaded extends Error {}

/** grammy's types want the signal of another library; what it asks of one, ours can do as well. */
function theirs(signal: unknown): TheirSignal {
  if (!isTheirs(signal)) throw new TypeError("not a signal");
  return signal;
}
const isTheirs = (signal: unknown): signal is TheirSignal => signal instanceof AbortSignal;

function refusal(code: number, description: string, retryAfter: number | undefined): TelegramFault {
  const message = `Telegram says no: ${description}`;
  if (code === 429) return new TelegramFault(code, "no", message, (retryAfter ?? 1) * 1_000);
  // With another token it may go out after all; 404 is what a token gets that cannot be one.
  if (code === 401 || code === 404 || code === 409) return new TelegramFault(code, "no", message);
  if (code >= 500) return new TelegramFault(code, "unknown", message);
  return new TelegramFault(code, "never", message);
}

function outage(error: unknown): TelegramFault {
  const code = codeOf(error);
  if (NOT_CONNECTED.test(code) || / reason: connect /.test(messageOf(error)))
    return new TelegramFault(0, "no", `Telegram cannot be reached (${code}).`);
  return new TelegramFault(0, "unknown", `The connection to Telegram broke before it answered (${code}).`);
}

/** Never the message: it holds the address, and that the token. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "no reason given";
  if ("code" in error && typeof error.code === "string") return error.code;
  return "type" in error && typeof error.type === "string" ? error.type : error.name;
}
