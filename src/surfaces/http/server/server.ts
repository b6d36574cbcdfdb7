// The API server: raw sockets at the front (guard.ts), then the row of the route table, and one way out for answers. It makes no
// web Request or Response: Node loads its whole fetch for the first of them, 48 ms and 17 MB.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";
import { ConfigError, messageOf } from "../../../core/errors.ts";
import { BODY_LIMIT, PEER_BODY_LIMIT, parse, readJson } from "./body.ts";
import { createGuard, createRateLimit, securityHeaders } from "./guard.ts";
import { envelope, Problem, problem } from "./problem.ts";
import { type Api, draining, problemOf, type Route, type RouteCall, starting, streamer } from "./route.ts";

export type ServeOptions = {
  host: string;
  port: number;
  key: string;
  /** Of the cluster: opens the rows for nodes. */
  secret?: string | undefined;
  origins: readonly string[];
  /** Names besides our own addresses. */
  names: readonly string[];
  /** If this port cannot be had, any free one will do. */
  anyPort?: boolean;
  /** Requests of one address in a minute; 0: no limit. */
  rateLimit: number;
  /** A browser that is signed in needs no key. */
  signedIn?(request: IncomingMessage): boolean;
  redact(text: string): string;
};

/** Sockets at a time, before anybody has shown a key: more than the 1,000 viewers we promise, less than files we may open. */
const MOST_SOCKETS = 4_096;
const HEADERS_MS = 10_000;
const BODY_MS = 60_000;

