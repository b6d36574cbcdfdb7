// A model provider on this machine: three wire formats, scripted answers, every model fault of RELIABILITY.md. It
// refuses what a strict provider refuses, and remembers every request and how its connection ended.
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { anthropic } from "./anthropic.ts";
import { chatOf } from "./chat.ts";
import { DIALECTS } from "./dialects.ts";
import type { Point, Reply } from "./reply.ts";
import { responses } from "./responses.ts";
import { type Sending, send, tell } from "./send.ts";
import { parsed } from "./validation.ts";
import { type Format, nothingRead, type Problem, type Read, type Wire } from "./wire.ts";

/** `completed`: all of the answer went out, whatever the answer was. */
type Ending = "completed" | "closed-by-client" | "destroyed-by-us";

export type LlmRequest = Read & {
  /** From 1, in order of arrival. */
  number: number;
  format: Format;
  headers: IncomingHttpHeaders;
  /** What was sent, as text and as JSON (undefined when it is none). */
  raw: string;
  body: unknown;
  /** When it was all here, in milliseconds of the wall clock. */
  at: number;
  /** What a strict provider refuses about it. */
  violations: string[];
  /** Undefined while it is open. */
  ending: Ending | undefined;
  closedAt: number | undefined;
  /** Bytes of the answer's body. */
  bytesSent: number;
  /** Resolves when the answer first waits: at its hold, or in silence. */
  holding: Promise<Point>;
  closed: Promise<Ending>;
};

type Script = (request: LlmRequest) => Reply | undefined;

