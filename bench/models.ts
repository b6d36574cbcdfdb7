// What we put between a person and a model: against a loop that only fetches, from the same provider, in the same run.
// `node models.ts provider` is that provider, in a process of its own so that its work is not counted as ours;
// `node models.ts hold ours|bare URL N` is a process that is looked at while N answers are under way.
import { type ChildProcess, execFile, fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { fetch } from "undici";
import type { Model } from "../src/core/ports.ts";
import { turnId } from "../src/engine/engine.ts";
import { createModel } from "../src/llm/provider.ts";
import { startFakeLlm } from "../test/fakes/llm/server.ts";
import { type Bench, openBench } from "./engine.ts";
import { type Figure, median, percentile, report } from "./figure.ts";

const SELF = fileURLToPath(import.meta.url);
const HERMES = fileURLToPath(new URL("../bin/hermes", import.meta.url));
const CHUNKS = 400;
const STREAMS = 50;

/** The provider's clock is ours: hrtime is the machine's, not the process's. In milliseconds. */
const now = () => Number(process.hrtime.bigint()) / 1e6;

const [kind = "", how = "", url = "", count = ""] = process.argv.slice(2);
if (kind === "provider") await provide();
else if (kind === "hold") await hold(how, url, Number(count));
else await measure(process.argv.includes("--quick"));

async function measure(quick: boolean) {
  const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
  const provider = await openProvider();
  const bench = await openBench(dir, { model: modelAt(provider.url) });
  try {
    const ours = oursOn(bench, provider);
    const bare = bareOn(provider);
    report([
      ...(await latencies(ours, bare, quick ? 100 : 500)),
      ...(await streams(ours, bare, quick ? 3 : 9)),
      await memory(provider.url, quick ? 100 : 500),
      ...(await starts(dir, provider, quick ? 5 : 15)),
    ]);
  } finally {
    await bench.close();
    provider.close();
    rmSync(dir, { recursive: true });
  }
}

// ── The provider ──────────────────────────────────────────────────────────────────────────────────────

type Told = { url: string } | { seen: number } | { closed: number };

async function provide() {
  const llm = await startFakeLlm();
  const many = Array.from({ length: CHUNKS }, (_, n) => `word ${n} `);
  llm.script((request) => {
    if (request.raw.includes("tell me a lot")) return { text: many };
    return request.raw.includes("wait with me")
      ? { text: "Hello", fault: { silence: "text" } }
      : { text: ["Hello ", "you."] };
  });
  const tell = (told: Told) => void process.send?.(told);
  process.on("disconnect", () => process.exit(0));
  tell({ url: llm.url });
  for (;;) {
    const request = await llm.nextRequest();
    tell({ seen: now() });
    void request.closed.then(() => tell({ closed: now() }));
  }
}

type Provider = { url: string; seen(): Promise<number>; closed(): Promise<number>; close(): void };

/** `seen` and `closed` are about the next request: to be asked for before it is made. */
async function openProvider(): Promise<Provider> {
  const child: ChildProcess = fork(SELF, ["provider"], { execArgv: ["--no-warnings"] });
  const next = (what: "seen" | "closed") =>
    new Promise<number>((resolve) => {
      const listen = (told: { seen?: number; closed?: number }) => {
        const at = told[what];
        if (at === undefined) return;
        child.off("message", listen);
        resolve(at);
      };
      child.on("message", listen);
    });
  const [{ url }] = (await once(child, "message")) as [{ url: string }];
  child.on("message", () => {}); // while nobody listens, Node keeps what comes for whoever does next
  return { url, seen: () => next("seen"), closed: () => next("closed"), close: () => void child.kill() };
}

// ── The same thing done in two ways ───────────────────────────────────────────────────────────────────

/** One question: the time of its first word, and a way to stop it; `over` is when all of the answer is there. */
type Asked = { firstWord: Promise<number>; stop(): Promise<unknown>; over: Promise<unknown> };
type Way = { name: "ours" | "bare"; ask(text: string): Asked; provider: Provider };

function oursOn({ engine }: Bench, provider: Provider): Way {
  let asked = 0;
  return {
    name: "ours",
    provider,
    ask(text) {
      const key = `${asked++}`;
      const session = `s${key}`;
      const turn = turnId("bench", key);
      const firstWord = Promise.withResolvers<number>();
      const accepted = engine.accept({ session, source: "bench", key, text, mode: "queue", reply: "pull" });
      const watch = async () => {
        const leave = new AbortController();
        const { cursor } = await accepted;
        for await (const update of engine.follow(session, cursor, leave.signal)) {
          if ("delta" in update) firstWord.resolve(now());
          if ("entry" in update && update.entry.kind === "ended") leave.abort();
        }
      };
      return { firstWord: firstWord.promise, over: watch(), stop: () => engine.stop({ session, turn }) };
    },
  };
}

function bareOn(provider: Provider): Way {
  return {
    name: "bare",
    provider,
    ask(text) {
      const abort = new AbortController();
      const firstWord = Promise.withResolvers<number>();
      const over = bareLoop(provider.url, text, abort.signal, () => firstWord.resolve(now())).catch(() => {});
      return { firstWord: firstWord.promise, over, stop: async () => abort.abort() };
    },
  };
}

async function bareLoop(url: string, text: string, signal: AbortSignal, word: () => void): Promise<string> {
  const { body } = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer k" },
    body: JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: text }] }),
    signal,
  });
  const decoder = new TextDecoder();
  let said = "";
  let rest = "";
  for await (const chunk of body ?? []) {
    const lines = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const { choices } = JSON.parse(line.slice(6)) as { choices: { delta?: { content?: string } }[] };
      const content = choices[0]?.delta?.content;
      if (!content) continue;
      if (!said) word();
      said += content;
    }
  }
  return said;
}

