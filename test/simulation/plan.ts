// What happens in one schedule: a list of actions at random moments and a random subset of faults (swarm).
import { createRandom } from "./scheduler.ts";

const FAULTS = [
  "model.fault", // a retryable fault before any text
  "model.refuses", // a fault that is not retryable
  "model.cut", // a fault after text
  "model.hangs", // says nothing more until it is aborted
  "model.outage", // nothing can be reached, for minutes
  "model.down", // the first endpoint never answers: the fallback does
  "model.late", // answers all the same when it is aborted
  "model.deaf", // takes longer than the grace to die
  "model.odd", // unknown tools, arguments that are refused, many calls
  "tool.fails",
  "tool.throws",
  "tool.deaf",
  "tool.kills", // takes our process with it
  "store.busy", // a commit is refused
  "store.unknown", // a commit lands, or not, and nobody can say
  "store.unreadable",
  "channel.fails",
  "channel.unsure", // the message landed and the send failed
  "channel.down", // for good: every reply is undelivered
  "memory.fails",
  "memory.hangs",
  "memory.gone", // one of them, for good: it is never told of anything
  "effect.throws", // before it has done anything
  "agent.broken", // for good, in the first session: every thought throws
  "observer.throws",
  "crash.commit", // killed just before or just after a commit
] as const;
/** For several nodes only. "store.slow": what nodes ask takes seconds. "peer.lost": what they say to each other is lost. */
const NODE_FAULTS = ["store.slow", "peer.lost"] as const;
export type Fault = (typeof FAULTS)[number] | (typeof NODE_FAULTS)[number];

export type Action = {
  /** Simulated milliseconds after the beginning. */
  at: number;
  do:
    | "say"
    | "redeliver"
    | "stop"
    | "steer"
    | "compress"
    | "answer"
    | "withdraw"
    | "move"
    | "watch"
    | "forget"
    | "kill"
    | "replace"
    | "drain"
    | "pause"
    | "jump"
    /** A node stops for some seconds, and wakes. */
    | "freeze"
    /** A node cannot reach the store for some seconds. */
    | "cut"
    /** A node cannot reach the others for some seconds. */
    | "part";
  session: number;
  mode: "interrupt" | "queue" | "steer";
  push: boolean;
  /** Decides what of the things that are there then it is about. */
  pick: number;
};
export type Plan = {
  seed: number;
  sessions: number;
  room: number;
  resume: boolean;
  /** At the end it is not looked whether every session still takes a message, and can be deleted: that costs a quarter. */
  brief?: boolean;
  /** Processes that share the store; not given: one that has it to itself. */
  nodes?: number;
  faults: Fault[];
  actions: Action[];
};

/** Some are for several nodes only. */
const WEIGHTS: Record<Exclude<Action["do"], "freeze" | "cut" | "part">, number> = {
  say: 12,
  redeliver: 2,
  stop: 4,
  steer: 2,
  compress: 1,
  answer: 5,
  withdraw: 1,
  move: 1,
  watch: 3,
  forget: 1,
  kill: 2,
  replace: 1,
  drain: 1,
  pause: 1,
  jump: 0.5,
};
const KINDS = (Object.entries(WEIGHTS) as [keyof typeof WEIGHTS, number][]).flatMap(([kind, n]) =>
  Array.from({ length: n * 2 }, () => kind),
);

/** Short plans with one or two sessions and few faults, which then happen often: three of the hardest planted bugs are found in 299, 153 and
 *  56 of them, and one costs a third of the CPU; long plans in which everything fails took 3,657, 725 and 442. `several`: only plans for
 *  several nodes. */
export function makePlan(seed: number, several = false): Plan {
  const random = createRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const sessions = pick([1, 1, 2, 2, 3]);
  const density = pick([0.05, 0.15, 0.3]);
  const faults: Fault[] = FAULTS.filter(() => random() < density);
  const span = pick([200, 1_000, 5_000, 20_000]);
  const actionsOf = (kinds: readonly Action["do"][], length: number) =>
    Array.from(
      { length },
      (): Action => ({
        at: Math.floor(random() * span),
        do: pick(kinds),
        session: Math.floor(random() * sessions),
        mode: pick(["interrupt", "interrupt", "queue", "steer"]),
        push: random() < 0.4,
        pick: random(),
      }),
    );
  const byTime = (a: Action, b: Action) => a.at - b.at;
  const actions = actionsOf(KINDS, 3 + Math.floor(random() * 10)).sort(byTime);
  const brief = random() < 0.75;
  const plan = { seed, sessions, room: pick([1, 2, 8]), resume: random() < 0.85, brief, faults, actions };
  if (random() > 0.15 && !several) return plan;
  const troubles = actionsOf(["freeze", "cut", "part", "kill", "drain", "watch", "jump"], Math.floor(random() * 6));
  const nodes = 2 + Math.floor(random() * 2);
  faults.push(...NODE_FAULTS.filter(() => random() < 0.4));
  return { ...plan, nodes, actions: [...actions, ...troubles].sort(byTime) };
}
