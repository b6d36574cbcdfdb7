// Who is let in, on every route that there is (the table is read when this runs), and what a hostile client can do. A
// refusal changes nothing: not the sessions, not the runs, not what the model was asked.
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { clock } from "../../src/platform/clock.ts";
import { createRetries } from "../../src/surfaces/http/runs/retries.ts";
import { countRuns } from "../../src/surfaces/http/runs/run-limit.ts";
import { routesOf } from "../../src/surfaces/http/server/api.ts";
import type { Api, Route } from "../../src/surfaces/http/server/route.ts";
import { KEY, type StartOptions, startApi, type TestApi } from "../fakes/api.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { startFakeLlm } from "../fakes/llm/server.ts";
import { start } from "../fakes/runs.ts";

const PAGE = "https://app.example";
const places: Place[] = [];
afterEach(() => {
  for (const place of places.splice(0)) place.clear();
});

// ── The table ─────────────────────────────────────────────────────────────────────────────────────────

/** The rows, without serving them. */
function tableOf({ engine }: TestApi): Route[] {
  const settings = {
    modelName: "hermes-agent",
    models: [],
    busyMode: "queue",
    maxRuns: 1,
    unattended: "deny",
    showReasoning: false,
    version: "",
    heartbeatMs: 1_000,
    stallMs: 1_000,
    retryMs: 1_000,
  } as const;
  const api: Api = {
    runtime: engine,
    clock,
    log: () => {},
    newKey: randomUUID,
    tools: () => [],
    settings,
    runs: countRuns(1),
    retries: createRetries(engine, clock),
    open: () => true,
    leaving: new AbortController().signal,
  };
  const nothing = () => ({});
  return routesOf(api, nothing, nothing);
}

type Row = { method: string; path: string; access: Route["access"]; takesBody: boolean };
let rows: Row[] = [];
beforeAll(async () => {
  const api = await startApi();
  rows = tableOf(api).map(({ method, path, access, body }) => ({
    method,
    path,
    access,
    takesBody: body !== undefined,
  }));
  await api.close();
});
const locked = () => rows.filter(({ access }) => access !== "open");
const paths = () => [...new Set(rows.map(({ path }) => path))];

/** A session with a run at work in it, for every path to point at. */
async function busy(options: StartOptions = {}) {
  const api = await start({ server: { origins: [PAGE] }, ...options });
  const id = await api.run({ input: "x" });
  await api.model.next();
  const state = () =>
    JSON.stringify([
      api.disk.catalog.sessions({ limit: 100 }).map((row) => [row, api.journal(row.session)]),
      api.model.all.length,
      api.model.all.map(({ signal }) => signal.aborted),
    ]);
  const before = state();
  return {
    api,
    id,
    port: Number(new URL(api.url).port),
    pathOf: (path: string) => path.replaceAll(/:[a-z]+/g, id),
    unchanged: () => expect(state() === before, "nothing changed").toBe(true),
  };
}

/** Would be taken by most routes. */
const BODY = JSON.stringify({
  input: "y",
  text: "y",
  message: "y",
  choice: "once",
  title: "t",
  model: "m",
  messages: [],
});

