// What only one of several nodes may do at a time: listen to a chat, keep the schedule, send webhooks.
import { messageOf } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import type { Nodes } from "../core/store.ts";

export type Leases = Ambient & {
  nodes: Pick<Nodes, "lease" | "release">;
  /** Our id; another one after our membership was lost. */
  node(): string;
};
/** Begins the work. Returns how to end it. */
export type Begin = () => Promise<() => Promise<unknown>>;
export type HeldLease = {
  /** Whether the work is done here. */
  here(): boolean;
  /** Ends the work and lets another node have it. */
  release(): Promise<void>;
};

const LOOK_MS = 1_000;
/** While the store does not answer, the lease is surely ours so long after it last said so: a member is reaped after 5 s. */
const SURE_MS = 4_000;

/** Does the work while this node holds the lease, and ends it when another node may have it. */
export function holdLease({ nodes, node, clock, log }: Leases, name: string, begin: Begin): HeldLease {
  const over = new AbortController();
  let end: (() => Promise<unknown>) | null = null;
  let sureUntil = 0;

  async function isOurs(): Promise<boolean> {
    const asked = clock.monotonic();
    try {
      if (!(await nodes.lease(name, node()))) return false;
      sureUntil = asked + SURE_MS;
      return true;
    } catch (error) {
      log("warn", "lease.unread", { name, error: messageOf(error) });
      return clock.monotonic() < sureUntil;
    }
  }

  async function work(): Promise<void> {
    while (!over.signal.aborted) {
      const ours = await isOurs();
      if (over.signal.aborted) break; // released while the store was asked
      if (ours && !end) await started();
      else if (!ours) await ended();
      await clock.sleep(LOOK_MS, over.signal);
    }
    await ended();
    await nodes.release(name, node()).catch(() => {}); // it is free once we are gone
  }

  async function started(): Promise<void> {
    try {
      end = await begin();
      log("info", "lease.taken", { name });
    } catch (error) {
      log("error", "lease.unused", { name, error: messageOf(error) });
    }
  }

  async function ended(): Promise<void> {
    const ending = end;
    end = null;
    if (!ending) return;
    log("info", "lease.left", { name });
    await ending().catch((error: unknown) => log("warn", "lease.unended", { name, error: messageOf(error) }));
  }

  const working = work();
  return {
    here: () => end !== null,
    release() {
      over.abort("released");
      return working;
    },
  };
}
