// `node http-bare.ts DIR PROVIDER REQUEST` : a server with nothing but the I/O of ours. A run is one commit when it is accepted
// and one when it is answered, by the same SQL in a thread; a streaming request to the provider with the settings, the tools and
// the system prompt of the file REQUEST and the session's messages; and events to whoever watches.
// `node http-bare.ts provider` : a provider that answers at once. `/last` is the last request, `/log` when each came and closed.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fetch } from "undici";
import { openThread, type Row } from "./bare.ts";

const [dir = "", provider = "", requestFile = ""] = process.argv.slice(2);
const server = dir === "provider" ? provide() : await bare();
server.listen(0, "127.0.0.1", 1_024, () => {
  const { port } = server.address() as AddressInfo;
  console.log(`ready on http://127.0.0.1:${port}`);
});

function provide() {
  const chunk = (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
  const parts = [
    "Hello",
    " there,",
    " the",
    " report",
    " is",
    " ready",
    " and",
    " has been",
    " sent to",
    " everybody.",
  ];
  const words = parts.map((content, n) => chunk(n ? { content } : { role: "assistant", content }));
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
  const done = `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices: [], usage })}\n\ndata: [DONE]\n\n`;
  const last = chunk({}, "stop") + done;
  const now = () => Number(process.hrtime.bigint()) / 1e6; // the same clock in every process
  let log = { asked: [] as number[], closed: [] as number[] };
  let body = "";
  return createServer((request, response) => {
    if (request.url === "/last") return void response.end(body);
    if (request.url === "/log") {
      response.end(JSON.stringify(log));
      log = { asked: [], closed: [] };
      return;
    }
    let text = "";
    request.setEncoding("utf8").on("data", (more: string) => {
      text += more;
    });
    request.on("end", () => {
      log.asked.push(now());
      response.once("close", () => log.closed.push(now()));
      if (request.method === "POST") body = text;
      response.writeHead(200, { "content-type": "text/event-stream" });
      if (text.includes("never end")) return void response.write(words[0]);
      if (text.includes("tell me slowly")) return slowly(response);
      response.end(words.join("") + last);
    });
  });
  function slowly(response: ServerResponse) {
    let told = 0;
    const timer = setInterval(() => {
      response.write(chunk({ content: `word ${told} ` }));
      if (++told < 50) return;
      clearInterval(timer);
      response.end(last);
    }, 20);
  }
}

type Message = { role: string; content: string };
type Run = { said: string[]; over: boolean; viewers: Set<ServerResponse>; abort: AbortController };

async function bare() {
  const thread = await openThread(dir);
  const runs = new Map<string, Run>();
  const conversations = new Map<string, Message[]>();
  const { messages: usual, ...request } = JSON.parse(readFileSync(requestFile, "utf8")) as { messages: Message[] };
  const system = usual.filter(({ role }) => role === "system");

  async function work(id: string, run: Run, messages: Message[]): Promise<string> {
    let said = "";
    const { body } = await fetch(`${provider}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer k" },
      body: JSON.stringify({ ...request, messages: [...system, ...messages] }),
      signal: run.abort.signal,
    });
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of body ?? []) {
      const lines = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data: {")) continue;
        const { choices } = JSON.parse(line.slice(6)) as { choices: { delta?: { content?: string } }[] };
        const content = choices[0]?.delta?.content;
        if (!content) continue;
        said += content;
        tell(run, JSON.stringify({ event: "message.delta", run_id: id, delta: content }));
      }
    }
    return said;
  }

  function tell(run: Run, data: string) {
    const frame = `id: ${run.said.length}\ndata: ${data}\n\n`;
    run.said.push(frame);
    for (const viewer of run.viewers) viewer.write(frame);
  }

  return createServer((request, response) => {
    const { method, url = "" } = request;
    const [, , , id = "", what] = url.split("/");
    const run = runs.get(id);
    if (method === "POST" && !id) {
      let body = "";
      request.setEncoding("utf8").on("data", (text: string) => {
        body += text;
      });
      request.on("end", () => void start(JSON.parse(body) as { input: string; session_id?: string }, response));
    } else if (method === "GET" && what?.startsWith("events") && run) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(run.said.join(""));
      if (run.over) return void response.end(": stream closed\n\n");
      run.viewers.add(response);
      response.on("close", () => run.viewers.delete(response));
    } else if (method === "POST" && what === "stop" && run) {
      run.abort.abort();
      response.end("{}");
    } else response.writeHead(404).end();
  });

  async function start({ input, session_id = "" }: { input: string; session_id?: string }, response: ServerResponse) {
    const id = `run_${randomUUID().replaceAll("-", "")}`;
    const session = session_id || id;
    const messages = conversations.get(session) ?? [];
    conversations.set(session, messages);
    messages.push({ role: "user", content: input });
    const run: Run = { said: [], over: false, viewers: new Set(), abort: new AbortController() };
    runs.set(id, run);
    await thread.commit(rowOf(id, 0, input));
    response.writeHead(202, { "content-type": "application/json" });
    response.end(JSON.stringify({ run_id: id, status: "started" }));
    tell(run, JSON.stringify({ event: "run.started", run_id: id }));
    const how = await work(id, run, messages).then(
      (content) => {
        messages.push({ role: "assistant", content });
        return "completed";
      },
      () => "cancelled",
    );
    await thread.commit(rowOf(id, 1, input));
    tell(run, JSON.stringify({ event: `run.${how}`, run_id: id }));
    run.over = true;
    for (const viewer of run.viewers) viewer.end(": stream closed\n\n");
    setTimeout(() => runs.delete(id), 10_000); // viewers may come late
  }
}

/** What our own rows of a turn weigh: two entries when it comes, two when it is answered. */
function rowOf(session: string, version: number, text: string): Row {
  const at = Date.now();
  const state = JSON.stringify({
    v: 2,
    seq: 2 + version * 2,
    step: 1,
    inbox: [],
    turn: null,
    ended: 0,
    remembered: {},
  });
  const entry = (seq: number) => ({
    seq,
    turn: session,
    at,
    fact: JSON.stringify({ kind: "thought", text, calls: [] }),
  });
  return {
    session,
    node: "1",
    version,
    active: version === 0,
    parent: null,
    at,
    state,
    entries: [entry(version * 2 + 1), entry(version * 2 + 2)],
    accepted: version === 0 ? [{ id: session, digest: "0".repeat(64) }] : [],
    taken: version === 0 ? [{ id: session, turn: session }] : [],
  };
}
