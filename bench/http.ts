// Conversations over HTTP with the default settings, tools and memory, against a server with nothing but the same I/O
// (http-bare.ts), with the same client and the same provider that answers at once. Servers and provider are processes of their
// own: only theirs is counted.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request as ask, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Figure, median, percentile, report } from "./figure.ts";

const BARE = fileURLToPath(new URL("./http-bare.ts", import.meta.url));
const HERMES = fileURLToPath(new URL("../bin/hermes", import.meta.url));
const KEY = "bench-key-0123456789abcdef";
const VIEWERS = 1_000;
const quick = process.argv.includes("--quick");

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
const running: ChildProcess[] = [];

function configOf(provider: string): string {
  return JSON.stringify({
    model: { default: "m", base_url: `${provider}/v1`, api_key: "k" },
    agent: { max_concurrent_turns: 1_000 },
    logging: { level: "warn" },
    gateway: { api_server: { port: 0, key: KEY, max_concurrent_runs: 0 } },
  });
}

// ── Servers and their client ──────────────────────────────────────────────────────────────────────────

type Server = { url: string; readyMs: number; cpuMs(): number; rss(): number; stop(): Promise<unknown> };
type Both = { ours: Server; bare: Server };

async function launch(command: string, args: string[], more: NodeJS.ProcessEnv = {}): Promise<Server> {
  const began = performance.now();
  const child = spawn(command, args, {
    env: { PATH: process.env["PATH"], HOME: dir, ...more },
    stdio: ["ignore", "pipe", "inherit"],
  });
  running.push(child);
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise<string>((resolve) => {
    let printed = "";
    child.stdout.on("data", (text: Buffer) => {
      printed += text.toString();
      const found = /ready on (\S+)\n/.exec(printed)?.[1];
      if (found) resolve(found);
    });
  });
  const proc = (file: string) => readFileSync(`/proc/${child.pid}/${file}`, "utf8");
  return {
    url,
    readyMs: performance.now() - began,
    cpuMs() {
      const fields = proc("stat").split(") ")[1]?.split(" ") ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10; // in ticks of 10 ms
    },
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(proc("status"))?.[1]) / 1_024,
    stop() {
      child.kill("SIGTERM");
      return exited;
    },
  };
}

// Servers close what is idle for 5 s, also just when it is used again.
const agent = new Agent({ keepAlive: true, maxSockets: 4_000, timeout: 3_000 });
const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };

