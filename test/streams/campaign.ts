// Many lives, one seed each, until so many lines have been cut and taken up again.
import { messageOf } from "../../src/core/errors.ts";
import { live } from "./life.ts";

const PROGRESS_MS = 5_000;

/** `passed` and `failed` count cuts: those of a life that went wrong are not worth anything. */
export async function campaign({ cuts, seed, say }: { cuts: number; seed: number; say(line: string): void }) {
  const budget = { left: cuts };
  let failed = 0;
  let shown = performance.now();
  for (let mine = seed; budget.left > 0; mine++) {
    const before = budget.left;
    try {
      await live(mine, budget);
    } catch (error) {
      failed += Math.max(1, before - budget.left);
      say(
        `✗ seed ${mine}: ${messageOf(error)}\n  again with npm run stream-test -- --cuts ${before - budget.left} --seed ${mine}`,
      );
    }
    if (performance.now() - shown < PROGRESS_MS) continue;
    shown = performance.now();
    say(`… ${cuts - budget.left} of ${cuts} cuts, ${mine - seed + 1} lives, ${failed} failed`);
  }
  return { passed: cuts - failed, failed };
}
