// Calls to a platform: one pool of connections that can be ended, a limit on every wait, and what a failure says about
// whether the call has arrived.
import { SendFault } from "../../core/chat.ts";
import type { Clock } from "../../core/ports.ts";
import { linked } from "../../core/wait.ts";
import { failAfter, textWithin } from "../../platform/capped.ts";

type ApiRequest = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | null;
  signal?: AbortSignal | null;
};

export type ApiCalls = ReturnType<typeof openCalls>;

const ANSWER_MS = 30_000;
const DOWNLOAD_MS = 300_000;
/** What a platform answers is some kilobytes: a hundred messages, a list of people. */
const LONGEST_ANSWER = 32_000_000;
/** Platforms close connections that nobody uses; one that is closed under our hands looks like a lost message. */
const IDLE_MS = 10_000;

/** Loaded with the first call: undici takes 75 ms, and most processes talk to no platform. */
export function openCalls(clock: Clock) {
  let opening: ReturnType<typeof pool> | null = null;
  let closed = false;

  function opened(): ReturnType<typeof pool> {
    if (closed) throw new SendFault("no", "the connection was closed");
    opening ??= pool();
    return opening;
  }

  /** At most `most` bytes of the body of an answer can be read. */
  async function fetch(url: string, asked: ApiRequest = {}, most = LONGEST_ANSWER): Promise<Response> {
    const { fetch, agent } = await opened();
    return failAfter(most, await fetch(url, { redirect: "error", ...asked, dispatcher: agent }));
  }

  /** Posts JSON and returns the JSON of the answer, whatever its status. A third of what `fetch` takes. */
  async function post(url: string, sent: object, signal: AbortSignal): Promise<unknown> {
    const { request, agent } = await opened();
    const headers = { "content-type": "application/json" };
    const options = { method: "POST", headers, body: JSON.stringify(sent), signal, dispatcher: agent } as const;
    const { headers: about, body } = await request(url, options);
    const unasked = about["content-encoding"] !== undefined; // it would have to be unpacked to be counted
    return JSON.parse(await textWithin(body, unasked ? 0 : LONGEST_ANSWER));
  }

  /** Runs `call` with a signal that also ends it when no answer comes. Throws a SendFault if it need not begin at all. */
  async function within<T>(signal: AbortSignal, call: (cut: AbortSignal) => Promise<T>, limitMs = ANSWER_MS) {
    if (signal.aborted) throw new SendFault("no", "it was no longer wanted");
    const cut = linked([signal], { clock, ms: limitMs });
    try {
      return await call(cut.signal);
    } finally {
      cut.release();
    }
  }

  return {
    fetch,
    post,
    within,
    /** At most `most` bytes, counted while they come. */
    load(url: string, headers: Record<string, string>, most: number, signal: AbortSignal) {
      const download = async (signal: AbortSignal) => {
        const answer = await fetch(url, { headers, signal }, most);
        if (!answer.ok) throw new Error(`the platform answered ${answer.status}`);
        return { bytes: await answer.bytes(), mime: answer.headers.get("content-type") ?? "" };
      };
      return within(signal, download, DOWNLOAD_MS);
    },
    async close() {
      closed = true;
      await (await opening)?.agent.destroy();
    },
  };
}

async function pool() {
  const { Agent, fetch, request } = await import("undici");
  return { agent: new Agent({ connections: 16, keepAliveTimeout: IDLE_MS }), fetch, request };
}

/** Whether a call without an answer may have arrived. If the connection was never made, it has not. */
export function unanswered(platform: string, error: unknown): SendFault {
  if (error instanceof SendFault) return error;
  const code = codeOf(error);
  const landed = NOT_SENT.test(code) ? "no" : "unknown";
  // By its code: a message may hold the address, and with it a secret.
  return new SendFault(landed, `${platform} did not answer${code && ` (${code})`}.`);
}

const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_(CONNECT_TIMEOUT|DESTROYED|CLOSED)|.*CERT.*)$/;

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  if ("code" in error && typeof error.code === "string") return error.code;
  return codeOf(error.cause);
}
