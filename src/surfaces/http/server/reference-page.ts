// The OpenAPI document as a page for people: fields as tables, and a curl example for each route. One file without a script, so it
// needs nothing from anywhere.

type JsonSchema = {
  type?: string | string[];
  description?: string;
  enum?: string[];
  const?: string | number;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
};
type Content = Record<string, { schema?: JsonSchema; example?: unknown }>;
type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  security?: unknown[];
  parameters: { name: string; in: string; required: boolean; description?: string; example?: string }[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
};
type Described = {
  info: { version: string; description: string };
  servers: [{ url: string }];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
};
type RouteEntry = { method: string; path: string; one: Operation };

const STYLE = `
:root { color-scheme: light dark; --text: #1c2024; --dim: #60646c; --line: #d9d9e0; --soft: #f4f4f7; --link: #0b68cb; --page: #fff;
  --get: #0b68cb; --post: #2b7a3d; --patch: #9a5b00; --delete: #c0262d; }
@media (prefers-color-scheme: dark) { :root { --text: #edeef0; --dim: #a0a4ad; --line: #363a3f; --soft: #1c1f23; --link: #70b8ff;
  --page: #111316; --get: #70b8ff; --post: #71d083; --patch: #ffca66; --delete: #ff9592; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
.page { display: grid; grid-template-columns: 19rem minmax(0, 50rem); gap: 3rem; max-width: 76rem; margin: 0 auto; padding: 0 1.5rem; }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 2rem 0; font-size: 0.8125rem; }
a { color: var(--link); }
nav .group { margin: 1rem 0 0.25rem; color: var(--text); font-weight: 600; }
nav a { display: flex; align-items: baseline; gap: 0.5rem; padding: 0.1rem 0; color: var(--dim); text-decoration: none; overflow-wrap: anywhere; }
nav a:hover { color: var(--link); }
nav .method { width: 3.25rem; flex: none; text-align: right; }
main { padding: 2rem 0 6rem; }
h1 { margin: 0 0 0.5rem; } h2 { margin: 3.5rem 0 0.25rem; } h2 + p { margin-top: 0; color: var(--dim); }
article { margin-top: 1.5rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
h3 { margin: 0; font-size: 1.0625rem; overflow-wrap: anywhere; } h3 a { color: inherit; text-decoration: none; }
h4 { margin: 1.25rem 0 0.25rem; font-size: 0.8125rem; color: var(--dim); }
article > p { margin: 0.25rem 0 0.75rem; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, monospace; font-size: 0.875em; }
pre { overflow: auto; margin: 0.25rem 0 0; padding: 0.75rem 1rem; background: var(--soft); border: 1px solid var(--line); border-radius: 6px; }
pre code { font-size: 0.8125rem; }
.method { font: 600 0.75em ui-monospace, SFMono-Regular, Menlo, monospace; text-transform: uppercase; }
.get { color: var(--get); } .post { color: var(--post); } .patch { color: var(--patch); } .delete { color: var(--delete); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.9375rem; }
th { text-align: left; font-weight: 600; font-size: 0.8125rem; color: var(--dim); }
th, td { padding: 0.3rem 1rem 0.3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { white-space: nowrap; }
@media (max-width: 60rem) { .page { display: block; } nav { position: static; display: flex; flex-wrap: wrap; gap: 0 1rem; padding: 1rem 0 0; }
  nav a:not(.group) { display: none; } nav .group { margin: 0; color: var(--link); } }
@media (max-width: 36rem) { td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; } }
`;

