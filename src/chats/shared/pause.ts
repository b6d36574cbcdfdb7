import type { Random } from "../../core/ports.ts";

/** A growing pause. Jitter: of a hundred that were cut off together, not all come back together. */
export const pause = (attempt: number, random: Random, { first = 1_000, most = 60_000 } = {}): number =>
  Math.min(most, first * 2 ** attempt) * (0.5 + random());
