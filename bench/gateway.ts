// Messages in a chat, from the platform to the provider and back, through `hermes gateway` and through a bot with nothing but
// the same I/O (gateway-bare.ts). Platform and provider are here and answer at once; both bots are processes of their own,
// and only theirs is counted. Everybody has a chat of their own, and their conversations go on.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Figure, median, percentile, report } from "./figure.ts";

const BARE = fileURLToPath(new URL("./gateway-bare.ts", import.meta.url));
const HERMES = fileURLToPath(new URL("../bin/hermes", import.meta.url));
const CHATS = 200;
const BOT = { id: 1, is_bot: true, first_name: "Bench", username: "bench_bot" };
const quick = process.argv.includes("--quick");

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
const running: { child: ChildProcess; ended: Promise<void> }[] = [];
const broken = Promise.withResolvers<never>();

// ── Provider and platform ─────────────────────────────────────────────────────────────────────────────

type Passage = { saidAt: number; askedAt: number; replied: PromiseWithResolvers<number> };
/** By the number of its chat, which the message says as well. */
const passages = new Map<number, Passage>();

const chunk = (choices: object[], more: object = {}) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices, ...more })}\n\n`;
const ANSWER = [
  chunk([{ index: 0, delta: { role: "assistant", content: "Hello" }, finish_reason: null }]),
  chunk([{ index: 0, delta: { content: " you." }, finish_reason: null }]),
  chunk([{ index: 0, delta: {}, finish_reason: "stop" }]),
  chunk([], { usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } }),
  "data: [DONE]\n\n",
].join("");

type Update = { update_id: number; message: object };
/** What one bot has not confirmed yet, and its poll that waits. */
type Queue = { updates: Update[]; poll: ServerResponse | null; told: number };
const queues = new Map<string, Queue>();

function queueOf(bot: string): Queue {
  const queue = queues.get(bot) ?? { updates: [], poll: null, told: 0 };
  queues.set(bot, queue);
  return queue;
}

const world = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (text: string) => {
    body += text;
  });
  request.on("end", () => {
    const [, bot = "", method = ""] = (request.url ?? "").split("/");
    if (bot === "v1") return provide(body, response);
    const params = JSON.parse(body || "{}") as { offset?: number; timeout?: number; chat_id?: number };
    if (method === "getUpdates") return poll(queueOf(bot), params, response);
    tell(response, method === "getMe" ? BOT : resultOf(params));
    if (method === "sendMessage") passages.get(Number(params.chat_id))?.replied.resolve(performance.now());
  });
});

let lastRequest = "";

function provide(body: string, response: ServerResponse): void {
  lastRequest = body;
  const passage = passages.get(Number(/message in chat (\d+)/.exec(body)?.[1]));
  if (passage) passage.askedAt = performance.now();
  response.writeHead(200, { "content-type": "text/event-stream" }).end(ANSWER);
}

function poll(
  queue: Queue,
  { offset = 0, timeout = 0 }: { offset?: number; timeout?: number },
  response: ServerResponse,
) {
  queue.updates = queue.updates.filter(({ update_id }) => update_id >= offset);
  queue.poll = response;
  if (queue.updates.length || !timeout) flush(queue);
  else setTimeout(() => queue.poll === response && flush(queue), timeout * 1_000).unref();
}

function flush(queue: Queue): void {
  if (queue.poll) tell(queue.poll, queue.updates.slice(0, 100));
  queue.poll = null;
}

function tell(response: ServerResponse, result: unknown): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ ok: true, result }));
}

const resultOf = ({ chat_id: id }: { chat_id?: number }) =>
  id === undefined ? true : { message_id: 2, date: 0, chat: { id, type: "private" }, text: "" };

const PEOPLE = Array.from({ length: CHATS }, (_, n) => 1_000 + n);
let messages = 0;

/** Resolves when its reply is here. */
async function say(bot: string, chat: number): Promise<{ asked: number; replied: number }> {
  const passage = { saidAt: performance.now(), askedAt: Number.NaN, replied: Promise.withResolvers<number>() };
  passages.set(chat, passage);
  const queue = queueOf(bot);
  const text = `a message in chat ${chat}`;
  const from = { id: chat, is_bot: false, first_name: "Anna" };
  const message = { message_id: ++messages, date: 0, chat: { id: chat, type: "private" }, from, text };
  queue.updates.push({ update_id: ++queue.told, message });
  flush(queue);
  const repliedAt = await passage.replied.promise;
  passages.delete(chat);
  return { asked: passage.askedAt - passage.saidAt, replied: repliedAt - passage.saidAt };
}

// ── The bots ──────────────────────────────────────────────────────────────────────────────────────────

type Bot = { name: string; cpuMs(): number; rss(): number };
type Both = { ours: Bot; bare: Bot };

async function launch(name: string, command: string, args: string[], more: NodeJS.ProcessEnv = {}): Promise<Bot> {
  const child = spawn(command, args, {
    env: { PATH: process.env["PATH"], HOME: dir, ...more },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  const ended = once(child, "exit").then(() => broken.reject(new Error(`${command} ended by itself: ${printed}`)));
  running.push({ child, ended });
  await new Promise<void>((resolve) => {
    child.stdout.on("data", (text: Buffer) => {
      printed += text.toString();
      if (/ready( on \S+)?\n/.test(printed)) resolve();
    });
  });
  const proc = (file: string) => readFileSync(`/proc/${child.pid}/${file}`, "utf8");
  return {
    name,
    cpuMs() {
      const fields = proc("stat").split(") ")[1]?.split(" ") ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10; // in ticks of 10 ms
    },
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(proc("status"))?.[1]) / 1_024,
  };
}

const configOf = (url: string, token: string) =>
  JSON.stringify({
    model: { default: "m", base_url: `${url}/v1`, api_key: "k" },
    agent: { max_concurrent_turns: 1_000 },
    logging: { level: "warn" },
    gateway: { api_server: { port: 0 }, telegram: { token, api_root: url, allowed_users: PEOPLE.map(String) } },
  });

// ── What is measured ──────────────────────────────────────────────────────────────────────────────────

type Pair = { ours: number[]; bare: number[] };
const PROVIDER = "request at the provider";
const against = (value: number) => [{ value, what: "bare bot" }];

async function idle({ ours, bare }: Both): Promise<Figure[]> {
  await sleep(8_000); // what a start leaves to be done, and the one collection when it has rested for 5 s
  const seconds = quick ? 3 : 10;
  const before = [ours.cpuMs(), bare.cpuMs()] as const;
  await sleep(seconds * 1_000);
  return [
    { name: "RSS idle", value: ours.rss(), unit: "MB", against: against(bare.rss()) },
    { name: "CPU of an idle second", value: (ours.cpuMs() - before[0]) / seconds, unit: "ms" },
    { name: "CPU of an idle second, bare bot", value: (bare.cpuMs() - before[1]) / seconds, unit: "ms" },
  ];
}

/** They take turns, so that both meet the same machine. */
async function alone({ ours, bare }: Both, times: number): Promise<Figure[]> {
  const asked: Pair = { ours: [], bare: [] };
  const replied: Pair = { ours: [], bare: [] };
  for (let n = -20; n < times; n++)
    for (const [who, bot] of Object.entries({ ours, bare }) as ["ours" | "bare", Bot][]) {
      const passage = await say(bot.name, PEOPLE[Math.max(0, n) % CHATS] ?? 0);
      if (n < 0) continue; // to warm up
      asked[who].push(passage.asked);
      replied[who].push(passage.replied);
    }
  const figure = (what: string, { ours, bare }: Pair, p: number): Figure => ({
    name: `message → ${what} p${p}`,
    value: percentile(ours, p),
    unit: "ms",
    against: against(percentile(bare, p)),
    ...(what === PROVIDER && p === 50 && { goal: { ratio: 1.5 } }),
  });
  return [50, 99].flatMap((p) => [figure(PROVIDER, asked, p), figure("reply", replied, p)]);
}

async function atOnce({ ours, bare }: Both): Promise<Figure[]> {
  const rate: Pair = { ours: [], bare: [] };
  const cpu: Pair = { ours: [], bare: [] };
  for (let n = 0; n < (quick ? 2 : 5); n++)
    for (const [who, bot] of Object.entries({ ours, bare }) as ["ours" | "bare", Bot][]) {
      const one = await burst(bot, quick ? 2 : 5);
      if (n === 0) continue; // to warm up
      rate[who].push(one.rate);
      cpu[who].push(one.cpu);
    }
  return [
    {
      name: `${CHATS} chats at once, replies`,
      value: median(rate.ours),
      unit: "/s",
      against: against(median(rate.bare)),
      goal: { value: 1_000 },
    },
    {
      name: `${CHATS} chats at once, CPU of a reply`,
      value: median(cpu.ours),
      unit: "ms",
      against: against(median(cpu.bare)),
    },
  ];
}

async function burst(bot: Bot, each: number): Promise<{ rate: number; cpu: number }> {
  const before = bot.cpuMs();
  const began = performance.now();
  const talk = async (chat: number) => {
    for (let n = 0; n < each; n++) await say(bot.name, chat);
  };
  await Promise.all(PEOPLE.map(talk));
  const replies = CHATS * each;
  const rate = replies / ((performance.now() - began) / 1_000);
  await sleep(500); // what follows a reply is of its cost
  return { rate, cpu: (bot.cpuMs() - before) / replies };
}

async function measure(): Promise<Figure[]> {
  await new Promise<void>((resolve) => world.listen(0, "127.0.0.1", 1_024, resolve));
  world.keepAliveTimeout = 0;
  const url = `http://127.0.0.1:${(world.address() as AddressInfo).port}`;
  const token = `${process.pid}:bench`;
  const home = join(dir, "home");
  mkdirSync(home, { mode: 0o700 });
  mkdirSync(join(dir, "bare"));
  writeFileSync(join(home, "config.yaml"), configOf(url, token), { mode: 0o600 });
  const ours = await launch(`bot${token}`, HERMES, ["gateway"], { HERMES_HOME: home });
  await say(ours.name, PEOPLE[0] ?? 0); // what it asks the provider for, the other one asks for too
  const request = join(dir, "request.json");
  writeFileSync(request, lastRequest);
  const place = [join(dir, "bare"), `${url}/bare`, url, request];
  const bare = await launch("bare", process.execPath, ["--no-warnings", BARE, ...place]);
  const both = { ours, bare };
  const atRest = await idle(both);
  return [...(await alone(both, quick ? 100 : 400)), ...(await atOnce(both)), ...atRest];
}

try {
  report(await Promise.race([measure(), broken.promise]));
} finally {
  for (const { child } of running) child.kill();
  await Promise.all(running.map(({ ended }) => ended));
  world.closeAllConnections();
  world.close();
  rmSync(dir, { recursive: true, force: true });
}
