// An endpoint that was given up for another one is avoided for a while, each time for twice as long: every further try costs somebody
// seconds.
import type { Clock, Model } from "../core/ports.ts";
import { backoff } from "../core/wait.ts";

const REST_MS = { first: 60_000, most: 3_600_000 };

export type Breaker = {
  /** The endpoint is avoided at the moment. */
  resting(model: Model): boolean;
  /** The endpoint was given up, and has not answered since. */
  doubtful(model: Model): boolean;
  /** The endpoint is given up for another one. */
  rest(model: Model): void;
  answered(model: Model): void;
};

export function createBreaker(clock: Clock): Breaker {
  // By endpoint, not by name: the same model may be served in two places.
  const rests = new WeakMap<Model, { times: number; ms: number; since: number }>();
  return {
    resting(model) {
      const rest = rests.get(model);
      return rest !== undefined && clock.monotonic() - rest.since < rest.ms;
    },
    doubtful: (model) => rests.has(model),
    rest(model) {
      const times = (rests.get(model)?.times ?? -1) + 1;
      rests.set(model, { times, ms: backoff(times, REST_MS), since: clock.monotonic() });
    },
    answered: (model) => void rests.delete(model),
  };
}
