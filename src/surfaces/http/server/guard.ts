// Who may ask at all. It looks at each request before anything is routed: Host, then Origin, then the key, then the
// kind and size of the body. Nothing it refuses has changed anything.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIPv6 } from "node:net";
import { createBounded } from "../../../core/bounded.ts";
import type { Clock } from "../../../core/ports.ts";
import { BODY_LIMIT, bodyTooLarge, PEER_BODY_LIMIT } from "./body.ts";
import { type Problem, problem, withHeaders } from "./problem.ts";

type RequestHeaders = Record<string, string>;
type KeyAccess = "open" | "key" | "basic" | "node";
type Options = {
  /** Our own addresses, with port, in lower case. Asked each time: port 0 is known only after the start. */
  hosts(): ReadonlySet<string>;
  /** Whose pages may call us. */
  origins: ReadonlySet<string>;
  key: string;
  /** What nodes that share our store have instead of a key, for the paths that are theirs. */
  secret?: string | undefined;
  /** What a path needs. `basic`: a browser may ask its user, who gives the key as password. Only plain paths are asked
   * about: any other spelling needs the key, since the router may read it as another path. */
  open(method: string, path: string): KeyAccess;
  /** A browser that is signed in needs no key. */
  signedIn?(request: IncomingMessage): boolean;
  clock: Clock;
};

/** `headers` go with the answer. */
type GuardVerdict =
  | { deny: Problem }
  | { preflight: RequestHeaders }
  /** `peer`: another node of ours asks. */
  | { headers: RequestHeaders; peer?: true };

export const securityHeaders: Readonly<RequestHeaders> = {
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

const PREFLIGHT: Readonly<RequestHeaders> = {
  "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
  "Access-Control-Allow-Headers":
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Hermes-Session-Key, X-Hermes-Session-Id, " +
    "X-Hermes-Chat-Id, X-Hermes-Side-Call, X-Stainless-Retry-Count",
  "Access-Control-Max-Age": "600",
};
const EXPOSED =
  "Idempotency-Replayed, Retry-After, X-Request-Id, X-Should-Retry, X-Hermes-Ignored, X-Hermes-Session-Id, X-Hermes-Session-Key";

export const createGuard = ({ hosts, origins, key, secret, open, signedIn = () => false, clock }: Options) => {
  const isKey = keyCheck(key);
  const isSecret = secret === undefined ? () => false : keyCheck(secret);
  const failures = createFailures(clock);

  return (request: IncomingMessage): GuardVerdict => {
    const misdirected = wrongHost(request, hosts());
    if (misdirected) return { deny: misdirected };

    const { origin, host = "" } = request.headers;
    const foreign = origin !== undefined && !isOwn(origin, host) ? origin : undefined;
    if (foreign !== undefined && !isListed(foreign, origins)) return { deny: foreignOrigin() };
    const headers = foreign === undefined ? {} : corsHeaders(foreign);
    // A browser asks without the key whether it may send it.
    if (foreign !== undefined && request.method === "OPTIONS") return { preflight: { ...headers, ...PREFLIGHT } };

    const access = accessTo(request, open);
    const peer = access === "node";
    const denied = wrongKey(request, access) ?? wrongBody(request, peer ? PEER_BODY_LIMIT : BODY_LIMIT);
    // A page may read why it was refused, once it may call at all.
    return denied ? { deny: withHeaders(denied, headers) } : { headers, ...(peer && { peer }) };
  };

  function wrongKey(request: IncomingMessage, access: KeyAccess): Problem | null {
    if (access === "open") return null;
    const given = request.headers.authorization;
    if (given === undefined && access !== "node" && signedIn(request)) return null;
    const presented = given === undefined ? null : credential(given, access);
    // The right key is never locked out, whatever others do from the same address.
    if (presented !== null && (access === "node" ? isSecret : isKey)(presented)) return null;
    // Without any header nothing was guessed.
    const wait = given === undefined ? null : failures.add(request.socket.remoteAddress);
    if (wait !== null) return tooManyFailures(wait);
    return unauthorized(given === undefined, access);
  }
};

// ── Host and Origin ───────────────────────────────────────────────────────────────────────────────────

/** A page whose name was made to lead here (DNS rebinding) still sends its own name as Host. */
const wrongHost = ({ url = "", rawHeaders }: IncomingMessage, hosts: ReadonlySet<string>): Problem | null => {
  // Not from `headers`, where a second Host is dropped silently.
  const named = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === "host");
  const [host = ""] = named;
  // A target that is an address (`GET http://name/`) names a second host, and the router would believe that one.
  if (named.length === 1 && hosts.has(host.toLowerCase()) && url.startsWith("/")) return null;
  const advice =
    "Use the address that the server printed when it started, or add the name to gateway.api_server.allowed_hosts.";
  return problem(421, "host_not_allowed", `The request does not name this server as its Host. ${advice}`);
};

