// Start, watch, approve, steer and stop runs on a hermes server, from any program or browser. Fields have the names that
// they have in the API.
import type { Run } from "../core/run.ts";
import type { Mode } from "../core/session.ts";
import { createWire, type HermesError, type ServerConnection } from "./wire.ts";

export type { Mode } from "../core/session.ts";
export { HermesError } from "./wire.ts";

export type Usage = { input_tokens: number; output_tokens: number; total_tokens: number };
export type Choice = "once" | "session" | "always" | "deny";
type Child = { goal: string; child_session_id: string };

type SeenEvent =
  | { event: "run.started"; session_id: string }
  | { event: "message.delta"; delta: string }
  /** What was said of this message so far does not count: it begins again. */
  | { event: "message.reset" }
  | { event: "reasoning.delta" | "reasoning.available"; text: string }
  | { event: "tool.started"; tool: string; preview: string; call_id: string }
  | { event: "tool.completed"; tool: string; duration: number; error: boolean; call_id: string }
  | ({ event: "subagent.start" } & Child)
  | ({
      event: "subagent.complete";
      status: string;
      summary: string;
      duration_seconds: number;
      tokens: number;
    } & Child)
  | {
      event: "approval.request";
      kind: "approval" | "question";
      tool: string;
      command: string;
      description: string;
      choices: string[];
      /** Each rule that "always" would save. */
      saves?: { file: string; rule: string }[];
      request_id: string;
      expires_at: number;
    }
  | { event: "approval.responded"; choice: Choice; request_id: string; resolved: number }
  | { event: "run.steered" | "run.stopping" }
  /** What goes on just now, for people; empty when it is over. */
  | { event: "run.notice"; text: string }
  | { event: "memory.recalled"; text: string }
  | Ending;
type Ending =
  | { event: "run.completed"; output: string; usage: Usage }
  | { event: "run.failed"; error: string }
  | { event: "run.cancelled" }
  /** A newer message, `by`, took over. */
  | { event: "run.interrupted"; by: string };

/** `id` names its place: `events(run, { after: id })` gives exactly the rest. Times are seconds. */
export type RunEvent = { id: string; run_id: string; timestamp: number } & SeenEvent;

export type Content = string | ({ type: "text"; text: string } | { type: "image_url"; image_url: { url: string } })[];
export type Message = { role: "user" | "assistant" | "system"; content: Content };
export type StartOptions = {
  session_id?: string;
  instructions?: string;
  conversation_history?: Message[];
  previous_response_id?: string;
  model?: string;
  provider?: string;
  model_options?: {
    temperature?: number;
    top_p?: number;
    max_tokens?: number;
    reasoning_effort?: "minimal" | "low" | "medium" | "high";
  };
  /** What it does to a session at work. */
  mode?: Mode;
  /** The same one again is the same run; with it, a broken connection is tried again. */
  idempotency_key?: string;
  /** Who asks. */
  session_key?: string;
};
export type Started = {
  run_id: string;
  status: "started";
  replayed: boolean;
  session_id: string;
  mode: "began" | Mode;
};
export type RunStatus = {
  object: "hermes.run";
  run_id: string;
  status: Run["status"];
  created_at: number;
  updated_at: number;
  session_id: string;
  model: string;
  last_event: string | null;
  joined?: string;
  output?: string;
  usage?: Usage;
  error?: string;
  approval?: { request_id: string; kind: string; description: string; choices: string[]; expires_at: number };
};
export type ApproveOptions = {
  /** Not given: the oldest question. */
  request_id?: string;
  all?: boolean;
  /** Why not, for the model. */
  reason?: string;
  /** To a question that is not about a yes or no. */
  answer?: string;
};
export type Approved = { object: "hermes.run.approval_response"; run_id: string; choice: Choice; resolved: number };
export type Steered = { run_id: string; status: "accepted"; input_id: string; replayed: boolean };

export type Client = {
  start(input: string | Message[], options?: StartOptions): Promise<Started>;
  /** Every event once, in order, until the last one of the run: also through broken connections and restarts of the
   *  server. Ends early when the signal aborts. */
  events(run: string, options?: { after?: string; signal?: AbortSignal }): AsyncGenerator<RunEvent>;
  status(run: string): Promise<RunStatus>;
  approve(run: string, choice: Choice, options?: ApproveOptions): Promise<Approved>;
  steer(run: string, text: string, options?: { idempotency_key?: string }): Promise<Steered>;
  stop(run: string): Promise<{ run_id: string; status: "stopping" }>;
  /** Until the run is over. */
  wait(run: string, options?: { signal?: AbortSignal }): Promise<RunStatus>;
};

const ENDS = new Set<string>(["run.completed", "run.failed", "run.cancelled", "run.interrupted"]);
const OVER = new Set<string>(["completed", "failed", "cancelled", "interrupted"]);

/** All but `wait` and `events` answer at once; what the server says no to is thrown as a `HermesError`. */
export function createClient(connection: ServerConnection): Client {
  const wire = createWire(connection);
  const pathOf = (run: string) => `/v1/runs/${encodeURIComponent(run)}`;

  async function* events(
    run: string,
    { after = "", signal = new AbortController().signal }: { after?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<RunEvent> {
    let heard = false;
    for await (const next of wire.stream(`${pathOf(run)}/events`, { after, signal })) {
      if ("opened" in next) heard = false;
      else if ("broken" in next) {
        // A server that had nothing more to tell of a run that is over will have nothing more the next time.
        if (next.whole && !heard && (await isOver(run))) return;
      } else {
        const event: RunEvent = { id: next.id, ...JSON.parse(next.data) };
        heard = true;
        yield event;
        if (ENDS.has(event.event)) return;
      }
    }
  }

  const status = (run: string) => wire.json<RunStatus>("GET", pathOf(run));
  const isOver = (run: string): Promise<boolean> =>
    status(run).then(
      (is) => OVER.has(is.status),
      (error: HermesError) => {
        if (error.status > 0 && error.status < 500) throw error;
        return false;
      },
    );

  return {
    start(input, { idempotency_key: key, session_key: by, ...fields } = {}) {
      const headers = { ...(key && { "Idempotency-Key": key }), ...(by && { "X-Hermes-Session-Key": by }) };
      return wire.json("POST", "/v1/runs", { body: { ...fields, input }, headers, again: key !== undefined });
    },
    events,
    status,
    approve: (run, choice, options = {}) =>
      wire.json("POST", `${pathOf(run)}/approval`, { body: { ...options, choice } }),
    steer: (run, text, { idempotency_key: key } = {}) =>
      wire.json("POST", `${pathOf(run)}/steer`, {
        body: { text },
        headers: { ...(key && { "Idempotency-Key": key }) },
        again: key !== undefined,
      }),
    stop: (run) => wire.json("POST", `${pathOf(run)}/stop`, { again: true }),
    async wait(run, options = {}) {
      for await (const { event } of events(run, options)) if (ENDS.has(event)) break;
      options.signal?.throwIfAborted();
      return status(run);
    },
  };
}
