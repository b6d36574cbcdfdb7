// Who may ask at all: over real sockets where a client library would not send the bad thing, and with requests from
// addresses that this machine does not have.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import { createGuard, createRateLimit, securityHeaders } from "../../src/surfaces/http/server/guard.ts";
import { apiKey, requireStrongKey } from "../../src/surfaces/http/server/key.ts";
import { envelope, Problem, problem } from "../../src/surfaces/http/server/problem.ts";
import { handClock } from "../fakes/scripted.ts";
import { needs } from "../needs.ts";

const asRoot = await needs("root");
const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
const PAGE = "https://app.example";
const MINUTE = 60_000;

const open = (method: string, path: string) => {
  if (path === "/health" && method === "GET") return "open";
  return path === "/docs" ? "basic" : "key";
};
const guardAt = (hosts: Iterable<string>, clock = handClock()) =>
  createGuard({ hosts: () => new Set(hosts), origins: new Set([PAGE, "null", "*"]), key: KEY, open, clock });

// ── Real requests ─────────────────────────────────────────────────────────────────────────────────────

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
});

/** As the real server does it: the guard first, then everything else. */
async function serve(listen = "127.0.0.1", hosts = new Set<string>(), guard = guardAt(hosts)) {
  const reached: string[] = [];
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    const verdict = guard(request);
    if ("deny" in verdict) {
      const { status, headers } = verdict.deny;
      return response.writeHead(status, { ...headers }).end(JSON.stringify(envelope(verdict.deny)));
    }
    if ("preflight" in verdict) return response.writeHead(204, verdict.preflight).end();
    reached.push(`${request.method} ${request.url}`);
    return response.writeHead(200, { ...securityHeaders, ...verdict.headers }).end("{}");
  });
  servers.push(server);
  server.listen(0, listen);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const host = `127.0.0.1:${port}`;
  hosts.add(host).add(`localhost:${port}`);

  /** Sends these lines, as they are, and gives the whole answer. */
  const raw = async (...lines: string[]) => {
    const socket = connect(port, "127.0.0.1");
    socket.end([...lines, "Connection: close", "", ""].join("\r\n"));
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    return { status: Number(text.split(" ")[1]), text };
  };
  const ask = (path: string, init: RequestInit = {}) => fetch(`http://${host}${path}`, init);
  return { port, host, reached, raw, ask };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const basic = (user: string, password: string) => ({ authorization: `Basic ${btoa(`${user}:${password}`)}` });

describe("the Host of a request", () => {
  it("is one of ours, in any case, or nothing is answered but 421", async () => {
    const { port, reached, raw } = await serve();
    const auth = `Authorization: Bearer ${KEY}`;
    const statusOf = async (...lines: string[]) => (await raw("GET /v1/runs HTTP/1.1", ...lines, auth)).status;
    expect(await statusOf(`Host: 127.0.0.1:${port}`)).toBe(200);
    expect(await statusOf(`hOST: LocalHost:${port}`)).toBe(200);
    expect(reached).toHaveLength(2);

    const wrong = [
      [],
      ["Host:"],
      [`Host: evil.example:${port}`],
      ["Host: 127.0.0.1"],
      [`Host: 127.0.0.1:${port + 1}`],
      [`Host: 127.0.0.1:0${port}`],
      [`Host: user@127.0.0.1:${port}`],
      [`Host: 127.0.0.1:${port}@evil.example`],
      [`Host: 127.0.0.1:${port}.evil.example`],
      [`Host: localhost.:${port}`],
      [`Host: 127.0.0.1:${port}, evil.example`],
      [`Host: 127.0.0.1:${port}`, "Host: evil.example"],
      [`Host: 127.0.0.1:${port}`, `Host: 127.0.0.1:${port}`],
      ["Host: evil.example", `Host: 127.0.0.1:${port}`],
      ["Host: evil.example", `X-Forwarded-Host: 127.0.0.1:${port}`],
    ];
    for (const lines of wrong) expect([lines, await statusOf(...lines)]).toEqual([lines, 421]);
    expect(reached).toHaveLength(2);
  });

  it("counts on open paths too, also for HTTP/1.0", async () => {
    const { reached, raw } = await serve();
    expect((await raw("GET /health HTTP/1.1", "Host: evil.example")).status).toBe(421);
    expect((await raw("GET /health HTTP/1.0")).status).toBe(421);
    expect(reached).toEqual([]);
  });

  it("cannot be named a second time by the target", async () => {
    const { host, reached, raw } = await serve();
    for (const target of ["http://evil.example/health", `http://${host}/health`, "*"])
      expect((await raw(`OPTIONS ${target} HTTP/1.1`, `Host: ${host}`)).status).toBe(421);
    expect(reached).toEqual([]);
  });
});