/** A page of ours: the Host was checked before, so nobody else can be meant by it. */
const isOwn = (origin: string, host: string): boolean => origin === `http://${host}` || origin === `https://${host}`;

/** `null` is what any sandboxed frame or local file sends; `*` would be every page there is. */
const isListed = (origin: string, origins: ReadonlySet<string>): boolean =>
  origins.has(origin) && origin !== "null" && origin !== "*";

const foreignOrigin = (): Problem => {
  const advice = "If it should, add its origin to gateway.api_server.cors_origins.";
  return problem(403, "origin_not_allowed", `This web page may not call the API. ${advice}`);
};

const corsHeaders = (origin: string): RequestHeaders => ({
  "Access-Control-Allow-Origin": origin,
  "Access-Control-Expose-Headers": EXPOSED,
  Vary: "Origin",
});

// ── The key ───────────────────────────────────────────────────────────────────────────────────────────

const PLAIN_PATH = /^(?:\/[\w-][\w.-]*)*\/?$/;

const accessTo = ({ method = "", url = "" }: IncomingMessage, open: Options["open"]): KeyAccess => {
  const [path = ""] = url.split("?", 1);
  return PLAIN_PATH.test(path) ? open(method, path) : "key";
};

/** What was given as the key; null: it was not given in a way that counts here. */
const credential = (authorization: string, access: KeyAccess): string | null => {
  const bearer = /^bearer +(\S+)$/i.exec(authorization)?.[1];
  if (bearer !== undefined) return bearer;
  const basic = access === "basic" ? /^basic +(\S+)$/i.exec(authorization)?.[1] : undefined;
  if (basic === undefined) return null;
  return /^[^:]*:([^]+)$/.exec(Buffer.from(basic, "base64").toString())?.[1] ?? null;
};

/** Digests of equal length under a secret of this process: neither the length nor the beginning of the key can be timed. */
const keyCheck = (key: string) => {
  const salt = randomBytes(32).toString("hex");
  const digest = (text: string) => hash("sha256", salt + text, "buffer"); // one-shot: 0.1 ms less than an Hmac
  const ours = digest(key);
  return (presented: string): boolean => timingSafeEqual(digest(presented), ours);
};

const unauthorized = (missing: boolean, access: KeyAccess): Problem => {
  const what = access === "node" ? "cluster.secret" : "The API key";
  const wrong = `${what} is ${missing ? "missing" : "wrong"}`;
  if (access === "node") return problem(401, "invalid_cluster_secret", `${wrong}. All nodes must have the same one.`);
  const advice =
    access === "basic"
      ? "Enter any user name, and the API key as the password. The key is in the file api_key of HERMES_HOME, unless you have configured one."
      : "Send it as a bearer token in the Authorization header; a key in the URL is ignored.";
  const challenge = access === "basic" ? 'Basic realm="hermes", charset="UTF-8"' : 'Bearer realm="hermes"';
  return problem(401, "invalid_api_key", `${wrong}. ${advice}`, { headers: { "WWW-Authenticate": challenge } });
};

const tooManyFailures = (seconds: number): Problem => {
  const message = `Too many requests with a wrong API key. Try again in ${seconds} s with the right one.`;
  return problem(429, "too_many_failures", message, { headers: { "Retry-After": String(seconds) } });
};