export async function serve(api: Api, routes: readonly Route[], options: ServeOptions) {
  const { clock, log } = api;
  const { host, port, key, secret, names, rateLimit, redact } = options;
  let hosts: ReadonlySet<string> = new Set();
  const guard = createGuard({
    hosts: () => hosts,
    origins: new Set(options.origins),
    key,
    secret,
    ...(options.signedIn && { signedIn: options.signedIn }),
    open: (method, path) => routes.find((row) => row.method === method && row.path === path)?.access ?? "key",
    clock,
  });
  const limit = createRateLimit({ perMinute: rateLimit, clock });
  const find = createRouter(routes);

  const server = createServer({ requireHostHeader: false, headersTimeout: HEADERS_MS, requestTimeout: BODY_MS });
  server.maxConnections = MOST_SOCKETS;
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    response.setHeader("X-Request-Id", `req_${api.newKey().replaceAll("-", "")}`);
    const verdict = guard(request);
    if ("preflight" in verdict) return void response.writeHead(204, { ...securityHeaders, ...verdict.preflight }).end();
    if ("deny" in verdict) return refuse(response, verdict.deny, redact);
    for (const [name, value] of Object.entries({ ...securityHeaders, ...verdict.headers }))
      response.setHeader(name, value);
    const wait = verdict.peer ? null : limit(request.socket.remoteAddress);
    if (wait !== null) return refuse(response, tooMany(wait), redact);
    const { method = "", url = "" } = request;
    const [path = "", query = ""] = url.split(/\?([^]*)/, 2);
    const found = find(method, path);
    if (!found) return refuse(response, noRoute(routes, method, path), redact);
    void answer(api, found.row, { params: found.params, query, request, response }, redact);
  });
  server.on("clientError", (_error, socket) => {
    if (socket.writable) socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
  });

  const listen = (wanted: number) =>
    new Promise<void>((resolve, reject) => {
      server.once("error", (error) => reject(cannotListen(error, host, wanted)));
      server.listen({ host, port: wanted, backlog: 1_024 }, resolve);
    });
  await listen(port).catch((error: unknown) => {
    if (!options.anyPort) throw error;
    return listen(0);
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a listening TCP server has this kind
  const address = server.address() as AddressInfo;
  hosts = ourNames(host, address.port, names);
  server.on("error", (error) => log("error", "http.failed", { error: messageOf(error) }));
  return {
    url: `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`,
    /** Connections that are open now. */
    connections: () => new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count))),
    /** Takes no new connection, and waits for those that are open, at most so long. */
    close: (ms: number) =>
      new Promise<void>((resolve) => {
        const late = setTimeout(() => server.closeAllConnections(), ms);
        // One that becomes idle later would be kept open for its next request.
        const idle = setInterval(() => server.closeIdleConnections(), 50);
        server.close(() => {
          clearTimeout(late);
          clearInterval(idle);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}

/** The row that a request is for: the one of that very path, else the first whose pattern fits. HEAD is a GET without a body. */
function createRouter(routes: readonly Route[]) {
  const plain = new Map(routes.toReversed().map((row) => [`${row.method} ${row.path}`, row]));
  const patterns = routes.filter(({ path }) => path.includes("/:")).map((row) => ({ row, parts: row.path.split("/") }));
  return (asked: string, path: string): { row: Route; params: Record<string, string> } | null => {
    const method = asked === "HEAD" ? "GET" : asked;
    const row = plain.get(`${method} ${path}`);
    if (row) return { row, params: {} };
    const given = path.split("/");
    const found = patterns.find((pattern) => pattern.row.method === method && fits(pattern.parts, given));
    if (!found) return null;
    const named = found.parts.flatMap((part, at) =>
      part.startsWith(":") ? [[part.slice(1), decoded(given[at])]] : [],
    );
    return { row: found.row, params: Object.fromEntries(named) };
  };
}

const fits = (parts: readonly string[], given: readonly string[]): boolean =>
  parts.length === given.length && parts.every((part, at) => (part.startsWith(":") ? given[at] : given[at] === part));

/** The decoded text; the text as it was sent, if its encoding is not valid. */
function decoded(text = ""): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function noRoute(routes: readonly Route[], method: string, path: string): Problem {
  const given = path.split("/");
  const rows = routes.filter((row) => fits(row.path.split("/"), given));
  const literal = rows.filter((row) => row.path === path); // /v1/responses/input_tokens is no response of that id
  const others = [...new Set((literal.length ? literal : rows).map((row) => row.method))];
  if (!others.length) return problem(404, "unknown_url", `There is no ${method} ${path}; see /openapi.json.`);
  const allow = { headers: { Allow: others.join(", ") } };
  return problem(405, "method_not_allowed", `${method} is not for ${path}; use ${others.join(" or ")}.`, allow);
}

type Asked = Pick<RouteCall<unknown>, "params" | "request" | "response"> & { query: string };

async function answer(api: Api, row: Route, asked: Asked, redact: (text: string) => string): Promise<void> {
  const { params, query, request, response } = asked;
  try {
    if (!api.open() && row.access !== "open") throw starting();
    if (row.starts && api.runtime.draining()) throw draining();
    const limit = row.access === "node" ? PEER_BODY_LIMIT : BODY_LIMIT;
    const body = row.body ? parse(row.body, (await readJson(request, limit)) ?? {}) : undefined;
    const answered = await row.handle({
      params,
      query: new URLSearchParams(query),
      headers: request.headers,
      body,
      request,
      response,
      stream: streamer(api, response),
    });
    if (answered !== "streamed") send(response, answered.status, answered.body, answered.headers);
  } catch (error) {
    const known = error instanceof Problem ? error : problemOf(error);
    if (!known) {
      const request_id = response.getHeader("X-Request-Id");
      api.log("error", "http.threw", { method: row.method, path: row.path, request_id, error: messageOf(error) });
    }
    const text = "Something went wrong here; the server's log says what.";
    refuse(response, known ?? problem(500, "internal_error", text), redact);
  }
}

function refuse(response: ServerResponse, wrong: Problem, redact: (text: string) => string): void {
  const { error } = envelope(wrong);
  // Node throws away what is left of a body. Closing instead would cut off a client that still sends, and it never reads why.
  const headers = { ...securityHeaders, ...wrong.headers };
  send(response, wrong.status, { error: { ...error, message: redact(error.message) } }, headers);
}

function send(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  if (response.headersSent || response.destroyed) return;
  if (body === undefined) return void response.writeHead(status, headers).end();
  const isText = typeof body === "string";
  const text = isText ? body : JSON.stringify(body);
  const type = isText ? {} : { "Content-Type": "application/json; charset=utf-8" };
  response.writeHead(status, { ...type, ...headers, "Content-Length": Buffer.byteLength(text) }).end(text);
}

const tooMany = (seconds: number) =>
  problem(429, "rate_limit_exceeded", `Too many requests; try again in ${seconds} s.`, {
    headers: { "Retry-After": String(seconds) },
  });

/** What a Host may say: the address that we listen on, the usual names of this machine where we listen on them. */
function ourNames(host: string, port: number, names: readonly string[]): ReadonlySet<string> {
  const everywhere = host === "0.0.0.0" || host === "::";
  const addresses = Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
  const loopback = host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
  const own = [
    host,
    ...(everywhere ? addresses : []),
    ...(everywhere || loopback ? ["localhost", "127.0.0.1", "::1"] : []),
  ];
  const withPort = own.flatMap((name) => {
    const written = name.includes(":") ? `[${name}]` : name;
    return port === 80 ? [written, `${written}:80`] : [`${written}:${port}`]; // clients leave the usual port out
  });
  const unusual = names.flatMap((name) => (/:\d+$/.test(name) ? [name] : [name, `${name}:${port}`]));
  return new Set([...withPort, ...unusual].map((name) => name.toLowerCase()));
}

function cannotListen(error: Error, host: string, port: number): Error {
  const code = "code" in error ? error.code : "";
  if (code === "EADDRINUSE")
    return new ConfigError(
      `Port ${port} on ${host} is in use. Is a gateway running already? Choose another one with API_SERVER_PORT (0: any).`,
    );
  return new ConfigError(`Cannot listen on ${host}:${port}: ${error.message}. Set gateway.api_server.host and .port.`);
}