function modelAt(baseUrl: string): Model {
  return createModel({
    provider: "openai-compatible",
    model: "m",
    baseUrl,
    apiKey: "k",
    context: 128_000,
    because: "",
  });
}

// ── What is measured ──────────────────────────────────────────────────────────────────────────────────

type Times = Record<"upstream" | "word" | "stop", number[]>;

/** They take turns, so that both meet the same machine. */
async function latencies(ours: Way, bare: Way, times: number): Promise<Figure[]> {
  const found: Record<Way["name"], Times> = {
    ours: { upstream: [], word: [], stop: [] },
    bare: { upstream: [], word: [], stop: [] },
  };
  for (let n = 0; n < times + 20; n++)
    for (const way of [ours, bare]) {
      const { upstream, word } = await answered(way);
      const stop = await stopped(way);
      if (n < 20) continue; // to warm up
      found[way.name].upstream.push(upstream);
      found[way.name].word.push(word);
      found[way.name].stop.push(stop);
    }
  const figure = (name: string, of: keyof Times, p: number, goal?: number): Figure => ({
    name: `${name} p${p}`,
    value: percentile(found.ours[of], p),
    unit: "ms",
    against: [{ value: percentile(found.bare[of], p), what: "bare fetch" }],
    ...(goal && { goal: { value: goal } }),
  });
  return [
    figure("accept → request at the provider", "upstream", 50),
    figure("accept → request at the provider", "upstream", 99),
    figure("accept → first word at a viewer", "word", 50),
    figure("accept → first word at a viewer", "word", 99),
    figure("stop → connection closed", "stop", 50, 5),
    figure("stop → connection closed", "stop", 99, 50),
  ];
}

async function answered({ ask, provider }: Way): Promise<{ upstream: number; word: number }> {
  const seen = provider.seen();
  const closed = provider.closed();
  const began = now();
  const { firstWord, over } = ask("hi");
  const word = (await firstWord) - began;
  const upstream = (await seen) - began;
  await Promise.all([over, closed]);
  return { upstream, word };
}

async function stopped({ ask, provider }: Way): Promise<number> {
  const closed = provider.closed();
  const { firstWord, over, stop } = ask("wait with me");
  await firstWord;
  const began = now();
  await stop();
  const ms = (await closed) - began;
  await over;
  return ms;
}

