// A memory server for hermes: the whole protocol of docs/memory.md in one file. Turns are lines of a JSONL file. Recall
// returns the turns that share the most words with the question.
//
//   MEMORY_TOKEN=… node examples/memory-server.ts turns.jsonl 8700
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";

const [file = "turns.jsonl", port = "8700"] = process.argv.slice(2);
const token = process.env["MEMORY_TOKEN"];
const MOST_CHARACTERS = 2_000_000;
const schema = { type: "object", properties: { query: { type: "string" } }, required: ["query"] };
const TOOLS = [{ name: "search", description: "Searches what was said before.", schema, repeatable: true }];

const past = existsSync(file) ? readFileSync(file, "utf8") : "";
if (past !== "" && !past.endsWith("\n")) append("\n"); // torn by a crash: nobody was told that it is stored
const turns = past.split("\n").flatMap((line) => [fieldsOf(line)].filter((turn) => turn !== null));
const keys = new Set(turns.map((turn) => turn("key")));

const server = createServer((request, response) => {
  answer(request).then(
    ([status, body]) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)),
    (error: unknown) => response.writeHead(500).end(JSON.stringify({ error: String(error) })),
  );
});
server.listen(Number(port), "127.0.0.1", () => {
  const address = server.address();
  console.log(`memory server on http://127.0.0.1:${typeof address === "object" ? address?.port : port}`);
});
process.on("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});

async function answer(request: IncomingMessage): Promise<[status: number, body: object]> {
  const { method, url, headers } = request;
  if (token && headers.authorization !== `Bearer ${token}`) return [401, { error: "wrong token" }];
  if (method === "GET" && url === "/health") return [200, { status: "ok", tools: TOOLS }];
  const body = fieldsOf(await textOf(request));
  if (!body) return [400, { error: `send a JSON object of at most ${MOST_CHARACTERS} characters` }];
  const scope = body("scope");
  switch (`${method} ${url}`) {
    case "POST /turns": {
      const key = String(headers["idempotency-key"] ?? "");
      if (!key) return [400, { error: "Idempotency-Key is missing" }];
      if (keys.has(key)) return [200, { stored: false }];
      append(`${JSON.stringify({ key, scope, user: body("user"), assistant: body("assistant") })}\n`);
      turns.push(body); // and only now: what is not on the disk is not stored
      keys.add(key);
      return [201, { stored: true }];
    }
    case "POST /recall":
      return [200, { text: recall(scope, body("query")) }];
    case "POST /tools/search":
      return [200, { ok: true, text: recall(scope, body("arguments")) || "Nothing was said about that." }];
    case "POST /session-end":
      return [200, {}];
    default:
      return [404, { error: "there is no such thing" }];
  }
}

/** Only what was said in this scope. */
function recall(scope: string, query: string): string {
  const asked = wordsOf(query);
  return turns
    .filter((turn) => turn("scope") === scope)
    .map((turn) => ({ turn, shared: wordsOf(`${turn("user")} ${turn("assistant")}`).intersection(asked).size }))
    .filter(({ shared }) => shared > 0)
    .sort((a, b) => b.shared - a.shared)
    .slice(0, 5)
    .map(({ turn }) => `- ${turn("user").slice(0, 200)} → ${turn("assistant").slice(0, 400)}`)
    .join("\n");
}

const wordsOf = (text: string): Set<string> => new Set(text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu));

function append(text: string): void {
  appendFileSync(file, text, { mode: 0o600, flush: true });
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) if ((text += chunk).length > MOST_CHARACTERS) return "";
  return text;
}

/** A field of a JSON object as text; null where it is no object. */
function fieldsOf(json: string): ((name: string) => string) | null {
  try {
    const fields = new Map<string, unknown>(Object.entries(JSON.parse(json)));
    const shown = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
    return (name) => shown(fields.get(name) ?? "");
  } catch {
    return null;
  }
}
