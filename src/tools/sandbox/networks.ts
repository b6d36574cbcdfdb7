// The network of each session. Its commands share one namespace, so that a server started by one command can be reached
// by the next. The port of the proxy is their only way out.
import { spawn } from "node:child_process";
import { Server } from "node:net";
import type { Log } from "../../core/ports.ts";
import { marks } from "../shell/env.ts";
import { canJoin, nsenter, openNetns } from "../shell/exec.ts";
import { allowsHost } from "./hosts.ts";
import { closeNetns, joinArgs, type Netns, netnsStdio } from "./netns.ts";
import { createProxy, type ProxyOptions, proxyEnv } from "./proxy.ts";

/** `off`: nothing; `ask`: the hosts in `allow` and those that a person approves; `on`: every public host. */
export type NetworkOptions = {
  mode: "off" | "ask" | "on";
  allow: readonly string[];
} & Pick<ProxyOptions, "resolve" | "dial">;

type Network = { ready: Promise<OpenedNetwork | null>; users: number; idle: NodeJS.Timeout | undefined };
type OpenedNetwork = { netns: Netns; way: Server | null };

/** How long a network is kept after its last command. It costs no process, only kernel memory. */
const IDLE_MS = 30 * 60_000;
/** In the session's own namespace, so the port is always free; above the range of ephemeral ports. */
const PROXY_PORT = 61080;
const LISTEN_MS = 10_000;

export function createNetworks(options: { owner: string; log: Log; network: NetworkOptions }) {
  const { owner, log, network } = options;
  const { mode, allow } = network;
  const all = new Map<string, Network>();
  const proxy = createProxy({ ...network, log });
  let works: boolean | null = null;

  async function open(): Promise<OpenedNetwork | null> {
    const netns = works === false ? null : await openNetns(owner);
    if (netns === null) return null;
    works ??= await canJoin(netns);
    if (works) return { netns, way: mode === "off" ? null : await wayOut(netns) };
    closeNetns(netns);
    log("warn", "network.not_shared", {});
    return null;
  }

  async function wayOut(netns: Netns): Promise<Server | null> {
    const server = await listenIn(netns, owner);
    if (server) proxy.serve(server);
    else log("warn", "network.no_way_out", {});
    return server;
  }

  async function end(session: string, network: Network): Promise<void> {
    all.delete(session);
    clearTimeout(network.idle);
    const opened = await network.ready;
    opened?.way?.close();
    if (opened) closeNetns(opened.netns);
  }

  /** For one command, until `release`; `hosts` are its hosts besides those that all commands may reach. */
  async function use(session: string, hosts: readonly string[]) {
    const network = all.get(session) ?? { ready: open(), users: 0, idle: undefined };
    all.set(session, network);
    clearTimeout(network.idle);
    network.users++;
    const opened = await network.ready;
    const allows = (host: string, port: number) => mode === "on" || allowsHost([...allow, ...hosts], host, port);
    const way = opened?.way ? proxy.open({ session, allows, inner: allow }) : null;
    const release = () => {
      way?.close();
      if (--network.users > 0 || all.get(session) !== network) return;
      network.idle = setTimeout(() => void end(session, network), IDLE_MS).unref();
    };
    return {
      netns: opened?.netns ?? null, // then each command has a network of its own
      env: way ? proxyEnv(PROXY_PORT, way.token) : {},
      refused: () => way?.refused() ?? [],
      release,
    };
  }

  async function close(): Promise<void> {
    await Promise.all([...all].map(([session, network]) => end(session, network)));
    proxy.close();
  }

  return { use, close };
}

// A socket stays in the namespace where it was created. So a process creates it there, hands it over, and exits.
const LISTEN = `const server = require("node:net").createServer()
  .listen(${PROXY_PORT}, "127.0.0.1", () => process.send("listening", server, () => process.exit()));`;

function listenIn(netns: Netns, owner: string): Promise<Server | null> {
  const child = spawn(nsenter(), [...joinArgs(netns), process.execPath, "-e", LISTEN], {
    cwd: "/",
    env: marks("listen", owner),
    stdio: ["ignore", "ignore", "ignore", "ipc", ...netnsStdio(netns)],
    timeout: LISTEN_MS,
  });
  return new Promise((resolve) => {
    child.once("message", (_, server) => resolve(server instanceof Server ? server : null));
    child.once("error", () => resolve(null));
    child.once("exit", () => resolve(null));
  });
}
