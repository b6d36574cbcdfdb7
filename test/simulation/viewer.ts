// Somebody who watches a session, leaves, comes back at the same place, also in another process: what they have
// seen in all must be the journal, each entry once, and each text whole.

import type { Update } from "../../src/core/runtime.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Running } from "./boot.ts";
import { must } from "./checker.ts";
import type { World } from "./world.ts";

export type Viewer = {
  /** Watching: leaves. Away: comes back. */
  turnOver(through: Running): void;
  /** That process is gone. */
  cut(gone: Running): void;
  /** Comes back if it does not watch: what it watches already must show everything by itself. */
  finish(through: Running): void;
  complete(): boolean;
  check(): void;
};

export function createViewer(session: string, world: World): Viewer {
  const seen: Entry[] = [];
  let cursor = "";
  let text = "";
  let quiet = false;
  let watching: { through: Running; leave: AbortController } | null = null;

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

  async function come(through: Running) {
    const leave = new AbortController();
    const mine = { through, leave };
    watching = mine;
    try {
      for await (const update of through.runtime.follow(session, cursor, leave.signal)) {
        if (leave.signal.aborted) return; // what comes now it does not see any more
        take(update);
      }
    } catch {
      // The store could not be read, or nobody has the session.
    }
    if (watching === mine) watching = null; // it comes back later
  }

  function go() {
    watching?.leave.abort("gone");
    watching = null;
  }

  return {
    turnOver: (through) => (watching ? go() : void come(through)),
    cut: (gone) => {
      if (watching?.through === gone) go();
    },
    finish: (through) => {
      if (!watching) void come(through);
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
