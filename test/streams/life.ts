// A session that lives dangerously: turns with tools, questions, steers, thoughts, retries, stops, interrupts and other
// runs in between, in processes that are killed on the way. All of it is watched over lines that break.
import { setImmediate as breathe, setTimeout as sleep } from "node:timers/promises";
import type { Gate } from "../../src/core/ports.ts";
import { startApi, type TestApi } from "../fakes/api.ts";
import { type Asked, type Running, scriptedTool } from "../fakes/scripted.ts";
import { createRandom, type Random } from "../simulation/scheduler.ts";
import { agrees, heardOnce, judge } from "./judge.ts";
import { type Frame, type Line, look, watch } from "./viewer.ts";

/** How many more times a line may break. */
export type Budget = { left: number };

const SESSION = "s";
const MOST_KILLS = 2; // one more, and turns are given up
const MOST_RUNS = 6;
const AFTERWARDS = 3;
const GATE: Gate = { gate: "ask", kind: "approval", text: "may I?", choices: ["once", "deny"], timeoutMs: 60_000 };
const WORDS = [
  "so ",
  "naïve ",
  "世界 ",
  "👋🏽",
  "\n\n",
  "data: x\n",
  "id: 7\n\n",
  '"quoted" ',
  "x".repeat(700),
  "\u2028",
];

/** One life. Throws when somebody whose line broke has seen anything else than one whose line held. */
export async function live(seed: number, budget: Budget): Promise<void> {
  const random = createRandom(seed);
  const world = await createWorld();
  try {
    const watchers: { run: string; seen: Promise<Frame[]> }[] = [];
    const watched = (run: string) => {
      const line = brittle(() => world.url(), createRandom(random() * 2 ** 32), budget);
      const seen = watch(line, run);
      seen.catch(() => {}); // whoever waits for it hears of it
      watchers.push({ run, seen });
    };
    const runs = [await world.start("go")];
    watched(runs[0] ?? "");
    const actions = 8 + Math.floor(random() * 20);
    for (let n = 0; n < actions; n++) {
      const started = await act(world, random, runs);
      if (started) {
        runs.push(started);
        watched(started);
      }
      if (random() < 0.2) watched(pick(random, runs));
      for (let breaths = Math.floor(random() * 4); breaths > 0; breaths--) await breathe();
    }
    await world.finish(runs);

    const full = new Map<string, Frame[]>();
    for (const run of runs) {
      const { frames } = await look(await world.url(), run, "", Number.POSITIVE_INFINITY);
      full.set(run, frames);
      agrees(run, frames, await world.status(run));
      for (let n = 0; n < AFTERWARDS && budget.left > 0; n++) watched(run);
    }
    for (const { run, seen } of watchers) {
      const frames = await seen;
      judge(run, frames, full.get(run) ?? []);
      heardOnce(run, frames);
    }
  } finally {
    await world.close();
  }
}

/** Short pieces mostly, so that it breaks in every frame. */
const brittle = (url: Line["url"], random: Random, budget: Budget): Line => ({
  url,
  bytes: (vain) => (budget.left > 0 ? 1 + Math.floor(random() ** 2 * 1_000 * 2 ** vain) : Number.POSITIVE_INFINITY),
  broke: () => {
    budget.left--;
  },
});

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;

// ── What happens ──────────────────────────────────────────────────────────────────────────────────────

/** Returns the run that it started, if it did. */
async function act(world: World, random: Random, runs: readonly string[]): Promise<string | null> {
  const thinking = world.thinking();
  const running = world.running();
  const dice = random();
  const words = () => Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, WORDS)).join("");
  if (dice < 0.42 && thinking) speak(world, thinking, random, words);
  else if (dice < 0.52 && running) running.done(words(), random() < 0.8);
  else if (dice < 0.58) await world.decide(pick(random, runs), pick(random, ["once", "deny"]));
  else if (dice < 0.65) await world.steer(pick(random, runs), words());
  else if (dice < 0.79 && runs.length < MOST_RUNS)
    return world.start(words(), pick(random, ["queue", "steer", "interrupt"]));
  else if (dice < 0.86) await world.stop(pick(random, runs.slice(-3)));
  else if (dice < 0.95) await world.restart();
  return null;
}

