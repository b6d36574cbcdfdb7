// What the server is, can and does: health, models, capabilities, tools, and the description of its own routes.
import * as z from "zod";
import { problem } from "./problem.ts";
import { referencePage } from "./reference-page.ts";
import { type Api, ok, type Route, routeTagged, SOON } from "./route.ts";

const route = routeTagged("server");

/** What other parts add to `/health/detailed`: memory, channels. */
export type Health = () => Record<string, unknown>;

export function infoRoutes(api: Api, health: Health, describe: () => Record<string, unknown>): Route[] {
  const { runtime, clock, settings } = api;
  const began = clock.monotonic();
  const status = () => (api.open() ? (runtime.draining() ? "draining" : "ok") : "starting");
  const who = () => ({ status: status(), platform: "hermes-agent", version: settings.version, ...api.node?.() });
  /** A load balancer must not send anything to a node that leaves, or that has lost its membership: its peers take it. */
  const isUp = () => api.open() && !(api.node && (runtime.draining() || api.node().node === ""));
  async function measure() {
    const [{ turns, held, waiting, oldestWaitingAt }, paused] = await Promise.all([runtime.load(), runtime.paused()]);
    return {
      draining: runtime.draining(),
      paused: paused && { by: paused.by, since: paused.at / 1_000 },
      uptime_seconds: (clock.monotonic() - began) / 1_000,
      turns_running: turns,
      turns_held: held,
      inputs_waiting: waiting,
      oldest_input_seconds: oldestWaitingAt === null ? null : (clock.now() - oldestWaitingAt) / 1_000,
      memory_bytes: process.memoryUsage.rss(),
      ...health(),
    };
  }
  const simple = (path: string, summary: string) =>
    route("GET", path, {
      access: "open",
      summary,
      answers: { 200: "All routes work", 503: "The server is starting, or is a node of a cluster that is leaving" },
      gives: z.looseObject({
        status: z.enum(["ok", "draining", "starting"]),
        platform: z.string(),
        version: z.string(),
      }),
      handle: () => (isUp() ? ok(who()) : { status: 503, body: who(), ...SOON }),
    });
  return [
    simple("/health", "Check whether the server is up"),
    simple("/v1/health", "The same as /health, for clients of OpenAI's protocol"),
    route("GET", "/health/detailed", {
      summary: "Show turns, queues, channels and memory",
      answers: { 200: "The current values" },
      handle: async () => {
        const measured = await measure();
        return ok({ ...who(), ...measured, ...inWordsOfHermes(measured, api) });
      },
    }),
    routeTagged("openai")("GET", "/v1/models", {
      summary: "List the configured models",
      answers: { 200: "The list, in OpenAI's format" },
      gives: z.looseObject({ object: z.literal("list"), data: z.array(aModel) }),
      handle: () => ok({ object: "list", data: [settings.modelName, ...settings.models].map(modelRow) }),
    }),
    routeTagged("openai")("GET", "/v1/models/:id", {
      summary: "Read one of the configured models",
      answers: { 200: "The model, in OpenAI's format", 404: "No model has this name" },
      gives: aModel,
      handle: ({ params: { id = "" } }) => {
        if ([settings.modelName, ...settings.models].includes(id)) return ok(modelRow(id));
        const text = `There is no model ${JSON.stringify(id.slice(0, 100))}; see GET /v1/models.`;
        throw problem(404, "model_not_found", text, { param: "model" });
      },
    }),
    route("GET", "/v1/capabilities", {
      summary: "List the features of this server",
      answers: { 200: "Features and routes" },
      handle: () => ok(capabilities(api, Object.keys(describe()["paths"] ?? {}))),
    }),
    route("GET", "/v1/toolsets", {
      summary: "List the tools of the agent",
      answers: { 200: "The list" },
      handle: () => {
        const tools = api.tools().map(({ name, description }) => ({ name, description: firstLine(description) }));
        const names = tools.map(({ name }) => name);
        const ours = { id: "default", enabled: true, tools: names, details: tools };
        const label = "All tools";
        const data = [
          { ...ours, name: "default", label, description: "The tools of every conversation", configured: true },
        ];
        return ok({ object: "list", platform: "api_server", data });
      },
    }),
    route("GET", "/openapi.json", {
      access: "basic",
      summary: "Describe this API as OpenAPI 3.1",
      answers: { 200: "The OpenAPI document" },
      handle: () => ok(describe()),
    }),
    route("GET", "/docs", {
      access: "basic",
      summary: "Show this page; in a browser, log in with any user name and the API key as the password",
      answers: { 200: "The page, as HTML" },
      gives: "text/html",
      handle: () => ({
        status: 200,
        body: referencePage(describe()),
        headers: {
          "Content-Type": "text/html; charset=utf-8",
          "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        },
      }),
    }),
  ];
}

const aModel = z.looseObject({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() });
const modelRow = (id: string) => ({ id, object: "model", created: 0, owned_by: "hermes" });

/** By the names that clients of Hermes look for. */
const FEATURES = `chat_completions chat_completions_streaming responses_api responses_streaming run_submission run_status run_events_sse
  run_events_resume run_stop run_steer run_approval run_approval_response approval_events session_resources session_chat
  session_chat_streaming session_fork session_model_lock jobs_admin skills_api run_idempotency tool_progress_events`;

const capabilities = ({ settings }: Api, endpoints: string[]) => ({
  object: "hermes.api_server.capabilities",
  platform: "hermes-agent",
  version: settings.version,
  model: settings.modelName,
  auth: { type: "bearer", required: true },
  features: {
    ...Object.fromEntries(FEATURES.split(/\s+/).map((name) => [name, true])),
    session_continuity_header: "X-Hermes-Session-Id",
    session_key_header: "X-Hermes-Session-Key",
    sessions: true,
    webhooks: true,
    metrics: true,
  },
  limits: { max_concurrent_runs: settings.maxRuns, body_bytes: 10_000_000 },
  runtime: {
    mode: "server_agent",
    tool_execution: "server",
    split_runtime: false,
    description: "Models are called and tools run on the server.",
  },
  endpoints: Object.fromEntries(Object.entries(ENDPOINTS).map(([name, [method, path]]) => [name, { method, path }])),
  paths: endpoints,
});

/** By the names that clients of Hermes look for. */
const ENDPOINTS: Readonly<Record<string, readonly [method: string, path: string]>> = {
  health: ["GET", "/health"],
  health_detailed: ["GET", "/health/detailed"],
  models: ["GET", "/v1/models"],
  chat_completions: ["POST", "/v1/chat/completions"],
  responses: ["POST", "/v1/responses"],
  runs: ["POST", "/v1/runs"],
  run_status: ["GET", "/v1/runs/{run_id}"],
  run_events: ["GET", "/v1/runs/{run_id}/events"],
  run_approval: ["POST", "/v1/runs/{run_id}/approval"],
  run_steer: ["POST", "/v1/runs/{run_id}/steer"],
  run_stop: ["POST", "/v1/runs/{run_id}/stop"],
  skills: ["GET", "/v1/skills"],
  toolsets: ["GET", "/v1/toolsets"],
  sessions: ["GET", "/api/sessions"],
  session_create: ["POST", "/api/sessions"],
  session: ["GET", "/api/sessions/{session_id}"],
  session_update: ["PATCH", "/api/sessions/{session_id}"],
  session_delete: ["DELETE", "/api/sessions/{session_id}"],
  session_messages: ["GET", "/api/sessions/{session_id}/messages"],
  session_fork: ["POST", "/api/sessions/{session_id}/fork"],
  session_chat: ["POST", "/api/sessions/{session_id}/chat"],
  session_chat_stream: ["POST", "/api/sessions/{session_id}/chat/stream"],
  session_model_lock: ["POST", "/api/sessions/{session_id}/model"],
};

/** What is measured, once more under its names. */
function inWordsOfHermes(measured: Record<string, unknown>, { runtime, clock }: Api): Record<string, unknown> {
  const updated_at = new Date(clock.now()).toISOString();
  const turns = Number(measured["turns_running"] ?? 0);
  const channels = Array.isArray(measured["channels"]) ? measured["channels"] : [];
  const one = ({ platform, connected, error }: { platform: string; connected: boolean; error: string }) => [
    platform,
    { state: connected ? "connected" : "retrying", error_code: null, error_message: error || null, updated_at },
  ];
  return {
    readiness: { status: "ok", checks: {} },
    gateway_state: runtime.draining() ? "draining" : "running",
    platforms: {
      ...Object.fromEntries(channels.map(one)),
      api_server: { state: "connected", error_code: null, error_message: null, updated_at },
    },
    active_agents: turns,
    gateway_busy: turns > 0,
    gateway_drainable: true,
    exit_reason: null,
    updated_at,
    pid: process.pid,
  };
}

const firstLine = (text: string) => text.split("\n", 1)[0] ?? "";
