// The only redactor, used at every output: log file, stderr, error messages, results of tools. It works on values
// before they are serialised, so escaping cannot split a secret.
import { attempt } from "./attempt.ts";

export type Redactor = ReturnType<typeof createRedactor>;

/** Replaces a secret. */
export const HIDDEN = "[redacted]";
const SHORTEST = 8;
// Limits for one event. A log line points to what happened; it does not archive it.
const LONGEST_TEXT = 16_384;
const LONGEST_SECRET = 4096;
const MOST_ITEMS = 100;
const DEEPEST = 8;

const SHAPES = new RegExp(
  [
    /\bsk-[\w-]{8,}/,
    /\bxox[a-z]-[\w-]{8,}|\bxapp-[\w-]{8,}/,
    /\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}/,
    /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/,
    /\bAIza[\w-]{30,}/,
    /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+/, // JWT
    /(?<!\d)\d{8,10}:[\w-]{35}(?![\w-])/, // Telegram bot; follows "/bot" in a URL, so no \b before it
    // If a key block has no end, the rest of the text is hidden.
    /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$)/,
    /(?<=\b[Bb]earer\s{1,4}|\bBEARER\s{1,4})[\w.~+/=-]{8,}/,
    /(?<=:\/\/)[^\s/:@"']{0,256}:[^\s/"']{1,1024}(?=@)/, // user:password@
  ]
    .map((shape) => shape.source)
    .join("|"),
  "g",
);

const NAMES = "authorization|api[_-]?key|access[_-]?key|private[_-]?key|token|secret|password|passwd|passphrase|cookie";
const NAME_AT_END = new RegExp(`(?:${NAMES}|credentials?|secret[_-]?key)$`, "i");
// JSON inside text, also JSON inside JSON: the value ends at the quote, with the same escapes, that opened it.
const QUOTED = new RegExp(
  `((?:${NAMES})(\\\\*["'])\\s{0,8}:\\s{0,8})(\\\\*["'])[\\s\\S]{0,4096}?(?:(?<!\\\\)\\3|$)`,
  "gi",
);
const ASSIGNED = new RegExp(`((?:${NAMES})=)[^\\s&"'\\\\;,]+`, "gi");
const HEADER = /\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(:\s{0,8})[^\r\n"\\]+/gi;
const NAMED = new RegExp(`(?:${NAMES})\\\\*["']?\\s{0,8}[:=]`, "i");

/** `inputTokens` and `key` are not secrets; `botToken`, `API_KEY` and `set-cookie` are. */
export const isSecretName = (name: string): boolean => NAME_AT_END.test(name);

export const createRedactor = () => {
  const secrets = new Set<string>();
  let known: RegExp | null = null;
  let telling: string[] = [];

  /** Never show this value again, in any encoding. Values shorter than 8 are ignored: they would blank out ordinary words. */
  const add = (value: string): void => {
    if (value.length < SHORTEST || secrets.has(value)) return;
    for (const form of formsOf(value)) secrets.add(form);
    if (isTelling(value)) telling = [...new Set([...telling, ...formsOf(value)])].sort((a, b) => b.length - a.length);
    // Longest first: of two secrets with the same beginning, the longer must not leave its tail.
    const forms = [...secrets].sort((a, b) => b.length - a.length);
    known = new RegExp(forms.map((form) => RegExp.escape(form)).join("|"), "g");
  };

  const text = (whole: string): string => {
    let out = known === null ? whole : whole.replace(known, HIDDEN);
    out = out.replace(SHAPES, HIDDEN);
    if (!NAMED.test(out)) return out;
    return out.replace(QUOTED, `$1$3${HIDDEN}$3`).replace(ASSIGNED, `$1${HIDDEN}`).replace(HEADER, `$1$2${HIDDEN}`);
  };

  /** Hides only values that were added, not text that looks like a secret. For results of tools: the agent must be able to work on a
   *  program that contains `password=`. One search per secret: 10 ms for 1 MB with 30 secrets. */
  const hideKnown = (whole: string): string =>
    telling.reduce((rest, form) => (rest.includes(form) ? rest.replaceAll(form, HIDDEN) : rest), whole);

  const bounded = (whole: string): string => {
    if (whole.length <= LONGEST_TEXT) return text(whole);
    // Cut, redact, cut again: the first cut may split a secret, whose head is then at the end.
    const head = text(whole.slice(0, 2 * LONGEST_TEXT))
      .slice(0, -LONGEST_SECRET)
      .slice(0, LONGEST_TEXT);
    return `${head}… (${whole.length} characters)`;
  };

  /** A copy for the log: plain, bounded, without secrets. */
  const value = (input: unknown, depth = 0, above: readonly object[] = []): unknown => {
    if (typeof input === "string") return bounded(input);
    if (typeof input === "number") return secrets.has(String(input)) ? HIDDEN : input;
    if (typeof input === "bigint") return text(String(input));
    if (input === null || typeof input === "boolean" || input === undefined) return input;
    if (typeof input !== "object") return `[${typeof input}]`;
    if (above.includes(input)) return "[circular]";
    if (depth === DEEPEST) return "[too deep]";
    if (ArrayBuffer.isView(input)) return `[${input.byteLength} bytes]`;
    if (input instanceof Date) return Number.isNaN(input.getTime()) ? "[invalid date]" : input.toISOString();
    if (input instanceof URL) return bounded(input.href);

    const inside = [...above, input];
    if (Array.isArray(input) || input instanceof Set) {
      const items = [...input];
      const shown = items.slice(0, MOST_ITEMS).map((item) => value(item, depth + 1, inside));
      return items.length > MOST_ITEMS ? [...shown, `… (${items.length} items)`] : shown;
    }

    const entries = entriesOf(input);
    const out: Record<string, unknown> = Object.create(null);
    for (const [name, field] of entries.slice(0, MOST_ITEMS)) {
      const hide = isSecretName(name) && field !== null && field !== undefined && typeof field !== "boolean";
      out[text(name)] = hide ? HIDDEN : value(field, depth + 1, inside);
    }
    if (entries.length > MOST_ITEMS) out["…"] = `(${entries.length} fields)`;
    return out;
  };

  return { add, text, known: hideKnown, value: (input: unknown) => value(input) };
};

const formsOf = (value: string): string[] => {
  const json = JSON.stringify(value).slice(1, -1);
  const forms = [value, value.trim(), json, JSON.stringify(json).slice(1, -1), encodeURIComponent(value)];
  return forms.filter((form) => form.length >= SHORTEST);
};

/** A word or a path (`SSH_KEY=/home/me/key`) can occur anywhere and is harmless. */
const isTelling = (value: string): boolean => value.length >= 12 && !/^[A-Za-z]+$|^[~./]/.test(value);

/** A getter or a proxy may throw. */
const entriesOf = (input: object): [string, unknown][] => attempt(() => readEntries(input)) ?? [["unreadable", true]];

const readEntries = (input: object): [string, unknown][] => {
  if (input instanceof Map) return [...input].map(([key, field]) => [String(key), field]);
  if (!(input instanceof Error)) return Object.entries(input);
  const { name, message, stack, cause } = input;
  const own = Object.entries(input).filter(([key]) => !["name", "message", "stack", "cause"].includes(key));
  const rest: [string, unknown][] = [["stack", stack], ...own];
  if (cause !== undefined) rest.push(["cause", cause]);
  if (input instanceof AggregateError) rest.push(["errors", input.errors]);
  return [["name", name], ["message", message], ...rest];
};
