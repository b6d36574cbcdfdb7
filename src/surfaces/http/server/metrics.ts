// Numbers for Prometheus. The library is loaded with the first scrape: a server that is not ready yet, or that nobody
// scrapes, does not pay its 35 ms. Until then what is counted waits in a list, so nothing is missing.
import type { Counter, Histogram, Registry } from "prom-client";
import type { Clock } from "../../../core/ports.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Entry } from "../../../core/session.ts";
import { type Api, type Route, routeTagged } from "./route.ts";
import { type Counted, createTally, type Sample, type Timed } from "./samples.ts";

const route = routeTagged("server");

type Options = {
  runtime: Pick<Runtime, "load">;
  clock: Clock;
  connections(): Promise<number>;
  node?: Api["node"] | undefined;
};
export type Metrics = ReturnType<typeof createMetrics>;
type LoadedRegistry = { take(sample: Sample): void; text(): Promise<string>; close(): void };

const COUNTERS: Record<Counted, { help: string; labels: string[] }> = {
  inputs: { help: "Inputs accepted, by what became of them", labels: ["applied"] },
  turns: { help: "Turns ended", labels: ["outcome"] },
  tool_calls: { help: "Tool calls that have their result", labels: ["tool", "outcome"] },
  model_calls: { help: "Model calls that came to an answer or a failure, tries within one not counted", labels: [] },
  tokens: { help: "Tokens of model calls; cached ones are part of the input", labels: ["direction"] },
  restarts: { help: "Turns taken up that a dead process left", labels: [] },
  approvals: { help: "Approvals decided", labels: ["decision"] },
};
const HISTOGRAMS: Record<Timed, { help: string; buckets: number[] }> = {
  queue_wait: { help: "From accepted to begun", buckets: [0.005, 0.05, 0.5, 1, 5, 10, 30, 60, 300, 1_800] },
  turn: { help: "From begun to ended", buckets: [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600] },
  stop: { help: "From asked to stop to ended", buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] },
  tool: { help: "From started to its result", buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 180, 600] },
};
/** Samples that wait for the library; more than that and it is loaded for them. */
const MOST_EARLY = 5_000;

export function createMetrics(options: Options) {
  let early: Sample[] = [];
  let loading: Promise<LoadedRegistry> | null = null;
  let loaded: LoadedRegistry | null = null;

  async function load(): Promise<LoadedRegistry> {
    const made = await open(options);
    for (const sample of early) made.take(sample);
    early = [];
    loaded = made;
    return made;
  }

  const library = () => (loading ??= load());

  const tally = createTally((sample) => {
    if (loaded) return loaded.take(sample);
    if (early.length < 2 * MOST_EARLY) early.push(sample);
    if (early.length === MOST_EARLY) library().catch(() => {}); // whoever scrapes is told
  });
  return {
    observe(_session: string, entries: readonly Entry[]): void {
      for (const entry of entries) tally(entry);
    },
    text: async () => (await library()).text(),
    contentType: "text/plain; version=0.0.4; charset=utf-8",
    close: () => loaded?.close(),
  };
}

/** Made once: what it watches (garbage collection, delays of the event loop) has no end but the process's, which it does
 *  not keep alive. */
let ofProcess: Registry | null = null;

async function open({ runtime, clock, connections, node }: Options): Promise<LoadedRegistry> {
  const { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } = await import("prom-client");
  const registry = new Registry();
  const registers = [registry];
  if (!ofProcess) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  const shared = ofProcess;
  const counters = new Map<string, Counter>();
  for (const [name, { help, labels: labelNames }] of Object.entries(COUNTERS))
    counters.set(name, new Counter({ name: `hermes_${name}_total`, help, labelNames, registers }));
  const histograms = new Map<string, Histogram>();
  for (const [name, { help, buckets }] of Object.entries(HISTOGRAMS))
    histograms.set(name, new Histogram({ name: `hermes_${name}_seconds`, help, buckets, registers }));
  const gauge = (name: string, help: string) => new Gauge({ name: `hermes_${name}`, help, registers });
  const running = gauge("turns_running", "Turns that run now, also those that wait for room");
  const waiting = gauge("inputs_waiting", "Inputs that wait for their turn");
  const oldest = gauge("oldest_input_seconds", "How long the oldest of them has waited");
  const sockets = gauge("connections", "Connections that are open");
  const inCluster = node && {
    info: new Gauge({ name: "hermes_node_info", help: "The id of this node", labelNames: ["node"], registers }),
    lost: gauge("peers_unreachable", "Nodes of the cluster that this one cannot reach"),
  };
  return {
    take(sample) {
      if ("counter" in sample) counters.get(sample.counter)?.inc(sample.labels ?? {}, sample.by ?? 1);
      else histograms.get(sample.histogram)?.observe(sample.seconds);
    },
    async text() {
      const [{ turns, waiting: inputs, oldestWaitingAt }, count] = await Promise.all([runtime.load(), connections()]);
      running.set(turns);
      waiting.set(inputs);
      oldest.set(oldestWaitingAt === null ? 0 : Math.max(0, clock.now() - oldestWaitingAt) / 1_000);
      sockets.set(count);
      if (inCluster && node) {
        const now = node();
        inCluster.info.reset(); // a node that had lost its membership has another id
        inCluster.info.set({ node: now.node }, 1);
        inCluster.lost.set(now.peers_unreachable);
      }
      return `${await registry.metrics()}\n${await shared.metrics()}`;
    },
    close: () => registry.clear(),
  };
}

export const metricsRoutes = ({ text, contentType }: Pick<Metrics, "text" | "contentType">): Route[] => [
  route("GET", "/metrics", {
    summary: "Metrics for Prometheus",
    answers: { 200: "The metrics, in Prometheus' text format", 503: "The database cannot be read now" },
    gives: "text/plain",
    handle: async () => ({ status: 200, body: await text(), headers: { "Content-Type": contentType } }),
  }),
];
