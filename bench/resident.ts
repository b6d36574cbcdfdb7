// What the gateway holds of memory: idle, after many turns in many sessions, after pictures, and with viewers that do not read.
// The provider is here; the gateway is a process of its own.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request as ask, createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Figure, report } from "./figure.ts";
import { BARE_SERVER, endAll, HERMES, type Launched, launch } from "./process.ts";

const quick = process.argv.includes("--quick");
const KEY = "bench-key-0123456789abcdef";
/** Long enough to be remembered and looked up. */
const QUESTION = "Which of the harbours on the northern coast could take the larger of the two ferries in winter? ";
const ANSWER = "The one behind the long breakwater, if the wind is not from the east. ".repeat(8);
const SESSIONS = quick ? 100 : 780;
const TURNS = quick ? 400 : 3_120; // of 31,000
const PICTURES = 60;
const PICTURE = Buffer.alloc(1_500_000, 7).toString("base64"); // 2 MB as text
const VIEWERS = 40;
const LONG = 8_000_000;
const REST_MS = 20_000;

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
const provider = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (text: string) => {
    body = (body + text).slice(-2_000_000);
  });
  request.on("end", () => {
    const event = (choices: object[], more: object = {}) =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices, ...more })}\n\n`;
    const said = (content: string) => event([{ index: 0, delta: { content }, finish_reason: null }]);
    const long = body.includes("tell me all of it");
    response.writeHead(200, { "content-type": "text/event-stream" });
    void (async () => {
      for (let at = 0; at < (long ? LONG : 1); at += 4_000)
        if (!response.write(said(long ? "lorem ipsum ".repeat(333) : ANSWER)))
          await new Promise((resolve) => response.once("drain", resolve));
      const end = event([{ index: 0, delta: {}, finish_reason: "stop" }]);
      response.end(
        `${end}${event([], { usage: { prompt_tokens: 50, completion_tokens: 20, total_tokens: 70 } })}data: [DONE]\n\n`,
      );
    })();
  });
});
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));

const agent = new Agent({ keepAlive: true, maxSockets: 200 });
function send(url: string, method: string, body?: unknown): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const request = ask(url, { method, agent, headers }, resolve);
    request.on("error", reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function textOf(message: IncomingMessage): Promise<string> {
  let all = "";
  for await (const chunk of message.setEncoding("utf8")) all += String(chunk);
  return all;
}

async function startRun({ url }: Launched, input: unknown, session: string): Promise<string> {
  const answer = await textOf(await send(`${url}/v1/runs`, "POST", { input, session_id: session }));
  return (JSON.parse(answer) as { run_id: string }).run_id;
}

const watch = ({ url }: Launched, run: string) => send(`${url}/v1/runs/${run}/events`, "GET");

async function turn(server: Launched, input: unknown, session: string): Promise<void> {
  const events = await textOf(await watch(server, await startRun(server, input, session)));
  if (!events.includes("run.completed")) throw new Error(`not completed: ${events.slice(-500)}`);
}

async function gateway(name: string): Promise<Launched> {
  const home = mkdtempSync(join(dir, `${name}-`));
  const { port } = provider.address() as AddressInfo;
  const config = {
    model: { default: "m", base_url: `http://127.0.0.1:${port}/v1`, api_key: "k" },
    logging: { level: "warn" },
    gateway: { api_server: { port: 0, key: KEY, max_concurrent_runs: 0 } },
  };
  writeFileSync(join(home, "config.yaml"), JSON.stringify(config), { mode: 0o600 });
  return launch(HERMES, ["gateway"], { HERMES_HOME: home, HOME: dir });
}

const mb = (name: string, value: number, goal?: number, against?: Figure["against"]): Figure => ({
  name,
  value,
  unit: "MB",
  ...(against && { against }),
  ...(goal !== undefined && { goal: { value: goal } }),
});

async function manyTurns(): Promise<Figure[]> {
  const server = await gateway("turns");
  const bare = await launch(process.execPath, ["-e", BARE_SERVER], {});
  await sleep(REST_MS / 2);
  const idle = server.rss();
  const idleBare = bare.rss();
  await bare.stop();
  let next = 0;
  const half: number[] = [];
  const talk = async () => {
    while (next < TURNS) {
      const n = next++;
      await turn(server, `${QUESTION}${n}`, `bench-${n % SESSIONS}`);
      if (n === TURNS / 2) half.push(server.rss());
    }
  };
  await Promise.all(Array.from({ length: 10 }, talk));
  const after = server.rss();
  await sleep(REST_MS);
  const rested = server.rss();
  await server.stop();
  const many = `${TURNS.toLocaleString("en")} turns in ${SESSIONS} sessions`;
  return [
    mb("RSS of the gateway, idle", idle, 90, [{ value: idleBare, what: "a server and a thread" }]),
    mb(`RSS after half of ${many}`, half[0] ?? 0),
    mb(`RSS after ${many}`, after),
    mb("RSS 20 s later", rested, 150, [{ value: idle, what: "idle" }]),
  ];
}

async function pictures(): Promise<Figure[]> {
  const server = await gateway("pictures");
  await sleep(REST_MS / 2);
  const before = server.rss();
  for (let n = 0; n < PICTURES; n++) {
    const parts = [
      { type: "text", text: `What is on picture ${n}?` },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PICTURE}` } },
    ];
    await turn(server, [{ role: "user", content: parts }], `picture-${n}`);
  }
  const after = server.rss();
  await sleep(REST_MS);
  const rested = server.rss();
  await server.stop();
  const name = `${PICTURES} finished runs with a picture of 2 MB`;
  return [mb(`RSS that ${name} add`, after - before), mb("the same, 20 s later", rested - before, 60)];
}

async function slowViewers(): Promise<Figure[]> {
  const server = await gateway("viewers");
  await sleep(REST_MS / 2);
  const before = server.rss();
  const run = await startRun(server, "tell me all of it", "long");
  const viewers = await Promise.all(Array.from({ length: VIEWERS }, () => watch(server, run))); // none of them reads
  let most = 0;
  for (let ms = 0; ms < (quick ? 5_000 : 15_000); ms += 250) {
    most = Math.max(most, server.rss());
    await sleep(250);
  }
  for (const viewer of viewers) viewer.destroy();
  await sleep(REST_MS);
  const rested = server.rss();
  await server.stop();
  const name = `${VIEWERS} viewers who read nothing of an answer of 8 MB`;
  return [mb(`RSS that ${name} add, at most`, most - before, 130), mb("the same, 20 s later", rested - before, 40)];
}

try {
  report([...(await manyTurns()), ...(await pictures()), ...(await slowViewers())]);
} finally {
  endAll();
  provider.close();
  agent.destroy();
  rmSync(dir, { recursive: true, force: true });
}