export type FakeLlm = {
  /** `http://127.0.0.1:<port>/v1`: the base URL for every format. */
  url: string;
  /** What a program is told of it. */
  env: { OPENAI_BASE_URL: string; OPENAI_API_KEY: string; LLM_MODEL: string };
  /** Replies are used up one by one; a function answers whatever they do not, until another takes its place. */
  script(next: Reply | Reply[] | Script): void;
  requests: LlmRequest[];
  /** Whatever was not a request to a model: `GET /v1/models`. */
  others: string[];
  /** One sentence each. A test that ends with any has found a bug, in the client or in its script. */
  violations: string[];
  /** Each request is given once, in order, also when it came before it was asked for. */
  nextRequest(): Promise<LlmRequest>;
  /** Connections that are open now, idle ones too. */
  readonly connections: number;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

type FakeLlmOptions = {
  /** Any other key is answered with 401. */
  apiKey?: string;
  /** Their names, or all that is said of each. */
  models?: (string | { id: string; [field: string]: unknown })[];
  /** False: requests are answered and forgotten, for those who ask for hours. */
  remembers?: boolean;
  /** Whose chat completions these are. */
  dialect?: keyof typeof DIALECTS;
};

const PLAIN: Reply = { text: "Hello from the fake model." };

export async function startFakeLlm(options: FakeLlmOptions = {}): Promise<FakeLlm> {
  const { apiKey, models = ["fake-model"], remembers = true, dialect = "openai" } = options;
  const chat = chatOf(DIALECTS[dialect]);
  const wires: Wire[] = [chat, responses, anthropic];
  const requests: LlmRequest[] = [];
  const others: string[] = [];
  const violations: string[] = [];
  const replies: Reply[] = [];
  let otherwise: Script = () => undefined;
  const sockets = new Set<Socket>();
  const doomed = new WeakSet<Socket>();
  const unseen: LlmRequest[] = [];
  const waiting: PromiseWithResolvers<LlmRequest>[] = [];
  let ids = 0;
  // Mistral's are nine letters and digits, and have no prefix.
  const id = (prefix: string) => `${prefix}${(++ids).toString(36).padStart(prefix ? 12 : 9, "0")}`;

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      violations.push(`script: ${error instanceof Error ? error.message : String(error)}`);
      destroy(response, "close");
    });
  });
  // An idle connection that we close just as it is used again would be a fault that nobody scripted.
  server.keepAliveTimeout = 0;
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;

  function destroy(response: ServerResponse, how: "reset" | "close"): void {
    const { socket } = response;
    if (!socket) return;
    doomed.add(socket);
    if (how === "reset") socket.resetAndDestroy();
    else socket.destroy();
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const path = (request.url ?? "").split("?")[0] ?? "";
    const raw = await bodyOf(request);
    if (raw === undefined) {
      others.push(`${request.method} ${path}: closed before it was all here`);
      return;
    }
    const wire = wires.find((wire) => wire.path === path && request.method === "POST");
    if (!wire) return other(request, response, path);

    const { seen, held } = journal(wire, request, response, raw, gone.signal);
    const sending: Sending = {
      wire,
      wording: { read: seen, id },
      response,
      gone: gone.signal,
      held,
      sent: (bytes) => {
        seen.bytesSent += bytes;
      },
      destroy: (how) => destroy(response, how),
    };
    const problems = complaints(wire, request, seen);
    if (apiKey !== undefined && keyOf(request) !== apiKey) return tell(wire.failure("auth", { id }), sending);
    const [first] = problems;
    if (first) {
      seen.violations.push(...problems.map(({ message }) => message));
      violations.push(...seen.violations.map((text) => `${wire.format} request ${seen.number}: ${text}`));
      return tell(wire.failure(first.failure ?? "bad-request", { id }, first), sending);
    }
    await send(replies.shift() ?? otherwise(seen) ?? PLAIN, sending);
  }

  function journal(wire: Wire, request: IncomingMessage, response: ServerResponse, raw: string, gone: AbortSignal) {
    const holding = Promise.withResolvers<Point>();
    const closed = Promise.withResolvers<Ending>();
    const seen: LlmRequest = {
      ...nothingRead(),
      number: requests.length + 1,
      format: wire.format,
      headers: request.headers,
      raw,
      body: parsed(raw),
      at: Date.now(),
      violations: [],
      ending: undefined,
      closedAt: undefined,
      bytesSent: 0,
      holding: holding.promise,
      closed: closed.promise,
    };
    const { socket } = request;
    const end = () => {
      seen.ending = doomed.has(socket)
        ? "destroyed-by-us"
        : response.writableFinished
          ? "completed"
          : "closed-by-client";
      seen.closedAt = Date.now();
      closed.resolve(seen.ending);
    };
    if (gone.aborted) end();
    else gone.addEventListener("abort", end, { once: true });
    if (!remembers) return { seen, held: holding.resolve };
    requests.push(seen);
    const waiter = waiting.shift();
    if (waiter) waiter.resolve(seen);
    else unseen.push(seen);
    return { seen, held: holding.resolve };
  }

  function complaints(wire: Wire, { headers }: IncomingMessage, seen: LlmRequest): Problem[] {
    const type = headers["content-type"];
    if (!/^application\/json\b/i.test(type ?? "")) return [{ message: `Unsupported content-type: ${type}` }];
    if (seen.body === undefined) return [{ message: "We could not parse the JSON body of your request." }];
    const { problems, read } = wire.check(seen.body, headers);
    Object.assign(seen, read);
    return problems;
  }

  function other(request: IncomingMessage, response: ServerResponse, path: string): void {
    others.push(`${request.method} ${path}`);
    const cx = { response, sent: () => {} };
    const ofAnthropic = request.headers["anthropic-version"] !== undefined;
    const wire = ofAnthropic ? anthropic : chat;
    if (request.method !== "GET" || path !== "/v1/models") {
      violations.push(`${request.method} ${path}: there is no such path`);
      return tell(wire.failure("not-found", { id }), cx);
    }
    if (apiKey !== undefined && keyOf(request) !== apiKey) return tell(wire.failure("auth", { id }), cx);
    const named = models.map((model) => (typeof model === "string" ? { id: model } : model));
    const data = named.map((model) =>
      ofAnthropic
        ? { type: "model", display_name: model.id, created_at: "2026-01-01T00:00:00Z", ...model }
        : { object: "model", created: 1767225600, owned_by: "fake", ...model },
    );
    const ends = { first_id: named[0]?.id, last_id: named.at(-1)?.id };
    const page = ofAnthropic ? { has_more: false, ...ends } : { object: "list" };
    return tell({ status: 200, headers: {}, body: JSON.stringify({ ...page, data }) }, cx);
  }

  async function close(): Promise<void> {
    for (const waiter of waiting.splice(0)) waiter.reject(new Error("the fake model was closed"));
    for (const socket of sockets) doomed.add(socket);
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
    await Promise.all(requests.map((request) => request.closed));
  }

  const url = `http://127.0.0.1:${port}/v1`;
  return {
    url,
    env: { OPENAI_BASE_URL: url, OPENAI_API_KEY: "k", LLM_MODEL: "fake-model" },
    script: (next) => {
      if (typeof next === "function") otherwise = next;
      else replies.push(...(Array.isArray(next) ? next : [next]));
    },
    requests,
    others,
    violations,
    nextRequest: () => {
      const seen = unseen.shift();
      if (seen) return Promise.resolve(seen);
      const waiter = Promise.withResolvers<LlmRequest>();
      waiting.push(waiter);
      return waiter.promise;
    },
    get connections() {
      return sockets.size;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Undefined: the client went away before it was all here. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks).toString("utf8");
}

function keyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers["x-api-key"];
  return typeof key === "string" ? key : headers.authorization?.replace(/^Bearer /, "");
}
