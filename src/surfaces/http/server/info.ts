// What the server is, can and does: health, models, capabilities, tools, and the description of its own routes.
import { referencePage } from "./openapi.ts";
import { problem } from "./problem.ts";
import { type Api, ok, type Route, routeTagged, SOON } from "./route.ts";

const route = routeTagged("server");

/** Looks at what goes on now, for `/health/detailed`. */
export type Vitals = () => Promise<Record<string, unknown>>;

export function infoRoutes(api: Api, vitals: Vitals, describe: () => Record<string, unknown>): Route[] {
  const { runtime, settings } = api;
  const status = () => (api.open() ? (runtime.draining() ? "draining" : "ok") : "starting");
  return [
    route("GET", "/health", {
      access: "open",
      summary: "Whether the server answers",
      answers: { 200: "Every route does", 503: "Not yet: it is starting" },
      handle: () => {
        const body = { status: status(), platform: "hermes-agent", version: settings.version };
        return api.open() ? ok(body) : { status: 503, body, ...SOON };
      },
    }),
    route("GET", "/health/detailed", {
      summary: "What it is doing: turns, queues, channels, memory",
      answers: { 200: "Measured now" },
      handle: async () => ok({ status: status(), version: settings.version, ...(await vitals()) }),
    }),
    routeTagged("openai")("GET", "/v1/models", {
      summary: "The models that can be asked for",
      answers: { 200: "A list as OpenAI's" },
      handle: () => ok({ object: "list", data: [settings.modelName, ...settings.models].map(modelRow) }),
    }),
    routeTagged("openai")("GET", "/v1/models/:id", {
      summary: "One of them",
      answers: { 200: "As OpenAI's", 404: "There is no such model" },
      handle: ({ params: { id = "" } }) => {
        if ([settings.modelName, ...settings.models].includes(id)) return ok(modelRow(id));
        const text = `There is no model ${JSON.stringify(id.slice(0, 100))}; see GET /v1/models.`;
        throw problem(404, "model_not_found", text, { param: "model" });
      },
    }),
    route("GET", "/v1/capabilities", {
      summary: "What this server can do, for clients that adapt to it",
      answers: { 200: "Features and endpoints" },
      handle: () => ok(capabilities(api, Object.keys(describe()["paths"] ?? {}))),
    }),
    route("GET", "/v1/toolsets", {
      summary: "The tools that the agent has",
      answers: { 200: "A list" },
      handle: () => {
        const tools = api.tools().map(({ name, description }) => ({ name, description: firstLine(description) }));
        return ok({ object: "list", data: [{ id: "default", enabled: true, tools }] });
      },
    }),
    route("GET", "/openapi.json", {
      access: "basic",
      summary: "This API as OpenAPI 3.1",
      answers: { 200: "The description" },
      handle: () => ok(describe()),
    }),
    route("GET", "/docs", {
      access: "basic",
      summary: "This API as a page (in a browser: any user name, the key as password)",
      answers: { 200: "A page" },
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

const modelRow = (id: string) => ({ id, object: "model", created: 0, owned_by: "hermes" });

const capabilities = ({ settings }: Api, endpoints: string[]) => ({
  object: "hermes.api_server.capabilities",
  platform: "hermes-agent",
  version: settings.version,
  model: settings.modelName,
  auth: { type: "bearer", required: true },
  features: {
    chat_completions: true,
    chat_completions_streaming: true,
    responses_api: true,
    responses_streaming: true,
    run_submission: true,
    run_status: true,
    run_events_sse: true,
    run_events_resume: true,
    run_stop: true,
    run_steer: true,
    run_approval: true,
    run_idempotency: true,
    tool_progress_events: true,
    session_continuity_header: "X-Hermes-Session-Id",
    session_key_header: "X-Hermes-Session-Key",
    sessions: true,
    webhooks: true,
    metrics: true,
  },
  limits: { max_concurrent_runs: settings.maxRuns, body_bytes: 10_000_000 },
  endpoints,
});

const firstLine = (text: string) => text.split("\n", 1)[0] ?? "";
