// A world that a test drives by hand: each piece of work lies on a desk until the test answers it, and time
// passes when the test says so. Everything else is a microtask, so `calm` is exact.
import { createPerform } from "../../src/agent/agent.ts";
import { createBreaker } from "../../src/agent/breaker.ts";
import type {
  Channel,
  Clock,
  FaultKind,
  Gate,
  Memory,
  Model,
  ModelRequest,
  ModelResult,
  Perform,
  Remembered,
  Tool,
  ToolCall,
} from "../../src/core/ports.ts";
import type { AcceptRequest, Receipt } from "../../src/core/runtime.ts";
import type { Delivery, Entry, Outcome, Rules } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import type { EngineLimits, World } from "../../src/engine/world.ts";
import { asStore, createMemoryStore, type MemoryStore } from "./memory-store.ts";

/** Everything that can happen without time passing has happened. */
export const calm = () => new Promise<void>((resolve) => setImmediate(resolve));

// ── Desks ─────────────────────────────────────────────────────────────────────────────────────────────

/** What has come in, oldest first. `next` hands out each one once and waits for it if need be. */
export type Desk<T> = { all: readonly T[]; next(): Promise<T> };

function createDesk<T>(): Desk<T> & { put(one: T): void } {
  const all: T[] = [];
  const waiting: ((one: T) => void)[] = [];
  let given = 0;
  return {
    all,
    put(one) {
      all.push(one);
      const wake = waiting.shift();
      if (!wake) return;
      given++;
      wake(one);
    },
    next() {
      const one = all[given];
      if (one === undefined) return new Promise((resolve) => waiting.push(resolve));
      given++;
      return Promise.resolve(one);
    },
  };
}

export type Asked = {
  /** As it was when it was made. */
  request: ModelRequest;
  signal: AbortSignal;
  say(text: string): void;
  reason(text: string): void;
  /** A sign of life that is nothing to show. */
  alive(): void;
  end(result: ModelResult): void;
  /** Says the text and is done, or wants these tools used. */
  answer(text: string, ...calls: { tool: string; args: unknown }[]): void;
  fault(reason: string, kind?: FaultKind): void;
};

/** `onAbort`: what an aborted call ends with; null: it does not notice. */
export function scriptedModel(
  onAbort: ModelResult | null = { end: "aborted" },
  more: Partial<Pick<Model, "name" | "context" | "local">> = {},
): Model & Desk<Asked> {
  const desk = createDesk<Asked>();
  return {
    ...desk,
    name: "scripted",
    context: 1_000_000,
    local: false,
    ...more,
    call: (request, { text: say, reasoning: reason, alive }, signal) =>
      new Promise((end) => {
        if (onAbort) signal.addEventListener("abort", () => end(onAbort));
        desk.put({
          request: { ...request, messages: [...request.messages] },
          signal,
          say,
          reason,
          alive,
          end,
          answer: (text, ...calls) => {
            if (text) say(text);
            end({ end: "answer", calls, usage: { input: 2, output: 1 } });
          },
          fault: (reason, kind = "network") => end({ end: "fault", reason, kind }),
        });
      }),
  };
}

export type Running = {
  args: unknown;
  call: ToolCall;
  done(text: string, ok?: boolean): void;
  fail(why: string): void;
};

/** `deaf`: it does not notice that it is aborted. */
export function scriptedTool(
  name: string,
  options: { repeatable?: boolean; alone?: boolean; gate?: Gate; deaf?: boolean } = {},
): Tool & Desk<Running> {
  const desk = createDesk<Running>();
  const { repeatable = false, alone = false, gate = { gate: "run" }, deaf = false } = options;
  return {
    ...desk,
    name,
    description: name,
    schema: {},
    repeatable,
    alone,
    judge: () => gate,
    run: (args, call) =>
      new Promise((resolve, reject) => {
        if (!deaf) call.signal.addEventListener("abort", () => resolve({ ok: false, text: "killed" }));
        const done = (text: string, ok = true) => resolve({ ok, text });
        desk.put({ args, call, done, fail: (why) => reject(new Error(why)) });
      }),
  };
}