/** Sends these lines as they are. The answer is read to its end, or only its head where a stream would never end. */
async function raw(port: number, lines: string[], body = ""): Promise<{ status: number; head: string; text: string }> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`${[...lines, "Connection: close", "", ""].join("\r\n")}${body}`);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) {
    chunks.push(chunk as Buffer);
    if (/^content-type: text\/event-stream/im.test(Buffer.concat(chunks).toString())) break;
  }
  const [head = "", ...rest] = Buffer.concat(chunks).toString().split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), head, text: rest.join("\r\n\r\n") };
}
const host = (port: number) => `Host: 127.0.0.1:${port}`;
const auth = `Authorization: Bearer ${KEY}`;
const json = (body: string) => ["Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`];
const withBody = ({ method }: Row) => (method === "GET" || method === "DELETE" ? [] : json(BODY));
const bodyOf = ({ method }: Row) => (method === "GET" || method === "DELETE" ? "" : BODY);

describe("the table of routes", () => {
  it("is what is served and described", async () => {
    const { api } = await busy();
    const { body } = await api.json<{ paths: Record<string, Record<string, unknown>> }>("GET", "/openapi.json");
    const described = Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{([a-z]+)\}/g, ":$1")}`),
    );
    expect(described.toSorted()).toEqual(rows.map(({ method, path }) => `${method} ${path}`).toSorted());
    expect(rows.length).toBeGreaterThan(10);
  });

  it("says what each field means, and gives an example that the route would accept", async () => {
    const { api } = await busy();
    const page = await (await api.call("GET", "/docs")).text();
    expect(page).not.toContain("<script");
    for (const row of tableOf(api)) {
      expect(page).toContain(`<code>${row.path.replaceAll(/:([a-z]+)/g, "{$1}")}</code>`);
      const fields = row.body instanceof z.ZodObject ? Object.entries<z.ZodType>(row.body.shape) : [];
      for (const [name, field] of fields) {
        const { description, anyOf } = z.toJSONSchema(field, { io: "input", unrepresentable: "any" });
        const meaning = description ?? anyOf?.find((one) => typeof one === "object" && one.description);
        expect(meaning, `${row.method} ${row.path} ${name}`).toBeTruthy();
      }
      if (row.body) expect(row.body.safeParse(row.example).success, `${row.method} ${row.path}`).toBe(true);
    }
  });

  it("has no row that is open but that of the health, under both its names", () => {
    expect(rows.filter(({ access }) => access === "open").map(({ path }) => path)).toEqual(["/health", "/v1/health"]);
  });
});

// ── The key ───────────────────────────────────────────────────────────────────────────────────────────

describe("without the right key", () => {
  it("every route but /health is 401, and nothing changes", async () => {
    for (const row of locked()) {
      const { port, pathOf, unchanged } = await busy();
      const given: [string, string[], string?][] = [
        ["no key", []],
        ["an empty header", ["Authorization:"]],
        ["an empty bearer", ["Authorization: Bearer "]],
        ["a wrong key", ["Authorization: Bearer wrong"]],
        ["the key and more", [`Authorization: Bearer ${KEY}x`]],
        ["a beginning of the key", [`Authorization: Bearer ${KEY.slice(0, -1)}`]],
        ["the bare key", [`Authorization: ${KEY}`]],
        ["another scheme", [`Authorization: Token ${KEY}`]],
        ["another header", [`X-Api-Key: ${KEY}`]],
        ["the key in the query", [], `?key=${KEY}&token=${KEY}&api_key=${KEY}&access_token=${KEY}`],
        ["the key in a cookie", [`Cookie: key=${KEY}`]],
      ];
      if (row.access !== "basic") given.push(["Basic", [`Authorization: Basic ${btoa(`:${KEY}`)}`]]);
      for (const [what, lines, query = ""] of given) {
        const target = `${row.method} ${pathOf(row.path)}${query} HTTP/1.1`;
        const { status, head, text } = await raw(port, [target, host(port), ...lines, ...withBody(row)], bodyOf(row));
        expect([row.method, row.path, what, status]).toEqual([row.method, row.path, what, 401]);
        expect(JSON.parse(text)).toMatchObject({ error: { code: "invalid_api_key", message: expect.any(String) } });
        expect(head).toMatch(/^WWW-Authenticate: /im);
        expect(text).not.toContain(KEY);
      }
      unchanged();
    }
  });

  it("an unknown path is 401 too: nothing is told about what there is", async () => {
    const { api, port, unchanged } = await busy();
    for (const target of [
      "/",
      "/nope",
      "/v1",
      "/v1/runs/",
      "/admin",
      "/health/",
      "/HEALTH",
      "//health",
      "/%68ealth",
      "/.env",
    ]) {
      const { status } = await raw(port, [`GET ${target} HTTP/1.1`, host(port)]);
      expect([target, status]).toEqual([target, 401]);
    }
    for (const method of ["POST", "PUT", "OPTIONS", "HEAD", "PROPFIND"]) {
      const { status } = await raw(port, [`${method} /v1/runs/run_x HTTP/1.1`, host(port)]);
      expect([method, status]).toEqual([method, 401]);
    }
    expect((await api.call("GET", "/health", undefined, { Authorization: "" })).status).toBe(200);
    unchanged();
  });

  it("one who goes on guessing is told to wait, and one who has the key is not", async () => {
    const { api, port } = await busy();
    const guess = async () =>
      (
        await raw(port, [
          "GET /v1/models HTTP/1.1",
          host(port),
          `Authorization: Bearer ${randomBytes(8).toString("hex")}`,
        ])
      ).status;
    for (let n = 0; n < 10; n++) expect(await guess()).toBe(401);
    const { status, head } = await raw(port, ["GET /v1/models HTTP/1.1", host(port), "Authorization: Bearer x"]);
    expect(status).toBe(429);
    expect(head).toMatch(/^Retry-After: \d+/im);
    expect((await api.call("GET", "/v1/models")).status).toBe(200);
  });

  it.each([0, 1, 10, 100, 1_000, 10_000])("a key of %i characters is just wrong", async (length) => {
    const { port, unchanged } = await busy();
    const key = "k".repeat(length);
    expect((await raw(port, ["GET /v1/models HTTP/1.1", host(port), `Authorization: Bearer ${key}`])).status).toBe(401);
    unchanged();
  });
});

describe("with the key", () => {
  it("an unknown path is 404", async () => {
    const { api, unchanged } = await busy();
    for (const path of [
      "/",
      "/nope",
      "/v1/runs/a/b/c",
      "/v1/runs/%2e%2e/%2e%2e/etc/passwd",
      "/v1/runs/%00",
      "/v1/runs/%zz",
      "/%",
    ]) {
      const { status, body } = await api.json("GET", path);
      expect([path, status]).toEqual([path, 404]);
      expect(body).toMatchObject({ error: { message: expect.any(String), code: expect.any(String) } });
    }
    unchanged();
  });

  it("a known path with another method is 405 and says which there are", async () => {
    const { api, pathOf, unchanged } = await busy();
    for (const path of paths()) {
      const own: string[] = rows.filter((row) => row.path === path).map(({ method }) => method);
      // A path with a name in it may stand where another one has a parameter.
      const also = rows.filter((row) => new RegExp(`^${row.path.replaceAll(/:[a-z]+/g, "[^/]+")}$`).test(pathOf(path)));
      const allowed = new Set([...own, ...also.map(({ method }) => method)]);
      const said = new Set(path.includes(":") ? allowed : own);
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
        if (allowed.has(method)) continue;
        const response = await api.call(method, pathOf(path));
        expect([method, path, response.status]).toEqual([method, path, 405]);
        const allow = (response.headers.get("Allow") ?? "").split(", ");
        expect(allow.toSorted()).toEqual([...said].toSorted());
        expect(await response.json()).toMatchObject({ error: { code: "method_not_allowed" } });
      }
    }
    unchanged();
  });

  it("HEAD never fails or hangs", async () => {
    for (const row of rows.filter(({ method }) => method === "GET")) {
      const { port, pathOf, unchanged } = await busy({ settings: { heartbeatMs: 5 } });
      const { status } = await raw(port, [`HEAD ${pathOf(row.path)} HTTP/1.1`, host(port), auth]);
      expect([row.path, status >= 200 && status < 500]).toEqual([row.path, true]);
      unchanged();
    }
  });

  it("every answer has the security headers, also a refusal", async () => {
    const { port, pathOf } = await busy();
    for (const lines of [[auth], [], [auth, "Origin: https://evil.example"]])
      for (const path of paths()) {
        const { head } = await raw(port, [`GET ${pathOf(path)} HTTP/1.1`, host(port), ...lines]);
        for (const name of ["X-Content-Type-Options: nosniff", "X-Frame-Options: DENY", "Content-Security-Policy: "])
          expect([path, head.includes(name)]).toEqual([path, true]);
        expect(head).not.toMatch(/^Access-Control-Allow-Origin: \*/im);
      }
  });
});

// ── Host, Origin, body ────────────────────────────────────────────────────────────────────────────────

describe("a Host that is not ours", () => {
  const wrong: [string, (port: number) => string[]][] = [
    ["foreign", (port) => [`Host: evil.example:${port}`]],
    ["absent", () => []],
    ["empty", () => ["Host:"]],
    ["doubled", (port) => [host(port), host(port)]],
    ["ours, then another", (port) => [host(port), "Host: evil.example"]],
    ["without the port", () => ["Host: 127.0.0.1"]],
    ["with the wrong port", (port) => [`Host: 127.0.0.1:${(port % 65_535) + 1}`]],
    ["with a twin's name", (port) => [`Host: 127.0.0.1.evil.example:${port}`]],
  ];
  it.each(wrong)("%s, is 421 on every route, with the key, and nothing changes", async (_, lines) => {
    const { port, pathOf, unchanged } = await busy();
    for (const row of rows) {
      const target = `${row.method} ${pathOf(row.path)} HTTP/1.1`;
      const { status, text } = await raw(port, [target, ...lines(port), auth, ...withBody(row)], bodyOf(row));
      expect([row.method, row.path, status]).toEqual([row.method, row.path, 421]);
      expect(JSON.parse(text)).toMatchObject({ error: { code: "host_not_allowed" } });
    }
    unchanged();
  });
});

describe("an Origin that is not listed", () => {
  const wrong = [
    "https://evil.example",
    "null",
    "*",
    "",
    "http://app.example",
    "https://app.example.evil.example",
    "https://app.example:8443",
    "https://app.example/",
    "https://APP.EXAMPLE",
    "https://notapp.example",
    "https://app.example, https://evil.example",
  ];
  it.each(wrong)("%j is 403 on every route, with the key, and nothing changes", async (origin) => {
    const { port, pathOf, unchanged } = await busy();
    for (const row of rows) {
      const lines = [`${row.method} ${pathOf(row.path)} HTTP/1.1`, host(port), auth, `Origin: ${origin}`];
      const { status, head, text } = await raw(port, [...lines, ...withBody(row)], bodyOf(row));
      expect([row.method, row.path, status]).toEqual([row.method, row.path, 403]);
      expect(head).not.toMatch(/^Access-Control-Allow/im);
      expect(JSON.parse(text)).toMatchObject({ error: { code: "origin_not_allowed" } });
    }
    const preflight = await raw(port, ["OPTIONS /v1/runs HTTP/1.1", host(port), `Origin: ${origin}`]);
    expect(preflight.status).toBe(403);
    unchanged();
  });

  it("is let in when it is listed, by its own name", async () => {
    const { port } = await busy();
    const { status, head } = await raw(port, ["OPTIONS /v1/runs HTTP/1.1", host(port), `Origin: ${PAGE}`]);
    expect(status).toBe(204);
    expect(head).toMatch(new RegExp(`^Access-Control-Allow-Origin: ${PAGE}$`, "im"));
    const asked = await raw(port, ["GET /v1/models HTTP/1.1", host(port), auth, `Origin: ${PAGE}`]);
    expect(asked.status).toBe(200);
    expect(asked.head).toMatch(new RegExp(`^Access-Control-Allow-Origin: ${PAGE}$`, "im"));
    expect(asked.head).toMatch(/^Vary: .*Origin/im);
  });
});

describe("a body that is not declared as JSON", () => {
  const wrong: [string, string[]][] = [
    ["text/plain", ["Content-Type: text/plain"]],
    ["a form with files", ["Content-Type: multipart/form-data; boundary=x"]],
    ["nothing", []],
    ["text that names JSON", ["Content-Type: text/plain; application/json"]],
    ["packed", ["Content-Type: application/json", "Content-Encoding: gzip"]],
  ];
  it.each(wrong)("but as %s, is 415 on every route that may have one, and nothing changes", async (_, type) => {
    const { port, pathOf, unchanged } = await busy();
    for (const row of rows.filter(({ method, takesBody }) => takesBody || method === "POST" || method === "PATCH")) {
      const lines = [`${row.method} ${pathOf(row.path)} HTTP/1.1`, host(port), auth, ...type];
      const { status, text } = await raw(port, [...lines, `Content-Length: ${BODY.length}`], BODY);
      expect([row.method, row.path, status]).toEqual([row.method, row.path, 415]);
      expect(JSON.parse(text)).toMatchObject({ error: { code: "unsupported_media_type" } });
    }
    unchanged();
  });
});

// ── Size and shape ────────────────────────────────────────────────────────────────────────────────────

describe("a body", () => {
  const LIMIT = 10_000_000;
  const padded = (bytes: number) => {
    const empty = JSON.stringify({ input: "big", pad: "" });
    return JSON.stringify({ input: "big", pad: "p".repeat(bytes - empty.length) });
  };

  it("of 10,000,000 bytes is taken, one of 10,000,001 is 413, and the client hears so", async () => {
    const { api, unchanged } = await busy();
    for (let n = 0; n < 5; n++) {
      const { status, body } = await api.json<{ error?: { code: string } }>("POST", "/v1/runs", padded(LIMIT + 1));
      expect([status, body.error?.code]).toEqual([413, "body_too_large"]);
    }
    unchanged();
    expect((await api.json("POST", "/v1/runs", padded(LIMIT))).status).toBe(202);
  });

  it("that grows over the limit without saying so is 413, and a client that sends all of it first hears so", async () => {
    const { api, port, unchanged } = await busy();
    const socket = connect(port, "127.0.0.1");
    const broke: string[] = [];
    socket.on("error", (error) => broke.push(error.message));
    const head = ["POST /v1/runs HTTP/1.1", host(port), auth, "Content-Type: application/json"];
    socket.write([...head, "Transfer-Encoding: chunked", "", ""].join("\r\n"));
    const chunk = `100000\r\n${" ".repeat(0x100000)}\r\n`;
    for (let megabyte = 0; megabyte < 16 && !socket.destroyed; megabyte++)
      if (!socket.write(chunk)) await Promise.race([once(socket, "drain"), once(socket, "close")]).catch(() => {});
    expect(broke).toEqual([]);
    socket.write("0\r\n\r\n");
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 [^]*body_too_large/);
    socket.destroy();
    unchanged();
    expect((await api.call("GET", "/health")).status).toBe(200);
  });

  it("that never ends starts nothing and holds up nobody", async () => {
    const { api, port, unchanged } = await busy();
    const head = ["POST /v1/runs HTTP/1.1", host(port), auth, "Content-Type: application/json"];
    const endless = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const socket = connect(port, "127.0.0.1").on("error", () => {});
        const how = n % 2 ? ["Content-Length: 1000"] : ["Transfer-Encoding: chunked"];
        socket.write([...head, ...how, "", n % 2 ? '{"input":' : '5\r\n{"inp\r\n'].join("\r\n"));
        await once(socket, "connect");
        return socket;
      }),
    );
    expect((await api.call("GET", "/v1/models")).status).toBe(200);
    for (const socket of endless) socket.destroy();
    expect((await api.call("GET", "/v1/models")).status).toBe(200);
    unchanged();
  });

  it("in two messages at once is not smuggled in", async () => {
    const { port, unchanged } = await busy();
    const head = ["POST /v1/runs HTTP/1.1", host(port), auth, "Content-Type: application/json"];
    for (const lines of [
      ["Content-Length: 5", "Transfer-Encoding: chunked"],
      ["Content-Length: 5", "Content-Length: 6"],
      ["Transfer-Encoding: xchunked"],
      ["Transfer-Encoding: chunked, identity"],
      ["Content-Length: -1"],
      ["Content-Length: 0x10"],
    ]) {
      const { status } = await raw(port, [...head, ...lines], "0\r\n\r\nGET /health HTTP/1.1\r\n\r\n");
      expect([lines, status]).toEqual([lines, 400]);
    }
    unchanged();
  });

  const deep = (levels: number) => `{"input":"x","pad":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  it.each([
    ["nested too deeply", deep(100)],
    ["nested a million times", `{"input":${"[".repeat(1_000_000)}`],
    ["cut off", '{"input":"x","session_id":"s"'],
    ["two of them", '{"input":"x"}{"input":"y"}'],
    ["with __proto__", '{"input":"x","__proto__":{"polluted":true}}'],
    ["with __proto__ in its depth", '{"input":"x","a":[{"__proto__":{"polluted":true}}]}'],
    ["with __proto__ in escapes", '{"input":"x","\\u005f\\u005fproto__":{"polluted":true}}'],
    ["not UTF-8", Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
    ["a BOM", `\u{feff}{"input":"x"}`],
    ["a number", "1e999"],
  ])("that is %s is 400, and nothing changes", async (_, body) => {
    const { api, port, unchanged } = await busy();
    const bytes = Buffer.from(body);
    const response = await fetch(`${api.url}/v1/runs`, {
      method: "POST",
      headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", Host: `127.0.0.1:${port}` },
      body: bytes,
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { message: expect.any(String), type: "invalid_request_error" },
    });
    expect({}).not.toHaveProperty("polluted");
    unchanged();
  });

  it("with constructor and prototype in it pollutes nothing", async () => {
    const { api } = await busy();
    await api.json("POST", "/v1/runs", '{"input":"x","constructor":{"prototype":{"polluted":true}}}');
    expect({}).not.toHaveProperty("polluted");
    expect(Object).not.toHaveProperty("polluted");
  });

  it("with a forged history of 9 MB is taken, and one with too many parts is not", async () => {
    const { api } = await busy();
    const entry = { role: "user", content: "h".repeat(900) };
    const history = (length: number) => ({ input: "x", conversation_history: Array.from({ length }, () => entry) });
    expect((await api.json("POST", "/v1/runs", history(9_000))).status).toBe(202);
    expect(
      (
        await api.json("POST", "/v1/runs", {
          input: "x",
          conversation_history: Array.from({ length: 10_001 }, () => ({ role: "user", content: "" })),
        })
      ).status,
    ).toBe(400);
    expect((await api.call("GET", "/health")).status).toBe(200);
  });
});

// ── Floods ────────────────────────────────────────────────────────────────────────────────────────────

describe("sockets that show no key", () => {
  const crowd = async (port: number, count: number, text: string) => {
    const all: Socket[] = [];
    for (let n = 0; n < count; n += 250)
      all.push(
        ...(await Promise.all(
          Array.from({ length: 250 }, async () => {
            const socket = connect(port, "127.0.0.1").on("error", () => {});
            await Promise.race([once(socket, "connect"), once(socket, "close")]);
            socket.write(text);
            return socket;
          }),
        )),
      );
    return all;
  };
  /** A few more than the server takes, if we may open as many: both ends of each are ours. */
  const most = () => {
    const [, soft = "1024"] = /Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Math.min(4_500, Math.floor((Number(soft) - 500) / 2 / 250) * 250);
  };

  it("a thousand in the middle of their headers keep nobody out", async () => {
    const { api, port, unchanged } = await busy();
    const all = await crowd(port, Math.min(1_000, most()), `GET /v1/models HTTP/1.1\r\n${host(port)}\r\nX-Slow: a`);
    expect((await api.call("GET", "/v1/models")).status).toBe(200);
    for (const socket of all) socket.write("a");
    expect((await fetch(`${api.url}/health`, { headers: { Connection: "close" } })).status).toBe(200);
    for (const socket of all) socket.destroy();
    unchanged();
  });

  it("more than are let in do not take it down: who is in stays in, and when they are gone all is well", async () => {
    const { api, id, port } = await busy();
    const watching = await api.call("GET", `/v1/runs/${id}/events`);
    const all = await crowd(port, most(), "");
    for (const asked of api.model.all) asked.answer("in spite of all");
    expect(await watching.text()).toContain("in spite of all");
    const gone = all.filter((socket) => !socket.destroyed).map((socket) => once(socket, "close"));
    for (const socket of all) socket.destroy();
    await Promise.all(gone);
    await expect.poll(async () => (await api.call("GET", "/v1/models").catch(() => null))?.status).toBe(200);
  });

  it("headers without end are refused", async () => {
    const { api, port, unchanged } = await busy();
    const { status } = await raw(port, ["GET /v1/models HTTP/1.1", host(port), auth, `X-Big: ${"b".repeat(100_000)}`]);
    expect([400, 431]).toContain(status);
    expect((await api.call("GET", "/health")).status).toBe(200);
    unchanged();
  });

  it("garbage that is no HTTP ends that socket and nothing else", async () => {
    const { api, port, unchanged } = await busy();
    for (const bytes of [
      "\x16\x03\x01\x02\x00\x01",
      "\0".repeat(1_000),
      "GET\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]) {
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      socket.end(bytes);
      socket.resume();
      await once(socket, "close");
    }
    expect((await api.call("GET", "/health")).status).toBe(200);
    unchanged();
  });
});

// ── A real process ────────────────────────────────────────────────────────────────────────────────────

const place = (env: NodeJS.ProcessEnv = {}) => {
  const made = makePlace(env);
  places.push(made);
  return made;
};

describe("an address that others can reach", () => {
  const lan =
    Object.values(networkInterfaces())
      .flat()
      .find((one) => one && !one.internal && one.family === "IPv4")?.address ?? "192.168.77.1";
  const cases: [string, NodeJS.ProcessEnv, string][] = [
    ["0.0.0.0", {}, "no key"],
    ["::", {}, "no key"],
    [lan, {}, "no key"],
    ["0.0.0.0", { API_SERVER_KEY: "changeme" }, "placeholder"],
    ["0.0.0.0", { API_SERVER_KEY: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }, "repeats"],
    ["0.0.0.0", { API_SERVER_KEY: "short-key" }, "too short"],
  ];
  it("needs a strong key, or the gateway does not start (exit 78) and says what to do", async () => {
    const starts = cases.map(async ([host, env, why]) => {
      const hermes = place(env).start(["gateway", "--host", host, "--port", "0"]);
      const code = await hermes.exit;
      expect([host, why, code]).toEqual([host, why, 78]);
      expect(hermes.stderr()).toContain("strong key");
      expect(hermes.stderr()).toContain("openssl rand -hex 32");
      expect(hermes.stdout()).not.toContain("ready on");
      if (env["API_SERVER_KEY"]) expect(hermes.stderr() + hermes.stdout()).not.toContain(env["API_SERVER_KEY"]);
    });
    await Promise.all(starts);
  });

  it("is served with a strong one, under the names of this machine only", async () => {
    const key = randomBytes(32).toString("hex");
    const hermes = place({ API_SERVER_KEY: key }).start(["gateway", "--host", "0.0.0.0", "--port", "0"]);
    await hermes.prints(/ready on http:\/\/0\.0\.0\.0:\d+\n/);
    const port = Number(/:(\d+)\n/.exec(hermes.stdout())?.[1]);
    const ask = (name: string) =>
      raw(port, ["GET /v1/models HTTP/1.1", `Host: ${name}`, `Authorization: Bearer ${key}`]);
    expect((await ask(`127.0.0.1:${port}`)).status).toBe(200);
    expect((await ask(`localhost:${port}`)).status).toBe(200);
    expect((await ask(`evil.example:${port}`)).status).toBe(421);
    hermes.kill("SIGTERM");
    expect(await hermes.exit).toBe(0);
  });
});

/** All files below, with their modes. */
const walk = (dir: string): { path: string; mode: string; isDir: boolean }[] =>
  readdirSync(dir).flatMap((name) => {
    const path = join(dir, name);
    const stat = statSync(path);
    const row = { path, mode: (stat.mode & 0o777).toString(8), isDir: stat.isDirectory() };
    return row.isDir ? [row, ...walk(path)] : [row];
  });

/** A gateway with secrets of made-up formats in its environment, and everything that it has said to anybody. */
async function secretive() {
  const llm = await startFakeLlm();
  const canaries = {
    OPENAI_API_KEY: `zq-${randomBytes(16).toString("hex")}`,
    ANTHROPIC_API_KEY: `vw_${randomBytes(16).toString("hex")}`,
  };
  const env = { ...canaries, OPENAI_BASE_URL: llm.url, LLM_MODEL: "fake-model", HERMES_YOLO_MODE: "1" };
  const { home, start: run } = place(env);
  const hermes = run(["gateway", "--port", "0"]);
  await hermes.prints(/hermes gateway ready on http:\S+\n/);
  const url = /ready on (http:\S+)\n/.exec(hermes.stdout())?.[1] ?? "";
  const key = readFileSync(join(home, "api_key"), "utf8").trim();
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const said: string[] = [];
  const ask = async (path: string, body?: unknown) => {
    const post = body !== undefined && { method: "POST", body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, { headers, ...post });
    const text = await response.text();
    said.push(text, JSON.stringify([...response.headers]));
    return text;
  };
  return {
    llm,
    home,
    hermes,
    url,
    key,
    secrets: { ...canaries, key },
    ask,
    /** All events of a run; its status is asked for too. */
    async events(input: string) {
      const { run_id: id } = JSON.parse(await ask("/v1/runs", { input }));
      const told = await ask(`/v1/runs/${id}/events`);
      await ask(`/v1/runs/${id}`);
      return told;
    },
    /** Ends it. Names each place where a secret can be read, and which. */
    async leaks(): Promise<string[]> {
      const cmdline = readFileSync(`/proc/${hermes.pid}/cmdline`, "latin1");
      hermes.kill("SIGTERM");
      expect(await hermes.exit).toBe(0);
      await llm.close();
      const files = walk(home).filter(({ path, isDir }) => !isDir && path !== join(home, "api_key"));
      const places: [string, string][] = [
        ["an answer", said.join("\n")],
        ["stdout", hermes.stdout()],
        ["stderr", hermes.stderr()],
        ["the command line", cmdline],
        ...files.map(({ path }): [string, string] => [path.slice(home.length), readFileSync(path, "latin1")]),
      ];
      return places.flatMap(([where, text]) =>
        Object.entries({ ...canaries, key }).flatMap(([name, secret]) =>
          text.includes(secret) ? [`${name} in ${where}`] : [],
        ),
      );
    },
  };
}

describe("a fresh install", () => {
  it("makes a key of its own, keeps everything to itself, and shows no secret anywhere", async () => {
    const { llm, home, hermes, url, key, secrets, ask, events, leaks } = await secretive();
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(hermes.stdout()).toContain(join(home, "api_key"));
    expect(Buffer.from(key, "base64url")).toHaveLength(32);
    expect((await fetch(`${url}/v1/models`)).status).toBe(401);

    llm.script([
      { calls: [{ name: "terminal", args: { command: "env; echo written > note.txt" } }] },
      { text: "done" },
    ]);
    expect(await events("print your environment")).toContain("run.completed");
    const printed = llm.requests.at(-1)?.raw ?? "";
    expect(printed).toContain("PATH=");
    for (const secret of Object.values(secrets)) expect(printed).not.toContain(secret);
    for (const path of rows
      .filter((row) => row.method === "GET" && !row.path.includes("events"))
      .map((row) => row.path))
      await ask(path.replaceAll(/:[a-z]+/g, "x"));
    await ask(`/v1/${key}`, {});
    await fetch(`${url}/v1/models?key=${key}`, { headers: { Authorization: `Bearer ${key}x` } });

    const files = walk(home);
    expect(files.filter(({ mode, isDir }) => mode !== (isDir ? "700" : "600"))).toEqual([]);
    expect((statSync(home).mode & 0o777).toString(8)).toBe("700");
    expect(files.map(({ path }) => path)).toContain(join(home, "hermes.db"));
    expect(await leaks()).toEqual([]);
  });

  it("shows no secret that a provider repeats in its error", async () => {
    const { llm, secrets, events, leaks } = await secretive();
    const message = `Incorrect API key provided: ${secrets.OPENAI_API_KEY}`;
    llm.script({ fault: { status: 401, body: JSON.stringify({ error: { message, code: "invalid_api_key" } }) } });
    expect(await events("fail")).toContain("run.failed");
    expect(await leaks()).toEqual([]);
  });

  it("keeps a home that others could look into to itself", async () => {
    const { home, start: run } = place({ HERMES_YOLO_MODE: "1" });
    mkdirSync(home, { mode: 0o755 });
    writeFileSync(join(home, "api_key"), "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP\n", { mode: 0o644 });
    const hermes = run(["gateway", "--port", "0"]);
    await hermes.prints(/ready on/);
    expect([statSync(home), statSync(join(home, "api_key"))].map(({ mode }) => (mode & 0o777).toString(8))).toEqual([
      "700",
      "600",
    ]);
    hermes.kill("SIGTERM");
    expect(await hermes.exit).toBe(0);
  });
});
