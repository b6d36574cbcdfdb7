// One of several nodes on a PostgreSQL: who we are, how we reach the others, and whether they answer.
import { networkInterfaces } from "node:os";
import { createPeer } from "../client/peer.ts";
import type { Config } from "../config/schema.ts";
import { ConfigError, messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import type { Peer } from "../core/runtime.ts";
import type { Nodes } from "../core/store.ts";
import { clock } from "../platform/clock.ts";

export type Cluster = {
  secret: string;
  /** What the others read of us. The address is known when the API listens, before the engine joins. */
  about: { address: string; version: string };
  peerOf(address: string): Peer;
  /** Whenever this node is a door to another one. */
  onUse(listener: () => void): void;
  /** Addresses of nodes that did not answer when they were last asked. */
  unreachable(): string[];
  /** Asks them every few seconds. Returns how to stop. */
  watch(nodes: Pick<Nodes, "list">): () => void;
};

const LOOK_MS = 5_000;
const ANSWER_MS = 2_000;
/** Until the API listens. */
const UNKNOWN = "http://unknown";

/** Null: this process has its store for itself. */
export function clusterOf(config: Config, version: string, log: Log): Cluster | null {
  const { secret } = config.cluster;
  if (secret === undefined) return null;
  const { enabled, key } = config.gateway.api_server;
  if (config.store.url === undefined)
    throw new ConfigError(
      "cluster.secret makes this a node of a cluster, which needs store.url: one PostgreSQL for all nodes.",
    );
  if (!enabled)
    throw new ConfigError(
      "The nodes of a cluster reach each other by their API: set gateway.api_server.enabled to true.",
    );
  if (key === undefined)
    throw new ConfigError(
      "All nodes of a cluster must have the same API key, so none is made up: set gateway.api_server.key (API_SERVER_KEY). `openssl rand -hex 32` makes one.",
    );
  const peers = new Map<string, Peer>();
  let silent: string[] = [];
  let used = () => {};
  const about = { address: config.cluster.address ?? UNKNOWN, version };

  async function answers(address: string): Promise<boolean> {
    const { Agent, request } = await import("undici"); // as for a call of that node, which so finds all of it loaded
    // On a connection of its own: undici makes another one for what was aborted, and a call that takes it waits as long as that node is silent.
    const dispatcher = new Agent();
    try {
      const signal = AbortSignal.timeout(ANSWER_MS);
      const { statusCode, body } = await request(`${address}/health`, { dispatcher, signal });
      await body.dump();
      return statusCode === 200;
    } catch (error) {
      if (!silent.includes(address)) log("warn", "cluster.unreachable", { address, error: messageOf(error) });
      return false;
    } finally {
      await dispatcher.destroy();
    }
  }

  return {
    secret,
    about,
    peerOf(address) {
      const peer = peers.get(address) ?? createPeer({ url: address, key: secret, used: () => used() });
      peers.set(address, peer);
      return peer;
    },
    onUse(listener) {
      used = listener;
    },
    unreachable: () => silent,
    watch(nodes) {
      const over = new AbortController();
      const work = async () => {
        while (!over.signal.aborted) {
          try {
            const others = (await nodes.list())
              .map(({ address }) => address)
              .filter((one) => one && one !== about.address);
            const asked = await Promise.all(others.map(async (address) => ((await answers(address)) ? [] : [address])));
            silent = asked.flat();
            for (const known of peers.keys()) if (!others.includes(known)) peers.delete(known);
          } catch (error) {
            log("debug", "cluster.unread", { error: messageOf(error) });
          }
          await clock.sleep(LOOK_MS, over.signal);
        }
      };
      void work();
      return () => over.abort("over");
    },
  };
}

/** Once the API listens at `url`: what the others are told, unless it is configured. */
export function reachableAt(cluster: Cluster, url: string): void {
  if (cluster.about.address !== UNKNOWN) return;
  const { protocol, hostname, port } = new URL(url);
  if (hostname !== "0.0.0.0" && hostname !== "[::]") cluster.about.address = url;
  else cluster.about.address = `${protocol}//${onlyAddress(url)}:${port}`;
}

function onlyAddress(url: string): string {
  const outside = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.flatMap(({ address, family, internal }) => (family === "IPv4" && !internal ? [address] : [])),
  );
  const [address, ...more] = outside;
  if (address !== undefined && !more.length) return address;
  throw new ConfigError(
    `The API listens on all addresses (${url}), and this machine has ${outside.length || "no"} that the other nodes could use` +
      `${outside.length ? `: ${outside.join(", ")}` : ""}. Set cluster.address (HERMES_CLUSTER_ADDRESS), such as http://10.0.0.1:8642.`,
  );
}
