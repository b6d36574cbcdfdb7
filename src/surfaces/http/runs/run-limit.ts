// How many runs of the API live at a time. Counted from what happens, so that no way a run can end is forgotten.
import { Refusal } from "../../../core/errors.ts";
import type { Entry } from "../../../core/session.ts";
import type { LiveRuns, RunPermit } from "../server/route.ts";

/** `most` 0: no limit. */
export function countRuns(most: number): LiveRuns & { observe(entries: readonly Entry[]): void } {
  const live = new Set<string>();
  const paused = new Set<string>(); // they wait for their client, and take nobody's place
  const ended = new Set<string>(); // some end before whoever started them has heard of it
  let entering = 0;

  function place(): RunPermit {
    let inside = false;
    const leave = () => {
      if (inside) entering--;
      inside = false;
    };
    return {
      enter() {
        if (inside) return;
        if (most > 0 && live.size + entering >= most)
          throw new Refusal("rate_limit_exceeded", `${most} runs are at work already; wait for one, or stop one.`);
        entering++;
        inside = true;
      },
      stay(run) {
        leave();
        if (!ended.delete(run)) live.add(run);
      },
      leave,
    };
  }

  function observe(entries: readonly Entry[]) {
    if (entering === 0) ended.clear();
    for (const entry of entries) {
      if (entry.kind === "asked" && entry.ask.kind === "client" && live.delete(entry.turn)) paused.add(entry.turn);
      if (entry.kind === "acted" && paused.delete(entry.turn)) live.add(entry.turn);
      const over = overIn(entry);
      if (over !== null && !paused.delete(over) && !live.delete(over) && entering > 0) ended.add(over);
    }
  }

  const found = (runs: readonly string[]) => {
    for (const run of runs) live.add(run);
  };

  return { place, size: () => live.size + entering, found, observe };
}

/** The run that is none of its own any more. */
function overIn(entry: Entry): string | null {
  if (entry.kind === "joined") return entry.input;
  return entry.kind === "ended" || entry.kind === "withdrawn" ? entry.turn : null;
}
