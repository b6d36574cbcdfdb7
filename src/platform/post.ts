// One POST to an address that the user configured: limited in time, never redirected to another host, and without the
// sent data in its errors.
import { codeOf } from "../core/errors.ts";
import { linked } from "../core/wait.ts";
import { clock } from "./clock.ts";

export type Post = ReturnType<typeof openPost>;

/** Nobody reads the body of the answer. This much of it is read and dropped, to keep the connection. */
const MOST_IGNORED = 65_536;

export function openPost({ limitMs = 10_000 } = {}) {
  /** Loaded with the first request: undici takes 75 ms, and most processes send nothing. */
  let opening: ReturnType<typeof connections> | null = null;
  return {
    /** Throws an Error whose message is safe to show. */
    async send(url: string, what: { headers: Record<string, string>; body: string; signal: AbortSignal }) {
      const { headers, body, signal } = what;
      opening ??= connections();
      const { request, agent } = await opening;
      const cut = linked([signal], { clock, ms: limitMs });
      try {
        const answer = await request(url, { method: "POST", headers, body, signal: cut.signal, dispatcher: agent });
        // Only the status matters, whatever happens to the body.
        await answer.body.dump({ limit: MOST_IGNORED, signal: cut.signal }).catch(() => answer.body.destroy());
        return { status: answer.statusCode, retryAfter: oneOf(answer.headers["retry-after"]) };
      } catch (error) {
        const late = cut.signal.aborted && !signal.aborted;
        throw new Error(late ? `no answer within ${limitMs / 1_000} s` : reason(error), { cause: error });
      } finally {
        cut.release();
      }
    },
    /** Aborts requests that are under way. */
    close: async () => (await opening)?.agent.destroy(),
  };
}

async function connections() {
  const { Agent, request } = await import("undici");
  return { agent: new Agent({ connections: 8 }), request };
}

const oneOf = (header: string | string[] | undefined) => (Array.isArray(header) ? header[0] : header) ?? null;

/** Uses the code of the error: its message may contain the address or a header, and with it a secret. */
const reason = (error: unknown) => (codeOf(error) ? `no answer (${codeOf(error)})` : "no answer");
