// Several nodes of the program as real processes, each with a home of its own, on one PostgreSQL behind a load balancer.
import { makePlace, type Place } from "../fakes/hermes.ts";
import { startPostgres, type TestServer } from "../fakes/postgres.ts";
import { type Balancer, startBalancer } from "./balancer.ts";

export const KEY = "k3y-Zq8vN1xR5tW7yB0cD2fG4hJ6kL9mP";
export const SECRET = "c1uster-Wq2eR4tY6uI8oP0aS";

export type TestNode = {
  place: Place;
  /** Empty while it is not ready. */
  url: string;
  pid: number;
  stderr(): string;
  /** Resolves when it is ready. One that cannot start because PostgreSQL restarts just then (1) is started again, as by its
   *  service manager. */
  start(): Promise<void>;
  signal(name: NodeJS.Signals): void;
  gone(): Promise<unknown>;
};
export type TestCluster = {
  nodes: TestNode[];
  balancer: Balancer;
  postgres: TestServer;
  /** The address of the store. */
  store: string;
  ask(method: string, path: string, body?: unknown, at?: string): Promise<{ http: number; [field: string]: unknown }>;
  /** `keep`: leaves the homes of the nodes, with their logs. */
  close(keep?: boolean): Promise<void>;
};

type ClusterOptions = {
  config?: string;
  server?: Parameters<typeof startPostgres>[0];
  /** Where the others look for a node, if not where it listens. */
  addresses?: readonly (string | undefined)[];
};

export async function startCluster(
  count: number,
  env: NodeJS.ProcessEnv,
  { config = "", server = {}, addresses = [] }: ClusterOptions = {},
): Promise<TestCluster> {
  const postgres = await startPostgres(server);
  const store = await postgres.place();
  const nodes = Array.from({ length: count }, (_, n) => {
    const address = addresses[n] === undefined ? {} : { HERMES_CLUSTER_ADDRESS: addresses[n] };
    return makeNode({ ...env, ...address, HERMES_STORE_URL: store }, config);
  });
  const balancer = await startBalancer(() => nodes.flatMap(({ url }) => url || []));
  const cluster: TestCluster = {
    nodes,
    balancer,
    postgres,
    store,
    async ask(method, path, body, at = balancer.url) {
      const answer = await fetch(`${at}${path}`, {
        method,
        headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(15_000),
      });
      return { http: answer.status, ...JSON.parse(await answer.text()) };
    },
    async close(keep = false) {
      await balancer.close();
      for (const node of nodes) node.signal("SIGKILL");
      await Promise.all(nodes.map((node) => node.gone()));
      if (!keep) for (const { place } of nodes) place.clear();
      await postgres.stop();
    },
  };
  try {
    await Promise.all(nodes.map((node) => node.start()));
    return cluster;
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

function makeNode(env: NodeJS.ProcessEnv, config: string): TestNode {
  const place = makePlace({ API_SERVER_KEY: KEY, HERMES_CLUSTER_SECRET: SECRET, ...env });
  place.configure(config);
  let hermes: ReturnType<Place["start"]> | null = null;
  const node: TestNode = {
    place,
    url: "",
    pid: 0,
    stderr: () => hermes?.stderr() ?? "",
    async start() {
      const started = place.start(["gateway", "--port", "0"]);
      hermes = started;
      node.pid = started.pid;
      void started.exit.then(() => {
        if (hermes === started) node.url = "";
      });
      try {
        await started.prints(/^hermes gateway ready on http:\S+\n/m);
      } catch (error) {
        if ((await started.exit) !== 1) throw error;
        return node.start();
      }
      node.url = /ready on (http:\S+)\n/.exec(started.stdout())?.[1] ?? "";
    },
    signal(name) {
      if (name === "SIGKILL") node.url = "";
      hermes?.kill(name);
    },
    gone: async () => hermes?.exit,
  };
  return node;
}