export type Sending = {
  reply: Parameters<Channel["send"]>[0];
  sent(how?: Delivery): void;
  fail(why: string): void;
};

export function scriptedChannel(): Channel & Desk<Sending> {
  const desk = createDesk<Sending>();
  return {
    ...desk,
    send: (reply, signal) =>
      new Promise((resolve, reject) => {
        const fail = (why: string) => reject(new Error(why));
        signal.addEventListener("abort", () => fail("aborted"));
        desk.put({ reply, sent: (how = "sent") => resolve(how), fail });
      }),
  };
}

export type Writing = { turn: Remembered; key: string; done(): void; fail(why: string): void };

/** `deaf`: it does not notice that it is aborted. */
export function scriptedMemory({ deaf = false } = {}): Memory & Desk<Writing> {
  const desk = createDesk<Writing>();
  return {
    ...desk,
    writers: ["notes"],
    recall: () => Promise.resolve(""),
    remember: (_writer, turn, key, signal) =>
      new Promise((resolve, reject) => {
        const fail = (why: string) => reject(new Error(why));
        if (!deaf) signal.addEventListener("abort", () => fail("aborted"));
        desk.put({ turn, key, done: resolve, fail });
      }),
  };
}

// ── Time ──────────────────────────────────────────────────────────────────────────────────────────────

export type HandClock = Clock & {
  /** Lets so much time pass; who sleeps wakes in order and does what follows at once before it goes on. */
  pass(ms: number): Promise<void>;
  /** So much time has passed at once; nobody wakes from that. */
  leap(ms: number): void;
  /** Sets the wall clock; nobody wakes from that. */
  set(by: number): void;
};

export function handClock(): HandClock {
  let passed = 0;
  let wall = 1_700_000_000_000;
  const asleep = new Set<{ due: number; wake: () => void }>();
  return {
    now: () => wall + passed,
    monotonic: () => passed,
    leap: (ms) => {
      passed += ms;
    },
    set: (by) => {
      wall += by;
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const wake = () => {
          asleep.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { due: passed + ms, wake };
        asleep.add(sleeper);
        signal?.addEventListener("abort", wake);
      }),
    async pass(ms) {
      const until = passed + ms;
      await calm();
      for (;;) {
        const [next] = [...asleep].filter(({ due }) => due <= until).sort((a, b) => a.due - b.due);
        if (!next) break;
        passed = Math.max(passed, next.due);
        next.wake();
        await calm();
      }
      passed = until;
    },
  };
}

// ── A process ─────────────────────────────────────────────────────────────────────────────────────────

export type BootOptions = {
  /** Called with the engine before it starts. */
  made?: (engine: Engine) => void;
  /** What a process before this one left. */
  disk?: MemoryStore;
  /** Stands between the engine and the disk. */
  between?: (store: Store) => Store;
  clock?: Clock;
  model?: Model;
  /** Asked in this order when the model fails. */
  fallbacks?: Model[];
  /** What a turn may ask for by name. */
  modelNamed?: (name: string) => Model | null;
  /** Silence after which a call is given up. */
  staleMs?: number;
  random?: () => number;
  tools?: Tool[];
  channel?: Channel | null;
  memory?: Memory | null;
  limits?: Partial<EngineLimits>;
  rules?: Partial<Rules>;
  announce?: readonly string[];
  /** Shares the disk with others. */
  node?: World["node"];
  observe?: (session: string, entries: readonly Entry[]) => void;
  /** Stands between the engine and its work. */
  perform?: (perform: Perform) => Perform;
};
export type Booted = {
  engine: Engine;
  disk: MemoryStore;
  logs: { level: string; event: string; fields: Record<string, unknown> }[];
  /** Accepts a text from a new key; queued and pulled unless said otherwise. */
  send(session: string, text: string, more?: Partial<AcceptRequest>): Promise<Receipt>;
  journal(session: string): Entry[];
  /** The first entry, from the beginning on, that is like this; waits for it. */
  entry<K extends Entry["kind"]>(session: string, kind: K, turn?: string): Promise<Extract<Entry, { kind: K }>>;
  ended(session: string, turn: string): Promise<Outcome>;
  /** `kill -9`: nothing it does reaches the disk any more, and nothing comes back. */
  kill(): void;
};

