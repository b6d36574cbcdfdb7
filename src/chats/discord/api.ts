// Calls to Discord's REST API, without retries of the library's own, and what a failed call means for a message.
import { REST, type RouteLike } from "@discordjs/rest";
import { z } from "zod";
import { SendFault } from "../../core/chat.ts";
import { type ApiCalls, unanswered } from "../shared/calls.ts";

type Arguments = { body?: unknown; query?: URLSearchParams; auth?: boolean };
export type DiscordApi = ReturnType<typeof openApi>;
type Verb = "get" | "post" | "put" | "patch" | "delete";

/** Longer than our own time limit, which counts. */
const TIMEOUT_MS = 60_000;

export function openApi(given: {
  token: string;
  apiRoot: string | undefined;
  calls: ApiCalls;
  /** Discord has answered. */
  alive(): void;
}) {
  const { token, apiRoot, calls, alive } = given;
  const rest = new REST({
    ...(apiRoot !== undefined && { api: apiRoot.replace(/\/+$/, "") }),
    retries: 0,
    timeout: TIMEOUT_MS,
    offset: 0,
    // The library would wait by itself, and nobody could stop the wait.
    rejectOnRateLimit: () => true,
    makeRequest: async (url, { method = "GET", headers, body, signal }) => {
      const answer = await calls.fetch(url, {
        method,
        headers: headersShape.parse(headers),
        body: typeof body === "string" ? body : null,
        signal: signal ?? null,
      });
      alive();
      return answer;
    },
  });
  return {
    /** Throws what @discordjs/rest throws; see `faultOf`. */
    ask: (verb: Verb, route: RouteLike, asked: Arguments, signal: AbortSignal) =>
      // The library forgets the token when Discord refuses it once.
      calls.within(signal, (signal) => rest.setToken(token)[verb](route, { ...asked, signal })),
  };
}

const headersShape = z.record(z.string(), z.string());

/** Whether the message of a failed call may have arrived. */
export function faultOf(error: unknown): SendFault {
  if (!(error instanceof Error)) return unanswered("Discord", error);
  if ("retryAfter" in error && typeof error.retryAfter === "number")
    return new SendFault("no", "Discord asks us to wait.", Math.max(0, error.retryAfter));
  if (!("status" in error) || typeof error.status !== "number") return unanswered("Discord", error);
  if (error.status >= 500) return new SendFault("unknown", `Discord answered ${error.status}.`);
  const refused = `Discord refused it: ${error.message} (${error.status}, ${codeOf(error) ?? "no code"}).`;
  // Only another token can help here.
  return new SendFault(error.status === 401 ? "no" : "never", refused);
}

export const isUnauthorized = (error: unknown): boolean =>
  error instanceof Error && "status" in error && error.status === 401;

export const codeOf = (error: unknown): number | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
