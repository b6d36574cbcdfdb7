// Somebody who watches a session, leaves, comes back at the same place, also in another process: what they have
// seen in all must be the journal, each entry once, and each text whole.

import type { Runtime, Update } from "../../src/core/runtime.ts";
import type { Entry } from "../../src/core/session.ts";
import { must } from "./checker.ts";
import type { World } from "./world.ts";

export type Viewer = {
  /** Watching: leaves. Away: comes back. */
  turnOver(engine: Pick<Runtime, "follow">): void;
  /** The process it watched through is gone. */
  cut(): void;
  finish(engine: Pick<Runtime, "follow">): void;
  complete(): boolean;
  check(): void;
};

export function createViewer(session: string, world: World): Viewer {
  const seen: Entry[] = [];
  let cursor = "";
  let text = "";
  let quiet = false;
  let leave: AbortController | null = null;

  function take(update: Update) {
    world.trace?.(`  viewer of ${session}: ${JSON.stringify(update)}`);
    cursor = update.cursor;
    if ("delta" in update) {
      must(!quiet, "I11", () => `${session} shows text after a stop`);
      text += update.delta;
    } else if ("reset" in update) text = "";
    else if ("entry" in update) see(update.entry);
  }

  function see(entry: Entry) {
    seen.push(entry);
    must(
      entry.seq === seen.length,
      "I20",
      () => `a viewer of ${session} gets entry ${entry.seq} as number ${seen.length}`,
    );
    if (entry.kind === "thought" || entry.kind === "cut") {
      must(text === entry.text, "I20", () => `a viewer of ${session} saw "${text}" of "${entry.text}"`);
      text = "";
    }
    if (entry.kind === "stopping") quiet = true;
    if (entry.kind === "began") quiet = false;
  }

  async function watch(engine: Pick<Runtime, "follow">, signal: AbortSignal) {
    try {
      for await (const update of engine.follow(session, cursor, signal)) {
        if (signal.aborted) return; // what comes now it does not see any more
        take(update);
      }
    } catch {
      leave = null; // the store could not be read: come back later
    }
  }

  function come(engine: Pick<Runtime, "follow">) {
    leave = new AbortController();
    void watch(engine, leave.signal);
  }

  function cut() {
    leave?.abort();
    leave = null;
  }

  return {
    turnOver: (engine) => (leave ? cut() : come(engine)),
    cut,
    finish: (engine) => {
      cut();
      come(engine);
    },
    complete: () => seen.length === world.disk.all(session).length,
    check: () => {
      const all = world.disk.all(session);
      must(
        seen.length === all.length,
        "I20",
        () => `a viewer saw ${seen.length} of ${all.length} entries of ${session}`,
      );
    },
  };
}
