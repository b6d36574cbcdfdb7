// How many runs of the API live at a time. Counted from what happens, so that no way a run can end is forgotten.
import { Refusal } from "../../../core/errors.ts";
import type { Entry } from "../../../core/session.ts";
import { linked, onAbort } from "../../../core/wait.ts";

/** Requests that wait for their place: each holds a socket and what it was sent. */
const MOST_WAITING = 200;

export type LiveRuns = ReturnType<typeof countRuns>;
/** The place of one run among those that may be active at a time. */
export type RunPermit = ReturnType<LiveRuns["place"]>;

/** `most` 0: no limit. */
export function countRuns(most: number) {
  const live = new Set<string>();
  const paused = new Set<string>(); // they wait for their client, and take nobody's place
  const ended = new Set<string>(); // some end before whoever started them has heard of it
  const line = new Set<() => void>(); // those who wait, in order
  let entering = 0;

  const isFull = () => most > 0 && live.size + entering >= most;
  /** Room may have become free. */
  function admit() {
    for (const enter of line) {
      if (isFull()) return;
      line.delete(enter);
      enter();
    }
  }

  function place() {
    let inside = false;
    const take = () => {
      entering++;
      inside = true;
    };
    const leave = () => {
      if (inside) entering--;
      inside = false;
      admit();
    };
    return {
      /** Throws a Refusal when there is no room. Twice is once. */
      enter(): void {
        if (inside) return;
        if (isFull())
          throw new Refusal("rate_limit_exceeded", `${most} runs are at work already; wait for one, or stop one.`);
        take();
      },
      /** Enters when there is room, first come, first served. Rejects with a Refusal when too many wait, or a signal aborts. */
      async queue(until: readonly AbortSignal[]): Promise<void> {
        if (!isFull() && !line.size) return take();
        if (line.size >= MOST_WAITING)
          throw new Refusal("rate_limit_exceeded", `${MOST_WAITING} requests wait for their place already; try later.`);
        const waiting = linked(until);
        await new Promise<void>((resolve) => {
          const enter = () => {
            take();
            resolve();
          };
          line.add(enter);
          onAbort(waiting.signal, () => {
            line.delete(enter);
            resolve();
          });
        });
        waiting.release();
        if (!inside) throw new Refusal("draining", "The request was given up before there was a place for it.");
      },
      /** Keeps the place until this run ends. */
      stay(run: string): void {
        if (!ended.delete(run)) live.add(run);
        leave();
      },
      /** Gives the place back: no run was started. */
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
    admit();
  }

  /** Counts the runs that an earlier process left. */
  const found = (runs: readonly string[]) => {
    for (const run of runs) live.add(run);
  };

  let counted = new Set<string>();
  /** Lets go of those that were counted the last time too and are not among these. */
  const keep = (runs: readonly string[]) => {
    const here = new Set(runs);
    for (const run of counted) if (!here.has(run)) live.delete(run);
    counted = new Set(live);
    admit();
  };

  return { place, keep, size: () => live.size + entering, found, observe };
}

/** The run that is none of its own any more. */
function overIn(entry: Entry): string | null {
  if (entry.kind === "joined") return entry.input;
  return entry.kind === "ended" || entry.kind === "withdrawn" ? entry.turn : null;
}
