// The attempts at one answer, over all endpoints, for as long as the table of faults allows. Viewers are told of every wait. A stop ends
// the wait at once, and our own abort is not counted as a fault (I12).
import { explained } from "../core/errors.ts";
import type { EffectContext, Fault, Model, ModelResult } from "../core/ports.ts";
import type { Agent } from "./agent.ts";
import { FALLBACK_MS, FAULTS, patience, waitMs } from "./faults.ts";

type AnswerResult = Extract<ModelResult, { end: "answer" }>;
type WantedAnswer = {
  agent: Agent;
  cx: EffectContext;
  /** The first is asked first; the others when it fails. */
  models: readonly Model[];
  /** Somebody waits for the answer. */
  attended: boolean;
  /** How often it was begun in vain before: then the first try waits too. */
  breaks: number;
  /** One try. `limit`: output tokens, where the usual limit was not enough. */
  ask(model: Model, limit: number | undefined): Promise<ModelResult>;
  /** Somebody has seen words of it: it cannot simply be tried again. */
  spoke(): boolean;
};

/** The smallest limit that is tried where the usual one went into reasoning. */
const LARGER_LIMIT = 8_192;

/** Null: aborted, or not ours any more. */
export async function attempt(wanted: WantedAnswer): Promise<{ model: Model; result: AnswerResult | Fault } | null> {
  const { agent, cx, models, attended } = wanted;
  const { clock, breaker, log } = agent;
  const tally = createTally();
  /** Endpoints that are not tried again for this answer. */
  const done = new Set<Model>();
  let last: { model: Model; result: Fault } | null = null;
  let limit: number | undefined;
  if (wanted.breaks) await cx.waitWithoutPlace(waitMs(wanted.breaks, agent.random(), attended));

  for (let n = 1; ; n++) {
    const open = models.filter((one) => !done.has(one));
    const model = nextOf(agent, open);
    if (!model) return last;
    if (!(await cx.owned()) || cx.signal.aborted) return null;
    const began = clock.monotonic();
    const result = await wanted.ask(model, limit);
    if (cx.signal.aborted) return null; // whatever it ended with: that was us (I12)
    if (result.end === "answer") {
      breaker.answered(model);
      return { model, result };
    }
    const fault: Fault =
      result.end === "fault" ? result : { end: "fault", kind: "network", reason: "aborted, not by us" };
    log("warn", "model.fault", { session: cx.session, model: model.name, attempt: n, ...fault });
    // A larger limit than the server allows: then what it was to mend is the fault.
    if (limit !== undefined && fault.kind === "bad_request" && last) return last;
    last = { model, result: fault };
    if (wanted.spoke()) return last;

    const { tries, ms } = tally.count(model, fault, clock.monotonic() - began);
    const left = patience(fault, attended, tries, ms);
    const others = open.filter((one) => one !== model && !breaker.resting(one));
    if (!left) {
      if (!FAULTS[fault.kind].fallback) return last;
      done.add(model);
      if (others.length) cx.notice(`${model.name} does not answer (${fault.reason}). Trying the next one.`);
      continue;
    }
    if (fault.kind === "exhausted") limit = largerLimit(limit, fault, model);
    const wait = waitMs(tries, agent.random(), attended, fault.retryAfter);
    const late = tally.on(model) + wait > FALLBACK_MS;
    if (others.length && FAULTS[fault.kind].fallback && (late || breaker.doubtful(model))) {
      breaker.rest(model);
      cx.notice(`${model.name} does not answer (${fault.reason}). Trying the next one.`);
      continue;
    }
    const pause = "ms" in left && !fault.retryAfter ? Math.min(wait, left.ms) : wait;
    cx.notice(waiting(fault, attended, { pause, left, tries, ms }));
    await cx.waitWithoutPlace(pause);
    tally.passed(model, fault, pause);
  }
}

/** The endpoints to call, in order. */
export function modelsFor(agent: Agent, name: string | undefined): readonly Model[] {
  const named = name ? agent.modelNamed(name) : null;
  return named ? [named, ...agent.models.slice(1)] : agent.models;
}

/** The endpoint that is called next. */
export const nextOf = (agent: Agent, models: readonly Model[]): Model | undefined =>
  models.find((model) => !agent.breaker.resting(model)) ?? models[0];

function largerLimit(before: number | undefined, { spent = 0 }: Fault, { context }: Model): number {
  return Math.min(Math.max(LARGER_LIMIT, 2 * Math.max(before ?? 0, spent)), Math.floor(context / 2));
}

/** What the faults took: by kind the time, over all endpoints; by endpoint the tries, and the time. */
function createTally() {
  const byKind = new Map<string, number>();
  const byModel = new Map<Model, { ms: number; tries: Map<string, number> }>();
  const of = (model: Model) => {
    const known = byModel.get(model) ?? { ms: 0, tries: new Map() };
    byModel.set(model, known);
    return known;
  };
  function passed(model: Model, { kind }: Fault, ms: number) {
    // The wall clock may have been set: a call takes no less than nothing, and an hour at most.
    const real = Math.min(Math.max(ms, 0), 3_600_000);
    byKind.set(kind, (byKind.get(kind) ?? 0) + real);
    of(model).ms += real;
  }
  return {
    passed,
    on: (model: Model) => of(model).ms,
    count(model: Model, fault: Fault, took: number): { tries: number; ms: number } {
      const { tries } = of(model);
      const group = fault.kind === "garbled" ? "incomplete" : fault.kind;
      tries.set(group, (tries.get(group) ?? 0) + 1);
      passed(model, fault, took);
      return { tries: tries.get(group) ?? 1, ms: byKind.get(fault.kind) ?? 0 };
    },
  };
}

type Wait = { pause: number; left: NonNullable<ReturnType<typeof patience>>; tries: number; ms: number };

/** The next try, until when, since when, and what: a narrow screen shows the beginning. */
function waiting(fault: Fault, attended: boolean, { pause, left, tries, ms }: Wait): string {
  const { kind } = fault;
  const reason = explained(fault);
  const next = `rying again in ${lasting(pause)}`;
  if ("tries" in left) return `T${next} (try ${tries + 1} of ${left.tries}): ${reason}`;
  const begins = kind === "network" && !attended ? `Waiting for the network: t${next}` : `T${next}`;
  const since = ms >= 1_000 ? ` (it has lasted ${lasting(ms)})` : "";
  return `${begins}, for up to ${lasting(left.ms)}${since}: ${reason}`;
}

function lasting(ms: number): string {
  const seconds = Math.ceil(ms / 1_000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
