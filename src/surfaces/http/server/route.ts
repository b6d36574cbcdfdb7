// A route is a row of a table: what it takes, what it answers, and the function that does it. Documentation, access checks
// and tests read the same rows.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type * as z from "zod";
import { Refusal, type RefusalCode, StoreFault } from "../../../core/errors.ts";
import type { Ambient, ToolSpec } from "../../../core/ports.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Mode, Unattended } from "../../../core/session.ts";
import type { Retries } from "../runs/retries.ts";
import type { LiveRuns } from "../runs/run-limit.ts";
import { type Problem, problem, wrongField } from "./problem.ts";
import { type SseFrame, stream } from "./sse.ts";

/** What the handlers work with. */
export type Api = Ambient & {
  runtime: Runtime;
  /** Unique: the same one again is the same input. */
  newKey(): string;
  tools(): readonly ToolSpec[];
  settings: ApiSettings;
  runs: LiveRuns;
  retries: Retries;
  /** Aborts when we are about to leave. */
  leaving: AbortSignal;
  /** True once the runtime has started. */
  open(): boolean;
  /** Of a node of a cluster: who it is, and how many of its peers it cannot reach. */
  node?: () => { node: string; peers_unreachable: number };
};
export type ApiSettings = {
  /** The model under the name that clients see. */
  modelName: string;
  /** The models that are configured, the first one first: `provider:model`. */
  models: readonly string[];
  busyMode: Mode;
  maxRuns: number;
  /** What is said to a question when nobody can be asked. */
  unattended: Unattended;
  showReasoning: boolean;
  version: string;
  heartbeatMs: number;
  stallMs: number;
  /** How long a turn whose client is gone waits for the same request to come again. */
  retryMs: number;
};
export type RouteCall<Body> = {
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: Body;
  request: IncomingMessage;
  response: ServerResponse;
  /** Sends events until they are over or the reader is gone. True: the reader has had all of it. */
  stream(
    open: (signal: AbortSignal) => AsyncIterable<SseFrame>,
    /** `stays`: it cannot be resumed, so it goes on to its end while we leave. */
    more?: { headers?: Record<string, string>; last?: string; stays?: boolean },
  ): Promise<boolean>;
};
/** "streamed": the answer is written already. */
export type RouteAnswer = { status: number; body?: unknown; headers?: Record<string, string> } | "streamed";

/** JSON of that shape, server-sent events, or a text. */
export type Gives = z.ZodType | `text/${"event-stream" | "html" | "plain" | "css" | "javascript"}`;

export type Route = {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** `/v1/runs/:id`: a part with a colon stands for any text. */
  path: string;
  /** Who may call it: everybody, whoever has the key, or (for a browser) the key as a password too; or only nodes that share
   *  our store, with the secret of the cluster. The path of such a row has no parameters. */
  access: "open" | "key" | "basic" | "node";
  tag: string;
  summary: string;
  body?: z.ZodType;
  /** The route begins a turn: it is refused while the server is about to stop. */
  starts?: boolean;
  query?: Readonly<Record<string, string>>;
  /** A body, and parameters, for the documentation. */
  example?: unknown;
  exampleQuery?: Readonly<Record<string, string>>;
  /** The events that it streams, and the fields of each. */
  events?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Status and what it means. */
  answers: Readonly<Record<number, string>>;
  /** What a success answers with; if it is not given, JSON of any shape. */
  gives?: Gives | readonly Gives[];
  /** Its errors, where clients of another program or protocol read them in another shape than ours. */
  errors?: z.ZodType;
  /** Headers that it reads. */
  headers?: Readonly<Record<string, string>>;
  handle(call: RouteCall<unknown>): Promise<RouteAnswer> | RouteAnswer;
};

type RouteRow<Schema extends z.ZodType> = Omit<Route, "method" | "path" | "tag" | "access" | "body" | "handle"> & {
  access?: Route["access"];
  body?: Schema;
  handle(call: RouteCall<z.output<Schema>>): Promise<RouteAnswer> | RouteAnswer;
};

/** Makes rows with this tag. The body that `handle` gets is what its schema let through. */
export const routeTagged =
  (tag: string) =>
  <Schema extends z.ZodType>(method: Route["method"], path: string, row: RouteRow<Schema>): Route => ({
    method,
    path,
    access: "key",
    tag,
    ...row,
    handle: row.handle,
  });

/** What every route that starts a turn may answer. */
export const STARTS = {
  400: "A field is wrong; nothing was started",
  409: "The idempotency key was used for another request",
  429: "Too many runs are active",
  503: "The server is shutting down or restarting",
};

export const streamed: RouteAnswer = "streamed";

export const ok = (body: unknown, headers: Record<string, string> = {}): RouteAnswer => ({
  status: 200,
  body,
  headers,
});
export const list = (data: readonly unknown[]): RouteAnswer => ok({ object: "list", data });

/** `Call.stream` for one request. */
export const streamer =
  ({ clock, settings, leaving }: Api, response: ServerResponse): RouteCall<unknown>["stream"] =>
  (open, { headers = {}, last = "", stays = false } = {}) => {
    const { heartbeatMs, stallMs } = settings;
    const until = stays ? new AbortController().signal : leaving;
    return stream(response, open, { clock, heartbeatMs, stallMs, leaving: until, headers, last });
  };

export const SOON = { headers: { "Retry-After": "1" } };
export const starting = (): Problem =>
  problem(503, "gateway_starting", "The server is starting; try again in a moment.", SOON);

export const draining = (): Problem =>
  problem(503, "gateway_draining", "The server is about to restart and takes no new work; try again soon.", SOON);

const REFUSALS: Record<RefusalCode, (message: string) => Problem> = {
  empty_text: (message) => wrongField("input", message),
  text_too_long: (message) => wrongField("input", message, "input_too_long"),
  invalid_mode: (message) => problem(400, "invalid_mode", message, { param: "mode" }),
  invalid_session: (message) => problem(400, "invalid_session_id", message, { param: "session_id" }),
  invalid_key: (message) => problem(400, "invalid_idempotency_key", message),
  inbox_full: (message) => problem(429, "inbox_full", message, SOON),
  rate_limit_exceeded: (message) => problem(429, "rate_limit_exceeded", message, SOON),
  idempotency_key_conflict: (message) =>
    problem(409, "idempotency_key_conflict", message, { headers: { "X-Should-Retry": "false" } }),
  run_not_accepting_steer: (message) => problem(409, "run_not_accepting_steer", message),
  draining,
  store_unavailable: (message) => problem(503, "store_unavailable", message, SOON),
  not_owner: (message) => problem(503, "not_owner", message, SOON),
  closed: draining,
};

/** Null: not something that whoever asked can act on. */
export function problemOf(error: unknown): Problem | null {
  if (error instanceof Refusal) return REFUSALS[error.code](error.message);
  if (error instanceof StoreFault) return problem(503, "store_unavailable", error.message, SOON);
  return null;
}