function send(url: string, method: string, body?: unknown): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = ask(url, { method, agent, headers }, resolve);
    request.on("error", reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function text(message: IncomingMessage): Promise<string> {
  let all = "";
  message.setEncoding("utf8");
  for await (const chunk of message) all += String(chunk);
  return all;
}

async function startRun({ url }: Server, input: string, session?: string): Promise<string> {
  const answer = await text(await send(`${url}/v1/runs`, "POST", { input, session_id: session }));
  const id = /"run_id":"(\w+)"/.exec(answer)?.[1];
  if (!id) throw new Error(answer);
  return id;
}

const watch = ({ url }: Server, id: string) => send(`${url}/v1/runs/${id}/events`, "GET");

const SYLLABLES = "ba ce di fo gu ha ki le mo nu pa re si to vu wa xe yo za tri".split(" ");
let questions = 0;
/** As people write: memory has words to look for, of which there are 8,000. */
function question(): string {
  const n = ++questions;
  const word = (seed: number) => {
    const hash = Math.imul(seed, 2_654_435_761) >>> 8;
    return [1, 20, 400].map((by) => SYLLABLES[Math.floor(hash / by) % SYLLABLES.length]).join("");
  };
  return `What does the report on ${word(n)} say about the ${word(n * 31 + 7)} in ${word(n * 17 + 3)}, and who has to sign it?`;
}

async function turn(server: Server, session: string): Promise<void> {
  const events = await text(await watch(server, await startRun(server, question(), session)));
  if (!events.includes("run.completed")) throw new Error(events);
}

let conversations = 0;
/** So many turns, one after another, in a new session each. */
async function talk(server: Server, sessions: number, turns: number): Promise<{ rate: number; cpu: number }> {
  const cpu = server.cpuMs();
  const began = performance.now();
  const one = async () => {
    const session = `conversation-${++conversations}`;
    for (let n = 0; n < turns; n++) await turn(server, session);
  };
  await Promise.all(Array.from({ length: sessions }, one));
  const all = sessions * turns;
  return { rate: all / ((performance.now() - began) / 1_000), cpu: (server.cpuMs() - cpu) / all };
}

// ── What is measured ──────────────────────────────────────────────────────────────────────────────────

type Pair<T> = { ours: T[]; bare: T[] };
const against = (value: number) => [{ value, what: "bare server" }];
/** They take turns, so that both meet the same machine. */
async function each<T>(servers: Both, times: number, measure: (server: Server) => Promise<T>): Promise<Pair<T>> {
  const found: Pair<T> = { ours: [], bare: [] };
  for (let n = 0; n < times; n++)
    for (const who of ["ours", "bare"] as const) found[who].push(await measure(servers[who]));
  return found;
}

type Goals = { rate?: number; cpu?: number };
function spoken(name: string, { ours, bare }: Pair<{ rate: number; cpu: number }>, goals: Goals = {}): Figure[] {
  const figure = (of: "rate" | "cpu", what: string, unit: Figure["unit"]): Figure => ({
    name: `${name}: ${what}`,
    unit,
    value: median(ours.map((one) => one[of])),
    against: against(median(bare.map((one) => one[of]))),
    ...(goals[of] && { goal: { value: goals[of] } }),
  });
  return [figure("rate", "turns", "/s"), figure("cpu", "CPU of a turn", "ms")];
}

/** The first turn of a process, and its first 50: each time both servers are started anew. */
async function justStarted(start: () => Promise<Both>): Promise<Figure[]> {
  const first: Pair<number> = { ours: [], bare: [] };
  const early: Pair<{ rate: number; cpu: number }> = { ours: [], bare: [] };
  for (let n = 0; n < (quick ? 2 : 5); n++) {
    const both = await start();
    for (const who of ["ours", "bare"] as const) {
      const { rate } = await talk(both[who], 1, 1);
      first[who].push(1_000 / rate);
      early[who].push(await talk(both[who], 1, 50));
    }
    await Promise.all([both.ours.stop(), both.bare.stop()]);
  }
  return [
    { name: "first turn of a process", value: median(first.ours), unit: "ms", against: against(median(first.bare)) },
    ...spoken("50 turns, just started", early, { rate: 280, cpu: 3.5 }),
  ];
}

async function warm(both: Both): Promise<Figure[]> {
  await each(both, 2, (server) => talk(server, 4, 50));
  const short = await each(both, quick ? 2 : 5, (server) => talk(server, 1, 50));
  const long = await each(both, quick ? 1 : 3, (server) => talk(server, 1, 500));
  const many = await each(both, quick ? 2 : 5, (server) => talk(server, 20, 25));
  return [
    ...spoken("50 turns, warm", short),
    ...spoken("500 turns, warm", long),
    ...spoken("20 sessions at once, 25 turns each", many, { rate: 400 }),
  ];
}

const now = () => Number(process.hrtime.bigint()) / 1e6;

/** In a conversation of 50 turns and more. */
async function firstWords(both: Both, provider: Server, times: number): Promise<Figure[]> {
  const session = "long";
  await each(both, 1, async (server) => {
    for (let n = 0; n < 50; n++) await turn(server, session);
  });
  const found = await each(both, times, async (server) => {
    await logOf(provider);
    const began = now();
    const id = await startRun(server, question(), session);
    const acknowledged = now() - began;
    const events = await watch(server, id);
    const word = (await until(events, "message.delta")) - began;
    await text(events);
    const { asked } = await logOf(provider);
    return { acknowledged, asked: (asked[0] ?? Number.NaN) - began, word };
  });
  return [
    passing(found, "acknowledged", "POST → acknowledged", 50),
    passing(found, "asked", "POST → request at the provider", 50),
    passing(found, "word", "POST → first word at the client", 50, 4),
    passing(found, "word", "POST → first word at the client", 99),
  ];
}

function passing<K extends string>(
  found: Pair<Record<K, number>>,
  of: K,
  name: string,
  p: number,
  goal?: number,
): Figure {
  const [ours, bare] = [found.ours, found.bare].map((all) =>
    percentile(
      all.map((one) => one[of]),
      p,
    ),
  );
  return {
    name: `${name} p${p}`,
    value: ours ?? Number.NaN,
    unit: "ms",
    against: against(bare ?? Number.NaN),
    ...(goal && { goal: { value: goal } }),
  };
}

type ProviderLog = { asked: number[]; closed: number[] };
async function logOf({ url }: Server): Promise<ProviderLog> {
  return JSON.parse(await text(await send(`${url}/log`, "GET"))) as ProviderLog;
}

function until(events: IncomingMessage, what: string): Promise<number> {
  return new Promise((resolve) => {
    let seen = "";
    const listen = (chunk: Buffer) => {
      seen += chunk.toString();
      if (!seen.includes(what)) return;
      events.off("data", listen);
      resolve(now());
    };
    events.on("data", listen);
  });
}

async function stops(both: Both, provider: Server, times: number): Promise<Figure[]> {
  const found = await each(both, times, async (server) => {
    const session = `conversation-${++conversations}`;
    await turn(server, session);
    const id = await startRun(server, "Count the deliveries and never end.", session);
    const events = await watch(server, id);
    await until(events, "message.delta");
    await logOf(provider);
    const over = until(events, "run.cancelled");
    const began = now();
    (await send(`${server.url}/v1/runs/${id}/stop`, "POST")).resume();
    const told = (await over) - began;
    events.resume();
    for (;;) {
      const [closed] = (await logOf(provider)).closed;
      if (closed) return { told, closed: closed - began };
    }
  });
  return [
    passing(found, "told", "stop → cancelled at the client", 50, 3.5),
    passing(found, "told", "stop → cancelled at the client", 99),
    passing(found, "closed", "stop → connection to the provider closed", 50, 2),
  ];
}

/** 50 words of one run to 1,000 viewers. */
async function fanOut({ ours, bare }: Both): Promise<Figure[]> {
  const cpu = async (server: Server) => {
    const id = await startRun(server, "tell me slowly");
    const before = server.cpuMs();
    const all = await Promise.all(Array.from({ length: VIEWERS }, () => watch(server, id)));
    const texts = await Promise.all(all.map(text));
    if (texts.some((one) => !one.includes("run.completed"))) throw new Error("a viewer did not see the end");
    return (server.cpuMs() - before) / (VIEWERS * 50);
  };
  return [
    {
      name: `${VIEWERS} viewers, CPU of 1,000 messages`,
      value: (await cpu(ours)) * 1_000,
      unit: "ms",
      against: against((await cpu(bare)) * 1_000),
    },
  ];
}

async function viewers({ ours, bare }: Both): Promise<Figure[]> {
  const grown = async (server: Server) => {
    const id = await startRun(server, "never end");
    const before = server.rss();
    const all = await Promise.all(Array.from({ length: VIEWERS }, () => watch(server, id)));
    await Promise.all(all.map((events) => until(events, "message.delta")));
    const after = server.rss();
    (await send(`${server.url}/v1/runs/${id}/stop`, "POST")).resume();
    await Promise.all(all.map(text));
    return after - before;
  };
  const value = await grown(ours);
  return [await memory(`RSS of ${VIEWERS} idle viewers`, { ours: value, bare: await grown(bare) }, 50)];
}

async function memory(name: string, { ours, bare }: { ours: number; bare: number }, goal: number): Promise<Figure> {
  return { name, value: ours, unit: "MB", against: against(bare), goal: { value: goal } };
}

async function readiness(start: () => Promise<Server>, stopOurs: () => Promise<unknown>): Promise<Figure> {
  await stopOurs();
  const ours: number[] = [];
  const bare: number[] = [];
  for (let n = 0; n < (quick ? 3 : 9); n++) {
    const server = await start();
    ours.push(server.readyMs);
    await server.stop();
    bare.push(await bareStart());
  }
  return {
    name: "gateway: start → ready",
    value: median(ours),
    unit: "ms",
    against: [{ value: median(bare), what: "bare Node" }],
    goal: { ratio: 2 },
  };
}

function bareStart(): Promise<number> {
  const began = performance.now();
  const child = spawn(process.execPath, ["-e", "0"]);
  return new Promise((resolve) => child.once("exit", () => resolve(performance.now() - began)));
}

try {
  const provider = await launch(process.execPath, ["--no-warnings", BARE, "provider"]);
  const home = join(dir, "home");
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "config.yaml"), configOf(provider.url), { mode: 0o600 });
  const startOurs = () => launch(HERMES, ["gateway"], { HERMES_HOME: home });
  const first = await startOurs(); // fills the caches that every later start has
  await turn(first, "first");
  await first.stop();
  const request = join(dir, "request.json");
  writeFileSync(request, await text(await send(`${provider.url}/last`, "GET")));
  mkdirSync(join(dir, "bare"));
  const bareArgs = ["--no-warnings", BARE, join(dir, "bare"), provider.url, request];
  const start = async () => ({ ours: await startOurs(), bare: await launch(process.execPath, bareArgs) });

  const early = await justStarted(start);
  const both = await start();
  const { ours, bare } = both;
  const idle = { ours: ours.rss(), bare: bare.rss() };
  const figures: Figure[] = [
    ...early,
    ...(await warm(both)),
    ...(await firstWords(both, provider, quick ? 50 : 300)),
    ...(await stops(both, provider, quick ? 30 : 150)),
    ...(await fanOut(both)),
    await memory("RSS idle", idle, 80),
    {
      name: "RSS growth over the turns above",
      value: ours.rss() - idle.ours,
      unit: "MB",
      against: against(bare.rss() - idle.bare),
    },
    ...(await viewers(both)),
    await readiness(startOurs, ours.stop),
  ];
  report(figures);
} finally {
  for (const child of running) child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
}
