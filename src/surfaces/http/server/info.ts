// What the server is, can and does: health, models, capabilities, tools, and the description of its own routes.
import { problem } from "./problem.ts";
import { referencePage } from "./reference-page.ts";
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
      summary: "Check whether the server is up",
      answers: { 200: "All routes work", 503: "The server is starting" },
      handle: () => {
        const body = { status: status(), platform: "hermes-agent", version: settings.version };
        return api.open() ? ok(body) : { status: 503, body, ...SOON };
      },
    }),
    route("GET", "/health/detailed", {
      summary: "Show turns, queues, channels and memory",
      answers: { 200: "The current values" },
      handle: async () => ok({ status: status(), version: settings.version, ...(await vitals()) }),
    }),
    routeTagged("openai")("GET", "/v1/models", {
      summary: "List the configured models",
      answers: { 200: "The list, in OpenAI's format" },
      handle: () => ok({ object: "list", data: [settings.modelName, ...settings.models].map(modelRow) }),
    }),
    routeTagged("openai")("GET", "/v1/models/:id", {
      summary: "Read one of the configured models",
      answers: { 200: "The model, in OpenAI's format", 404: "No model has this name" },
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
        return ok({ object: "list", data: [{ id: "default", enabled: true, tools }] });
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
