// What the chat platforms have in common: calls over HTTP that are read, remembered, hit by a planted fault, answered,
// and their answers lost when a test wants that.
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { type Params, readBody, type Upload } from "./body.ts";
import { feeds } from "./feeds.ts";

export type Call = {
  /** From 1, in order of arrival. */
  number: number;
  /** As the platform calls it: `sendMessage`, `chat.postMessage`, `POST /channels/:channel/messages`. */
  method: string;
  path: string;
  query: Params;
  /** Of the body, or of the query when there is none. */
  params: Params;
  files: Record<string, Upload>;
  headers: IncomingHttpHeaders;
  /** The fault that hit it. */
  fault: Fault | undefined;
  /** Aborted when its connection is over. */
  gone: AbortSignal;
  /** The status that went out; undefined when the client never heard one. */
  answered: Promise<number | undefined>;
};

/**
 * `reset`: nothing was done, the connection died. `lost`: it was done, the connection died before the answer.
 * `hang`: held until released, then done if the client is still there. `late`: done, its answer held until released.
 */
export type Fault = "reset" | "lost" | "hang" | "late" | { status: number; retryAfter?: number };

export type Planted = {
  /** How many calls it hit. */
  readonly hits: number;
  /** What hangs goes on, and no further call is hit. */
  release(): void;
};

export type Answer = { status: number; body?: unknown; headers?: Record<string, string> };

export type Platform = {
  name: string;
  /** Undefined: there is no such path, and it is answered with 404. */
  methodOf(verb: string, path: string): string | undefined;
  answer(call: Call): Answer | Promise<Answer>;
  /** How it words a planted status. */
  failure(status: number, retryAfter: number | undefined, call: Call): Answer;
  /** What a rate limit of this method holds for: a chat, a channel. */
  limited(call: Call): string;
};

export type ChatServer = {
  port: number;
  http: Server;
  calls: Call[];
  violations: string[];
  nextCall(method: string): Promise<Call>;
  fault(method: string, fault: Fault, times?: number): Planted;
  /** Resolves with the first thing it finds, looking again whenever something changed. */
  until<T>(look: () => T | undefined | false): Promise<T>;
  changed(): void;
  close(): Promise<void>;
};

type Trap = { method: string; fault: Fault; left: number; hits: number; released: PromiseWithResolvers<void> };
type Limit = { from: number; to: number };

/** A call that was on its way when the limit began is no offence, nor a timer that fires a little early. */
const ON_ITS_WAY = 150;
const EARLY = 25;

export async function startServer(platform: Platform): Promise<ChatServer> {
  const calls: Call[] = [];
  const violations: string[] = [];
  const arrivals = feeds<string, Call>();
  const traps: Trap[] = [];
  const limits = new Map<string, Limit>();
  const lookers = new Set<{ look: () => void; stop: (why: Error) => void }>();
  const sockets = new Set<Socket>();

  const http = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      violations.push(`the fake itself: ${error instanceof Error ? error.stack : String(error)}`);
      response.socket?.destroy();
    });
  });
  // An idle connection that we close just as it is used again would be a fault that nobody planted.
  http.keepAliveTimeout = 0;
  http.on("connection", (socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const { port } = http.address() as AddressInfo;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    const answered = Promise.withResolvers<number | undefined>();
    response.on("close", () => {
      answered.resolve(response.writableFinished ? response.statusCode : undefined);
      gone.abort();
    });
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const body = await readBody(request);
    if (body === undefined) return;
    const method = platform.methodOf(request.method ?? "", url.pathname);
    const unreadable = typeof body === "string";
    const query = Object.fromEntries(url.searchParams);
    const params = unreadable ? {} : body.params;
    const call: Call = {
      number: calls.length + 1,
      method: method ?? `${request.method} ${url.pathname}`,
      path: url.pathname,
      query,
      params: Object.keys(params).length > 0 ? params : query,
      files: unreadable ? {} : body.files,
      headers: request.headers,
      fault: undefined,
      gone: gone.signal,
      answered: answered.promise,
    };
    const trap = traps.find((one) => one.left > 0 && one.method === call.method);
    if (trap) {
      trap.left -= 1;
      trap.hits += 1;
      call.fault = trap.fault;
    }
    calls.push(call);
    arrivals.push(call.method, call);
    changed();
    if (unreadable) violations.push(`${call.method} (call ${call.number}): ${body}`);
    if (!method) violations.push(`${call.method} (call ${call.number}): there is no such method`);
    if (unreadable || !method) return send(response, platform.failure(unreadable ? 400 : 404, undefined, call));

    if (trap?.fault === "reset") return reset(response);
    if (trap?.fault === "hang") await held(trap, gone.signal);
    if (gone.signal.aborted) return;
    const answer = refusal(call) ?? (await platform.answer(call));
    changed();
    if (trap?.fault === "lost") return reset(response);
    if (trap?.fault === "late") await held(trap, gone.signal);
    send(response, answer);
  }

  function refusal(call: Call): Answer | undefined {
    const key = `${call.method} ${platform.limited(call)}`;
    const now = performance.now();
    const limit = limits.get(key);
    if (limit && now < limit.to - EARLY) {
      if (now > limit.from + ON_ITS_WAY)
        violations.push(
          `${call.method} (call ${call.number}): came ${Math.round(limit.to - now)} ms before the rate limit was over`,
        );
      return platform.failure(429, (limit.to - now) / 1000, call);
    }
    if (typeof call.fault !== "object") return undefined;
    const { status, retryAfter } = call.fault;
    if (status === 429 && retryAfter) limits.set(key, { from: now, to: now + retryAfter * 1000 });
    return platform.failure(status, retryAfter, call);
  }

  function changed(): void {
    for (const { look } of lookers) look();
  }

  function until<T>(look: () => T | undefined | false): Promise<T> {
    const found = Promise.withResolvers<T>();
    const looker = {
      look: () => {
        const thing = look();
        if (thing === undefined || thing === false) return;
        lookers.delete(looker);
        found.resolve(thing);
      },
      stop: found.reject,
    };
    lookers.add(looker);
    looker.look();
    return found.promise;
  }

  async function close(): Promise<void> {
    const why = `the fake ${platform.name} was closed`;
    arrivals.close(why);
    for (const { stop } of lookers) stop(new Error(why));
    lookers.clear();
    for (const trap of traps) trap.released.resolve();
    const closed = new Promise((resolve) => http.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  }

  return {
    port,
    http,
    calls,
    violations,
    nextCall: (method) => arrivals.next(method),
    fault: (method, fault, times = 1) => {
      const trap: Trap = { method, fault, left: times, hits: 0, released: Promise.withResolvers<void>() };
      traps.push(trap);
      return {
        get hits() {
          return trap.hits;
        },
        release: () => {
          trap.left = 0;
          trap.released.resolve();
        },
      };
    },
    until,
    changed,
    close,
  };
}

function held(trap: Trap, gone: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    void trap.released.promise.then(resolve);
    gone.addEventListener("abort", () => resolve(), { once: true });
  });
}

function reset({ socket }: ServerResponse): void {
  socket?.resetAndDestroy();
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  if (response.destroyed) return;
  if (body === undefined) {
    response.writeHead(status, headers).end();
    return;
  }
  const raw = typeof body === "string" || Buffer.isBuffer(body);
  const type = raw ? "text/html" : "application/json";
  response.writeHead(status, { "content-type": type, ...headers }).end(raw ? body : JSON.stringify(body));
}
