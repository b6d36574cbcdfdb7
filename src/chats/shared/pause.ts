import type { Random } from "../../core/ports.ts";
import { backoff } from "../../core/wait.ts";

/** A growing pause, as chat platforms bear it. */
export const pause = (attempt: number, random: Random, { first = 1_000, most = 60_000 } = {}): number =>
  backoff(attempt, { first, most }, random());
