// What went wrong with a model call, in one of a few kinds. What is done about a kind is decided in agent/faults.ts.
import { messageOf } from "../core/errors.ts";
import type { Fault, FaultKind } from "../core/ports.ts";
import { isObject, jsonIn } from "../platform/json.ts";

/** Everything that is known about a failure, whichever library it came from and in whatever shape. */
type Symptom = ReturnType<typeof symptomOf>;

/** The table: the first row that fits names the kind. */
const ROWS: { kind: FaultKind; fits: (s: Symptom) => boolean }[] = [
  // Only by its code: rate limit errors mention billing and quota too ("Upgrade at …/settings/billing").
  { kind: "quota", fits: (s) => s.status === 402 || named(s, QUOTA) || NO_CREDIT.test(s.words) },
  // Regardless of its text: here "too many tokens" means too many per minute, and a shorter conversation does not help.
  { kind: "rate_limited", fits: (s) => s.status === 429 },
  { kind: "too_long", fits: (s) => s.status === 413 || named(s, OVERFLOW) },
  { kind: "rate_limited", fits: (s) => named(s, /rate_limit|resource_exhausted|^1302$|^1305$/i) },
  { kind: "too_long", fits: (s) => mayOverflow(s) && TOO_LONG.test(s.words) },
  { kind: "filtered", fits: (s) => named(s, FILTERED) },
  // The server could not parse the tool call of its own model. The next attempt may work.
  { kind: "garbled", fits: (s) => named(s, /^tool_use_failed$/) },
  { kind: "auth", fits: (s) => is(s, 401, 403) || named(s, /^(authentication_error|permission_error)$/) },
  { kind: "unavailable", fits: (s) => is(s, 408, 409, 425) || (s.status ?? 0) >= 500 },
  { kind: "unavailable", fits: (s) => named(s, /overloaded|server_error|api_error|internal_error|timeout/i) },
  { kind: "bad_request", fits: (s) => (s.status ?? 0) >= 300 || named(s, /^invalid_request/) },
  { kind: "bad_request", fits: (s) => named(s, /CERT|SELF_SIGNED|ERR_TLS|ERR_INVALID_URL/) },
  { kind: "empty", fits: (s) => named(s, /^EMPTY_STREAM$/) },
  { kind: "incomplete", fits: (s) => /without a finish reason/i.test(s.message) },
  { kind: "network", fits: (s) => named(s, /^(E[A-Z]+|UND_ERR_\w+)$/) },
  {
    kind: "network",
    fits: (s) => /terminated|fetch failed|socket hang up|other side closed|cannot connect/i.test(s.message),
  },
  { kind: "garbled", fits: () => true },
];

const QUOTA =
  /^(insufficient_quota|exceeded_current_quota_error|billing_error|billing_hard_limit_reached|billing_not_active|insufficient_balance|arrearage|1113)$/i;
/** Anthropic has no name for it: 400, invalid_request_error. */
const NO_CREDIT = /your credit balance is too low/i;
const FILTERED = /^(content_filter|content_policy_violation|data_?inspection_?failed|1301)$/i;
const OVERFLOW =
  /^(context_length_exceeded|exceed_context_size_error|context_exceeded|model_max_prompt_tokens_exceeded|request_too_large|string_above_max_length|1261)$/;
/** The texts of servers that have no code for it. Status 500 is only accepted from llama.cpp: a proxy means something else by it. */
const TOO_LONG = new RegExp(
  [
    "context length",
    "context window",
    "context size",
    "context limit", // input length and `max_tokens` exceed context limit
    "maximum context",
    "maximum prompt length",
    "maximum model length",
    "context shift is disabled",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "(prompt|request|input|conversation) (is )?too large for model",
    "exceeds? (the )?(max|maximum)( input)? length",
    "model max length exceeded",
    "exceeded model token limit",
    "token count .{0,40}exceeds",
    "range of input length should be",
    "`inputs` (tokens|must have less)",
    "exceeds the model's (maximum|context)",
    "reduce the length of the (messages|input|prompt)",
  ].join("|"),
  "i",
);

const is = ({ status = 0 }: Symptom, ...statuses: number[]) => statuses.includes(status);
const mayOverflow = ({ status = 0 }: Symptom) => [0, 200, 400, 422, 500].includes(status);
const named = ({ names }: Symptom, pattern: RegExp) => names.some((name) => pattern.test(name));

const LONGEST_REASON = 500;
const LONGEST_BODY = 20_000;

