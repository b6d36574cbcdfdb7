// Calls to Telegram's Bot API, and what their failures mean. The token stands in every address, so no error of the library
// or of a socket is passed on as it is.
import { Agent as PlainAgent } from "node:http";
import { Agent as SecureAgent } from "node:https";
import type { Api } from "grammy";
import { SendFault } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";
import { openCalls, unanswered } from "../shared/calls.ts";

type TheirSignal = NonNullable<Parameters<Api["getMe"]>[0]>;
type Work<T> = (api: Api, signal: TheirSignal) => Promise<T>;

export type TelegramApi = {
  /** Throws a TelegramFault. */
  call<T>(work: Work<T>, limits?: { signal?: AbortSignal; ms?: number }): Promise<T>;
  /** A file of a message, by its id. Throws an Error that anybody may read. */
  load(file: string, most: number, signal: AbortSignal): Promise<Uint8Array>;
  close(): Promise<void>;
};

/** `code`: Telegram's error code; 0 if it did not answer. */
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
  /** Telegram has answered, be it with a refusal. */
  answered(): void;
};

/** Telegram closes connections that nobody uses; one that it closes under our hands looks like a lost message. */
const IDLE_MS = 10_000;
/** Bytes, decompressed. A hundred updates are the most that it gives at once. */
const LONGEST_ANSWER = 32_000_000;

export function openApi({ token, apiRoot, clock, answered }: Options): TelegramApi {
  const root = apiRoot.replace(/\/+$/, "");
  const agent = new (root.startsWith("https:") ? SecureAgent : PlainAgent)({ keepAlive: true, timeout: IDLE_MS });
  const calls = openCalls(clock);
  const never = new AbortController().signal;
  let opening: ReturnType<typeof library> | null = null;
  let closed = false;

  function withoutAddress(error: unknown): never {
    throw new Error(messageOf(error).replaceAll(token, "[redacted]"));
  }

  /** Loaded with the first call: most people have no bot at Telegram. */
  async function library() {
    const { Api, GrammyError, HttpError } = await import("grammy");
    const api = new Api(token, { apiRoot: root, baseFetchConfig: { agent, compress: true, size: LONGEST_ANSWER } });
    return { api, GrammyError, HttpError };
  }

  const call: TelegramApi["call"] = async (work, { signal = never, ms } = {}) => {
    opening ??= library();
    const { api, GrammyError, HttpError } = await opening;
    if (closed) throw new TelegramFault(0, "no", "The connection to Telegram is closed.");
    try {
      const answer = await calls.within(signal, (cut) => work(api, theirs(cut)), ms);
      answered();
      return answer;
    } catch (error) {
      const why = error instanceof HttpError ? error.error : error;
      if (isTooLarge(why)) agent.destroy(); // the library refuses the rest and yet reads on
      if (!(error instanceof GrammyError)) throw outage(why);
      answered();
      throw refusal(error.error_code, error.description, error.parameters.retry_after);
    }
  };

  return {
    call,
    async load(file, most, signal) {
      const { file_path: path } = await call((api, cut) => api.getFile(file, cut), { signal });
      const { bytes } = await calls.load(`${root}/file/bot${token}/${path}`, {}, most, signal).catch(withoutAddress);
      return bytes;
    },
    async close() {
      closed = true;
      agent.destroy();
      await calls.close();
    },
  };
}

/** grammy's types want the AbortSignal of another library. Node's own signal has all that grammy uses of it. */
function theirs(signal: unknown): TheirSignal {
  if (!isTheirs(signal)) throw new TypeError("not a signal");
  return signal;
}
const isTheirs = (signal: unknown): signal is TheirSignal => signal instanceof AbortSignal;

const isTooLarge = (error: unknown) => error instanceof Error && "type" in error && error.type === "max-size";

function outage(error: unknown): TelegramFault {
  const { landed, message } = unanswered("Telegram", error);
  return new TelegramFault(0, landed, message);
}

function refusal(code: number, description: string, retryAfter: number | undefined): TelegramFault {
  const message = `Telegram says no: ${description}`;
  if (code === 429) return new TelegramFault(code, "no", message, (retryAfter ?? 1) * 1_000);
  // With another token it may go out after all; 404 is what a token gets that cannot be one.
  if (code === 401 || code === 404) return new TelegramFault(code, "no", message);
  if (code >= 500) return new TelegramFault(code, "unknown", message);
  return new TelegramFault(code, code === 409 ? "no" : "never", message);
}
