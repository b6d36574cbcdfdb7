// The route table as OpenAPI 3.1, and as a page that a person can read.
import * as z from "zod";
import type { Route } from "./route.ts";

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
  return {
    operationId: `${row.method.toLowerCase()}${path.replaceAll(/[^a-zA-Z0-9]+(.)?/g, (_, next = "") => next.toUpperCase())}`,
    tags: [row.tag],
    summary: row.summary,
    ...(row.access === "open" && { security: [] }),
    parameters: [...inPath, ...inQuery],
    ...(row.body && { requestBody: { required: true, content: json(schemaOf(row.body)) } }),
    responses: Object.fromEntries(
      Object.entries({ ...row.answers, ...(row.access !== "open" && { 401: "The key is missing or wrong" }) }).map(
        ([status, description]) => [
          status,
          Number(status) < 400
            ? { description }
            : { description, content: json({ $ref: "#/components/schemas/Error" }) },
        ],
      ),
    ),
  };
}

const parameter = (name: string, where: "path" | "query", required: boolean, description = "") => ({
  name,
  in: where,
  required,
  ...(description && { description }),
  schema: { type: "string" },
});

const json = (schema: unknown) => ({ "application/json": { schema } });

/** What a client may send: before our own reading of it. */
function schemaOf(body: z.ZodType): unknown {
  const { $schema: _, ...schema } = z.toJSONSchema(body, { io: "input", unrepresentable: "any" });
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
