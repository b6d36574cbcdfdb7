// What is done about each kind of fault of a model call. One table; the kinds are named in llm/classify.ts.
import type { FaultKind } from "../core/ports.ts";

type Policy = {
  /** The same endpoint may do better in a moment. */
  retry: boolean;
  /** Another endpoint may do better. */
  fallback: boolean;
};

export const FAULTS: Record<FaultKind, Policy> = {
  network: { retry: true, fallback: true },
  unavailable: { retry: true, fallback: true },
  rate_limited: { retry: true, fallback: true },
  stalled: { retry: true, fallback: true },
  incomplete: { retry: true, fallback: true },
  garbled: { retry: true, fallback: true },
  /** Whoever did not come to an end will not the next time. */
  oversized: { retry: false, fallback: true },
  auth: { retry: false, fallback: true },
  quota: { retry: false, fallback: true },
  bad_request: { retry: false, fallback: false },
  /** First the conversation is made shorter; when that has been done, nothing more can be. */
  too_long: { retry: false, fallback: false },
  filtered: { retry: false, fallback: false },
};

export const ATTEMPTS = 4;
const FIRST_WAIT_MS = 500;
/** A provider may ask for an hour; nobody waits that long in a chat. */
const LONGEST_WAIT_MS = 60_000;

/** Doubling, from half to all of it, so that many sessions do not come back together; never sooner than asked for (up
 *  to the longest wait), and then spread over a tenth more. */
export function waitMs(attempt: number, random: number, asked = 0): number {
  const backoff = FIRST_WAIT_MS * 2 ** (attempt - 1) * (0.5 + random / 2);
  return Math.max(backoff, Math.min(asked, LONGEST_WAIT_MS) * (1 + random / 10));
}