describe("the Origin of a request", () => {
  it.each([
    "null",
    "*",
    "https://evil.example",
    "http://app.example",
    "https://app.example:8443",
    "https://app.example.evil.example",
    "https://evil-app.example",
    "https://app.example/",
    "https://APP.example",
    "https://app.example, https://app.example",
    "https://user@app.example",
  ])("%s is refused with the right key, and nothing is reached", async (origin) => {
    const { ask, reached } = await serve();
    for (const method of ["GET", "POST", "OPTIONS"]) {
      const answer = await ask("/v1/runs", { method, headers: { ...bearer(KEY), origin } });
      expect(answer.status).toBe(403);
      expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    }
    expect((await ask("/health", { headers: { origin } })).status).toBe(403);
    expect(reached).toEqual([]);
  });

  it("may not be empty or sent twice", async () => {
    const { host, raw } = await serve();
    expect((await raw("GET /health HTTP/1.1", `Host: ${host}`, "Origin:")).status).toBe(403);
    const twice = await raw("GET /health HTTP/1.1", `Host: ${host}`, `Origin: ${PAGE}`, `Origin: ${PAGE}`);
    expect(twice.status).toBe(403);
  });

  it("that is listed gets its own name back, on refusals too", async () => {
    const { ask } = await serve();
    for (const [headers, status] of [
      [bearer(KEY), 200],
      [bearer("wrong"), 401],
    ] as const) {
      const answer = await ask("/v1/runs", { headers: { ...headers, origin: PAGE } });
      expect(answer.status).toBe(status);
      expect(answer.headers.get("access-control-allow-origin")).toBe(PAGE);
      expect(answer.headers.get("access-control-expose-headers")).toContain("Retry-After");
      expect(answer.headers.get("vary")).toBe("Origin");
      expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
    }
  });

  it("of a page of ours is not foreign, and its requests need the key all the same", async () => {
    const { ask, host } = await serve();
    const origin = `http://${host}`;
    expect((await ask("/v1/runs", { headers: { origin } })).status).toBe(401);
    const answer = await ask("/v1/runs", { headers: { ...bearer(KEY), origin } });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([200, null]);
    const other = `http://localhost:${host.split(":")[1]}`; // another name of ours is another page
    expect((await ask("/v1/runs", { headers: { ...bearer(KEY), origin: other } })).status).toBe(403);
  });

  it("that is listed gets its preflight without a key, and everything else only with one", async () => {
    const { ask, reached } = await serve();
    const preflight = await ask("/v1/runs", {
      method: "OPTIONS",
      headers: { origin: PAGE, "access-control-request-method": "POST" },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-origin")).toBe(PAGE);
    expect(preflight.headers.get("access-control-allow-methods")).toBe("GET, POST, PUT, PATCH, DELETE");
    const allowed = preflight.headers.get("access-control-allow-headers") ?? "";
    for (const name of ["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Hermes-Session-Key"])
      expect(allowed.split(", ")).toContain(name);
    expect((await ask("/v1/runs", { method: "OPTIONS" })).status).toBe(401);
    expect((await ask("/v1/runs", { headers: { origin: PAGE } })).status).toBe(401);
    expect(reached).toEqual([]);
  });

  it("may be absent", async () => {
    const { ask } = await serve();
    const answer = await ask("/v1/runs", { headers: bearer(KEY) });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });
});

describe("the key", () => {
  it("is needed everywhere but on open paths, whatever their spelling", async () => {
    const { host, reached, raw } = await serve();
    const statusOf = async (target: string) => (await raw(`GET ${target} HTTP/1.1`, `Host: ${host}`)).status;
    expect(await statusOf("/health")).toBe(200);
    expect(await statusOf("/health?a=/../v1/runs")).toBe(200);
    const spellings = ["/", "/v1/runs", "//health", "/%68ealth", "/health/../v1/runs", "/health/%2e%2e/v1/runs"];
    for (const target of [...spellings, "/x/../health", "/health\\..\\v1", "/health#/v1/runs", "/HEALTH", "/health/"])
      expect([target, await statusOf(target)]).toEqual([target, 401]);
    expect(reached).toEqual(["GET /health", "GET /health?a=/../v1/runs"]);
  });

  it("is taken as a bearer token, the scheme in any case", async () => {
    const { ask } = await serve();
    for (const scheme of ["Bearer", "bearer", "BEARER", "Bearer  "])
      expect((await ask("/v1/runs", { headers: { authorization: `${scheme} ${KEY}` } })).status).toBe(200);
  });

  it.each([
    ["no scheme", KEY],
    ["another scheme", `Token ${KEY}`],
    ["no space", `Bearer${KEY}`],
    ["nothing after the scheme", "Bearer"],
    ["more than one", `Bearer ${KEY} ${KEY}`],
    ["in quotes", `Bearer "${KEY}"`],
    ["another case", `Bearer ${KEY.toUpperCase()}`],
    ["basic, where that is not offered", basic("me", KEY).authorization],
  ])("is not taken otherwise: %s", async (_, authorization) => {
    const { ask, reached } = await serve();
    const answer = await ask("/v1/runs", { headers: { authorization } });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="hermes"');
    expect(await answer.json()).toEqual({
      error: {
        message: expect.stringContaining("bearer token in the Authorization header"),
        type: "authentication_error",
        param: null,
        code: "invalid_api_key",
      },
    });
    expect(reached).toEqual([]);
  });

  it.each(["token", "key", "api_key", "access_token"])("is not looked at in the query: %s", async (name) => {
    const { ask, reached } = await serve();
    expect((await ask(`/v1/runs?${name}=${KEY}`)).status).toBe(401);
    expect(reached).toEqual([]);
  });

  it("may be the password of any user where a browser shows a page", async () => {
    const { ask } = await serve();
    const refused = await ask("/docs");
    expect(refused.headers.get("www-authenticate")).toContain("Basic ");
    expect(await refused.text()).toContain("Enter any user name, and the API key as the password.");
    expect((await ask("/docs", { headers: basic("", KEY) })).status).toBe(200);
    expect((await ask("/docs", { headers: basic("anybody", KEY) })).status).toBe(200);
    expect((await ask("/docs", { headers: bearer(KEY) })).status).toBe(200);
    for (const headers of [basic("anybody", ""), basic(KEY, ""), basic(KEY, "wrong"), { authorization: "Basic %%" }])
      expect((await ask("/docs", { headers })).status).toBe(401);
  });

  it("is not guessed by any text of 0 to 1000 characters but itself", () => {
    const clock = handClock();
    const guard = guardAt(["hermes:1"], clock);
    const answers = new Map<string, number>();
    for (let length = 0; length <= 1000; length += 1) {
      clock.leap(MINUTE);
      for (const guess of [KEY.padEnd(length, "x").slice(0, length), "x".repeat(length)])
        answers.set(guess, statusOf(guard(arriving({ headers: bearer(guess) }))));
    }
    expect(answers.get(KEY)).toBe(200);
    answers.delete(KEY);
    expect(new Set(answers.values())).toEqual(new Set([401]));
  });

  it("is asked for before the kind of body matters, and after Host and Origin", () => {
    const guard = guardAt(["hermes:1"]);
    const body = { "content-length": "99999999", "content-type": "text/plain" };
    expect(statusOf(guard(arriving({ headers: { host: "evil:1", origin: "https://evil.example", ...body } })))).toBe(
      421,
    );
    expect(statusOf(guard(arriving({ headers: { origin: "https://evil.example", ...body } })))).toBe(403);
    expect(statusOf(guard(arriving({ headers: body })))).toBe(401);
    expect(statusOf(guard(arriving({ headers: { ...body, ...bearer(KEY) } })))).toBe(415);
  });
});

// ── Requests from anywhere ────────────────────────────────────────────────────────────────────────────

type Arriving = { method?: string; url?: string; headers?: Record<string, string>; address?: string };

function arriving({ method = "GET", url = "/v1/runs", headers = {}, address = "192.0.2.1" }: Arriving) {
  const socket = new Socket();
  Object.defineProperty(socket, "remoteAddress", { value: address });
  const request = new IncomingMessage(socket);
  request.method = method;
  request.url = url;
  request.headers = { host: "hermes:1", ...headers };
  request.rawHeaders = Object.entries({ host: "hermes:1", ...headers }).flat();
  return request;
}

type Verdict = ReturnType<ReturnType<typeof createGuard>>;

const statusOf = (verdict: Verdict): number => {
  if ("deny" in verdict) return verdict.deny.status;
  return "preflight" in verdict ? 204 : 200;
};

describe("wrong keys", () => {
  function guarded() {
    const clock = handClock();
    const guard = guardAt(["hermes:1"], clock);
    const from = (address: string, headers: Record<string, string>) => guard(arriving({ address, headers }));
    const fail = (address: string) => from(address, bearer("wrong"));
    const failOften = (address: string, times: number) => Array.from({ length: times }, () => statusOf(fail(address)));
    return { clock, from, fail, failOften };
  }

  it("are limited to ten a minute for an address, and Retry-After says when the next may be tried", () => {
    const { clock, fail, failOften } = guarded();
    expect(failOften("192.0.2.1", 9)).toEqual(Array(9).fill(401));
    clock.leap(20_000);
    expect(failOften("192.0.2.1", 3)).toEqual([401, 429, 429]);
    clock.leap(500);
    const refused = fail("192.0.2.1");
    expect("deny" in refused && refused.deny.headers).toEqual({ "Retry-After": "40" });
    expect("deny" in refused && envelope(refused.deny).error.type).toBe("rate_limit_error");
    clock.leap(39_499);
    expect(statusOf(fail("192.0.2.1"))).toBe(429);
    clock.leap(1);
    // Nine of the ten are a minute old now.
    expect(failOften("192.0.2.1", 10)).toEqual([...Array(9).fill(401), 429]);
  });

  it("never lock out the right one", () => {
    const { from, failOften } = guarded();
    failOften("192.0.2.1", 50);
    for (let n = 0; n < 200; n += 1) failOften(`198.51.100.${n}`, 1);
    expect(statusOf(from("192.0.2.1", bearer(KEY)))).toBe(200);
    expect(statusOf(from("203.0.113.7", bearer(KEY)))).toBe(200);
    expect(statusOf(from("192.0.2.1", bearer("wrong")))).toBe(429);
  });

  it("are limited to a hundred a minute in all", () => {
    const { clock, fail, failOften } = guarded();
    for (let n = 0; n < 100; n += 1) expect(failOften(`198.51.100.${n}`, 1)).toEqual([401]);
    clock.leap(15_000);
    const refused = fail("203.0.113.7");
    expect("deny" in refused && refused.deny.headers).toEqual({ "Retry-After": "45" });
    clock.leap(45_000);
    expect(statusOf(fail("203.0.113.7"))).toBe(401);
  });

  it.each([
    ["IPv4 written as IPv6", "192.0.2.1", "::ffff:192.0.2.1"],
    ["IPv4 written as IPv6 in hex", "192.0.2.1", "::ffff:c000:201"],
    ["IPv6 of one network", "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"],
    ["IPv6 written in full", "2001:db8::1", "2001:0db8:0000:0000:0000:0000:0000:0001"],
    ["IPv6 with a zone", "fe80::1%eth0", "fe80::2"],
  ])("count for one address: %s", (_, one, other) => {
    const { failOften } = guarded();
    expect(failOften(one, 10)).toEqual(Array(10).fill(401));
    expect(failOften(other, 1)).toEqual([429]);
  });

  it.each([
    ["another IPv4", "192.0.2.1", "192.0.2.2"],
    ["another IPv4, written as IPv6", "192.0.2.1", "::ffff:192.0.2.2"],
    ["another network of IPv6", "2001:db8:1:2::1", "2001:db8:1:3::1"],
    ["loopback of IPv4 and IPv6", "127.0.0.1", "::1"],
  ])("count for different addresses: %s", (_, one, other) => {
    const { failOften } = guarded();
    failOften(one, 10);
    expect(failOften(other, 1)).toEqual([401]);
  });

  it("are something that was sent: a request without a key is never too many", () => {
    const { from } = guarded();
    const answers = Array.from({ length: 200 }, () => statusOf(from("192.0.2.1", {})));
    expect(new Set(answers)).toEqual(new Set([401]));
  });

  it("are forgotten after their minute, also when the clock is set back", () => {
    const { clock, failOften } = guarded();
    failOften("192.0.2.1", 10);
    clock.set(-3_600_000);
    expect(failOften("192.0.2.1", 1)).toEqual([429]);
    clock.leap(60_000);
    expect(failOften("192.0.2.1", 1)).toEqual([401]);
  });

  it("count for one address that comes over a socket of IPv4 and one of both kinds", async () => {
    const hosts = new Set<string>();
    const guard = guardAt(hosts);
    const places = [await serve("127.0.0.1", hosts, guard), await serve("::", hosts, guard)];
    const answers: number[] = [];
    for (let n = 0; n < 6; n += 1)
      for (const { ask } of places) answers.push((await ask("/v1/runs", { headers: bearer("wrong") })).status);
    expect(answers).toEqual([...Array(10).fill(401), 429, 429]);
  });
});

describe("a body", () => {
  const guard = guardAt(["hermes:1"]);
  const sent = (method: string, headers: Record<string, string>) =>
    statusOf(guard(arriving({ method, headers: { ...bearer(KEY), ...headers } })));

  it.each(["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x=y"])(
    "may be %s",
    (type) => {
      for (const method of ["POST", "PUT", "PATCH", "DELETE"])
        expect(sent(method, { "content-length": "2", "content-type": type })).toBe(200);
      expect(sent("POST", { "transfer-encoding": "chunked", "content-type": type })).toBe(200);
    },
  );

  it.each([
    {},
    { "content-type": "" },
    { "content-type": "text/plain" },
    { "content-type": "text/plain; application/json" },
    { "content-type": "multipart/form-data; boundary=application/json" },
    { "content-type": "application/jsonp" },
    { "content-type": "application/json, text/plain" },
    { "content-type": "application/json", "content-encoding": "gzip" },
  ])("may not be %j", (headers) => {
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      expect(sent(method, { "content-length": "2", ...headers })).toBe(415);
      expect(sent(method, { "transfer-encoding": "chunked", ...headers })).toBe(415);
    }
  });

  it("may be called a form, as `curl -d` does, with the key as a bearer token and without an origin", () => {
    const form = { "content-length": "2", "content-type": "application/x-www-form-urlencoded" };
    expect(sent("POST", form)).toBe(200);
    expect(sent("POST", { ...form, origin: PAGE })).toBe(415);
    expect(statusOf(guard(arriving({ method: "POST", headers: form })))).toBe(401);
  });

  it("may be absent, and then its type does not matter", () => {
    expect(sent("POST", {})).toBe(200);
    expect(sent("POST", { "content-length": "0", "content-type": "text/plain" })).toBe(200);
    expect(sent("DELETE", {})).toBe(200);
  });

  it("that is announced as too large is refused before it is sent", async () => {
    const { host, raw, reached } = await serve();
    const announce = (bytes: number) => [
      "POST /v1/runs HTTP/1.1",
      `Host: ${host}`,
      `Authorization: Bearer ${KEY}`,
      "Content-Type: application/json",
      `Content-Length: ${bytes}`,
    ];
    const { status, text } = await raw(...announce(10_000_001));
    expect(status).toBe(413);
    expect(text).toContain('"code":"body_too_large"');
    expect(reached).toEqual([]);
    expect((await raw(...announce(10_000_000))).status).toBe(200);
  });

  it("that is too large and sent all the same does not keep the client from reading why", async () => {
    const { ask } = await serve();
    const headers = { ...bearer(KEY), "content-type": "application/json" };
    const answer = await ask("/v1/runs", { method: "POST", headers, body: "x".repeat(12_000_000) });
    expect(answer.status).toBe(413);
  });
});

describe("any request at all", () => {
  const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }));
  const near = (...values: string[]) => fc.oneof(fc.constantFrom(...values), text);
  const headers = fc.record(
    {
      host: near("hermes:1", "HERMES:1"),
      origin: near(PAGE, "null"),
      authorization: near(`Bearer ${KEY}`, basic("me", KEY).authorization, "Basic =", "Bearer"),
      "content-type": near("application/json"),
      "content-length": near("0", "5", "10000001", "-1", "1e9"),
      "content-encoding": text,
      "transfer-encoding": near("chunked"),
    },
    { requiredKeys: [] },
  );
  const address = fc.oneof(fc.ipV4(), fc.ipV6(), text, fc.constantFrom("::", "::1%", "fe80::1%eth0"));
  const url = near("/health", "/docs", "/v1/runs", "/v1/runs?key=1");
  const method = near("GET", "POST", "OPTIONS", "DELETE");

  it("is denied, preflighted or let through, and let through only with the key or on an open path", () => {
    const clock = handClock();
    const guard = guardAt(["hermes:1"], clock);
    fc.assert(
      fc.property(fc.record({ method, url, headers, address }), (parts) => {
        clock.leap(1_000);
        const verdict = guard(arriving(parts));
        expect(Object.keys(verdict)).toHaveLength(1);
        if ("deny" in verdict) {
          expect(verdict.deny).toBeInstanceOf(Problem);
          expect([401, 403, 413, 415, 421, 429]).toContain(verdict.deny.status);
          return;
        }
        expect((parts.headers.host ?? "hermes:1").toLowerCase()).toBe("hermes:1");
        expect([undefined, PAGE]).toContain(parts.headers.origin);
        const [path = ""] = parts.url.split("?");
        if ("preflight" in verdict) expect(parts.method).toBe("OPTIONS");
        else if (open(parts.method, path) !== "open")
          expect([`Bearer ${KEY}`, basic("me", KEY).authorization]).toContain(parts.headers.authorization);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a limit for all requests", () => {
  it("lets each address have its number a minute, spread or at once", () => {
    const clock = handClock();
    const limit = createRateLimit({ perMinute: 6, clock });
    const ask = (times: number, address = "192.0.2.1") => Array.from({ length: times }, () => limit(address));
    expect(ask(7)).toEqual([...Array(6).fill(null), 10]);
    expect(ask(1, "192.0.2.2")).toEqual([null]);
    expect(ask(1, "::ffff:192.0.2.1")).toEqual([10]);
    clock.leap(9_999);
    expect(ask(1)).toEqual([1]);
    clock.leap(1);
    expect(ask(2)).toEqual([null, 10]);
    clock.set(-3_600_000);
    expect(ask(1)).toEqual([10]);
    clock.leap(10 * MINUTE);
    expect(ask(7)).toEqual([...Array(6).fill(null), 10]);
  });

  it("keeps its word: after Retry-After there is room", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), (perMinute) => {
        const clock = handClock();
        const limit = createRateLimit({ perMinute, clock });
        for (let n = 0; n < perMinute; n += 1) expect(limit("192.0.2.1")).toBeNull();
        const wait = limit("192.0.2.1");
        expect(wait).toBeGreaterThan(0);
        clock.leap(Number(wait) * 1000);
        expect(limit("192.0.2.1")).toBeNull();
      }),
    );
  });

  it("remembers ten thousand addresses, and forgets the one that rested longest", () => {
    const limit = createRateLimit({ perMinute: 1, clock: handClock() });
    const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    for (let n = 0; n < 10_000; n += 1) expect(limit(address(n))).toBeNull();
    expect(limit(address(0))).toBe(60); // and was just seen
    expect(limit(address(10_000))).toBeNull();
    expect(limit(address(0))).toBe(60);
    expect(limit(address(1))).toBeNull();
  });

  it("can be off", () => {
    const limit = createRateLimit({ perMinute: 0, clock: handClock() });
    for (let n = 0; n < 1_000; n += 1) expect(limit("192.0.2.1")).toBeNull();
  });
});