// ── The body ──────────────────────────────────────────────────────────────────────────────────────────

/** A form on any page can send `text/plain`; only a page that we allow can send JSON. */
const wrongBody = ({ headers }: IncomingMessage, limit: number): Problem | null => {
  const length = Number(headers["content-length"] ?? 0);
  if (length === 0 && headers["transfer-encoding"] === undefined) return null;
  const [type = ""] = (headers["content-type"] ?? "").split(";", 1);
  // `curl -d` calls everything a form. A page cannot send the key with one, and names its origin.
  const byHand =
    headers.origin === undefined && /^bearer /i.test(headers.authorization ?? "") && FORM.test(type.trim());
  if (type.trim().toLowerCase() !== "application/json" && !byHand)
    return unsupported("Send the body as JSON, with the header `Content-Type: application/json`.");
  if ((headers["content-encoding"] ?? "identity").toLowerCase() !== "identity")
    return unsupported("Send the body without Content-Encoding: it is not unpacked here.");
  return length > limit ? bodyTooLarge(limit) : null;
};

const FORM = /^application\/x-www-form-urlencoded$/i;
const unsupported = (message: string): Problem => problem(415, "unsupported_media_type", message);

// ── Limits ────────────────────────────────────────────────────────────────────────────────────────────

const MINUTE = 60_000;
const FAILURES_IN_ALL = 100;
const FAILURES_EACH = 10;
const MOST_BUCKETS = 10_000;
const ROUNDING = 1e-9;

/** Failures of the last minute. One that is over a limit is not added, so the list is never longer than the limit. */
const createFailures = (clock: Clock) => {
  let recent: { place: string; at: number }[] = [];
  return {
    /** Seconds to wait, when there were too many already. */
    add(address: string | undefined): number | null {
      const now = clock.monotonic();
      const place = placeOf(address);
      recent = recent.filter(({ at }) => now - at < MINUTE);
      const same = recent.filter((failure) => failure.place === place);
      const oldest = (same.length >= FAILURES_EACH && same[0]) || (recent.length >= FAILURES_IN_ALL && recent[0]);
      if (oldest) return Math.min(60, Math.ceil((oldest.at + MINUTE - now) / 1000));
      recent.push({ place, at: now });
      return null;
    },
  };
};

/** Asked with each request: seconds to wait when this address has used up its minute, else null. 0: no limit. */
export const createRateLimit = ({ perMinute, clock }: { perMinute: number; clock: Clock }) => {
  const buckets = createBounded<{ tokens: number; at: number }>(MOST_BUCKETS);
  const perMs = perMinute / MINUTE;

  return (address: string | undefined): number | null => {
    if (perMinute === 0) return null;
    const now = clock.monotonic();
    const place = placeOf(address);
    const { tokens, at } = buckets.get(place) ?? { tokens: perMinute, at: now };
    const filled = Math.min(perMinute, tokens + (now - at) * perMs);
    const allowed = filled > 1 - ROUNDING;
    buckets.set(place, { tokens: allowed ? filled - 1 : filled, at: now });
    return allowed ? null : Math.ceil((1 - filled) / perMs / 1000);
  };
};

/** Who counts as one: an IPv4 address, however it is written, or an IPv6 network of 64 bits, which is one customer's. */
const placeOf = (address = ""): string => {
  const [plain = ""] = address.split("%", 1);
  if (!isIPv6(plain)) return plain;
  const groups = groupsOf(plain);
  if (groups.slice(0, 6).join(":") !== "0:0:0:0:0:ffff") return groups.slice(0, 4).join(":");
  const pairs = groups.slice(6).map((group) => Number.parseInt(group, 16));
  return pairs.map((pair) => `${pair >> 8}.${pair & 255}`).join(".");
};

/** All eight. */
const groupsOf = (ipv6: string): string[] => {
  // The URL parser writes all of it in hex, and one run of zeros as "::".
  const short = new URL(`http://[${ipv6}]`).hostname.slice(1, -1);
  const [left = [], right = []] = short.split("::").map((part) => part.split(":").filter((group) => group !== ""));
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => "0"), ...right];
};