async function streams(ours: Way, bare: Way, times: number): Promise<Figure[]> {
  const found: Record<Way["name"], { rate: number; cpu: number }[]> = { ours: [], bare: [] };
  for (let n = 0; n <= times; n++)
    for (const { name, ask } of [ours, bare]) {
      const began = now();
      const before = process.cpuUsage();
      await Promise.all(Array.from({ length: STREAMS }, () => ask("tell me a lot").over));
      const { user, system } = process.cpuUsage(before);
      const chunks = STREAMS * CHUNKS;
      if (n > 0) found[name].push({ rate: chunks / ((now() - began) / 1_000), cpu: (user + system) / chunks });
    }
  const figure = (name: string, unit: Figure["unit"], of: "rate" | "cpu", scale: number): Figure => ({
    name,
    unit,
    value: median(found.ours.map((one) => one[of])) * scale,
    against: [{ value: median(found.bare.map((one) => one[of])) * scale, what: "bare fetch" }],
  });
  return [
    figure(`${STREAMS} streams at once, chunks`, "/s", "rate", 1),
    figure(`${STREAMS} streams at once, CPU per 1,000 chunks`, "ms", "cpu", 1),
  ];
}

async function memory(url: string, turns: number): Promise<Figure> {
  const look = async (how: Way["name"]) => {
    const args = ["--expose-gc", "--no-warnings", SELF, "hold", how, url, `${turns}`];
    return Number((await promisify(execFile)(process.execPath, args)).stdout) / 1e3;
  };
  return {
    name: `RSS of one running turn, of ${turns}`,
    value: await look("ours"),
    unit: "kB",
    against: [{ value: await look("bare"), what: "bare fetch" }],
  };
}

/** Prints the bytes that one more answer under way takes. */
async function hold(how: string, url: string, count: number) {
  const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
  const provider: Provider = { url, seen: async () => 0, closed: async () => 0, close: () => {} };
  const way = how === "ours" ? oursOn(await openBench(dir, { model: modelAt(url) }), provider) : bareOn(provider);
  const ask = (many: number) => Promise.all(Array.from({ length: many }, () => way.ask("wait with me").firstWord));
  await ask(20); // what the first ones bring with them is not theirs
  const before = await settledRss();
  await ask(count);
  const after = await settledRss();
  process.stdout.write(`${(after - before) / count}`, () => {
    rmSync(dir, { recursive: true });
    process.exit(0);
  });
}

async function settledRss(): Promise<number> {
  for (let n = 0; n < 5; n++) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage.rss();
}

/** From nothing: the help, and a run up to its request at the provider. */
async function starts(dir: string, provider: Provider, times: number): Promise<Figure[]> {
  const env = {
    PATH: process.env["PATH"],
    HERMES_HOME: join(dir, "home"),
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: "k",
    LLM_MODEL: "m",
  };
  const timed = (command: string, args: string[]) => {
    const began = now();
    spawnSync(command, args, { env });
    return now() - began;
  };
  const asked = async () => {
    const seen = provider.seen();
    const began = now();
    const child = spawn(HERMES, ["run", "hi"], { env, stdio: "ignore" });
    const ms = (await seen) - began;
    await once(child, "exit");
    return ms;
  };
  const found = { node: [] as number[], help: [] as number[], run: [] as number[] };
  for (let n = 0; n <= times; n++) {
    const [node, help, run] = [timed(process.execPath, ["-e", "0"]), timed(HERMES, ["--help"]), await asked()];
    if (n === 0) continue; // the first one fills the cache of compiled code
    found.node.push(node);
    found.help.push(help);
    found.run.push(run);
  }
  const against = [{ value: median(found.node), what: "node -e 0" }];
  return [
    { name: "hermes --help", value: median(found.help), unit: "ms", against },
    { name: "hermes run → request at the provider", value: median(found.run), unit: "ms", against },
  ];
}