export function referencePage(description: Record<string, unknown>): string {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- made by openapi.ts
  const { info, servers, tags, paths } = description as unknown as Described;
  const [{ url }] = servers;
  const entries = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, one]): RouteEntry => ({ method, path, one })),
  );
  const groups = tags
    .map((tag) => ({ ...tag, routes: entries.filter(({ one }) => one.tags[0] === tag.name) }))
    .filter(({ routes }) => routes.length > 0);
  const contents = groups.map(
    ({ name, routes }) => `<a class="group" href="#${escape(name)}">${titleOf(name)}</a>${routes.map(link).join("")}`,
  );
  const sections = groups.map(
    ({ name, description: meaning, routes }) =>
      `<h2 id="${escape(name)}">${titleOf(name)}</h2><p>${prose(meaning)}</p>${routes.map((route) => article(route, url)).join("\n")}`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>hermes API</title><style>${STYLE}</style></head>
<body><div class="page"><nav aria-label="Routes">${contents.join("\n")}</nav>
<main><h1>hermes API</h1>
<p>${escape(info.description)} Version ${escape(info.version)}.</p>
<p>Every request except <code>GET /health</code> needs the API key. It is in <code>api_key</code> of <code>HERMES_HOME</code>, unless you
have configured one. The examples read it from a variable:</p>
<pre><code>export HERMES_KEY=$(cat ~/.hermes/api_key)</code></pre>
<p>An error is <code>{"error": {"message", "type", "param", "code"}}</code>, as in OpenAI's API. Programs read this page as
<a href="/openapi.json">/openapi.json</a>.</p>
${sections.join("\n")}
</main></div></body></html>
`;
}

const link = ({ method, path, one }: RouteEntry) =>
  `<a href="#${escape(one.operationId)}">${badge(method)}<span>${escape(path)}</span></a>`;
const badge = (method: string) => `<span class="method ${escape(method)}">${escape(method)}</span>`;

function article({ method, path, one }: RouteEntry, url: string): string {
  const body = one.requestBody?.content["application/json"];
  const rows = one.parameters.map(({ name, in: where, required, description = "" }) =>
    row([code(name), where, required ? "yes" : "", prose(description)]),
  );
  const fields = fieldsOf(body?.schema ?? {}).map(({ name, type, required, meaning }) =>
    row([code(name), prose(type), required ? "yes" : "", prose(meaning)]),
  );
  const answers = Object.entries(one.responses).map(([status, { description }]) =>
    row([code(status), prose(description)]),
  );
  const events = one.responses["200"]?.content?.["text/event-stream"]?.schema?.oneOf ?? [];
  return `<article id="${escape(one.operationId)}">
<h3>${badge(method)} <a href="#${escape(one.operationId)}"><code>${escape(path)}</code></a></h3><p>${prose(one.summary)}</p>
<pre><code>${escape(curl({ method, path, one }, url))}</code></pre>
${table("Parameters", ["Name", "In", "Required", "Meaning"], rows)}
${table("Body", ["Field", "Type", "Required", "Meaning"], fields)}
${table("Answers", ["Status", "Meaning"], answers)}
${table("Events", ["Event", "Field", "Meaning"], events.flatMap(eventRows))}
</article>`;
}

const table = (title: string, heads: readonly string[], rows: readonly string[]): string =>
  rows.length
    ? `<h4>${title}</h4><div class="scroll"><table><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join("")}</tr></thead>` +
      `<tbody>${rows.join("")}</tbody></table></div>`
    : "";
/** The cells are HTML. */
const row = (cells: readonly unknown[]) => `<tr>${cells.map((cell) => `<td>${String(cell)}</td>`).join("")}</tr>`;

const EVERY_EVENT = new Set(["event", "run_id", "timestamp"]);
function eventRows({ properties = {} }: JsonSchema): string[] {
  const event = code(String(properties["event"]?.const));
  const fields = Object.entries(properties).filter(([name]) => !EVERY_EVENT.has(name));
  if (!fields.length) return [row([event, "", ""])];
  return fields.map(([name, { description = "" }], i) => row([i ? "" : event, code(name), prose(description)]));
}

type Field = { name: string; type: string; required: boolean; meaning: string };

/** The fields of an object, and below each the fields of what it holds, with the path as their name. */
function fieldsOf(schema: JsonSchema, above = "", depth = 0): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, field]) => {
    const name = `${above}${key}`;
    const required = schema.required?.includes(key) ?? false;
    const given = alternatives(field);
    const meaning = field.description ?? given.find(({ description }) => description)?.description ?? "";
    const own = { name, type: [...new Set(given.map(typeOf))].join(" or "), required, meaning };
    if (depth > 0) return [own];
    const inside = given.flatMap((one) => [
      ...fieldsOf(one, `${name}.`, depth + 1),
      ...alternatives(one.items ?? {}).flatMap((item) => fieldsOf(item, `${name}[].`, depth + 1)),
    ]);
    return [own, ...inside.filter(({ name: inner }, i) => inside.findIndex((other) => other.name === inner) === i)];
  });
}

const alternatives = (schema: JsonSchema): JsonSchema[] =>
  (schema.anyOf ?? schema.oneOf ?? [schema]).flatMap((one) => {
    if (one.anyOf ?? one.oneOf) return alternatives(one);
    return one.type === "null" ? [] : [one];
  });

function typeOf({ type, enum: values, const: value, items }: JsonSchema): string {
  if (values) return values.map((one) => `\`${one}\``).join(", ");
  if (value !== undefined) return `\`${value}\``;
  if (type === "array") return `list${items?.type ? ` of ${String(items.type)}s` : ""}`;
  return type === undefined ? "any" : String(type);
}

/** A command that works once its variables are set. */
function curl({ method, path, one }: RouteEntry, url: string): string {
  const body = one.requestBody?.content["application/json"]?.example;
  const streams = one.responses["200"]?.description.startsWith("Server-sent events");
  const filled = path.replaceAll(/\{([a-z]+)\}/g, (_, name: string, at: number) => {
    const owner = path
      .slice(0, at)
      .split("/")
      .at(-2)
      ?.replaceAll(/[{}]|s$/g, "");
    return `$${(name === "id" ? `${owner}_id` : name).toUpperCase()}`;
  });
  const query = one.parameters.flatMap(({ name, example }) => (example ? [`${name}=${example}`] : []));
  const address = `${url}${filled}${query.length ? `?${query.join("&")}` : ""}`;
  const usual = body === undefined ? "get" : "post";
  const verb = method === usual ? "" : ` -X ${method.toUpperCase()}`;
  const lines = [
    `curl -s${streams ? "N" : ""}${verb} "${address}"`,
    ...(one.security?.length === 0 ? [] : ['-H "Authorization: Bearer $HERMES_KEY"']),
    ...(body === undefined
      ? []
      : ['-H "Content-Type: application/json"', `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`]),
  ];
  return lines.join(" \\\n  ");
}

const titleOf = (tag: string) =>
  tag === "openai" ? "OpenAI" : `${tag.charAt(0).toUpperCase()}${escape(tag.slice(1))}`;
const code = (text: unknown) => `<code>${escape(String(text))}</code>`;
/** Text with `code` in it. */
const prose = (text: string) => escape(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text: string) => text.replaceAll(/[&<>"]/g, (one) => ENTITIES[one] ?? one);
