// A real gateway at work for hours: people in chats, runs with viewers, tools, approvals and stops, completions, side by side. Nothing is
// killed. Now and then everybody pauses, and what the process holds is written down (probe.ts); judge.ts says whether it grew.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../../src/core/errors.ts";
import { KEY } from "../fakes/api.ts";
import { type FakeTelegram, startFakeTelegram } from "../fakes/chat/telegram.ts";
import { makePlace } from "../fakes/hermes.ts";
import type { Reply } from "../fakes/llm/reply.ts";
import { type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";
import { createRandom, type Random } from "../simulation/scheduler.ts";
import { look } from "../streams/viewer.ts";
import { judgeGrowth, type Sample } from "./judge.ts";

type SoakOptions = { minutes: number; seed: number; say(line: string): void };

const HOUR_MS = 3_600_000;
const PEOPLE = [7_001, 7_002, 7_003, 7_004];
/** Messages of a person before they begin anew: a talk that only grows would be growth of our own. */
const TALK = 15;
const QUIET_MS = 2_000;
/** What an activity may take before it counts as lost. */
const LOST_MS = 120_000;
const MOST_PROBLEMS = 50;

export async function soak({ minutes, seed, say }: SoakOptions): Promise<{ passed: number; problems: string[] }> {
  await using telegram = await startFakeTelegram();
  await using llm = await startFakeLlm({ remembers: false });
  const random = createRandom(seed);
  llm.script(replyTo);
  const place = makePlace({
    ...llm.env,
    ...telegram.env(...PEOPLE),
    API_SERVER_KEY: KEY,
    HERMES_GATEWAY_BUSY_INPUT_MODE: "queue",
    NODE_OPTIONS: `--expose-gc --import=${new URL("./probe.ts", import.meta.url).href}`,
  });
  const samplesFile = join(place.dir, "samples.jsonl");
  place.configure("terminal: {sandbox: off}\n");
  writeFileSync(samplesFile, "");
  const hermes = place.start(["gateway", "--port", "0"], { SOAK_SAMPLES: samplesFile });
  try {
    await hermes.prints(/^hermes gateway ready on http:\S+\n/m);
    const url = /ready on (http:\S+)\n/.exec(hermes.stdout())?.[1] ?? "";
    const problems: string[] = [];
    const samples: Sample[] = [];
    let passed = 0;
    const state = { paused: false, over: false };
    const busy = new Set<Promise<void>>();

    /** Does it again and again, with pauses of about so long, until the end. */
    async function repeat(name: string, pauseMs: number, activity: (n: number) => Promise<void>): Promise<void> {
      for (let n = 0; !state.over && problems.length < MOST_PROBLEMS; n++) {
        await sleep(pauseMs * (0.5 + random()));
        while (state.paused) await sleep(50);
        const doing = inTime(activity(n)).then(
          () => void passed++,
          (error: unknown) => void problems.push(`${name} ${n}: ${messageOf(error)}`),
        );
        busy.add(doing);
        await doing;
        busy.delete(doing);
      }
    }

    async function sample(at: number): Promise<void> {
      state.paused = true;
      await Promise.all(busy);
      await sleep(QUIET_MS);
      hermes.kill("SIGWINCH");
      while (linesIn(samplesFile).length <= samples.length) await sleep(20);
      const held: Omit<Sample, "at"> = JSON.parse(linesIn(samplesFile)[samples.length] ?? "{}");
      samples.push({ at, ...held });
      state.paused = false;
    }

    const api = { url, random };
    const activities = [
      ...PEOPLE.map((id) => repeat(`chat ${id}`, 2_500, (n) => chat(telegram, id, n))),
      ...[0, 1].map((k) => repeat(`run ${k}`, 700, (n) => run(api, `run ${n}`))),
      repeat("tool", 1_500, (n) => run(api, `tool ${n}`)),
      repeat("approval", 2_000, (n) => run(api, `approval ${n}`)),
      repeat("stop", 2_000, (n) => stopped(api, `hang ${n}`)),
      repeat("completion", 1_000, (n) => completion(api, `completion ${n}`, n % 2 === 0)),
    ];
    const began = performance.now();
    const everyMs = Math.min(60_000, (minutes * 60_000) / 40);
    const lasts = minutes * 60_000;
    let told = 0;
    for (let elapsed = 0; elapsed < lasts && problems.length < MOST_PROBLEMS; elapsed = performance.now() - began) {
      await sleep(everyMs);
      await sample((performance.now() - began) / HOUR_MS);
      if (performance.now() - told < Math.max(60_000, lasts / 50)) continue;
      told = performance.now();
      say(
        `${((told - began) / 60_000).toFixed(0)} min: ${passed} done, ${problems.length} failed; ${shown(samples.at(-1))}`,
      );
    }
    state.over = true;
    await Promise.all(activities);
    hermes.kill("SIGTERM");
    const code = await hermes.exit;
    if (code !== 0) problems.push(`the gateway ended with ${code}: ${hermes.stderr().slice(-1_000)}`);
    const verdicts = judgeGrowth(samples);
    for (const { text, ok } of verdicts) say(`${ok ? "✓" : "✗"} ${text}`);
    problems.push(...verdicts.flatMap(({ ok, text }) => (ok ? [] : [text])), ...llm.violations, ...telegram.violations);
    return { passed: passed + verdicts.filter(({ ok }) => ok).length, problems };
  } finally {
    place.clear();
  }
}

async function inTime(activity: Promise<void>): Promise<void> {
  const done = new AbortController();
  const late = sleep(LOST_MS, null, { signal: done.signal }).then(
    () => Promise.reject(new Error(`not done after ${LOST_MS / 1_000} s`)),
    () => {}, // it was in time
  );
  await Promise.race([activity, late]).finally(() => done.abort());
}

const linesIn = (file: string) => readFileSync(file, "utf8").split("\n").filter(Boolean);
const shown = (sample?: Sample) =>
  sample &&
  `RSS ${(sample.rss / 1e6).toFixed(1)} MB, heap ${(sample.heap / 1e6).toFixed(1)} MB, ${sample.descriptors} descriptors, ${sample.timers} timers`;

// ── What is done ──────────────────────────────────────────────────────────────────────────────────────

type Api = { url: string; random: Random };

/** By what was asked for. The second request of a turn has the tool's result. */
function replyTo({ messages }: LlmRequest): Reply {
  const asked = messages.findLast(({ role }) => role === "user")?.text ?? "";
  const called = messages.at(-1)?.role !== "user";
  if (asked.includes("hang")) return { text: "so far", fault: { silence: "text" } };
  if (asked.includes("tool") && !called)
    return { calls: [{ name: "terminal", args: { command: "sleep 0.1; echo x" } }] };
  if (asked.includes("approval") && !called)
    return { calls: [{ name: "terminal", args: { command: "touch soaked.txt" } }] };
  return { text: Array.from({ length: 20 }, (_, n) => `Word ${n} about ${asked.slice(-40)}. `), chunkDelayMs: 5 };
}

async function post<T>({ url }: Api, path: string, body: unknown): Promise<T> {
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text.slice(0, 300)}`);
  return JSON.parse(text) as T;
}

/** Two watch it: one whose line breaks somewhere, and is back. */
async function run(api: Api, input: string): Promise<void> {
  const { run_id: id } = await post<{ run_id: string }>(api, "/v1/runs", { input });
  if (input.startsWith("approval")) await approve(api, id);
  const whole = look(api.url, id, "", Number.POSITIVE_INFINITY);
  const cut = await look(api.url, id, "", 50 + Math.floor(api.random() * 3_000));
  const rest = await look(api.url, id, cut.frames.at(-1)?.id ?? "", Number.POSITIVE_INFINITY);
  const seen = [...cut.frames, ...rest.frames].map(({ data }) => data.event);
  const all = (await whole).frames.map(({ data }) => data.event);
  if (all.at(-1) !== "run.completed") throw new Error(`it ended with ${all.at(-1)}`);
  if (seen.at(-1) !== all.at(-1)) throw new Error(`the one who came back saw ${seen.at(-1)} last`);
}

async function approve(api: Api, id: string): Promise<void> {
  const headers = { Authorization: `Bearer ${KEY}` };
  for (;;) {
    const status = await fetch(`${api.url}/v1/runs/${id}`, { headers });
    const { status: at }: { status: string } = JSON.parse(await status.text());
    if (at === "waiting_for_approval") break;
    if (!["queued", "running"].includes(at)) throw new Error(`it was not asked for approval: ${at}`);
    await sleep(20);
  }
  await post(api, `/v1/runs/${id}/approval`, { choice: "once" });
}

async function stopped(api: Api, input: string): Promise<void> {
  const { run_id: id } = await post<{ run_id: string }>(api, "/v1/runs", { input });
  await look(api.url, id, "", 300);
  await post(api, `/v1/runs/${id}/stop`, {});
  const { frames } = await look(api.url, id, "", Number.POSITIVE_INFINITY);
  const end = frames.at(-1)?.data.event;
  if (end !== "run.cancelled") throw new Error(`it ended with ${end}`);
}

async function completion(api: Api, content: string, stream: boolean): Promise<void> {
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ model: "hermes-agent", messages: [{ role: "user", content }], stream });
  const answer = await fetch(`${api.url}/v1/chat/completions`, { method: "POST", headers, body });
  const text = await answer.text();
  if (!answer.ok || !text.includes("Word")) throw new Error(`${answer.status}: ${text.slice(0, 300)}`);
}

/** A message, now and then one that needs a tool, or a new talk; over when its answer is there. */
async function chat(telegram: FakeTelegram, id: number, n: number): Promise<void> {
  const from = { id, name: `Person ${id}` };
  if (n % TALK === TALK - 1) telegram.say({ from, text: "/new" });
  const text = n % 4 === 3 ? `tool ${n}` : `hello ${n}`;
  telegram.say({ from, text });
  await telegram.until(() => telegram.sent(id).findLast((sent) => sent.text.includes(`Word 19 about ${text}.`)));
}