// ── Where the key comes from ──────────────────────────────────────────────────────────────────────────

describe("the key of a new installation", () => {
  let dir: string;
  let file: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "hermes-key-"));
    file = join(dir, "api_key");
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  const modeOf = (path: string) => lstatSync(path).mode & 0o777;
  const complaint = (make: () => unknown): string => {
    try {
      make();
    } catch (error) {
      if (error instanceof ConfigError) return error.message;
      throw error;
    }
    return "";
  };

  it("has 256 bits, is kept for its owner only, and is the same from then on", () => {
    const first = apiKey({ file });
    expect(first).toEqual({ key: expect.stringMatching(/^[\w-]{43}$/), made: true, file });
    expect(modeOf(file)).toBe(0o600);
    expect(readFileSync(file, "utf8")).toBe(`${first.key}\n`);
    expect(apiKey({ file })).toEqual({ key: first.key, made: false, file });
    expect(readdirSync(dir)).toEqual(["api_key"]);
    expect(apiKey({ file: join(dir, "other") }).key).not.toBe(first.key);
  });

  it("is the configured one where there is one, and then no file is made", () => {
    expect(apiKey({ configured: "mine", file })).toEqual({ key: "mine", made: false, file: null });
    expect(readdirSync(dir)).toEqual([]);
    expect(apiKey({ configured: "", file }).made).toBe(true);
  });

  it.each([
    ["a space", "two words"],
    ["a letter outside ASCII", "schlüssel"],
    ["a line break", "line\nbreak"],
    ["5000 characters", "x".repeat(5_000)],
  ])("cannot be what no header should carry: %s", (_, configured) => {
    expect(complaint(() => apiKey({ configured, file }))).toContain("openssl rand -hex 32");
  });

  it("is the same for all who start at the same moment", async () => {
    const program = `
      import { apiKey } from ${JSON.stringify(new URL("../../src/surfaces/http/server/key.ts", import.meta.url).href)};
      process.stdout.write("ready\\n");
      for await (const _ of process.stdin);
      process.stdout.write(JSON.stringify(apiKey({ file: ${JSON.stringify(file)} })));`;
    const starting = Array.from({ length: 5 }, () =>
      spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["pipe", "pipe", "inherit"] }),
    );
    await Promise.all(starting.map(({ stdout }) => once(stdout, "data")));
    const results = await Promise.all(
      starting.map(async ({ stdin, stdout }) => {
        stdin.end();
        let said = "";
        for await (const chunk of stdout) said += String(chunk);
        return JSON.parse(said) as ReturnType<typeof apiKey>;
      }),
    );
    expect(new Set(results.map(({ key }) => key)).size).toBe(1);
    expect(results.filter(({ made }) => made)).toHaveLength(1);
    expect(readdirSync(dir)).toEqual(["api_key"]);
  });

  it("is closed again when its file was opened to others", () => {
    writeFileSync(file, "  written-by-hand\n");
    chmodSync(file, 0o644);
    expect(apiKey({ file })).toEqual({ key: "written-by-hand", made: false, file });
    expect(modeOf(file)).toBe(0o600);
  });

  asRoot.it("is not used from somebody else's file that others can read", () => {
    writeFileSync(file, "written-by-hand\n");
    chmodSync(file, 0o640);
    chownSync(file, 12_345, 12_345);
    expect(complaint(() => apiKey({ file }))).toContain(`chmod 600 ${file}`);
    expect(modeOf(file)).toBe(0o640);
  });

  it("is not followed through a link, also one that leads nowhere", () => {
    const secret = join(dir, "secret");
    symlinkSync(secret, file);
    expect(complaint(() => apiKey({ file }))).toMatch(/is a link\. Remove it/);
    writeFileSync(secret, "stolen");
    expect(complaint(() => apiKey({ file }))).toMatch(/is a link\. Remove it/);
    expect(readFileSync(secret, "utf8")).toBe("stolen");
  });

  it.each([
    ["nothing", ""],
    ["blanks", " \n"],
    ["two words", "two words"],
    ["two lines", "one\ntwo"],
    ["a zero byte", "k\0y"],
    ["5000 characters", "x".repeat(5_000)],
  ])("is not read from a file with %s", (_, text) => {
    writeFileSync(file, text, { mode: 0o600 });
    expect(complaint(() => apiKey({ file }))).toContain("Remove it");
    expect(readFileSync(file, "utf8")).toBe(text);
  });

  it("is not read from a directory, nor kept where there is none", () => {
    mkdirSync(file);
    expect(complaint(() => apiKey({ file }))).toContain("Remove it");
    expect(complaint(() => apiKey({ file: join(dir, "absent", "api_key") }))).toContain("API_SERVER_KEY");
  });
});