const TOOLS = ["look", "danger", "delegate_task", "nothing"];
function speak(world: World, { say, reason, fault, answer }: Asked, random: Random, words: () => string): void {
  const dice = random();
  if (dice < 0.25) reason(`⟨${world.sign()}⟩ hm, ${words()}`);
  else if (dice < 0.65) say(words());
  else if (dice < 0.72) fault("the line is bad", pick(random, ["network", "incomplete", "too_long"]));
  else {
    const calls = Array.from({ length: Math.floor(random() * 4) }, () => ({
      tool: pick(random, TOOLS),
      args: { command: words(), tasks: [{ goal: "a part" }, { goal: "another" }] },
    }));
    answer(random() < 0.5 ? words() : "", ...calls);
  }
}

const isOver = (status = "") => ["completed", "failed", "cancelled", "interrupted"].includes(status);

// ── A server that is killed and started again ─────────────────────────────────────────────────────────

type World = Awaited<ReturnType<typeof createWorld>>;

async function createWorld() {
  let signs = 0;
  let kills = 0;
  let api = await boot();
  let up = Promise.resolve(api.api.url);

  async function boot(disk?: TestApi["disk"]) {
    const tools = {
      look: scriptedTool("look", { repeatable: true }),
      danger: scriptedTool("danger", { gate: GATE }),
      delegate: scriptedTool("delegate_task"),
    };
    const options = { tools: Object.values(tools), ...(disk && { disk }), limits: { inbox: 20, graceMs: 50 } };
    const settings = { showReasoning: true, busyMode: "queue", maxRuns: 0, heartbeatMs: 20 } as const;
    return {
      api: await startApi({ ...options, settings }),
      tools: options.tools,
      answered: new Set<Asked | Running>(),
    };
  }
  /** The oldest that nobody has answered. */
  const open = <T extends Asked | Running>(all: readonly T[]) =>
    all.find((one) => !api.answered.has(one) && !("call" in one ? one.call.signal : one.signal).aborted);
  const once = <T extends Asked | Running>(one: T, ...ends: (keyof T)[]): T => {
    const mark =
      (end: unknown) =>
      (...args: unknown[]) => {
        api.answered.add(one);
        return (end as (...args: unknown[]) => unknown)(...args);
      };
    return { ...one, ...Object.fromEntries(ends.map((name) => [name, mark(one[name])])) };
  };
  const thinking = () => {
    const asked = open(api.api.model.all);
    return asked && once(asked, "answer", "fault", "end");
  };
  const running = () => {
    const call = open(api.tools.flatMap((tool) => tool.all));
    return call && once(call, "done", "fail");
  };
  const call = (path: string, body?: unknown) => api.api.json("POST", `/v1/runs/${path}`, body);

  return {
    url: () => up,
    sign: () => ++signs,
    thinking,
    running,
    start: (text: string, mode = "queue") => api.api.run({ input: text.trim() || "go", session_id: SESSION, mode }),
    status: async (run: string) => (await api.api.json("GET", `/v1/runs/${run}`)).body,
    // These may come to nothing: the run may be over, or wait.
    steer: (run: string, text: string) => call(`${run}/steer`, { text: text.trim() || "and?" }),
    decide: (run: string, choice: string) => call(`${run}/approval`, { choice }),
    stop: (run: string) => call(`${run}/stop`),
    async restart() {
      if (kills === MOST_KILLS) return;
      kills++;
      const next = Promise.withResolvers<string>();
      up = next.promise;
      const { disk } = api.api;
      await api.api.kill();
      api = await boot(disk);
      next.resolve(api.api.url);
    },
    /** Until all of these are over. */
    async finish(runs: readonly string[]) {
      const { engine } = api.api;
      for (const run of runs)
        while (!isOver((await engine.run(run))?.status)) {
          const { asking } = await engine.status(SESSION);
          for (const { call } of asking)
            await engine.answer({ session: SESSION, call, allow: true, text: "once", by: "finish" });
          running()?.done("done");
          thinking()?.answer("the end");
          await sleep(1); // a retry waits by the clock
        }
    },
    close: () => api.api.close(),
  };
}
