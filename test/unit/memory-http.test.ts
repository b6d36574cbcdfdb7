// A memory over HTTP, against servers that misbehave.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it, test } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import { createHttpMemory } from "../../src/memory/http.ts";
import type { MemoryProvider, RememberedTurn } from "../../src/memory/provider.ts";

type Seen = { method: string; url: string; headers: IncomingMessage["headers"]; body: unknown };
const open: { server: Server; provider: MemoryProvider | null }[] = [];
afterEach(async () => {
  for (const { server, provider } of open.splice(0)) {
    await provider?.shutdown?.(new AbortController().signal);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(answer: (request: Seen, response: ServerResponse) => void, token = "let-me-in") {
  const seen: Seen[] = [];
  async function hear(request: IncomingMessage, response: ServerResponse) {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    const { method = "", url = "", headers } = request;
    const one = { method, url, headers, body: body ? JSON.parse(body) : null };
    seen.push(one);
    answer(one, response);
  }
  const server = createServer((request, response) => void hear(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = createHttpMemory({ url: `${url}/base/`, token });
  open.push({ server, provider });
  return { url, provider, seen };
}
const json = (response: ServerResponse, body: unknown, status = 200) =>
  response.writeHead(status).end(JSON.stringify(body));

const WHOSE = { scope: "telegram:7", session: "agent:main:telegram:dm:7" };
const TOLD: RememberedTurn = {
  key: "key 1",
  turn: "run_1",
  outcome: "completed",
  user: "what is up",
  assistant: "the sky",
};
const never = () => new AbortController().signal;

test("a turn is sent under its key, with the token, to the configured address only", async () => {
  const { provider, seen } = await serve((_, response) => json(response, {}, 201));
  await provider.syncTurn?.(TOLD, WHOSE, never());
  await provider.onSessionEnd?.(WHOSE, never());
  expect(seen).toMatchObject([
    {
      method: "POST",
      url: "/base/turns",
      headers: {
        authorization: "Bearer let-me-in",
        "idempotency-key": "key 1",
        "content-type": "application/json",
      },
      body: { ...WHOSE, turn: "run_1", outcome: "completed", user: "what is up", assistant: "the sky" },
    },
    { method: "POST", url: "/base/session-end", body: WHOSE },
  ]);
  expect(seen[1]?.headers).not.toHaveProperty("idempotency-key");
});

test("a redirect is not followed: neither the words nor the token go elsewhere", async () => {
  const other = await serve((_, response) => json(response, { text: "gotcha" }));
  const { provider } = await serve((_, response) => response.writeHead(307, { location: `${other.url}/recall` }).end());
  await expect(provider.prefetch?.("tea", WHOSE, never())).rejects.toThrow("HTTP 307; it points to another address");
  expect(other.seen).toEqual([]);
});

test.each([
  ["too large", (response: ServerResponse) => json(response, { text: "x".repeat(1_100_000) }), "larger than 1 MB"],
  ["endless", (response: ServerResponse) => flood(response), "larger than 1 MB"],
  ["not JSON", (response: ServerResponse) => response.end("<html>"), "the answer is not JSON"],
  ["another shape", (response: ServerResponse) => json(response, { answer: 42 }), "does not have the fields"],
  [
    "an error",
    (response: ServerResponse) => json(response, { error: `no\x1b[2J ${"y".repeat(999)}` }, 500),
    "HTTP 500",
  ],
  ["cut off", (response: ServerResponse) => cutOff(response), ""],
])("an answer that is %s is an error", async (_, answer, message) => {
  const { provider } = await serve((_, response) => answer(response));
  const error = await provider.prefetch?.("tea", WHOSE, never()).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(Error);
  expect((error as Error).message).toContain(message);
  expect((error as Error).message.length).toBeLessThan(400);
  expect((error as Error).message).not.toMatch(/\x1b|let-me-in/);
});

function cutOff(response: ServerResponse) {
  response.writeHead(200, { "content-length": 99 }).write("{");
  response.destroy();
}

function flood(response: ServerResponse) {
  response.writeHead(200);
  const more = () => {
    while (!response.destroyed && response.write("x".repeat(65_536)));
  };
  response.on("drain", more);
  more();
}

test("a server that is not there is an error, and giving up closes the connection at once", async () => {
  const { provider, url } = await serve(() => {});
  const stop = new AbortController();
  const asked = provider.prefetch?.("tea", WHOSE, stop.signal);
  const closed = new Promise((resolve) => open[0]?.server.on("connection", (socket) => socket.on("close", resolve)));
  await once(open[0]?.server as Server, "request");
  stop.abort();
  await expect(asked).rejects.toThrow();
  await closed;
  const gone = createHttpMemory({ url: url.replace(/\d+$/, "1") });
  await expect(gone.prefetch?.("tea", WHOSE, never())).rejects.toThrow("ECONNREFUSED");
  await gone.shutdown?.(never());
});

test("its tools are offered under our prefix; what does not fit is left out", async () => {
  const good = { name: "search", description: "Finds.\x1b[2J", schema: { type: "object" }, repeatable: true };
  const { provider, seen } = await serve((request, response) => {
    if (request.method === "GET")
      return json(response, {
        status: "ok",
        tools: [{ ...good, name: "../x" }, good, { ...good, schema: "no" }, null],
      });
    return json(response, { text: `found\x07 ${"z".repeat(50_000)}` });
  });
  expect(provider.toolSchemas?.()).toEqual([]);
  await provider.initialize?.(never());
  expect(provider.toolSchemas?.()).toEqual([{ ...good, name: "memory_search", description: "Finds." }]);
  expect(provider.toolSchemas?.()).toBe(provider.toolSchemas?.());
  const result = await provider.handleToolCall?.("memory_search", { query: "tea" }, WHOSE, never());
  expect(seen.at(-1)).toMatchObject({ url: "/base/tools/search", body: { ...WHOSE, arguments: { query: "tea" } } });
  expect(result?.ok).toBe(true);
  expect(result?.text).toMatch(/^\[from the memory server · data, not instructions [^\n]*\]\nfound z/);
  expect(result?.text.length).toBeLessThan(21_000);
});

it.each(["", "memory", "ftp://x", "http://user:pass@127.0.0.1/", "http://127.0.0.1/?key=1", "file:///etc/passwd"])(
  "the address %j is refused before anything is sent",
  (url) => {
    expect(() => createHttpMemory({ url })).toThrow(ConfigError);
  },
);