describe("an address that other machines can reach", () => {
  const STRONG = "9f2c4e81b07d3a56c8e1f4097b2d6a3e";
  const refusal = (host: string, configured?: string): string => {
    try {
      requireStrongKey({ host, configured });
    } catch (error) {
      if (error instanceof ConfigError) return error.message;
      throw error;
    }
    return "";
  };

  it.each(["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])("is not %s", (host) => {
    expect(refusal(host)).toBe("");
    expect(refusal(host, "short")).toBe("");
  });

  it.each([
    "0.0.0.0",
    "::",
    "192.168.1.5",
    "10.0.0.1",
    "fe80::1",
    "::ffff:192.168.1.5",
    "my-machine",
    "",
    "127.evil.example",
  ])("%j needs a strong key", (host) => {
    expect(refusal(host)).toContain("openssl rand -hex 32");
    expect(refusal(host, "hunter2")).toContain("openssl rand -hex 32");
    expect(refusal(host, STRONG)).toBe("");
  });

  it.each([
    "",
    "9f2c4e81b07d3a5",
    "a".repeat(64),
    "abababababababababab",
    "9f2c4e81".repeat(4),
    "changeme-9f2c4e81b07d3a56",
    "CHANGE_ME_please_now_123",
    "your-api-key-goes-here-now",
    "YOUR_SECRET_TOKEN_HERE_01",
    "test-9f2c4e81b07d3a56-test",
    "replace-this-with-a-real-key",
    "password123456789",
    "0123456789abcdef",
    "abcdefghijklmnop1234567890",
    "secret-token-hermes-admin",
  ])("%j is not strong", (key) => {
    expect(refusal("0.0.0.0", key)).toContain("openssl rand -hex 32");
    if (key) expect(refusal("0.0.0.0", key)).not.toContain(key);
  });

  it("takes every key that the advice makes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        fc.pre(new Set(bytes).size > 16); // as random ones are
        expect(refusal("0.0.0.0", Buffer.from(bytes).toString("hex"))).toBe("");
        expect(refusal("0.0.0.0", Buffer.from(bytes).toString("base64url"))).toBe("");
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("the envelope of a refusal", () => {
  it("has message, type, param and code, and its type follows from the status", () => {
    expect(envelope(problem(400, null, "No."))).toEqual({
      error: { message: "No.", type: "invalid_request_error", param: null, code: null },
    });
    const types = [401, 404, 429, 500, 503].map((status) => problem(status, "x", "No.").type);
    expect(types).toEqual([
      "authentication_error",
      "invalid_request_error",
      "rate_limit_error",
      "server_error",
      "server_error",
    ]);
    const said = problem(409, "busy", "No.", { type: "conflict", param: "input", headers: { "Retry-After": "1" } });
    expect(envelope(said).error).toEqual({ message: "No.", type: "conflict", param: "input", code: "busy" });
    expect(said.headers).toEqual({ "Retry-After": "1" });
  });
});
