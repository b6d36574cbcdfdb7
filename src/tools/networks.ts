// The network of each session: its commands share one namespace, so that a server started by one is there for the next.
import type { Log } from "../core/ports.ts";
import { canJoin, openNetns } from "./exec.ts";
import { closeNetns, type Netns } from "./netns.ts";

export type Networks = {
  /** For one command, until `release`. */
  use(session: string): Promise<Use>;
  close(): Promise<void>;
};
/** `netns` null: commands cannot share one here, each has its own. */
export type Use = { netns: Netns | null; release(): void };

type Network = { ready: Promise<Netns | null>; users: number; idle: NodeJS.Timeout | undefined };

/** Kept so long after its last command. It costs no process, only memory of the kernel. */
const IDLE_MS = 30 * 60_000;

export function createNetworks(options: { owner: string; log: Log }): Networks {
  const { owner, log } = options;
  const all = new Map<string, Network>();
  let works: boolean | null = null;

  async function open(): Promise<Netns | null> {
    const netns = works === false ? null : await openNetns(owner);
    if (netns === null) return null;
    works ??= await canJoin(netns);
    if (works) return netns;
    closeNetns(netns);
    log("warn", "network.not_shared", {});
    return null;
  }

  async function end(session: string, network: Network): Promise<void> {
    all.delete(session);
    clearTimeout(network.idle);
    const netns = await network.ready;
    if (netns) closeNetns(netns);
  }

  return {
    async use(session) {
      const network = all.get(session) ?? { ready: open(), users: 0, idle: undefined };
      all.set(session, network);
      clearTimeout(network.idle);
      network.users++;
      const release = () => {
        if (--network.users > 0 || all.get(session) !== network) return;
        network.idle = setTimeout(() => void end(session, network), IDLE_MS).unref();
      };
      return { netns: await network.ready, release };
    },
    close: async () => void (await Promise.all([...all].map(([session, network]) => end(session, network)))),
  };
}
