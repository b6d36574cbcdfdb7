// The route table as OpenAPI 3.1, and as a page that a person can read.
import * as z from "zod";
import type { Gives, Route } from "./route.ts";

export function openApi(routes: readonly Route[], server: { url: string; version: string }): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const row of routes) {
    const path = row.path.replaceAll(/:([a-z]+)/g, "{$1}");
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: operation(row, path) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "hermes",
      version: server.version,
      description:
        "Start, watch, approve, steer and stop an agent's runs; speak OpenAI's API to it; read its sessions.",
    },
    servers: [{ url: server.url }],
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
      schemas: { Error: ERROR },
    },
  };
}

const ERROR = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: { type: ["string", "null"] },
      },
    },
  },
};

function operation(row: Route, path: string) {
  const inPath = [...path.matchAll(/\{([a-z]+)\}/g)].map(([, name]) => parameter(name ?? "", "path", true));
  const inQuery = Object.entries(row.query ?? {}).map(([name, meaning]) => parameter(name, "query", false, meaning));
  const inHeader = Object.entries({ ...(row.starts && START_HEADERS), ...row.headers }).map(([name, meaning]) =>
    parameter(name, "header", false, meaning),
  );
  return {
    operationId: `${row.method.toLowerCase()}${path.replaceAll(/[^a-zA-Z0-9]+(.)?/g, (_, next = "") => next.toUpperCase())}`,
    tags: [row.tag],
    summary: row.summary,
    ...(row.access === "open" && { security: [] }),
    parameters: [...inPath, ...inQuery, ...inHeader],
    ...(row.body && { requestBody: { required: true, content: json(schemaOf(row.body)) } }),
    responses: Object.fromEntries(
      Object.entries({ ...refusalsOf(row), ...row.answers }).map(([status, description]) => [
        status,
        {
          description,
          headers: { ...REQUEST_ID, ...((status === "429" || status === "503") && RETRY_AFTER) },
          ...(status !== "204" && { content: contentOf(row, Number(status)) }),
        },
      ]),
    ),
  };
}

/** What any request may be answered with, before its route looks at it. */
const refusalsOf = ({ access, body }: Route): Record<number, string> => ({
  ...(access !== "open" && { 401: "The key is missing or wrong" }),
  400: "Something in it is wrong",
  403: "A web page that may not call this API",
  421: "The Host is not this server",
  429: "Too many requests, or too many wrong keys",
  500: "Something went wrong here",
  503: "The server is starting, or about to restart",
  ...(body && { 413: "The body is too large", 415: "The body is not JSON" }),
});

const REQUEST_ID = { "X-Request-Id": { description: "In the server's log", schema: { type: "string" } } };
const RETRY_AFTER = { "Retry-After": { description: "In seconds", schema: { type: "string" } } };
const START_HEADERS = {
  "Idempotency-Key": "1 to 255 visible ASCII characters: sent again, it is the same run",
  "X-Hermes-Session-Key": "Names the user of the run; at most 256 characters",
};

function contentOf({ gives = ANYTHING, access }: Route, status: number): Record<string, unknown> {
  // Whoever asks an open route is not refused, only told.
  if (status >= 400 && access !== "open") return json({ $ref: "#/components/schemas/Error" });
  const all: readonly Gives[] = Array.isArray(gives) ? gives : [gives];
  return Object.assign({}, ...all.map((one) => (typeof one === "string" ? text(one) : json(schemaOf(one, "output")))));
}

const ANYTHING = z.looseObject({});
const text = (type: string) => ({ [type]: { schema: { type: "string" } } });

const parameter = (name: string, where: "path" | "query" | "header", required: boolean, description = "") => ({
  name,
  in: where,
  required,
  ...(description && { description }),
  schema: { type: "string" },
});

const json = (schema: unknown) => ({ "application/json": { schema } });

/** `input`: what a client may send, before our own reading of it. */
function schemaOf(body: z.ZodType, io: "input" | "output" = "input"): unknown {
  const { $schema: _, ...schema } = z.toJSONSchema(body, { io, unrepresentable: "any" });
  return schema;
}

// ── The page ──────────────────────────────────────────────────────────────────────────────────────────

const STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  code, pre { font: 0.875em ui-monospace, monospace; }
  summary { cursor: pointer; padding: 0.35rem 0; }
  summary code { font-weight: 600; }
  .method { display: inline-block; min-width: 4.5rem; opacity: 0.7; }
  pre { overflow: auto; padding: 0.75rem; border: 1px solid #8884; border-radius: 6px; }
  li { margin: 0.15rem 0; }
`;

type Described = { tags?: string[]; summary?: string; responses?: Record<string, { description: string }> };

/** One file, no script: it needs nothing from anywhere. */
export function referencePage(description: Record<string, unknown>): string {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- made above
  const paths = description["paths"] as Record<string, Record<string, Described & { requestBody?: unknown }>>;
  const groups = new Map<string, string[]>();
  for (const [path, operations] of Object.entries(paths))
    for (const [method, one] of Object.entries(operations)) {
      const tag = one.tags?.[0] ?? "";
      groups.set(tag, [...(groups.get(tag) ?? []), entryOf(method, path, one)]);
    }
  const sections = [...groups].map(([tag, entries]) => `<h2>${escape(tag)}</h2>\n${entries.join("\n")}`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>hermes API</title><style>${STYLE}</style></head>
<body><h1>hermes API</h1>
<p>Every request but <code>GET /health</code> needs <code>Authorization: Bearer &lt;key&gt;</code>. Errors are
<code>{"error": {"message", "type", "param", "code"}}</code>. The same as a machine reads it: <code>/openapi.json</code>.</p>
${sections.join("\n")}
</body></html>
`;
}

function entryOf(method: string, path: string, one: Described & { requestBody?: unknown }): string {
  const answers = Object.entries(one.responses ?? {})
    .map(([status, { description }]) => `<li><code>${escape(status)}</code> ${escape(description)}</li>`)
    .join("");
  const body = one.requestBody ? `<p>Body</p><pre>${escape(JSON.stringify(one.requestBody, null, 2))}</pre>` : "";
  return (
    `<details><summary><span class="method">${method.toUpperCase()}</span><code>${escape(path)}</code> ` +
    `${escape(one.summary ?? "")}</summary>${body}<ul>${answers}</ul></details>`
  );
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text: string) => text.replaceAll(/[&<>"]/g, (one) => ENTITIES[one] ?? one);
