// The API over the real engine and a store in memory, on a real socket: the model lies on a desk until a test answers it.
import { randomUUID } from "node:crypto";
import type { Runtime } from "../../src/core/runtime.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { clock } from "../../src/platform/clock.ts";
import { type ApiOptions, type ServedApi, serveApi } from "../../src/surfaces/http/server/api.ts";
import type { ApiSettings, Route } from "../../src/surfaces/http/server/route.ts";
import type { MemoryStore } from "./memory-store.ts";
import { type Asked, type Booted, type BootOptions, bootEngine, type Desk, scriptedModel } from "./scripted.ts";

export const KEY = "test-key-0123456789-abcdefghij";

export type StartOptions = Pick<
  BootOptions,
  "tools" | "disk" | "between" | "limits" | "rules" | "announce" | "modelNamed"
> & {
  settings?: Partial<ApiSettings>;
  server?: Partial<Pick<ApiOptions, "origins" | "names" | "rateLimit" | "key" | "host" | "more">>;
  /** False: as while the runtime still starts. */
  opened?: boolean;
  /** Looks on, and may serve what it saw. */
  onlooker?(runtime: Runtime): { observe: NonNullable<BootOptions["observe"]>; routes?: readonly Route[] };
};
export type TestApi = Omit<Booted, "kill"> & {
  url: string;
  model: Desk<Asked>;
  disk: MemoryStore;
  api: ServedApi;
  /** With the key; a body that is not text is sent as JSON. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** The answer's JSON, of whatever status. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller says what it expects
  json<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: T; headers: Headers }>;
  /** Starts a run and returns its id. */
  run(body: Record<string, unknown>, headers?: Record<string, string>): Promise<string>;
  /** Nothing of this process reaches the disk any more, and its sockets are gone. */
  kill(): Promise<void>;
  close(): Promise<void>;
};

export async function startApi(options: StartOptions = {}): Promise<TestApi> {
  const { settings = {}, server = {}, opened = true, onlooker, ...boot } = options;
  const model = scriptedModel();
  let api: ServedApi | null = null;
  let beside: ReturnType<NonNullable<StartOptions["onlooker"]>> | undefined;
  const observe: BootOptions["observe"] = (session, entries) => {
    api?.observe(session, entries);
    beside?.observe(session, entries);
  };
  const made = (engine: Engine) => {
    beside = onlooker?.(engine);
  };
  const limits = { text: 1_000_000, ...boot.limits };
  const booted = await bootEngine({ ...boot, model, clock, observe, made, limits });
  const { engine } = booted;
  api = await serveApi({
    runtime: engine,
    clock,
    log: () => {},
    newKey: randomUUID,
    tools: () => boot.tools ?? [],
    health: () => ({}),
    host: "127.0.0.1",
    port: 0,
    key: KEY,
    origins: [],
    names: [],
    rateLimit: 0,
    redact: (text) => text,
    more: beside?.routes ?? [],
    ...server,
    settings: {
      modelName: "hermes-agent",
      models: ["demo:scripted"],
      busyMode: "interrupt",
      maxRuns: 10,
      unattended: "deny",
      showReasoning: false,
      version: "0.0.0",
      heartbeatMs: 15_000,
      stallMs: 30_000,
      retryMs: 10_000,
      ...settings,
    },
  });
  const served = api;
  if (opened) await served.opened();
  const call: TestApi["call"] = (method, path, body, headers = {}) =>
    fetch(`${served.url}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${KEY}`,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as above
  async function json<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>) {
    const response = await call(method, path, body, headers);
    return { status: response.status, body: (await response.json()) as T, headers: response.headers };
  }
  return {
    ...booted,
    url: served.url,
    model,
    api: served,
    call,
    json,
    async run(body, headers) {
      const { status, body: answer } = await json<{ run_id: string }>("POST", "/v1/runs", body, headers);
      if (status !== 202) throw new Error(`${status}: ${JSON.stringify(answer)}`);
      return answer.run_id;
    },
    async kill() {
      booted.kill();
      await served.close(0);
    },
    async close() {
      await engine.drain(0);
      await served.close(0);
    },
  };
}

/** The frames of an event stream, as they come; comments too. */
export async function* frames(
  response: Response,
): AsyncGenerator<{ id: string; event: string; data: string; comment: string }> {
  let rest = "";
  for await (const chunk of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    rest += chunk;
    for (;;) {
      const isComment = rest.startsWith(":") || rest.startsWith("retry:");
      const end = rest.indexOf(isComment ? "\n" : "\n\n");
      if (end < 0) break;
      const lines = rest.slice(0, end).split("\n");
      rest = rest.slice(end + (isComment ? 1 : 2));
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
      yield { id: field("id"), event: field("event"), data: field("data"), comment: field("") };
    }
  }
}

/** All events of a stream that ends. */
export async function eventsOf(response: Response): Promise<Record<string, unknown>[]> {
  const events: Record<string, unknown>[] = [];
  for await (const { data } of frames(response)) if (data && data !== "[DONE]") events.push(JSON.parse(data));
  return events;
}
