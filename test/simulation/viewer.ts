// Somebody who watches a session, leaves, comes back at the same place, also in another process: what they have
// seen in all must be the journal, each entry once, and each text whole.

import type { Update } from "../../src/core/runtime.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Running } from "./boot.ts";
import { must } from "./checker.ts";
import type { Owner } from "./scheduler.ts";
import type { World } from "./world.ts";

export type Viewer = {
  /** Watching: leaves. Away: comes back. */
  turnOver(through: Running): void;
  /** For good. */
  leave(): void;
  /** That process is gone. */
  cut(gone: Running): void;
  /** Comes back if it does not watch: what it watches already must show everything by itself. */
  finish(through: Running): void;
  complete(): boolean;
  check(): void;
};

const PERSON: Owner = { alive: true, paused: false };
const AGAIN_MS = 500;

export function createViewer(session: string, world: World): Viewer {
  const seen: Entry[] = [];
  let cursor = "";
  let text = "";
  let quiet = false;
  let last: Running | null = null;
  let watching: { through: Running; left: AbortController } | null = null;

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
    const left = new AbortController();
    const mine = { through, left };
    watching = mine;
    try {
      for await (const update of through.runtime.follow(session, cursor, left.signal)) {
        if (left.signal.aborted) return; // what comes now it does not see any more
        take(update);
        if ("entry" in update) lookUp(through, update.entry);
      }
    } catch {
      // The store could not be read, or nobody has the session.
    }
    if (watching !== mine) return;
    watching = null; // it comes back later
    if (last) world.scheduler.add(PERSON, "come back", AGAIN_MS, () => last && finish(last));
  }

  /** Whoever has seen an entry finds it, whatever else is under way. */
  function lookUp({ runtime }: Running, { turn, seq }: Entry) {
    void runtime.turn(turn).then(
      (entries) => {
        const has = world.over || entries.some((entry) => entry.seq === seq);
        must(has, "I20", () => `a viewer of ${session} has seen entry ${seq}, which its turn does not have`);
      },
      () => {}, // the store could not be read
    );
  }

  function leave() {
    watching?.left.abort("gone");
    watching = null;
  }

  function finish(through: Running) {
    last = through;
    if (!watching) void come(through);
  }

  return {
    turnOver: (through) => (watching ? leave() : void come(through)),
    leave: () => {
      last = null;
      leave();
    },
    cut: (gone) => {
      if (watching?.through === gone) leave();
    },
    finish,
    complete: () => seen.length === world.disk.all(session).length,
    check: () => {
      const all = world.disk.all(session);
      must(
        seen.length === all.length,
        "I20",
        () => `a viewer saw ${seen.length} of ${all.length} entries of ${session}`,
      );
      const wrong = seen.find(({ turn, kind }, i) => turn !== all[i]?.turn || kind !== all[i]?.kind);
      must(!wrong, "I25", () => `a viewer of ${session} saw ${wrong?.kind} of ${wrong?.turn}, which is not its`);
    },
  };
}
