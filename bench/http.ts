// Runs over HTTP, against a server with nothing but the same I/O (http-bare.ts), with the same client and the same provider
// that answers at once. Servers and provider are processes of their own: only theirs is counted.
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

const agent = new Agent({ keepAlive: true, maxSockets: 4_000 });
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

async function startRun({ url }: Server, input: string): Promise<string> {
  const answer = await text(await send(`${url}/v1/runs`, "POST", { input }));
  const id = /"run_id":"(\w+)"/.exec(answer)?.[1];
  if (!id) throw new Error(answer);
  return id;
}

const watch = ({ url }: Server, id: string) => send(`${url}/v1/runs/${id}/events`, "GET");

async function whole(server: Server): Promise<void> {
  const events = await text(await watch(server, await startRun(server, "hi")));
  if (!events.includes("run.completed")) throw new Error(events);
}

// ── What is measured ──────────────────────────────────────────────────────────────────────────────────

async function throughput({ ours, bare }: Both): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const many of [1, 20, 100]) {
    const runs = quick ? 200 : many === 1 ? 400 : 1_000;
    const found = { ours: [] as { rate: number; cpu: number }[], bare: [] as { rate: number; cpu: number }[] };
    for (let n = 0; n < 4; n++)
      for (const [name, server] of [
        ["ours", ours],
        ["bare", bare],
      ] as const) {
        const one = await burst(server, many, runs);
        if (n > 0) found[name].push(one); // the first to warm up
      }
    const figure = (of: "rate" | "cpu", name: string, unit: Figure["unit"], goal: Figure["goal"]): Figure => ({
      name: `${many} at a time, ${name}`,
      unit,
      value: median(found.ours.map((one) => one[of])),
      against: [{ value: median(found.bare.map((one) => one[of])), what: "bare server" }],
      ...(goal && { goal }),
    });
    figures.push(figure("rate", "runs", "/s", { ratio: 1.5 }), figure("cpu", "CPU of a run", "ms", { value: 3 }));
  }
  return figures;
}

async function burst(server: Server, many: number, runs: number): Promise<{ rate: number; cpu: number }> {
  const cpu = server.cpuMs();
  const began = performance.now();
  let left = runs;
  const worker = async () => {
    while (left-- > 0) await whole(server);
  };
  await Promise.all(Array.from({ length: many }, worker));
  return { rate: runs / ((performance.now() - began) / 1_000), cpu: (server.cpuMs() - cpu) / runs };
}

/** They take turns, so that both meet the same machine. */
async function firstWords({ ours, bare }: Both, times: number): Promise<Figure[]> {
  const found = { ours: [] as number[], bare: [] as number[] };
  for (let n = 0; n < times; n++)
    for (const [name, server] of [
      ["ours", ours],
      ["bare", bare],
    ] as const) {
      const began = performance.now();
      const events = await watch(server, await startRun(server, "hi"));
      found[name].push((await until(events, "message.delta")) - began);
      events.resume();
    }
  return [50, 99].map((p) => ({
    name: `POST → first word at the client p${p}`,
    value: percentile(found.ours, p),
    unit: "ms",
    against: [{ value: percentile(found.bare, p), what: "bare server" }],
    ...(p === 50 && { goal: { ratio: 1.5 } }),
  }));
}

function until(events: IncomingMessage, what: string): Promise<number> {
  return new Promise((resolve) => {
    let seen = "";
    const listen = (chunk: Buffer) => {
      seen += chunk.toString();
      if (!seen.includes(what)) return;
      events.off("data", listen);
      resolve(performance.now());
    };
    events.on("data", listen);
  });
}

async function stops({ ours, bare }: Both, times: number): Promise<Figure[]> {
  const found = { ours: [] as number[], bare: [] as number[] };
  for (let n = 0; n < times; n++)
    for (const [name, server] of [
      ["ours", ours],
      ["bare", bare],
    ] as const) {
      const id = await startRun(server, "never end");
      const events = await watch(server, id);
      await until(events, "message.delta");
      const over = until(events, "run.cancelled");
      const began = performance.now();
      (await send(`${server.url}/v1/runs/${id}/stop`, "POST")).resume();
      found[name].push((await over) - began);
      events.resume();
    }
  return [50, 99].map((p) => ({
    name: `stop → cancelled at the client p${p}`,
    value: percentile(found.ours, p),
    unit: "ms",
    against: [{ value: percentile(found.bare, p), what: "bare server" }],
  }));
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
      against: [{ value: (await cpu(bare)) * 1_000, what: "bare server" }],
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
  return { name, value: ours, unit: "MB", against: [{ value: bare, what: "bare server" }], goal: { value: goal } };
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
  const start = () => launch(HERMES, ["gateway"], { HERMES_HOME: home });
  const first = await start(); // fills the caches that every later start has
  await first.stop();
  const ours = await start();
  mkdirSync(join(dir, "bare"));
  const bare = await launch(process.execPath, ["--no-warnings", BARE, join(dir, "bare"), provider.url]);
  const idle = { ours: ours.rss(), bare: bare.rss() };
  const both = { ours, bare };
  const figures: Figure[] = [
    ...(await throughput(both)),
    ...(await firstWords(both, quick ? 100 : 400)),
    ...(await stops(both, quick ? 30 : 150)),
    ...(await fanOut(both)),
    await memory("RSS idle", idle, 80),
    {
      name: "RSS growth over the runs above",
      value: ours.rss() - idle.ours,
      unit: "MB",
      against: [{ value: bare.rss() - idle.bare, what: "bare server" }],
    },
    ...(await viewers(both)),
    await readiness(start, ours.stop),
  ];
  report(figures);
} finally {
  for (const child of running) child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
}
