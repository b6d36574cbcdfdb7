// What is done about each kind of fault of a model call, and for how long. One table; the kinds are named in
// llm/classify.ts. Patience is a budget of time, which every answered step renews: where somebody waits it is short, where
// nobody does (schedules, runs, chats) a night without network should cost nothing but the night.
import type { Fault, FaultKind } from "../core/ports.ts";
import { backoff } from "../core/wait.ts";

/** So long, or so many tries in all. `asked`: so long where the provider itself asked for a wait. */
type Patience = { ms: number; asked?: number } | { tries: number };
type FaultPolicy = {
  /** Null: it would be the same again. */
  attended: Patience | null;
  unattended: Patience | null;
  /** Another endpoint may do better. */
  fallback: boolean;
};

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** The longest that a turn waits for anything between two answers: a night. */
const DEADLINE_MS = 12 * HOUR_MS;
const NONE = { attended: null, unattended: null };

export const FAULTS: Record<FaultKind, FaultPolicy> = {
  network: { attended: { ms: 2 * MINUTE_MS }, unattended: { ms: DEADLINE_MS }, fallback: true },
  unavailable: { attended: { ms: 2 * MINUTE_MS }, unattended: { ms: 30 * MINUTE_MS }, fallback: true },
  rate_limited: {
    attended: { ms: 2 * MINUTE_MS, asked: 5 * MINUTE_MS },
    unattended: { ms: HOUR_MS },
    fallback: true,
  },
  stalled: { attended: { tries: 3 }, unattended: { tries: 5 }, fallback: true },
  incomplete: { attended: { tries: 4 }, unattended: { tries: 6 }, fallback: true },
  garbled: { attended: { tries: 4 }, unattended: { tries: 6 }, fallback: true },
  /** Once more, in case it was an accident; then it is taken for "too long". */
  empty: { attended: { tries: 2 }, unattended: { tries: 2 }, fallback: false },
  /** Each time with a larger limit. */
  exhausted: { attended: { tries: 3 }, unattended: { tries: 3 }, fallback: false },
  /** Whoever did not come to an end will not the next time. */
  oversized: { ...NONE, fallback: true },
  auth: { ...NONE, fallback: true },
  quota: { ...NONE, fallback: true },
  bad_request: { ...NONE, fallback: false },
  /** First the conversation is made shorter; when that has been done, nothing more can be. */
  too_long: { ...NONE, fallback: false },
  filtered: { ...NONE, fallback: false },
};

/** How often a stream that broke after visible words is begun again. */
export const MOST_BREAKS = 3;
/** With another endpoint at hand, nobody waits longer for this one. */
export const FALLBACK_MS = 15_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = { attended: 10_000, unattended: 30_000 };

/** Never sooner than the provider asked for, and then spread over a tenth more. */
export function waitMs(attempt: number, random: number, attended: boolean, asked = 0): number {
  const most = LONGEST_WAIT_MS[attended ? "attended" : "unattended"];
  return Math.max(backoff(attempt - 1, { first: FIRST_WAIT_MS, most }, random), asked * (1 + random / 10));
}

/** What is left to try after this fault: `tries` of them were of its kind and `ms` went by with them. Null: nothing is. */
export function patience(
  fault: Fault,
  attended: boolean,
  tries: number,
  ms: number,
): { ms: number } | { tries: number } | null {
  const policy = FAULTS[fault.kind][attended ? "attended" : "unattended"];
  if (!policy) return null;
  if ("tries" in policy) return tries < policy.tries ? policy : null;
  const { retryAfter = 0 } = fault;
  const left = (retryAfter > 0 ? (policy.asked ?? policy.ms) : policy.ms) - ms;
  return left > 0 && left >= retryAfter ? { ms: left } : null;
}
