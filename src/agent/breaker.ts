// Endpoints that went silent again and again are left alone for a while: each further try costs minutes.
import type { Clock, FaultKind, Model } from "../core/ports.ts";

const STALLS = 3;
const REST_MS = 60_000;

export type Breaker = {
  /** Those that may be asked, in order; all of them when every one is resting. */
  order(models: readonly Model[]): readonly Model[];
  failed(model: Model, kind: FaultKind): void;
  answered(model: Model): void;
};

export function createBreaker(clock: Clock): Breaker {
  const stalls = new Map<string, { count: number; until: number }>();
  const resting = ({ name }: Model) => (stalls.get(name)?.until ?? 0) > clock.now();
  return {
    order(models) {
      const awake = models.filter((model) => !resting(model));
      return awake.length ? awake : models;
    },
    failed({ name }, kind) {
      if (kind !== "stalled") return;
      const count = (stalls.get(name)?.count ?? 0) + 1;
      stalls.set(name, { count, until: count >= STALLS ? clock.now() + REST_MS : 0 });
    },
    answered: ({ name }) => void stalls.delete(name),
  };
}
