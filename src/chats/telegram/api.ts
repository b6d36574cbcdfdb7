// Calls to Telegram's Bot API, and what their failures mean. The token stands in every address, so no error of a socket is passed
// on as it is.
import type { ApiMethods } from "grammy/types";
import { SendFault } from "../../core/chat.ts";
import { messageOf } from "../../core/errors.ts";
import type { Clock } from "../../core/ports.ts";
import { toObject } from "../../platform/json.ts";
import { openCalls, unanswered } from "../shared/calls.ts";

type CallLimits = { signal?: AbortSignal; ms?: number };

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

export function openApi({ token, apiRoot, clock, answered }: Options) {
  const root = apiRoot.replace(/\/+$/, "");
  const calls = openCalls(clock);
  const never = new AbortController().signal;

  function withoutAddress(error: unknown): never {
    throw new Error(messageOf(error).replaceAll(token, "[redacted]"));
  }

  /** Throws a TelegramFault. */
  async function call<M extends keyof ApiMethods>(
    method: M,
    params: Parameters<ApiMethods[M]>[0],
    { signal = never, ms }: CallLimits = {},
  ): Promise<ReturnType<ApiMethods[M]>> {
    const answer = await calls
      .within(signal, (cut) => calls.post(`${root}/bot${token}/${method}`, params ?? {}, cut), ms)
      .catch((error: unknown) => {
        throw outage(error);
      });
    if (!isAnswer<ReturnType<ApiMethods[M]>>(answer)) throw outage(null);
    answered();
    if (answer.ok) return answer.result;
    throw refusal(answer.error_code, answer.description, answer.parameters?.retry_after);
  }

  return {
    call,
    /** A file of a message, by its id. Throws an Error that anybody may read. */
    async load(file: string, most: number, signal: AbortSignal) {
      const { file_path: path } = await call("getFile", { file_id: file }, { signal });
      const { bytes } = await calls.load(`${root}/file/bot${token}/${path}`, {}, most, signal).catch(withoutAddress);
      return bytes;
    },
    close: calls.close,
  };
}

type ApiAnswer<T> =
  | { ok: true; result: T }
  | { ok: false; error_code: number; description: string; parameters?: { retry_after?: number } };

const isAnswer = <T>(value: unknown): value is ApiAnswer<T> => "ok" in toObject(value);

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
