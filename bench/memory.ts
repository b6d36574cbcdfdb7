// What memory costs a turn, and how long it takes to recall something out of 100,000 entries.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createPerform } from "../src/agent/agent.ts";
import { createBreaker } from "../src/agent/breaker.ts";
import type { Model } from "../src/core/ports.ts";
import { fresh } from "../src/core/session.ts";
import { ALONE, type Store } from "../src/core/store.ts";
import { createEngine, turnId } from "../src/engine/engine.ts";
import { createMemory } from "../src/memory/manager.ts";
import type { MemoryProvider } from "../src/memory/provider.ts";
import { createSessionsMemory } from "../src/memory/sessions.ts";
import { clock } from "../src/platform/clock.ts";
import { createRedactor } from "../src/platform/redact.ts";
import { openSqlite } from "../src/store/sqlite/sqlite.ts";
import { type Figure, median, percentile, report } from "./figure.ts";

const quick = process.argv.includes("--quick");
const SLICES = quick ? 3 : 10;
const TURNS = quick ? 30 : 60; // in one slice, in one session
const RECALLS = quick ? 100 : 400;
const ENTRIES = 100_000;
const QUESTION = "What is the weather like in Lisbon, and what should I take along?";
const log = () => {};
const { text: redact } = createRedactor();

const VOCABULARY = 30_000;
const SYLLABLES = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "da", "fe", "gi", "ho", "pu"];

const answering: Model = {
  name: "at once",
  context: 1_000_000_000,
  local: false,
  call: async (_request, hear) => {
    hear.text("Mild, with a light wind from the sea; a jacket for the evening is enough.");
    return { end: "answer", calls: [], usage: { input: 100, output: 50 } };
  },
};

const hanging: MemoryProvider = {
  name: "hanging",
  isAvailable: () => true,
  queuePrefetch: () => new Promise(() => {}),
  syncTurn: () => new Promise(() => {}),
  prefetch: () => new Promise(() => {}),
};

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
try {
  report([...(await turnFigures()), ...(await recallFigures())]);
} finally {
  rmSync(dir, { recursive: true });
}

// ── Turns ─────────────────────────────────────────────────────────────────────────────────────────────

async function turnFigures(): Promise<Figure[]> {
  const kinds = {
    none: await openTurns([]),
    one: await openTurns([atOnce("a")]),
    three: await openTurns(["a", "b", "c"].map(atOnce)),
    hanging: await openTurns([hanging]),
  };
  const times = { none: [] as number[], one: [] as number[], three: [] as number[], hanging: [] as number[] };
  const names = ["none", "one", "three", "hanging"] as const;
  // In turns, so that all of them meet the same disk and the same neighbours; the first slice is to warm up.
  for (let slice = 0; slice <= SLICES; slice++)
    for (const name of names) {
      for (let n = 0; n < TURNS; n++) {
        const time = await kinds[name].turn(`${slice} ${n}`);
        if (slice > 0) times[name].push(time);
      }
    }
  for (const name of names) await kinds[name].close();
  const figure = (name: string, of: keyof typeof times, p: number, goal?: number): Figure => ({
    name,
    value: percentile(times[of], p),
    unit: "ms",
    ...(of !== "none" && { against: [{ value: percentile(times.none, p), what: "no memory" }] }),
    ...(goal && { goal: { ratio: goal } }),
  });
  return [
    figure("turn p50, no memory", "none", 50),
    figure("turn p50, 1 memory", "one", 50, 2.5), // each that is told of turns is a commit of its own
    figure("turn p50, 3 memories", "three", 50, 4),
    figure("turn p50, a memory that hangs", "hanging", 50, 2),
    figure("turn p99, a memory that hangs", "hanging", 99),
  ];
}

/** Knows something of every message, and takes no time for anything. */
function atOnce(name: string): MemoryProvider {
  return {
    name,
    isAvailable: () => true,
    prefetch: () => Promise.resolve("It rains a lot in November; take the blue jacket along. ".repeat(5)),
    queuePrefetch: () => Promise.resolve(),
    syncTurn: () => Promise.resolve(),
  };
}