export function classify(error: unknown): Fault {
  const symptom = symptomOf(error);
  const kind = ROWS.find((row) => row.fits(symptom))?.kind ?? "garbled";
  const { status, message, retryAfter } = symptom;
  const reason = `${status ? `HTTP ${status}: ` : ""}${message || "the provider failed without saying why"}`;
  return {
    end: "fault",
    kind,
    reason: reason.replaceAll(/\s+/g, " ").slice(0, LONGEST_REASON),
    ...(retryAfter !== undefined && { retryAfter }),
  };
}

/** Libraries wrap what happened in an error of theirs, with the cause inside; servers send it as a body of any shape, or
 *  as data in the stream. */
function symptomOf(error: unknown) {
  const layers = layersOf(error);
  const all = (key: string) =>
    layers.map((layer) => layer[key]).filter((value) => value !== undefined && value !== null);
  /** Every code and type that was named, each one word. */
  const names = ["code", "type", "status", "error_type"].flatMap(all).filter(isName).map(String);
  // Inside a stream that began well, and behind HTTP 200, the number of the error is in its `code`.
  const statuses = ["statusCode", "status_code", "status", "code"].flatMap(all).map(Number);
  const status = statuses.find((one) => Number.isInteger(one) && one >= 300 && one <= 599);
  const headers = all("responseHeaders").find(isObject);
  const said = [...new Set(layers.flatMap(saidIn))];
  const words = [...said, ...(layers.length ? [] : [messageOf(error)])].join("\n").slice(0, LONGEST_BODY);
  const retryAfter = (headers && waitOf(headers)) ?? waitIn(words);
  return {
    ...(status !== undefined && { status }),
    ...(retryAfter !== undefined && { retryAfter }),
    names,
    /** The whole text of the error, and the part of it that is meant for people. */
    words,
    message: said.at(-1) ?? messageOf(error),
  };
}

const isName = (value: unknown) => (typeof value === "string" && /^\S{1,80}$/.test(value)) || typeof value === "number";

/** From the outer error to its cause. The last one with a text is the closest to what happened. */
function layersOf(error: unknown): Record<string, unknown>[] {
  const layers: Record<string, unknown>[] = [];
  const add = (value: unknown) => {
    const read = typeof value === "string" ? parsed(value) : value;
    if (Array.isArray(read)) return read.slice(0, 3).forEach(add);
    if (!isObject(read) || layers.includes(read) || layers.length >= MOST_LAYERS) return;
    layers.push(read);
    // If the body does not fit the schema of the library, the body is what the server said. The cause only says how it does not fit.
    for (const key of INNER) if (key !== "cause" || read["value"] === undefined) add(read[key]);
  };
  add(error);
  return layers;
}
const MOST_LAYERS = 16;
/** OpenRouter hands on in `metadata.raw` what the provider behind it said; FastAPI's `detail` may be a list. */
const INNER = "cause data value text responseBody response error errors detail metadata raw".split(" ");

/** The text of a layer for people. Text that is JSON is a layer of its own, unless it contains no text. */
function saidIn(layer: Record<string, unknown>): string[] {
  return ["message", "msg", "error", "detail", "raw", "responseBody"].flatMap((key) => {
    const text = layer[key];
    if (typeof text !== "string" || !text.trim()) return [];
    const read = parsed(text);
    if (read === undefined) return [plain(text)];
    return key === "responseBody" && !layersOf(read).flatMap(saidIn).length ? [text.trim()] : [];
  });
}

/** The text of a web page: its headings say what a proxy means. */
function plain(text: string): string {
  if (!/^\s*</.test(text)) return text.trim();
  const bare = text.replaceAll(/<(script|style|title)\b[\s\S]*?<\/\1\s*>|<[^>]*>/gi, " ");
  return bare.replaceAll(/\s+/g, " ").trim() || "a web page";
}

const parsed = (text: string): unknown =>
  text.length > LONGEST_BODY || !/^\s*[[{"]/.test(text) ? undefined : jsonIn(text);

/** `Retry-After` in milliseconds: seconds or a date; nonsense counts as absent. */
function waitOf(headers: Record<string, unknown>): number | undefined {
  const exact = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (exact >= 0) return exact;
  const value = headers["retry-after"];
  if (typeof value !== "string" || !value.trim()) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000);
  const sent = Date.parse(String(headers["date"]));
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - (Number.isNaN(sent) ? Date.now() : sent));
}

/** "Please try again in 7m12.5s": where there is no header. */
function waitIn(words: string): number | undefined {
  const [, hours = 0, minutes = 0, seconds = 0, ms = 0] =
    /(?:try again|retry) in (?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s\b)?(?:([\d.]+)ms)?/i.exec(words) ?? [];
  const wait = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1_000 + Number(ms);
  return wait > 0 ? Math.ceil(wait) : undefined;
}