export const LIMITS: EngineLimits = {
  turns: 10,
  inbox: 5,
  text: 1_000,
  graceMs: 2_000,
  resumeWithinMs: 3_600_000,
  warm: 100,
};

let keys = 0;

export async function bootEngine(options: BootOptions = {}): Promise<Booted> {
  const { disk = createMemoryStore(), clock = handClock(), model = scriptedModel(), tools = [] } = options;
  const { channel = null, memory = null, between = (store) => store } = options;
  const rules: Rules = { iterations: 5, recoveries: 3, parallel: 4, memory: memory?.writers ?? [], ...options.rules };
  const limits: EngineLimits = { ...LIMITS, ...options.limits };
  const logs: Booted["logs"] = [];
  const log = (level: string, event: string, fields: Record<string, unknown> = {}) => {
    logs.push({ level, event, fields });
  };
  const mortal = mortalStore(asStore(disk));
  const store = between(mortal.store);
  const perform = createPerform({
    models: [model, ...(options.fallbacks ?? [])],
    modelNamed: options.modelNamed ?? (() => null),
    system: (_, { instructions = "" }) => Promise.resolve(`be good ${instructions}`.trim()),
    breaker: createBreaker(clock),
    ...(options.staleMs !== undefined && { staleMs: options.staleMs }),
    tools,
    channel,
    memory,
    clock,
    random: options.random ?? (() => 0.5),
    log,
  });
  const { announce = [], observe = () => {} } = options;
  const { perform: around = (real) => real } = options;
  const engine = createEngine({
    store,
    clock,
    log,
    perform: around(perform),
    limits,
    rules,
    announce,
    ...(options.node && { node: options.node }),
    observers: [observe],
  });

  const entry: Booted["entry"] = async (session, kind, turn) => {
    const leave = new AbortController();
    try {
      for await (const update of engine.follow(session, "", leave.signal)) {
        const found = "entry" in update && update.entry.kind === kind && (!turn || update.entry.turn === turn);
        if (found) return update.entry as Extract<Entry, { kind: typeof kind }>;
      }
      throw new Error(`The stream of ${session} ended.`);
    } finally {
      leave.abort();
    }
  };
  options.made?.(engine);
  await engine.start();
  return {
    engine,
    disk,
    logs,
    entry,
    send: (session, text, more = {}) =>
      engine.accept({ session, source: "test", key: `key-${keys++}`, text, mode: "queue", reply: "pull", ...more }),
    journal: (session) => disk.all(session),
    ended: async (session, turn) => (await entry(session, "ended", turn)).outcome,
    kill: mortal.kill,
  };
}

function mortalStore(store: Store): { store: Store; kill(): void } {
  let alive = true;
  const never = new Promise<never>(() => {});
  const mortalOf = <T extends object>(whole: T): T =>
    new Proxy(whole, {
      get: (target, name) => {
        const part: unknown = Reflect.get(target, name);
        if (typeof part === "object" && part !== null) return mortalOf(part);
        return async (...args: unknown[]) => {
          if (!alive) return never;
          const result: unknown = await (part as (...args: unknown[]) => unknown)(...args);
          return alive ? result : never;
        };
      },
    });
  return {
    store: mortalOf(store),
    kill: () => {
      alive = false;
    },
  };
}
