// What went wrong with a model call, in one of a few kinds. What is done about a kind is decided in agent/faults.ts.

import { messageOf } from "../core/errors.ts";
import type { Fault, FaultKind } from "../core/ports.ts";

/** Everything that is known about a failure, whichever library it came from. */
type Symptom = {
  status?: number;
  code?: string;
  type?: string;
  body: string;
  message: string;
  retryAfter?: number;
};

/** The table: the first row that fits names the kind. */
const ROWS: { kind: FaultKind; fits: (s: Symptom) => boolean }[] = [
  { kind: "too_long", fits: (s) => !between(s, 500, 599) && TOO_LONG.test(`${s.code} ${s.body} ${s.message}`) },
  {
    kind: "quota",
    fits: (s) => s.status === 402 || /insufficient_quota|billing|credit balance/i.test(`${s.code} ${s.type} ${s.body}`),
  },
  {
    kind: "auth",
    fits: (s) => s.status === 401 || s.status === 403 || /authentication_error|permission_error/.test(`${s.type}`),
  },
  { kind: "rate_limited", fits: (s) => s.status === 429 || /rate_limit/.test(`${s.type} ${s.code}`) },
  {
    kind: "unavailable",
    fits: (s) => s.status === 408 || s.status === 409 || s.status === 425 || between(s, 500, 599),
  },
  {
    kind: "unavailable",
    fits: (s) => /overloaded|server_error|api_error|internal_error|timeout/i.test(`${s.type} ${s.code}`),
  },
  { kind: "bad_request", fits: (s) => between(s, 300, 499) || /invalid_request/.test(`${s.type}`) },
  { kind: "bad_request", fits: (s) => /CERT|SELF_SIGNED|ERR_TLS|ERR_INVALID_URL/.test(`${s.code}`) },
  { kind: "incomplete", fits: (s) => /without a finish reason/i.test(s.message) },
  { kind: "network", fits: (s) => /^(E[A-Z]+|UND_ERR_\w+)$/.test(`${s.code}`) },
  {
    kind: "network",
    fits: (s) => /terminated|fetch failed|socket hang up|other side closed|cannot connect/i.test(s.message),
  },
  { kind: "garbled", fits: () => true },
];
const TOO_LONG =
  /context_length_exceeded|context length|context window|maximum context|prompt is too long|too many tokens|exceeds the (model's )?(maximum|context)|input is too long/i;
const between = ({ status = 0 }: Symptom, low: number, high: number) => status >= low && status <= high;

export function classify(error: unknown): Fault {
  const symptom = symptomOf(error);
  const kind = ROWS.find((row) => row.fits(symptom))?.kind ?? "garbled";
  const { status, message, retryAfter } = symptom;
  const reason = `${status && status >= 300 ? `HTTP ${status}: ` : ""}${message || "the provider failed without saying why"}`;
  return { end: "fault", kind, reason: reason.slice(0, 500), ...(retryAfter !== undefined && { retryAfter }) };
}

/** Providers wrap what happened in an error of theirs, with the cause inside, or send it as plain data in the stream. */
function symptomOf(error: unknown): Symptom {
  const layers: Record<string, unknown>[] = [];
  for (let at: unknown = error; isObject(at) && layers.length < 6; at = at["cause"] ?? at["error"] ?? at["data"])
    layers.push(at);
  const first = (key: string) =>
    layers.map((layer) => layer[key]).find((value) => value !== undefined && value !== null);
  const status = Number(first("statusCode") ?? first("status_code") ?? Number.NaN);
  const code = first("code");
  const headers = first("responseHeaders");
  const retryAfter = isObject(headers) ? waitOf(headers) : undefined;
  const types = layers.map((layer) => layer["type"]).filter((type) => typeof type === "string" && type !== "error");
  const text = layers.map((layer) => layer["message"]).findLast((message) => typeof message === "string" && message);
  return {
    ...(Number.isInteger(status) && { status }),
    ...((typeof code === "string" || typeof code === "number") && { code: String(code) }),
    ...(types.length > 0 && { type: types.join(" ") }),
    ...(retryAfter !== undefined && { retryAfter }),
    body: textOf(first("responseBody")).slice(0, 10_000),
    message: textOf(text) || messageOf(error),
  };
}

/** `Retry-After` in milliseconds: seconds or a date; nonsense counts as absent. */
function waitOf(headers: Record<string, unknown>): number | undefined {
  const exact = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (exact >= 0) return exact;
  const value = headers["retry-after"];
  if (typeof value !== "string" || !value.trim()) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000);
  const sent = Date.parse(textOf(headers["date"]));
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - (Number.isNaN(sent) ? Date.now() : sent));
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
