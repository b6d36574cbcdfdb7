// The screen of `hermes chat` on a real terminal: how soon it is there, how soon a key is seen while an answer streams
// in, what that costs, and what stays in memory. Beside it a program that only copies tokens and keys to the same kind
// of terminal. The provider is here; both programs are processes of their own, and only theirs is counted.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type IPty, spawn } from "@lydell/node-pty";
import { type Figure, median, percentile, report } from "./figure.ts";

const HERMES = fileURLToPath(new URL("../bin/hermes", import.meta.url));
const SIZE = { cols: 100, rows: 30 };
const TOKENS_A_SECOND = 200;
/** Not a multiple of a frame (16 ms) or a token (5 ms), so that keys fall anywhere between them. */
const KEY_MS = 47;
const ESC = "\x1b";
const CTRL_D = "\x04";
const CTRL_U = "\x15";
const quick = process.argv.includes("--quick");

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
const work = join(dir, "work");
const running = new Set<Terminal>();
const broken = Promise.withResolvers<never>();

// ── The provider: what is asked says how it answers ───────────────────────────────────────────────────

const step = (n: number) =>
  `export function step${n}(input: string): number {\n  return input.length + ${n}; // as before\n}`;

/** In lower case: the keys are in upper case, so that they are found between the tokens. */
const MARKDOWN = `## what was found

the parser reads **one token** at a time, and \`peek()\` never moves. the tests below cover what matters, and a
sentence like this one wraps on any screen that is not very wide.

- it keeps the order of all that came in
- it drops *nothing*, also when the other side is slow:
  - first the small ones
  - then the rest, as in [the docs](https://example.com/a/b)
- it stops when it is told

\`\`\`ts
${Array.from({ length: 12 }, (_, n) => step(n)).join("\n")}
\`\`\`

| name | what it does | cost |
|---|---|---|
| fast | reads ahead | 2 ms |
| safe | waits for the disk | 9 ms |

1. run it once
2. look at what it says

`;
const TOKENS = partsOf(MARKDOWN, 4);
const LINES = MARKDOWN.split("\n").length;

function partsOf(text: string, length: number): string[] {
  return Array.from({ length: Math.ceil(text.length / length) }, (_, n) => text.slice(n * length, (n + 1) * length));
}

/** Whole copies of it, or what comes after them would be code. */
const copies = (count: number, each: number) => MARKDOWN.repeat(Math.ceil(count / each));

