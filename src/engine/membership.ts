// This process as a node of its store. Where it shares the store with others it beats, looks for dead ones, and takes up what is free.
//
// M1  What the store said at a beat holds for 4 s after that beat was sent; the store itself counts 5 s. Nothing is begun later. (I21)
// M2  A lease that is over is the end of this life, not of the process: everything is let go of, and the next life has another id, so that
//     nothing from before it can be written.
// M3  A hint only makes the next look come earlier: each look finds everything by itself.
import { messageOf, Refusal, StoreFault } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import type { Nodes } from "../core/store.ts";
import { onAbort } from "../core/wait.ts";

const LOOK_MS = 700;
const VALID_MS = 4_000;
/** Before joining is tried again. */
const AGAIN_MS = 500;

export type NodeInfo = Parameters<Nodes["join"]>[0];
export type Membership = ReturnType<typeof createMembership>;

export function createMembership(
  world: Ambient & {
    nodes: Nodes;
    /** Without an address it shares the store with nobody: it is never given more than at its start, and needs no lease. */
    about: NodeInfo;
    /** How many sessions more it can take up. */
    room(): number;
    takeUp(sessions: string[]): Promise<void>;
    /** Lets go of everything. Resolves when nothing of it runs any more, or has been given up on. */
    letGo(): Promise<void>;
    /** After each look: what is known of others may have changed. */
    looked(): void;
    /** Somebody wants this node to leave. */
    leaving(): void;
  },
) {
  const { nodes, about, clock, log } = world;
  /** Not before the start: the port that others reach it at is known late. */
  const shared = () => about.address !== "";
  const over = new AbortController();
  let id = "";
  let validUntil = 0;
  let leaving = false;
  let losing: Promise<void> | null = null;
  /** Ends the wait for the next look. */
  let look = new AbortController();

  async function join(): Promise<void> {
    const sent = clock.monotonic();
    const joined = await nodes.join(about);
    validUntil = sent + VALID_MS;
    id = joined;
  }

  /** `refresh`: reads what other nodes may have changed for all of them; before anything is taken up, and at each look. */
  async function start(refresh: () => Promise<void>): Promise<void> {
    await join();
    if (shared()) await nodes.reap();
    const found = await nodes.claim(id, shared() ? world.room() : Number.POSITIVE_INFINITY);
    if (shared()) {
      const stopHints = nodes.onHint(() => look.abort("hint"));
      onAbort(over.signal, stopHints);
      void keepLooking(refresh);
      void keepLease();
    }
    await refresh();
    await world.takeUp(found);
  }

  async function keepLooking(refresh: () => Promise<void>): Promise<void> {
    while (!over.signal.aborted) {
      await clock.sleep(LOOK_MS, look.signal);
      if (over.signal.aborted) return;
      look = new AbortController(); // a hint from here on is for the look after this one
      if (losing) await losing;
      else
        await lookAround(refresh).catch((error: unknown) => {
          if (!(error instanceof StoreFault)) throw error;
          log("warn", "node.store_fault", { node: id, error: messageOf(error) });
        });
      world.looked();
    }
  }

  async function lookAround(refresh: () => Promise<void>): Promise<void> {
    const self = id;
    const sent = clock.monotonic();
    const beat = nodes.beat(self);
    const refreshed = refresh();
    const takenUp = Promise.all([refreshed, takeUpFree(self, refreshed)]); // what is handed over should not wait for the beat
    takenUp.catch(() => {}); // awaited below
    const heard = await beat;
    if (self !== id) return; // the answer is for a life that is over
    if (heard === "gone") return lose();
    validUntil = sent + VALID_MS;
    if (heard === "leaving" && !leaving) world.leaving();
    await takenUp;
    const reaped = await nodes.reap();
    if (reaped.length === 0) return;
    log("warn", "node.reaped", { nodes: reaped });
    await takeUpFree(self, refreshed);
  }

  async function takeUpFree(self: string, refreshed: Promise<void>): Promise<void> {
    if (leaving || self !== id) return;
    const found = await nodes.claim(self, world.room());
    await refreshed;
    if (self === id && found.length > 0) void world.takeUp(found);
  }

  /** A beat that is not answered ends it too. */
  async function keepLease(): Promise<void> {
    while (!over.signal.aborted) {
      const left = validUntil - clock.monotonic();
      if (left > 0) await clock.sleep(left, over.signal);
      else await lose();
    }
  }

  /** M2. */
  function lose(): Promise<void> {
    losing ??= rejoin().finally(() => {
      losing = null;
    });
    return losing;
  }

  async function rejoin(): Promise<void> {
    const before = id;
    id = "";
    log("error", "node.lost", { node: before });
    await world.letGo();
    while (!over.signal.aborted) {
      try {
        await nodes.leave(before); // its sessions need not wait for the end of a lease that nobody uses
        return await join();
      } catch (error) {
        if (!(error instanceof StoreFault)) throw error;
        await clock.sleep(AGAIN_MS, over.signal);
      }
    }
  }

  return {
    get shared() {
      return shared();
    },
    start,
    lose,
    /** Empty between two lives. */
    id: () => id,
    /** Waits for the next life, if there is none just now; or refuses. */
    async joined(insist: boolean): Promise<string> {
      if (id !== "") return id;
      if (insist && losing) await losing;
      if (id === "")
        throw new Refusal("store_unavailable", "Not accepted, try again: this node is joining its cluster.");
      return id;
    },
    /** M1. */
    isValid: () => id !== "" && clock.monotonic() < validUntil,
    /** From now on it is given nothing more. */
    async drain(): Promise<void> {
      leaving = true;
      if (shared() && id !== "") await nodes.drain(id);
    },
    /** What it still owns is anybody's. */
    async leave(): Promise<void> {
      over.abort();
      look.abort();
      const before = id;
      id = "";
      if (shared() && before !== "") await nodes.leave(before);
    },
  };
}
