// Calls to Slack's Web API, without retries of the library's own, and what a failed call means for a message.
import type { FetchFunction, Logger, LogLevel } from "@slack/web-api";
import { SendFault } from "../../core/chat.ts";
import { type ApiCalls, unanswered } from "../shared/calls.ts";

export type SlackApi = ReturnType<typeof openApi>;

type Options = {
  token: string;
  apiRoot: string;
  calls: ApiCalls;
  /** Slack has answered. */
  alive(): void;
};

export const openApi = ({ token, apiRoot, calls, alive }: Options) => ({
  /** Throws what Slack's library throws; see `faultOf`. */
  ask: (method: string, args: Record<string, unknown>, signal: AbortSignal) =>
    calls.within(signal, async (signal): Promise<Record<string, unknown>> => {
      const { LogLevel, WebClient } = await import("@slack/web-api");
      const fetch = fetchFor(calls, signal, alive);
      // One client for each call (0.1 ms): there is no other way to give a call a signal.
      const web = new WebClient(token, { ...onceAt(apiRoot), fetch, logger: quiet(LogLevel.ERROR) });
      return { ...(await web.apiCall(method, args)) };
    }),
});

export const onceAt = (slackApiUrl: string) => ({
  slackApiUrl,
  retryConfig: { retries: 0 },
  rejectRateLimitedCalls: true,
});

export const fetchFor =
  (calls: ApiCalls, signal: AbortSignal, alive: () => void): FetchFunction =>
  async (url, { method = "GET", headers = {}, body } = {}) => {
    const answer = await calls.fetch(String(url), {
      method,
      headers,
      body: typeof body === "string" ? body : null,
      signal,
    });
    alive();
    return answer;
  };

/** What its libraries would log, we say in our own words, without addresses that hold secrets. */
export function quiet(level: LogLevel, debug: (text: string) => void = () => {}): Logger {
  const ignore = () => {};
  return {
    debug: (text: unknown) => debug(String(text)),
    info: ignore,
    warn: ignore,
    error: ignore,
    setLevel: ignore,
    setName: ignore,
    getLevel: () => level,
  };
}

/** Slack's names for a token that it does not accept. */
export const REFUSED = new Set(
  `account_inactive invalid_auth missing_scope no_permission not_allowed_token_type not_authed token_expired
  token_revoked`.split(/\s+/),
);
/** Errors after which a part of the call may have been done. */
const UNCLEAR = new Set(["fatal_error", "internal_error", "request_timeout", "service_unavailable"]);

/** Whether the message of a failed call may have arrived. */
export function faultOf(error: unknown): SendFault {
  if (!(error instanceof Error)) return unanswered("Slack", error);
  if ("retryAfter" in error && typeof error.retryAfter === "number")
    return new SendFault("no", "Slack asks us to wait.", error.retryAfter * 1_000);
  const name = reasonOf(error);
  if (name !== undefined) {
    const landed = REFUSED.has(name) || name === "ratelimited" ? "no" : UNCLEAR.has(name) ? "unknown" : "never";
    return new SendFault(landed, `Slack refused it: ${name}.`);
  }
  if ("statusCode" in error) return new SendFault("unknown", `Slack answered ${String(error.statusCode)}.`);
  return unanswered("Slack", "original" in error ? error.original : error);
}

/** Slack's name for what is wrong. */
export function reasonOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("data" in error)) return undefined;
  const name: unknown = Reflect.get(Object(error.data), "error");
  // A page instead of an answer is put there as well.
  return typeof name === "string" && /^\w{1,60}$/.test(name) ? name : undefined;
}
