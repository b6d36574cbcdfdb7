// The route table as OpenAPI 3.1.
import * as z from "zod";
import type { Gives, Route } from "./route.ts";

export function openApi(routes: readonly Route[], server: { url: string; version: string }): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const row of routes) {
    if (row.access === "node") continue;
    const path = row.path.replaceAll(/:([a-z]+)/g, "{$1}");
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: operation(row, path) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "hermes",
      version: server.version,
      description:
        "Start, watch, approve, steer and stop runs of the agent, use it through OpenAI's API, and read its sessions.",
    },
    servers: [{ url: server.url }],
    security: [{ key: [] }],
    tags: [
      ...new Set([...Object.keys(TAGS), ...routes.filter(({ access }) => access !== "node").map(({ tag }) => tag)]),
    ].map((name) => ({
      name,
      description: TAGS[name] ?? "",
    })),
    paths,
    components: {
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
      schemas: { Error: ERROR },
    },
  };
}

/** What each group of routes is for, in the order of the page. */
const TAGS: Record<string, string> = {
  runs: "A run is one turn of the agent. Once it is accepted, it survives disconnects and restarts.",
  sessions: "A session is a conversation with its messages, tool calls and files.",
  openai: "The same agent for programs that speak OpenAI's API.",
  jobs: "Scheduled turns, as in `hermes cron`.",
  gateway: "Chats: who may talk to the bot, and where platforms deliver their messages.",
  webhooks: "Webhook deliveries that failed.",
  server: "Health, metrics and descriptions of this server.",
  console: "The web console, for people.",
  terminal: "What an attached terminal uses: sessions and turns in full detail.",
};

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
  const segments = path.split("/");
  const inPath = segments.flatMap((segment, i) => {
    const [, name] = /^\{([a-z]+)\}$/.exec(segment) ?? [];
    return name ? [parameter(name, "path", true, MEANINGS[`${segments[i - 1] ?? ""}/${name}`])] : [];
  });
  const inQuery = Object.entries(row.query ?? {}).map(([name, meaning]) => ({
    ...parameter(name, "query", false, meaning),
    ...(row.exampleQuery?.[name] !== undefined && { example: row.exampleQuery[name] }),
  }));
  const inHeader = Object.entries({ ...(row.starts && START_HEADERS), ...row.headers }).map(([name, meaning]) =>
    parameter(name, "header", false, meaning),
  );
  return {
    operationId: `${row.method.toLowerCase()}${path.replaceAll(/[^a-zA-Z0-9]+(.)?/g, (_, next = "") => next.toUpperCase())}`,
    tags: [row.tag],
    summary: row.summary,
    ...(row.access === "open" && { security: [] }),
    parameters: [...inPath, ...inQuery, ...inHeader],
    ...(row.body && { requestBody: { required: needsBody(row.body), content: json(schemaOf(row.body), row.example) } }),
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

/** What a parameter of a path names, by the segment before it. */
const MEANINGS: Record<string, string> = {
  "runs/id": "The id of the run",
  "sessions/id": "The id of the session",
  "responses/id": "The id of the response",
  "conversations/id": "The id of the conversation",
  "jobs/id": "The id of the job",
  "models/id": "The name of the model",
  "processes/id": "The id of the process",
  "inputs/id": "The id of the message",
  "dead/id": "The id of the delivery",
  "grants/call": "The id of the call that was allowed",
  "inbox/input": "The id of the message",
  "pairing/platform": "The chat platform",
  "{platform}/id": "The id of the person on the platform",
};

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

function contentOf({ gives = ANYTHING, access, errors, events }: Route, status: number): Record<string, unknown> {
  // Whoever asks an open route is not refused, only told.
  const ours = { $ref: "#/components/schemas/Error" };
  if (status >= 400 && access !== "open") return json(errors ? { anyOf: [ours, schemaOf(errors, "output")] } : ours);
  const all: readonly Gives[] = Array.isArray(gives) ? gives : [gives];
  const content = all.map((one) => (typeof one === "string" ? text(one) : json(schemaOf(one, "output"))));
  return Object.assign({}, ...content, events && eventStream(events));
}

const ANYTHING = z.looseObject({});
/** What a stream carries is no string: its events are read one by one. */
const text = (type: string) => ({ [type]: type === "text/event-stream" ? {} : { schema: { type: "string" } } });
/** A request without a body is read as `{}`. */
const needsBody = (body: z.ZodType) => !body.safeParse({}).success;

const parameter = (name: string, where: "path" | "query" | "header", required: boolean, description = "") => ({
  name,
  in: where,
  required,
  ...(description && { description }),
  schema: { type: "string" },
});

const json = (schema: unknown, example?: unknown) => ({
  "application/json": { schema, ...(example !== undefined && { example }) },
});

/** As the `data:` lines of the stream have them. */
const eventStream = (events: NonNullable<Route["events"]>) => ({
  "text/event-stream": {
    schema: {
      oneOf: Object.entries(events).map(([event, fields]) => ({
        type: "object",
        required: ["event", "run_id", "timestamp"],
        properties: {
          event: { const: event },
          run_id: { type: "string" },
          timestamp: { type: "number" },
          ...Object.fromEntries(Object.entries(fields).map(([name, description]) => [name, { description }])),
        },
      })),
    },
  },
});

/** `input`: what a client may send, before our own reading of it. */
function schemaOf(body: z.ZodType, io: "input" | "output" = "input"): unknown {
  const { $schema: _, ...schema } = z.toJSONSchema(body, { io, unrepresentable: "any" });
  return schema;
}
