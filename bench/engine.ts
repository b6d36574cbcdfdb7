// The real engine, effects and store with a model that answers at once: what is left is our own cost.
import { join } from "node:path";
import { createPerform } from "../src/agent/agent.ts";
import { createBreaker } from "../src/agent/breaker.ts";
import type { Model } from "../src/core/ports.ts";
import type { Commit, Store } from "../src/core/store.ts";
import { createEngine, type Engine, turnId } from "../src/engine/engine.ts";
import { clock } from "../src/platform/clock.ts";
import { openSqlite } from "../src/store/sqlite/sqlite.ts";

export const FILE = "store.db";
const QUESTION = "What is the weather like in Lisbon, and what should I take along? ".repeat(2);
const ANSWER = "Mild, with a light wind from the sea; a jacket for the evening is enough. ".repeat(3);

const atOnce: Model = {
  name: "at once",
  context: 1_000_000_000,
  local: false,
  call: async (_request, hear) => {
    hear.text(ANSWER);
    return { end: "answer", calls: [], usage: { input: 100, output: 50 } };
  },
};
export const never: Model = { ...atOnce, call: () => new Promise(() => {}) };

export type Bench = {
  engine: Engine;
  /** One turn from its accept to its durable end; milliseconds until each. */
  turn(session: string, key: string): Promise<{ accepted: number; ended: number }>;
  close(): Promise<void>;
};

type Options = {
  model?: Model;
  warm?: number;
  onCommit?: (commit: Commit) => void;
  /** Instead of a file in the directory. */
  store?: Store;
};

export async function openBench(dir: string, options: Options = {}): Promise<Bench> {
  const { model = atOnce, warm = 1_000, onCommit } = options;
  const given = options.store ?? (await openSqlite({ file: join(dir, FILE) }));
  const waiting = new Map<string, () => void>();
  const store: Store = {
    ...given,
    journal: {
      ...given.journal,
      commit: async (commit) => {
        const verdict = await given.journal.commit(commit);
        onCommit?.(commit);
        for (const entry of commit.entries) if (entry.kind === "ended") waiting.get(entry.turn)?.();
        return verdict;
      },
    },
  };
  const log = () => {};
  const engine = createEngine({
    store,
    clock,
    log,
    perform: createPerform({
      models: [model],
      modelNamed: () => null,
      system: () => Promise.resolve(""),
      breaker: createBreaker(clock),
      tools: [],
      channel: null,
      memory: null,
      clock,
      random: Math.random,
      log,
    }),
    rules: { iterations: 90, recoveries: 1_000, parallel: 8, memory: [] },
    limits: { turns: 1_000, inbox: 100, text: 100_000, graceMs: 1_000, resumeWithinMs: 3_600_000_000_000, warm },
  });
  await engine.start();

  async function turn(session: string, key: string) {
    const id = turnId("bench", key);
    const end = new Promise<void>((resolve) => waiting.set(id, resolve));
    const began = performance.now();
    await engine.accept({ session, source: "bench", key, text: QUESTION, mode: "queue", reply: "pull" });
    const accepted = performance.now() - began;
    await end;
    waiting.delete(id);
    return { accepted, ended: performance.now() - began };
  }

  async function close() {
    await engine.drain(1_000);
    await given.close();
  }

  return { engine, turn, close };
}
