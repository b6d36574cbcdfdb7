// One schedule: the real engine and effects in the fake world, driven by a plan, killed, replaced and drained on
// the way; then the faults stop and everything must come to rest.
import { createPerform } from "../../src/agent/agent.ts";
import { createBreaker } from "../../src/agent/breaker.ts";
import { messageOf, Refusal } from "../../src/core/errors.ts";
import type { Perform } from "../../src/core/ports.ts";
import type { AcceptRequest } from "../../src/core/runtime.ts";
import type { Rules } from "../../src/core/session.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { must, takeViolation, Violation } from "./checker.ts";
import type { Action, Plan } from "./plan.ts";
import type { Owner } from "./scheduler.ts";
import { createViewer, type Viewer } from "./viewer.ts";
import * as fake from "./world.ts";

export type Result = { hash: number; steps: number; turns: number; kills: number; violation: Violation | null };

type Running = fake.Process & {
  engine: Engine;
  started: boolean;
  /** Accepts that have not been answered yet. */
  asked: number;
  flying: Map<string, Flying>;
};

/** `placeless`: it has given the place of its turn back for a while. */
type Flying = { session: string; turn: string; signal: AbortSignal; placeless: boolean };

const RULES: Rules = { iterations: 6, recoveries: fake.RECOVERIES, parallel: 4, memory: fake.WRITERS };
const DRAIN_MS = 2_000;
const MOST_STEPS = 20_000;
/** I24: simulated time in which everything comes to rest once faults have stopped. */
const REST_MS = 60_000;
const UNDELIVERED_MS = 30_000;
/** The longest wait before a change that the store could not take is tried again. */
const STORE_WAIT_MS = 5_000;
/** What a store in trouble may make of a moment. */
const HELD_UP_MS = 45_000;
/** I26: in which a session that is at rest answers for itself. */
const MOMENT_MS = 1_000;
const DOWN_MS = 1_800_000;
/** Memory may be in the longest of its waits when the faults stop. */
const MEMORY_REST_MS = 300_000;

