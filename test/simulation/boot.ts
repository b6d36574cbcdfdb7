// One process: the real engine and effects in the fake world.
import { createPerform } from "../../src/agent/agent.ts";
import { createBreaker } from "../../src/agent/breaker.ts";
import type { Perform } from "../../src/core/ports.ts";
import type { Runtime } from "../../src/core/runtime.ts";
import type { Rules } from "../../src/core/session.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { createRouter } from "../../src/engine/router.ts";
import { must } from "./checker.ts";
import { peerOf } from "./peers.ts";
import type { Plan } from "./plan.ts";
import * as fake from "./world.ts";

export type Running = fake.Process & {
  engine: Engine;
  /** What its clients talk to: of several nodes, its router. */
  runtime: Runtime;
  started: boolean;
  /** Messages and deletions that have not been answered yet. */
  asked: number;
  flying: Map<string, Flying>;
};

/** `life`: the node that it began on. `placeless`: it has given the place of its turn back for a while. */
type Flying = { life: string; session: string; turn: string; signal: AbortSignal; placeless: boolean };

const RULES: Rules = { iterations: 6, recoveries: fake.RECOVERIES, parallel: 4, memory: fake.WRITERS };

/** `ran`: how often each call ran. `starved`: how long a session has been held up in all. */
export function boot(
  world: fake.World,
  plan: Plan,
  seen: {
    keys: string[];
    ran: Map<string, number>;
    starved: Map<string, number>;
    holds(self: Running): boolean;
    at(address: string): Running | undefined;
  },
  address: string,
): Running {
  const { scheduler, checker } = world;
  const { keys, ran, starved, holds, at } = seen;

  const self: Running = {
    alive: true,
    paused: false,
    replaced: false,
    draining: false,
    drainUntil: 0,
    address,
    ids: new Set(),
    beatAt: 0,
    cutUntil: 0,
    partedUntil: 0,
    wokeAt: 0,
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
    runtime: null as unknown as Runtime,
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
        if (
          other.life === self.engine.node() &&
          other.session === cx.session &&
          other.turn !== effect.turn &&
          !checker.abandoned.has(key)
        )
          must(false, "I5", () => `${effect.turn} works while ${key} of ${other.turn} is alive`);
      const id = `${cx.session}/${effect.key}`;
      const flight: Flying = {
        life: self.engine.node(),
        session: cx.session,
        turn: effect.turn,
        signal: cx.signal,
        placeless: false,
      };
      flying.set(id, flight);
      // One that was replaced finds out before it does anything.
      const gone = self.replaced || !fake.isOwner(world, self, cx.session) || !world.stopped.has(effect.turn);
      must(gone, "I11", () => `${effect.key} of ${effect.turn} starts after its stop`);
      must(!self.draining || self.worked.has(effect.turn), "I18", () => `${effect.turn} starts while draining`);
      must(!holds(self) || self.worked.has(effect.turn), "I18", () => `${effect.turn} starts while all is paused`);
      self.worked.add(effect.turn);
      starved.delete(cx.session);
      const waitWithoutPlace = async (ms: number) => {
        const { aborted } = cx.signal; // in an earlier life of this node, it may be
        flight.placeless = true;
        await cx.waitWithoutPlace(ms);
        flight.placeless = false;
        if (cx.signal.aborted && !aborted && self.alive) fake.mayAbort(world, self, cx.session, effect.turn);
      };
      return done({ ...cx, waitWithoutPlace }).finally(() => flying.delete(id));
    }
    return done();
  };
  const store = fake.storeOf(world, self);
  self.engine = createEngine({
    store,
    clock,
    log: () => {},
    perform: watched,
    rules: RULES,
    ...(address && { node: { address, version: "1" } }),
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
  const peers = (other: string) => peerOf(world, self, at, other);
  const { engine } = self;
  self.runtime = address ? createRouter({ engine, ...store, peerOf: peers, clock, log: () => {} }) : engine;
  start(self);
  return self;
}

/** A process that cannot even start ends, and is started again. */
function start(self: Running) {
  void self.engine.start().then(
    () => {
      self.started = true;
    },
    () => {
      self.alive = false;
    },
  );
}
