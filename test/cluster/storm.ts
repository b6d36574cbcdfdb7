// People talk over HTTP and Telegram to three nodes behind a load balancer, while nodes are killed, stand still for ten seconds or are
// drained, and PostgreSQL is restarted or fails over to its replica. The provider and Telegram are of this machine and outlive the nodes.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient, HermesError, type RunEvent, type RunStatus } from "../../src/client/client.ts";
import { entriesOf } from "../../src/core/pages.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { openPostgres } from "../../src/store/postgres/postgres.ts";
import { startFakeTelegram } from "../fakes/chat/telegram.ts";
import type { Reply } from "../fakes/llm/reply.ts";
import { type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";
import { judge } from "../gateway/judge.ts";
import { atRest, envOf, FIRST_CHAT, pick, REST_MS, replier, setModes, type Talk, talk } from "../gateway/storm.ts";
import { createRandom, type Random } from "../simulation/scheduler.ts";
import { KEY, startCluster, type TestCluster, type TestNode } from "./nodes.ts";

type StormOptions = {
  seconds: number;
  /** How long until the next node is disturbed, at most. */
  everyMs: number;
  /** Milliseconds for which a node stands still: longer than its lease. */
  pauseMs: number;
  people: number;
  seed: number;
  say(line: string): void;
};
/** What one person asked for over HTTP, and what came of it. */
type Asked = { token: string; kind: Kind; session: string; run: string; events: RunEvent[]; status: RunStatus | null };
const KINDS = ["plain", "plain", "tool", "question", "stop"] as const;
type Kind = (typeof KINDS)[number];

/** The most that anybody waits for an answer: a node that hangs is replaced after 5 s, PostgreSQL is away for as long. */
const PATIENCE_MS = 120_000;
/** What a sandbox needs to end with its node. */
const DEATH_MS = 500;

export async function storm({ seconds, everyMs, pauseMs, people, seed, say }: StormOptions) {
  await using telegram = await startFakeTelegram();
  await using llm = await startFakeLlm({ remembers: false });
  llm.script(answerer(createRandom(seed + 1)));
  const talks = Array.from({ length: people }, (_, n): Talk => {
    return { chat: FIRST_CHAT + n, mode: "queue", said: [], stops: 0 };
  });
  const cluster = await startCluster(3, envOf(llm, telegram, talks), {
    config:
      "approvals: {mode: off}\ngateway: {api_server: {max_concurrent_runs: 0}}\nagent: {restart_drain_timeout: 5}\n",
    server: { replicated: true },
  });
  const problems: string[] = [];
  try {
    await setModes(telegram, talks);
    const until = performance.now() + seconds * 1_000;
    const fate = disturb(cluster, { until, everyMs, pauseMs, random: createRandom(seed) });
    const [asked, did] = await Promise.all([
      Promise.all(Array.from({ length: people }, (_, n) => askAll(cluster, n, until, createRandom(seed + 10 + n)))),
      fate,
      talk({ telegram, talks, messages: Math.round(seconds * 1.5), seconds, random: createRandom(seed + 2) }),
    ]);
    const store = await openPostgres({ url: cluster.store, readOnly: true });
    try {
      if (!(await atRest(store, telegram))) problems.push(`it is not at rest after ${REST_MS / 1_000} s`);
      const judged = await judge({ store, talks, telegram });
      problems.push(...judged.problems, ...llm.violations, ...telegram.violations);
      for (const one of asked.flat()) problems.push(...(await judgeRun(one, store)));
      problems.push(...did.problems);
      const { answered, givenUp, refused, copies } = judged;
      say(
        `${seconds} s, ${asked.flat().length} runs and ${talks.reduce((sum, { said }) => sum + said.length, 0)} messages: ${did.counts}; ` +
          `${answered} messages answered, ${givenUp} given up and told, ${refused} refused while restarting, ${copies} marked copies`,
      );
      const passed = asked.flat().length + answered;
      if (problems.length) say(`kept: ${cluster.nodes.map(({ place }) => place.dir).join(" ")}`);
      return { passed, problems };
    } finally {
      await store.close();
    }
  } finally {
    for (const node of cluster.nodes) node.signal("SIGCONT");
    await cluster.close(problems.length > 0);
  }
}

/** What was done to nodes, by name and number. */
async function disturb(
  { nodes, postgres, ask }: TestCluster,
  { until, everyMs, pauseMs, random }: { until: number; everyMs: number; pauseMs: number; random: Random },
): Promise<{ counts: string; problems: string[] }> {
  const problems: string[] = [];
  const counts = { killed: 0, paused: 0, drained: 0, "PostgreSQL restarted": 0, "PostgreSQL failed over": 0 };
  const deeds = [
    "killed",
    "paused",
    "PostgreSQL failed over",
    "drained",
    "PostgreSQL restarted",
    "killed",
    "drained",
    "paused",
  ] as const;
  const busy = new Map<TestNode, Promise<void>>();
  for (let n = 0; performance.now() < until; n++) {
    await sleep(everyMs / 2 + (random() * everyMs) / 2);
    const deed = deeds[n % deeds.length] ?? "killed";
    counts[deed]++;
    if (deed === "PostgreSQL restarted") await postgres.restart(() => sleep(random() * everyMs));
    else if (deed === "PostgreSQL failed over") await postgres.failOver();
    else {
      // One node is always left alone.
      while (busy.size > 1) await Promise.race(busy.values());
      const node = pick(
        random,
        nodes.filter((one) => !busy.has(one)),
      );
      busy.set(
        node,
        disturbOne(node, deed).finally(() => busy.delete(node)),
      );
    }
  }
  await Promise.all(busy.values());
  return {
    counts: Object.entries(counts)
      .map(([what, count]) => `${count} ${what}`)
      .join(", "),
    problems,
  };

  async function disturbOne(node: TestNode, deed: "killed" | "paused" | "drained"): Promise<void> {
    if (deed === "paused") {
      node.signal("SIGSTOP");
      await sleep(pauseMs);
      return node.signal("SIGCONT");
    }
    if (deed === "killed") node.signal("SIGKILL");
    else if (!(await drain(node))) node.signal("SIGTERM");
    await node.gone();
    await sleep(DEATH_MS);
    for (const command of workingIn(node)) problems.push(`of a node that was ${deed} still runs: ${command}`);
    await node.start();
  }

  /** As its operator does, by the id that the node has now. */
  async function drain(node: TestNode): Promise<boolean> {
    try {
      const { node: id } = await ask("GET", "/health", undefined, node.url);
      return (await ask("POST", `/api/nodes/${String(id)}/drain`)).http === 202;
    } catch {
      return false;
    }
  }
}

/** One person, one thing after the other, in a few sessions. */
async function askAll({ balancer }: TestCluster, n: number, until: number, random: Random): Promise<Asked[]> {
  const client = createClient({ url: balancer.url, key: KEY, silenceMs: 20_000 });
  const all: Asked[] = [];
  while (performance.now() < until) {
    const kind = pick(random, KINDS);
    const token = `${kind}-${n}-${String(all.length).padStart(4, "0")}`;
    const session = `person-${n}-${Math.floor(random() * 2)}`;
    const one: Asked = { token, kind, session, run: "", events: [], status: null };
    all.push(one);
    try {
      await askOne(client, one, random);
    } catch (error) {
      // The judge says what is missing.
      one.events.push({
        id: "",
        run_id: one.run,
        timestamp: 0,
        event: "run.notice",
        text: `gave up: ${String(error)}`,
      });
    }
  }
  return all;
}

async function askOne(client: Client, one: Asked, random: Random): Promise<void> {
  const { token, kind, session } = one;
  const { run_id: run } = await patiently(() =>
    client.start(`please ${token}`, { session_id: session, idempotency_key: token, mode: "queue" }),
  );
  one.run = run;
  const over = AbortSignal.timeout(PATIENCE_MS);
  const stopping = kind === "stop" ? sleep(random() * 1_500).then(() => patiently(() => stop(client, run))) : null;
  let answering: Promise<unknown> | null = null;
  for await (const event of client.events(run, { signal: over })) {
    one.events.push(event);
    if (event.event === "approval.request")
      answering ??= patiently(() =>
        client.approve(run, "once", { request_id: event.request_id }).catch((error: unknown) => {
          // A second copy of an answer that was taken finds nothing that waits.
          if (!(error instanceof HermesError) || !error.code?.startsWith("approval_not_")) throw error;
        }),
      );
  }
  await Promise.all([stopping, answering]);
  one.status = await patiently(() => client.status(run));
}

/** One that is over before is not an error. */
const stop = (client: Client, run: string) =>
  client.stop(run).catch((error: unknown) => {
    if (!(error instanceof HermesError) || error.code !== "run_not_found") throw error;
  });

/** What a client does that is told to come back. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const passing =
        error instanceof HermesError && (error.status === 0 || error.status === 429 || error.status >= 500);
      if (!passing || performance.now() > until) throw error;
      await sleep(200);
    }
  }
}

/** By the token in what was asked last. */
function answerer(random: Random): (request: LlmRequest) => Reply {
  const chat = replier(random);
  return (request) => {
    const { messages } = request;
    const asked = messages.findLast(({ role }) => role === "user")?.text ?? "";
    const [token = "", kind] = /(plain|tool|question|stop)-\d+-\d+(?![^]*-\d+-\d{4})/.exec(asked) ?? [];
    if (!token) return chat(request);
    const called = messages.at(-1)?.role !== "user";
    const delayMs = random() * 100;
    const words = { text: ["Answer ", "to ", token, "."], chunkDelayMs: 10, delayMs };
    if (kind === "stop") return { text: ["Answer ", "to ", `${token}.`], chunkDelayMs: 700, delayMs };
    if (kind === "tool" && !called)
      return { calls: [{ name: "terminal", args: { command: `sleep 1; echo ran ${token}` } }], delayMs };
    if (kind === "question" && !called)
      return { calls: [{ name: "clarify", args: { question: `Which colour for ${token}?` } }], delayMs };
    return words;
  };
}

// ── Judgement ────────────────────────────────────────────────────────────────────────────────────────

/** The stream of a run has each event once, in order, and says what the run came to; the journal agrees. */
async function judgeRun({ token, kind, session, run, events, status }: Asked, store: Store): Promise<string[]> {
  const wrong: string[] = [];
  const problem = (what: string) => wrong.push(`${token} (${run}) in ${session}: ${what}`);
  const gaveUp = events.find(({ id }) => id === "");
  if (gaveUp || !status) {
    problem("text" in (gaveUp ?? {}) ? JSON.stringify(gaveUp) : "nobody said how it ended");
    return wrong;
  }
  const ends = events.filter(({ event }) => /^run\.(completed|failed|cancelled|interrupted)$/.test(event));
  if (ends.length !== 1 || events.at(-1) !== ends[0]) problem(`its stream has ${ends.length} ends`);
  const ids = events.filter(({ event }) => event !== "run.notice" && event !== "reasoning.delta").map(({ id }) => id);
  if (new Set(ids).size !== ids.length) problem(`its stream has an event twice: ${ids.join(" ")}`);
  if (ends[0] && ends[0].event !== `run.${status.status}`)
    problem(`the stream says ${ends[0].event}, its status ${status.status}`);
  let text = "";
  for (const event of events) {
    if (event.event === "message.delta") text += event.delta;
    if (event.event === "message.reset" || event.event === "tool.completed") text = "";
  }
  if (status.status === "completed") {
    if (status.output !== `Answer to ${token}.`) problem(`it was answered with ${JSON.stringify(status.output)}`);
    if (text !== status.output) problem(`its stream said ${JSON.stringify(text)}: ${JSON.stringify(events)}`);
  } else if (!(kind === "stop" && status.status === "cancelled"))
    problem(`it is ${status.status}: ${status.error ?? ""}`);
  const entries = (await entriesOf(store.journal, session)).filter((entry) => ofRun(entry, run));
  const count = (kindOf: Entry["kind"]) => entries.filter((entry) => entry.kind === kindOf).length;
  if (count("accepted") !== 1 || count("began") > 1 || count("ended") > 1)
    problem(`accepted ${count("accepted")}, began ${count("began")}, ended ${count("ended")} times`);
  const acted = new Set(entries.flatMap((entry) => (entry.kind === "acted" ? [entry.call] : [])));
  const lost = entries.filter((entry) => entry.kind === "started" && !acted.has(entry.call)).length;
  if (lost && status.status === "completed") problem(`${lost} tools have no result`);
  return wrong;
}

const ofRun = (entry: Entry, run: string) =>
  entry.turn === run || (entry.kind === "accepted" && entry.input.id === run);

/** Processes that work in the directory of a node, beside the node itself. */
function workingIn({ place, pid }: TestNode): string[] {
  const found = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== pid);
  return found.flatMap((name) => {
    try {
      const isThere = `${readlinkSync(`/proc/${name}/cwd`)}/`.startsWith(`${place.dir}/`);
      return isThere ? [readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ")] : [];
    } catch {
      return []; // it has just ended
    }
  });
}