export function runSchedule(plan: Plan, runMicrotasks: () => void, trace: fake.World["trace"] = null): Result {
  const world = fake.createWorld(plan, runMicrotasks, trace);
  const { scheduler, checker, random } = world;
  const client: Owner = { alive: true, paused: false };
  const ran = new Map<string, number>();
  const keys = Array.from({ length: plan.sessions }, (_, i) => `s${i}`);
  /** Everything that was ever said, with its receipt once it was acknowledged. */
  const said: { request: AcceptRequest; id: string | null; first: boolean }[] = [];
  const decided = new Map<string, number>();
  const viewers: Viewer[] = keys.map((session) => createViewer(session, world));
  /** How long a session has been held up in all. */
  const starved = new Map<string, number>();
  let process = boot();
  let holding = false;
  let pauses = 0;
  let kills = 0;
  let steps = 0;

  function boot(): Running {
    const self: Running = {
      alive: true,
      paused: false,
      replaced: false,
      draining: false,
      worked: new Set(),
      thinking: new Map(),
      since: new Map(),
      spoke: new Set(),
      signals: new Map(),
      refused: new Map(),
      flying: new Map(),
      asked: 0,
      started: false,
      engine: null as unknown as Engine,
    };
    const clock = fake.clockOf(world, self);
    const perform = createPerform({
      models: [fake.modelOf(world, self, "first"), fake.modelOf(world, self, "second")],
      modelNamed: () => null,
      system: (session) =>
        world.defective && session === keys[0] ? Promise.reject(new Error("a defect")) : Promise.resolve("be good"),
      breaker: createBreaker(clock),
      staleMs: fake.STALE_MS,
      tools: fake.toolsOf(world, self, ran),
      channel: fake.channelOf(world, self),
      memory: fake.memoryOf(world, self),
      clock,
      random: world.random,
      log: () => {},
    });
    const { flying } = self;
    const watched: Perform = (effect, cx) => {
      // Not memory: given up on, it would not be told of every turn, as the end wants it to be.
      const throws = effect.do !== "remember" && world.chance("effect.throws");
      const done = (its = cx) => (throws ? Promise.reject(new Error("a defect")) : perform(effect, its));
      if (effect.do === "think" || effect.do === "compact") {
        self.signals.set(cx.session, cx.signal);
        self.refused.set(cx.session, new Set());
        self.thinking.set(cx.session, effect.turn);
        self.since.set(cx.session, scheduler.now());
        self.spoke.delete(cx.session);
      }
      if (effect.do === "think" || effect.do === "compact" || effect.do === "act") {
        for (const [key, other] of flying)
          if (other.session === cx.session && other.turn !== effect.turn && !checker.abandoned.has(key))
            must(false, "I5", () => `${effect.turn} works while ${key} of ${other.turn} is alive`);
        const id = `${cx.session}/${effect.key}`;
        const flight: Flying = { session: cx.session, turn: effect.turn, signal: cx.signal, placeless: false };
        flying.set(id, flight);
        // One that was replaced finds out before it does anything.
        const gone = self.replaced || !world.stopped.has(effect.turn);
        must(gone, "I11", () => `${effect.key} of ${effect.turn} starts after its stop`);
        must(!self.draining || self.worked.has(effect.turn), "I18", () => `${effect.turn} starts while draining`);
        const holds = holding && self === process;
        must(!holds || self.worked.has(effect.turn), "I18", () => `${effect.turn} starts while all is paused`);
        self.worked.add(effect.turn);
        starved.delete(cx.session);
        const waitWithoutPlace = async (ms: number) => {
          flight.placeless = true;
          await cx.waitWithoutPlace(ms);
          flight.placeless = false;
          if (cx.signal.aborted && self.alive) fake.mayAbort(world, self, cx.session, effect.turn);
        };
        return done({ ...cx, waitWithoutPlace }).finally(() => flying.delete(id));
      }
      return done();
    };
    self.engine = createEngine({
      store: fake.storeOf(world, self),
      clock,
      log: () => {},
      perform: watched,
      rules: RULES,
      observers: [
        () => {
          if (world.chance("observer.throws")) throw new Error("a defect");
        },
      ],
      limits: {
        turns: plan.room,
        inbox: fake.INBOX,
        text: 1_000,
        graceMs: fake.GRACE_MS,
        resumeWithinMs: plan.resume ? 3_600_000 : 0,
        warm: 1,
      },
    });
    start(self);
    return self;
  }

  /** A process that cannot even start ends, and is started again. */
  function start(self: typeof process) {
    void self.engine.start().then(
      () => {
        self.started = true;
      },
      () => {
        self.alive = false;
      },
    );
  }

  function restart() {
    kills++;
    for (const viewer of viewers) viewer.cut();
    process = boot();
  }

  // ── The client ────────────────────────────────────────────────────────────────────────────────────

  function say(request: AcceptRequest) {
    const record = said.find((s) => s.request === request) ?? { request, id: null, first: false };
    if (!said.includes(record)) said.push(record);
    const self = process;
    const { draining } = self;
    self.asked++;
    void self.engine
      .accept(request)
      .finally(() => self.asked--)
      .then(
        (receipt) => {
          must(checker.accepted.has(receipt.id), "I2", () => `${receipt.id} is acknowledged but not stored`);
          must(record.id === null || record.id === receipt.id, "I3", () => `${record.id} became ${receipt.id}`);
          must(receipt.replayed || !record.first, "I3", () => `${receipt.id} was accepted again`);
          record.first ||= !receipt.replayed;
          must(!draining || receipt.replayed || receipt.applied !== "interrupt", "I18", () => "a drain interrupts");
          must(receipt.session === request.session, "I25", () => `${receipt.id} went to ${receipt.session}`);
          record.id = receipt.id;
        },
        (error) => {
          if (!(error instanceof Refusal)) must(false, "I23", () => `accept failed without a name: ${error}`);
        },
      );
  }

  function act(action: Action) {
    const { engine } = process;
    const session = keys[action.session] ?? "s0";
    const choose = <T>(list: T[]): T | undefined => list[Math.floor(action.pick * list.length)];
    const names = said.flatMap((s) => (s.id && s.request.session === session ? [s.id] : []));
    switch (action.do) {
      case "say": {
        const reply = action.push ? "push" : "pull";
        const n = said.length;
        const attended = action.pick < 0.5;
        const text = `<${session}>${n}`;
        const request = { session, source: "test", key: `${n}`, text, mode: action.mode, reply, attended } as const;
        return say({ ...request, ...nobody(action) });
      }
      case "redeliver": {
        const again = choose(said);
        return again && say(again.request);
      }
      case "steer": {
        const into = checker.live(session);
        const key = `steer ${said.length}`;
        if (!into) return;
        const request = { session, source: "test", key, text: `<${session}>${key}`, into } as const;
        return say({ ...request, mode: "steer", reply: "pull", ...nobody(action) });
      }
      case "compress": {
        const key = `compress ${said.length}`;
        return say({ session, source: "test", key, text: key, mode: "queue", reply: "pull", task: "compress" });
      }
      case "stop": {
        const live = checker.live(session);
        const turn = action.pick < 0.5 && live ? live : choose(names);
        if (!turn) return;
        checker.stopAsked.add(turn);
        return void engine.stop({ session, turn, scope: action.pick < 0.25 ? "tree" : "turn" }).then(
          (how) => {
            const over = checker.outcome.has(turn) || checker.withdrawn.has(turn);
            if (how === "stopping" && !over)
              must(checker.stopping(session) !== null, "I2", () => `${turn} is not stopping`);
            if (how === "over")
              must(over || checker.taken.has(turn), "I8", () => `${turn} is said to be over, but waits`);
            if (how === "stopping" || how === "withdrawn") world.stopped.add(turn);
          },
          () => {},
        );
      }
      case "answer":
        return answer(session, action.pick);
      case "withdraw": {
        const input = choose(names);
        if (!input) return;
        checker.withdrawAsked.add(input);
        return void engine.withdraw(session, input).catch(() => {});
      }
      case "move": {
        const input = choose(names);
        return input && void engine.move(session, input, Math.floor(action.pick * 3)).catch(() => {});
      }
      case "forget":
        return void engine.forget(session).catch((error: unknown) => {
          if (!(error instanceof Refusal))
            must(false, "I23", () => `deleting failed without a name: ${messageOf(error)}`);
        });
      case "watch":
        return viewers[action.session]?.turnOver(process.engine);
      case "jump":
        world.skew += action.pick < 0.5 ? -3_600_000 : 3_600_000;
        return;
      case "kill":
        return world.kill(process);
      case "replace": {
        const old = process;
        if (!old.started) return world.kill(old); // it has not claimed anything yet
        old.paused = true;
        restart();
        // Some time later the old one wakes up and goes on as if nothing had happened.
        return void scheduler.add(client, "wake", Math.floor(action.pick * 500), () => {
          if (process !== old) old.paused = false;
        });
      }
      case "pause":
        return pause(action.pick < 0.5);
      case "drain": {
        if (process.draining || !process.started) return;
        process.draining = true;
        const began = scheduler.now();
        const self = process;
        return void engine.drain(DRAIN_MS).then(() => {
          const took = scheduler.now() - began;
          const most = DRAIN_MS * 2 + fake.GRACE_MS + 1;
          must(took <= most, "I18", () => `the drain took ${took} ms`);
          world.kill(self);
        });
      }
    }
  }

  /** What is known of it: nothing, while it is being changed. */
  function pause(on: boolean) {
    const self = process;
    const change = ++pauses;
    holding = false;
    void (on ? self.engine.pause("a") : self.engine.resume()).then(
      () => {
        holding = on && self === process && change === pauses;
      },
      () => {}, // the store is in trouble
    );
  }

  function answer(session: string, pick: number) {
    const { engine } = process;
    void engine.status(session).then(
      ({ asking }) => {
        // A client finds its calls in the answer that it got; people are not shown them.
        for (const { call } of [...asking, ...checker.clientCalls(session)]) {
          const id = `${session}/${call}`;
          const take = (won: boolean) => {
            decided.set(id, (decided.get(id) ?? 0) + Number(won));
            must((decided.get(id) ?? 0) <= 1, "I15", () => `${id} was decided twice`);
          };
          const yes = { session, call, allow: pick < 0.8, text: "go on", by: "a" };
          void engine.answer(yes).then(take, () => {});
          if (pick > 0.5) void engine.answer({ ...yes, allow: false, text: "no", by: "b" }).then(take, () => {});
        }
      },
      () => {},
    );
  }

  // ── The run ───────────────────────────────────────────────────────────────────────────────────────

  function runUntil(done: () => boolean, until: number): boolean {
    while (!done()) {
      if (!process.alive) restart();
      if (++steps > MOST_STEPS) throw new Violation("I24", "the schedule does not end");
      const held = heldUp();
      const before = scheduler.now();
      if (!scheduler.step(until)) return done();
      for (const session of held) {
        const ms = (starved.get(session) ?? 0) + scheduler.now() - before;
        starved.set(session, ms);
        must(ms <= HELD_UP_MS, "I23", () => `${session} is held up for ${ms} ms, though a place was given back`);
      }
      const violation = takeViolation();
      if (violation) throw violation;
      const working = new Set(
        process.flying.values().flatMap((f) => (f.signal.aborted || f.placeless ? [] : [f.session])),
      );
      must(working.size <= plan.room, "I23", () => `${working.size} turns in flight, room for ${plan.room}`);
    }
    return true;
  }

  /** Sessions that cannot begin to work, while another waits without its place and there would be room for them. */
  function heldUp(): string[] {
    const placeless = new Set(process.flying.values().flatMap((f) => (f.placeless ? [f.session] : [])));
    if (!placeless.size || !process.started || process.draining || pauses) return [];
    const begun = (session: string) => process.worked.has(checker.live(session) ?? "");
    if (keys.filter((session) => begun(session) && !placeless.has(session)).length >= plan.room) return [];
    return keys.filter((session) => {
      const phase = begun(session) ? undefined : world.disk.journal.load(session)?.state.turn?.phase.at;
      return phase === "thinking" || phase === "compacting";
    });
  }

  function storm() {
    let left = plan.actions.length;
    const attempt = (action: Action, delay: number) =>
      void scheduler.add(client, action.do, delay, () => {
        if (!process.started && action.do !== "kill" && action.do !== "replace") return attempt(action, 20);
        left--;
        act(action);
      });
    for (const action of plan.actions) attempt(action, action.at);
    runUntil(() => left === 0, Number.POSITIVE_INFINITY);
  }

  function calm() {
    world.stormy = false;
    if (process.draining) world.kill(process);
    if (!process.alive) restart();
    let asked = false;
    const nudge = () => {
      for (const session of keys) {
        if (!process.started) continue;
        if (!asked) for (const record of said) if (!record.id) say(record.request); // a client that never heard asks again
        asked = true;
        answer(session, 0);
        if (pauses) pause(false);
        if (!checker.live(session) && checker.waiting(session)) act({ ...NUDGE, session: keys.indexOf(session) }); // parked
      }
      if (!world.deleted.size) scheduler.add(client, "nudge", 1_000, nudge);
    };
    nudge();
    const resting = () =>
      asked && process.asked === 0 && keys.every((session) => !checker.live(session) && !checker.waiting(session));
    // A dead channel takes its whole patience for each reply, a dead endpoint or a defect for each thought.
    const slow = Number(world.down) + Number(world.broken) + Number(world.defective);
    const patience = slow * said.length * UNDELIVERED_MS;
    // Where the other endpoint has said no for good, the dead one is waited for as long as the table says.
    const alone = world.broken && plan.faults.includes("model.refuses") ? DOWN_MS : 0;
    const well = Math.max(scheduler.now(), world.outage.until);
    const rested = runUntil(resting, well + REST_MS + patience + alone);
    must(rested, "I24", () => keys.map((s) => `${s}: ${checker.live(s)} +${checker.waiting(s)}`).join(", "));
    const told = (s: string, by: string) => world.remembered.get(`${by} ${s}`)?.length ?? 0;
    const writers = fake.WRITERS.filter((by) => !(world.gone && by === fake.GONE));
    const saved = () => keys.every((s) => writers.every((by) => told(s, by) === checker.ended(s).length));
    must(runUntil(saved, scheduler.now() + MEMORY_REST_MS), "I17", () => "what was to be remembered never was");
  }

  function afterwards() {
    for (const { id, request } of said) {
      if (!id) continue;
      const once = Number(checker.taken.has(id)) + Number(checker.withdrawn.has(id));
      must(once === 1, "I1", () => `${id} (${request.text}) is in ${once} places`);
      if (world.stopped.has(id) && checker.taken.get(id) === id)
        must(
          checker.outcome.get(id) === "cancelled" || checker.outcome.get(id) === "interrupted",
          "I9",
          () => `${id} is ${checker.outcome.get(id)}`,
        );
    }
    const copies = new Set<string>();
    const unmarked = new Set<string>();
    for (const sent of world.sent) {
      must(
        sent.text === "" || !sent.text.includes("<") || sent.text.includes(`<${sent.session}>`),
        "I25",
        () => `${sent.session} got ${sent.text}`,
      );
      must(checker.accepted.get(sent.turn) === sent.session, "I22", () => `${sent.turn} was sent to ${sent.session}`);
      must(sent.again || !unmarked.has(sent.turn), "I22", () => `${sent.turn} was sent twice, unmarked`);
      if (!sent.again) unmarked.add(sent.turn);
      copies.add(sent.turn);
    }
    for (const session of keys) {
      for (const entry of world.disk.all(session))
        if (entry.kind === "delivered" && entry.how === "sent")
          must(copies.has(entry.turn), "I22", () => `${entry.turn} is said to be delivered`);
    }
    for (const viewer of viewers) viewer.finish(process.engine);
    runUntil(() => viewers.every((viewer) => viewer.complete()), scheduler.now() + REST_MS);
    for (const viewer of viewers) viewer.check();
  }

  /** Every cause has ended: every session can be read, takes a message and answers it, and can be deleted (I26). */
  function wellAgain() {
    const { engine } = process;
    world.outage = { from: 0, until: 0 };
    runUntil(() => false, scheduler.now() + STORE_WAIT_MS);
    for (const session of keys) {
      const say = {
        session,
        source: "test",
        key: "last",
        text: `<${session}>last`,
        mode: "queue",
        reply: "pull",
      } as const;
      now(`${session} cannot be read`, () => engine.status(session));
      const { id } = now(`${session} takes no message`, () => engine.accept({ ...say, key: `last ${session}` }));
      const answered = runUntil(() => checker.outcome.has(id), scheduler.now() + REST_MS + UNDELIVERED_MS);
      must(answered, "I26", () => `${session} does not answer`);
    }
    world.over = true;
    for (const session of keys) {
      const became = now(`${session} cannot be deleted`, () => engine.forget(session));
      must(became === "forgotten", "I26", () => `${session} cannot be deleted: ${became}`);
    }
    runUntil(() => false, scheduler.now() + MEMORY_REST_MS); // nobody asks for them any more
  }

  /** What it resolves to, within a moment. */
  function now<T>(otherwise: string, ask: () => Promise<T>): T {
    const said: ({ value: T } | { error: unknown })[] = [];
    scheduler.add(client, "ask", 0, () => {
      void ask().then(
        (value) => said.push({ value }),
        (error: unknown) => said.push({ error }),
      );
    });
    runUntil(() => said.length > 0, scheduler.now() + MOMENT_MS);
    const [first] = said;
    if (first && "value" in first) return first.value;
    throw new Violation("I26", `${otherwise}: ${first ? messageOf(first.error) : "it is stuck"}`);
  }

  let violation: Violation | null = null;
  takeViolation();
  try {
    storm();
    calm();
    afterwards();
    wellAgain();
    violation = takeViolation();
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    violation = takeViolation() ?? error;
  }
  const turns = keys.reduce((n, session) => n + checker.ended(session).length, 0);
  return { hash: (scheduler.hash() ^ Math.floor(random() * 2 ** 31)) >>> 0, steps, turns, kills, violation };
}

const NUDGE: Action = { at: 0, do: "say", session: 0, mode: "queue", push: false, pick: 0 };

/** In two of five inputs nobody can be asked; one of five comes from a client that has a tool, and can be asked. */
function nobody({ pick }: Action): Pick<AcceptRequest, "unattended" | "tools"> {
  const fifth = Math.floor(pick * 25) % 5;
  const tools = Math.floor(pick * 125) % 5 === 0 ? { tools: [fake.CLIENTS] } : {};
  return { ...(fifth < 3 && { unattended: UNATTENDED[fifth] }), ...tools };
}
const UNATTENDED = ["deny", "allow", "client"] as const;
