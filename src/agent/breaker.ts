// Endpoints that went silent again and again are left alone for a while: each further try costs minutes.
import type { Clock, FaultKind, Model } from "../core/ports.ts";

const STALLS = 3;
const REST_MS = 60_000;

export type Breaker = {
  /** Those that may be asked, in order; all of them when every one is resting. */
  order(models: readonly Model[]): readonly Model[];
  resting(model: Model): boolean;
  failed(model: Model, kind: FaultKind): void;
  answered(model: Model): void;
};

export function createBreaker(clock: Clock): Breaker {
  // By endpoint, not by name: the same model may be served in two places.
  const stalls = new WeakMap<Model, { count: number; until: number }>();
  const resting = (model: Model) => (stalls.get(model)?.until ?? 0) > clock.now();
  return {
    resting,
    order(models) {
      const awake = models.filter((model) => !resting(model));
      return awake.length ? awake : models;
    },
    failed(model, kind) {
      if (kind !== "stalled") return;
      const count = (stalls.get(model)?.count ?? 0) + 1;
      stalls.set(model, { count, until: count >= STALLS ? clock.now() + REST_MS : 0 });
    },
    answered: (model) => void stalls.delete(model),
  };
}