/** The real engine, effects and store; a turn is from its accept to its durable end. */
async function openTurns(providers: MemoryProvider[]) {
  const place = mkdtempSync(join(dir, "turns-"));
  const sqlite = await openSqlite({ file: join(place, "store.db") });
  const memory = createMemory({ providers, clock, log, redact });
  let ended = (_turn: string) => {};
  const store: Store = {
    ...sqlite,
    journal: {
      ...sqlite.journal,
      commit: async (commit) => {
        const verdict = await sqlite.journal.commit(commit);
        for (const entry of commit.entries) if (entry.kind === "ended") ended(entry.turn);
        return verdict;
      },
    },
  };
  const engine = createEngine({
    store,
    clock,
    log,
    perform: createPerform({
      models: [answering],
      modelNamed: () => null,
      system: () => Promise.resolve(""),
      breaker: createBreaker(clock),
      tools: [],
      channel: null,
      memory,
      clock,
      random: Math.random,
      log,
    }),
    rules: { iterations: 90, recoveries: 3, parallel: 8, memory: memory.writers },
    limits: { turns: 10, inbox: 10, text: 10_000, graceMs: 100, resumeWithinMs: 1e9, warm: 100 },
  });
  await engine.start();
  return {
    async turn(key: string): Promise<number> {
      const id = turnId("bench", key);
      const end = new Promise<void>((resolve) => {
        ended = (turn) => {
          if (turn === id) resolve();
        };
      });
      const began = performance.now();
      const session = "agent:main:terminal:dm:bench";
      await engine.accept({ session, source: "bench", key, text: QUESTION, mode: "queue", reply: "pull" });
      await end;
      return performance.now() - began;
    },
    async close() {
      await engine.drain(0);
      await memory.shutdownAll(0);
      await sqlite.close();
    },
  };
}

// ── Recall ────────────────────────────────────────────────────────────────────────────────────────────

async function recallFigures(): Promise<Figure[]> {
  const place = join(dir, "recall");
  mkdirSync(place);
  const store = await openSqlite({ file: join(place, "store.db") });
  await fill(store);
  await sleep(quick ? 5_000 : 10_000); // the store indexes what was said when it is at rest
  const providers = [createSessionsMemory({ ...store, clock })];
  const memory = createMemory({ providers, clock, log, redact, recallMs: 60_000 });
  const { signal } = new AbortController();
  const times: number[] = [];
  let found = 0;
  for (let n = 0; n <= RECALLS; n++) {
    const about = { session: "agent:main:terminal:dm:now", turn: `t${n}`, text: sentence(12) };
    const began = performance.now();
    if ((await memory.recall(about, signal)) !== "") found++;
    times.push(performance.now() - began);
  }
  if (found < RECALLS / 2) throw new Error(`only ${found} of ${RECALLS} messages recalled something`);
  await memory.shutdownAll(0);
  await store.close();
  const [first = 0, ...rest] = times; // the first one starts the thread that searches
  return [
    { name: "first recall, 100,000 entries", value: first, unit: "ms" },
    { name: "recall p50, 100,000 entries", value: median(rest), unit: "ms" },
    { name: "recall p99, 100,000 entries", value: percentile(rest, 99), unit: "ms", goal: { value: 5 } },
  ];
}

async function fill(store: Store): Promise<void> {
  const node = await store.nodes.join(ALONE);
  const EACH = 100;
  const commits = Array.from({ length: ENTRIES / EACH }, (_, s) => {
    const entries = Array.from({ length: EACH }, (_, i) => {
      return { seq: i + 1, turn: `${s} ${i >> 1}`, at: s * 86_400_000, kind: "cut" as const, text: sentence(30) };
    });
    const state = { ...fresh, seq: EACH };
    const session = `agent:main:terminal:dm:${s}`;
    return { session, node, version: 0, state, active: false, parent: null, at: 0, entries, accepted: [], taken: [] };
  });
  for (const commit of commits) await store.journal.commit(commit);
}

/** Words as people use them: a few all the time, most of them hardly ever. */
function sentence(words: number): string {
  return Array.from({ length: words }, () => word(Math.floor(VOCABULARY ** Math.random()))).join(" ");
}

/** The more seldom, the longer. */
function word(rank: number): string {
  let text = "";
  for (let left = rank; left > 0; left = Math.floor(left / SYLLABLES.length))
    text += SYLLABLES[left % SYLLABLES.length];
  return text;
}