const event = (choices: object[], more: object = {}) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices, ...more })}\n\n`;
const said = (content: string) => event([{ index: 0, delta: { content }, finish_reason: null }]);
const END = [
  event([{ index: 0, delta: {}, finish_reason: "stop" }]),
  event([], { usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } }),
  "data: [DONE]\n\n",
].join("");

/** Where each of the two asks. */
const OURS = "/v1/chat/completions";
const BARE = "/bare";

type Stream = { response: ServerResponse; sent: number };
/** By where it was asked for; only one of them flows at a time. */
const streams = new Map<string, Stream>();

const provider = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (text: string) => {
    body += text;
  });
  request.on("end", () => {
    const { messages } = JSON.parse(body) as { messages: { content: unknown }[] };
    // What was typed comes last: after a stop, a note on the stopped turn stands before it.
    const asked = [...JSON.stringify(messages.at(-1)?.content ?? "").matchAll(/(stream|lines|letters|turn) (\d+)/g)].at(
      -1,
    );
    const [, how = "", count = ""] = asked ?? [];
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    if (how === "stream") streams.set(request.url ?? "", { response, sent: 0 });
    else if (how === "lines") void answer(response, partsOf(copies(Number(count), LINES), 40), count);
    else if (how === "letters") void answer(response, partsOf(copies(Number(count), MARKDOWN.length), 1_000), count);
    else void answer(response, [], count);
  });
});

async function answer(response: ServerResponse, parts: string[], name: string): Promise<void> {
  for (const part of parts)
    if (!response.write(said(part))) await new Promise((resolve) => response.once("drain", resolve));
  response.end(said(`\n\nanswer ${name}.`) + END);
}

/** That one gets its tokens for as long as `during` takes; the other one waits. */
async function flowing<T>(path: string, during: () => Promise<T>): Promise<T> {
  const stream = streams.get(path);
  if (!stream) throw new Error(`nobody asked for a stream on ${path}`);
  const began = performance.now();
  const before = stream.sent;
  const timer = setInterval(() => {
    const due = before + ((performance.now() - began) / 1_000) * TOKENS_A_SECOND;
    while (stream.sent < due) stream.response.write(said(TOKENS[stream.sent++ % TOKENS.length] ?? ""));
  }, 1_000 / TOKENS_A_SECOND);
  return during().finally(() => clearInterval(timer));
}

// ── Programs on terminals ─────────────────────────────────────────────────────────────────────────────

type Terminal = {
  startedAt: number;
  type(text: string): void;
  /** When it had been printed, if that is after this call. */
  prints(what: RegExp | string): Promise<number>;
  cpuMs(): number;
  rss(): number;
  isBundled(): boolean;
  exit: Promise<void>;
  kill(): void;
};

const HEARD = 65_536;
const PATIENCE_MS = 300_000;

function open(command: string, args: string[], more: Record<string, string> = {}): Terminal {
  const env = { PATH: process.env["PATH"] ?? "", HOME: dir, TERM: "xterm-256color", LANG: "C.UTF-8", ...more };
  const startedAt = performance.now();
  const pty: IPty = spawn(command, args, { ...SIZE, cwd: work, env });
  const listeners = new Set<(text: string) => void>();
  pty.onData((text) => {
    for (const listen of listeners) listen(text);
  });
  const proc = (file: string) => readFileSync(`/proc/${pty.pid}/${file}`, "utf8");
  const terminal: Terminal = {
    startedAt,
    type: (text) => pty.write(text),
    prints: (what) =>
      new Promise((resolve) => {
        let heard = "";
        const late = setTimeout(() => broken.reject(new Error(`no ${what} in …${heard.slice(-500)}`)), PATIENCE_MS);
        const listen = (text: string) => {
          heard = (heard + text).slice(-HEARD);
          if (typeof what === "string" ? !heard.includes(what) : !what.test(heard)) return;
          resolve(performance.now());
          clearTimeout(late);
          listeners.delete(listen);
        };
        listeners.add(listen);
      }),
    cpuMs() {
      const fields = proc("stat").split(") ")[1]?.split(" ") ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10; // in ticks of 10 ms
    },
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(proc("status"))?.[1]) / 1_024,
    isBundled: () => proc("cmdline").includes("dist/main.cjs"),
    exit: new Promise((resolve) => {
      pty.onExit(() => {
        running.delete(terminal);
        if (listeners.size > 0) broken.reject(new Error(`${command} ended by itself`));
        resolve();
      });
    }),
    kill: () => pty.kill("SIGKILL"),
  };
  running.add(terminal);
  return terminal;
}

let homes = 0;

/** A home of its own, with nothing in it but where the provider is. */
function homeFor(url: string): Record<string, string> {
  const home = join(dir, `home${homes++}`);
  mkdirSync(home, { mode: 0o700 });
  const config = {
    model: { default: "m", base_url: `${url}/v1`, api_key: "k", context_length: 100_000_000, stale_timeout: 3_600 },
    logging: { level: "warn" },
    gateway: { api_server: { port: 0 } },
  };
  writeFileSync(join(home, "config.yaml"), JSON.stringify(config), { mode: 0o600 });
  return { HERMES_HOME: home };
}

/** Of the status bar, while nothing runs. */
const READY = " mode";

async function openHermes(url: string): Promise<Terminal> {
  const terminal = open(HERMES, ["chat"], homeFor(url));
  await terminal.prints(READY);
  return terminal;
}

/** Tokens and keys to the terminal as they come. Its text is run as a program, so it knows nothing of this file. */
async function bare(url: string): Promise<void> {
  process.stdin.setRawMode(true).on("data", (key) => process.stdout.write(key));
  const { body } = await fetch(url, { method: "POST", body: '{"messages":[{"content":"stream 1"}]}' });
  process.stdout.write("ready\r\n");
  let rest = "";
  for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const { choices } = JSON.parse(line.slice(6)) as { choices: { delta?: { content?: string } }[] };
      process.stdout.write((choices[0]?.delta?.content ?? "").replaceAll("\n", "\r\n"));
    }
  }
}

async function openBare(url: string): Promise<Terminal> {
  const terminal = open(process.execPath, ["-e", `(${bare.toString()})("${url}${BARE}")`]);
  await terminal.prints("ready");
  return terminal;
}

/** Enters it and waits until its answer is there and the turn is over. */
async function turn(terminal: Terminal, how: string, count: number): Promise<void> {
  const over = terminal.prints(new RegExp(`answer ${count}\\.[^]*${READY}`));
  terminal.type(`${how} ${count}\r`);
  await over;
}

// ── What is measured ──────────────────────────────────────────────────────────────────────────────────

const against = (value: number) => [{ value, what: "bare" }];

const load = () => `load ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} cores`;

async function start(url: string, times: number): Promise<Figure[]> {
  const env = homeFor(url);
  const prompt: number[] = [];
  const ready: number[] = [];
  const node: number[] = [];
  for (let n = -2; n < times; n++) {
    const ours = open(HERMES, ["chat"], env);
    const [drawn, told] = await Promise.all([ours.prints("───"), ours.prints(READY)]);
    if (n === 0) console.log(`${ours.isBundled() ? "the bundle" : "the sources: npm run build"}, ${load()}`);
    ours.type(CTRL_D);
    await ours.exit;
    const line = open(process.execPath, ["-e", "console.log('a line')"]);
    const printed = (await line.prints("a line")) - line.startedAt;
    await line.exit;
    if (n < 0) continue; // these leave compiled code behind
    prompt.push(drawn - ours.startedAt);
    ready.push(told - ours.startedAt);
    node.push(printed);
  }
  const figure = (name: string, values: number[], p: number, goal?: number): Figure => ({
    name: `start → ${name} p${p}`,
    value: percentile(values, p),
    unit: "ms",
    against: [{ value: percentile(node, p), what: "node -e, a line" }],
    ...(goal && { goal: { value: goal } }),
  });
  return [
    figure("prompt", prompt, 50, 250),
    figure("prompt", prompt, 90),
    figure("ready", ready, 50),
    figure("ready", ready, 90),
  ];
}

/** How long each of so many keys takes to be seen. `seen` says what of the typed ones is printed for the last one. */
async function keys(terminal: Terminal, count: number, seen: (typed: string) => string): Promise<number[]> {
  const times: number[] = [];
  let typed = "";
  for (let n = 0; n < count; n++) {
    const key = String.fromCharCode("Z".charCodeAt(0) - (typed.length % 26));
    typed += key;
    const shown = terminal.prints(seen(typed));
    const at = performance.now();
    terminal.type(key);
    times.push((await shown) - at);
    await sleep(Math.max(0, at + KEY_MS - performance.now()));
    if (typed.length < 60 && n < count - 1) continue;
    terminal.type(CTRL_U); // the line is empty again
    typed = "";
    await sleep(KEY_MS);
  }
  return times;
}

type Both = { ours: Terminal; bare: Terminal };

/** Both in turns, so that they meet the same machine, while their tokens come. */
async function rounds<T>(count: number, measure: (terminal: Terminal, isBare: boolean) => Promise<T>, both: Both) {
  const found: { ours: T[]; bare: T[] } = { ours: [], bare: [] };
  for (let n = 0; n < count; n++) {
    found.ours.push(await flowing(OURS, () => measure(both.ours, false)));
    found.bare.push(await flowing(BARE, () => measure(both.bare, true)));
  }
  return found;
}

/** The best round: a neighbour at work only ever adds. */
function best(found: number[][], p: number): number {
  return Math.min(...found.map((times) => percentile(times, p)));
}

async function echo(both: Both, behind: string): Promise<Figure[]> {
  const measure = (terminal: Terminal, isBare: boolean) =>
    keys(terminal, quick ? 60 : 200, (typed) => (isBare ? typed.slice(-1) : typed));
  const { ours, bare } = await rounds(quick ? 1 : 3, measure, both);
  const figure = (name: string, p: number): Figure => ({
    name: `key → seen while streaming, ${behind} ${name}`,
    value: best(ours, p),
    unit: "ms",
    against: against(best(bare, p)),
    ...(p === 99 && { goal: { value: 16 } }),
  });
  return [figure("p50", 50), figure("p99", 99), figure("max", 100)];
}

async function cpu(both: Both): Promise<Figure> {
  const seconds = quick ? 3 : 10;
  const measure = async (terminal: Terminal) => {
    const before = terminal.cpuMs();
    await sleep(seconds * 1_000);
    return (terminal.cpuMs() - before) / seconds;
  };
  const { ours, bare } = await rounds(quick ? 1 : 2, measure, both);
  return {
    name: "CPU of a second of streaming",
    value: Math.min(...ours),
    unit: "ms",
    against: against(Math.min(...bare)),
    goal: { ratio: 3 },
  };
}

async function askForStream(ours: Terminal): Promise<void> {
  streams.delete(OURS);
  ours.type("stream 1\r");
  while (!streams.has(OURS)) await sleep(10);
}

async function streaming(url: string): Promise<Figure[]> {
  const both = { ours: await openHermes(url), bare: await openBare(url) };
  await turn(both.ours, "lines", 2_000);
  await askForStream(both.ours);
  await rounds(1, () => sleep(1_000), both); // to warm up
  const figures = [...(await echo(both, "2,000 lines")), await cpu(both)];
  const stopped = both.ours.prints(READY);
  both.ours.type(ESC);
  await stopped;
  await sleep(500); // a letter right behind an Escape would be one key with it
  await turn(both.ours, "lines", 20_000);
  await askForStream(both.ours);
  figures.push(...(await echo(both, "20,000 lines")));
  for (const terminal of Object.values(both)) terminal.kill();
  return figures;
}

async function idle(url: string): Promise<Figure> {
  const ours = await openHermes(url);
  await sleep(8_000); // what a start leaves to be done, and the collection of its garbage after five quiet seconds
  const seconds = quick ? 3 : 10;
  const before = ours.cpuMs();
  await sleep(seconds * 1_000);
  const value = (ours.cpuMs() - before) / seconds;
  ours.kill();
  return { name: "CPU of an idle second", value, unit: "ms" };
}

async function memory(url: string): Promise<Figure[]> {
  const bare = await openBare(url);
  const ours = await openHermes(url);
  await sleep(1_000);
  const others = against(bare.rss());
  bare.kill();
  const rss = (name: string): Figure => ({ name: `RSS ${name}`, value: ours.rss(), unit: "MB", against: others });
  const figures = [rss("at the start")];
  const hundreds: number[] = [];
  const hundred = async (first: number) => {
    const began = performance.now();
    for (let n = first; n < first + 100; n++) await turn(ours, "turn", n);
    hundreds.push(100_000 / (performance.now() - began));
  };
  await hundred(0);
  figures.push(rss("after 100 turns"));
  const all = quick ? 300 : 1_000;
  for (let n = 100; n < all; n += 100) await hundred(n);
  figures.push({ ...rss(`after ${all.toLocaleString("en")} turns`), goal: { value: 200 } });
  figures.push({ name: "turns, one after another", value: median(hundreds), unit: "/s" });
  const letters = quick ? 1_000_000 : 10_000_000;
  const began = performance.now();
  await turn(ours, "letters", letters);
  const name = `an answer of ${letters / 1_000_000} MB`;
  figures.push({ name, value: performance.now() - began, unit: "ms", goal: { value: 3_000 } });
  figures.push(rss(`after ${name}`));
  ours.kill();
  return figures;
}

async function measure(): Promise<Figure[]> {
  mkdirSync(work);
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  provider.keepAliveTimeout = 0;
  const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  return [...(await start(url, quick ? 5 : 20)), ...(await streaming(url)), await idle(url), ...(await memory(url))];
}

try {
  report(await Promise.race([measure(), broken.promise]));
} finally {
  const left = [...running];
  for (const terminal of left) terminal.kill();
  await Promise.all(left.map(({ exit }) => exit));
  provider.closeAllConnections();
  provider.close();
  rmSync(dir, { recursive: true, force: true });
}
