// What PostgreSQL costs beside a bare loop and SQLite, and what a second node costs: its door, and its death.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "../src/client/client.ts";
import type { Commit } from "../src/core/store.ts";
import { openPostgres } from "../src/store/postgres/postgres.ts";
import { KEY, startCluster, type TestCluster, type TestNode } from "../test/cluster/nodes.ts";
import { type FakeLlm, startFakeLlm } from "../test/fakes/llm/server.ts";
import { startPostgres, type TestServer } from "../test/fakes/postgres.ts";
import { type Bench, openBench } from "./engine.ts";
import { type Figure, median, percentile, report } from "./figure.ts";
import { openBarePg, pgRowOf } from "./pg-bare.ts";

const quick = process.argv.includes("--quick");
const SLICES = quick ? 3 : 8;
const TURNS = { one: quick ? 50 : 150, many: quick ? 1_000 : 3_000 };
const DOORS = quick ? 60 : 300;
const STOPS = quick ? 20 : 100;
const DEATHS = quick ? 2 : 12;
const EARLIER = 100;

const clientOf = ({ url }: TestNode) => createClient({ url, key: KEY });
const silent = { text: "so far", fault: { silence: "text" } } as const;

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
try {
  report([...(await storeFigures()), ...(await nodeFigures())]);
} finally {
  rmSync(dir, { recursive: true });
}

// ── The store ────────────────────────────────────────────────────────────────────────────────────────

async function storeFigures(): Promise<Figure[]> {
  const server = await startPostgres({ synced: true });
  try {
    const found: Figure[] = [];
    for (const [sessions, turns, goal] of [
      [1, TURNS.one, 2],
      [200, TURNS.many, 1.25],
    ] as const) {
      const place = join(dir, String(sessions));
      mkdirSync(place);
      const commits: Commit[] = [];
      const url = await server.place();
      const store = await openPostgres({ url });
      const ours = await openBench(place, { store, onCommit: (commit) => commits.push(commit) });
      const sqlite = await openBench(place);
      const bare = await openBarePg(await server.place());
      const used = { before: await usage(server, url), turns: 0, wal: 0 };
      const rates = { ours: [] as number[], sqlite: [] as number[], bare: [] as number[] };
      for (let slice = 0; slice <= SLICES; slice++) {
        const { wal } = await usage(server, url);
        const engine = await rateOf(ours, sessions, turns, slice);
        used.wal += (await usage(server, url)).wal - wal;
        used.turns += turns;
        const file = await rateOf(sqlite, sessions, turns, slice);
        const rows = Map.groupBy(commits.splice(0).map(pgRowOf), ({ session }) => session);
        const began = performance.now();
        await Promise.all(
          rows.values().map(async (own) => {
            for (const row of own) await bare.commit(row);
          }),
        );
        if (slice === 0) continue; // to warm up
        rates.ours.push(engine);
        rates.sqlite.push(file);
        rates.bare.push(turns / ((performance.now() - began) / 1_000));
      }
      const name = `turns on PostgreSQL, ${sessions} session${sessions > 1 ? "s" : ""}`;
      const value = median(rates.ours);
      const against = {
        bare: { value: median(rates.bare), what: "bare pg" },
        sqlite: { value: median(rates.sqlite), what: "SQLite" },
      };
      found.push({ name, value, unit: "/s", against: [against.bare], goal: { ratio: 1.5 } });
      found.push({ name, value, unit: "/s", against: [against.sqlite], goal: { ratio: goal } });
      if (sessions > 1) {
        const stored = (await usage(server, url)).stored - used.before.stored;
        found.push({ name: "stored for a turn, with indices", value: stored / used.turns / 1_000, unit: "kB" });
        found.push({ name: "write-ahead log for a turn", value: used.wal / used.turns / 1_000, unit: "kB" });
      }
      await ours.close();
      await sqlite.close();
      await bare.close();
    }
    return found;
  } finally {
    await server.stop();
  }
}

/** Bytes. */
async function usage(server: TestServer, url: string): Promise<{ stored: number; wal: number }> {
  const [row] = await server.sql(
    `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') wal,
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace) stored`,
    url,
  );
  return { stored: Number(row?.["stored"]), wal: Number(row?.["wal"]) };
}

async function rateOf(bench: Bench, sessions: number, turns: number, slice: number): Promise<number> {
  let next = 0;
  const talk = async (_: unknown, session: number) => {
    while (next < turns) await bench.turn(`s${session}`, `${slice} ${next++}`);
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: sessions }, talk));
  return turns / ((performance.now() - began) / 1_000);
}

// ── The nodes ────────────────────────────────────────────────────────────────────────────────────────

async function nodeFigures(): Promise<Figure[]> {
  const { doors, words, stops } = await onTwo(async (cluster, llm) => {
    const [a, b] = cluster.nodes;
    if (!a || !b) throw new Error("There are not two nodes.");
    const words = await wordsThrough(llm, a, b);
    const stops = await stopsThrough(llm, a, b);
    return { words, stops, doors: await throughDoors(llm, a, b) };
  });
  const deaths = await onTwo((cluster, llm) => endToNextCall(cluster, llm, "SIGKILL", "worked"));
  const drains = await onTwo((cluster, llm) => endToNextCall(cluster, llm, "SIGTERM", "worked"));
  const upgrades = await onTwo((cluster, llm) => endToNextCall(cluster, llm, "SIGTERM", "started"));
  return [
    { name: "message to another node's session, p50 added", value: doors, unit: "ms", goal: { value: 3 } },
    { name: "word through another node, p50 added", value: words, unit: "ms", goal: { value: 3 } },
    { name: "stop through another node, p50", value: median(stops), unit: "ms", goal: { value: 10 } },
    { name: "stop through another node, p99", value: percentile(stops, 99), unit: "ms", goal: { value: 50 } },
    { name: "kill -9 to the next model call, p50", value: median(deaths), unit: "ms", goal: { value: 1_000 } },
    { name: "drain to the next model call, p99", value: percentile(drains, 99), unit: "ms", goal: { value: 100 } },
    { name: "drain to a node that just started, p50", value: median(upgrades), unit: "ms" },
  ];
}

async function onTwo<T>(measure: (cluster: TestCluster, llm: FakeLlm) => Promise<T>): Promise<T> {
  await using llm = await startFakeLlm();
  const { env } = llm;
  const config = "gateway: {api_server: {max_concurrent_runs: 0}}\n";
  const cluster = await startCluster(2, env, { config, server: { synced: true } });
  try {
    return await measure(cluster, llm);
  } finally {
    await cluster.close();
  }
}

/** To the acknowledgement of a message that waits, at the owner and at the other node in turn. Each session takes a few. */
async function throughDoors(llm: FakeLlm, a: TestNode, b: TestNode): Promise<number> {
  const times = { near: [] as number[], far: [] as number[] };
  for (let n = 0; n < DOORS; n++) {
    if (n % 40 === 0) {
      llm.script(silent);
      await clientOf(a).start("x", { session_id: `door-${Math.floor(n / 40)}` });
      await (await llm.nextRequest()).holding;
    }
    for (const [which, node] of [
      ["near", a],
      ["far", b],
    ] as const) {
      const began = performance.now();
      await clientOf(node).start("wait", { session_id: `door-${Math.floor(n / 40)}`, mode: "queue" });
      times[which].push(performance.now() - began);
    }
  }
  return median(times.far) - median(times.near);
}

/** One run, watched at its owner and through the other node: how much later each word comes there. */
async function wordsThrough(llm: FakeLlm, a: TestNode, b: TestNode): Promise<number> {
  const count = DOORS;
  llm.script({ text: Array.from({ length: count }, (_, n) => `w${n} `), chunkDelayMs: 8, delayMs: 500 });
  const { run_id: run } = await clientOf(a).start("speak");
  await llm.nextRequest();
  const watch = async (node: TestNode) => {
    const times = new Map<string, number>();
    for await (const event of clientOf(node).events(run))
      if (event.event === "message.delta") times.set(event.id, performance.now());
    return times;
  };
  const [near, far] = await Promise.all([watch(a), watch(b)]);
  return median([...far].flatMap(([id, at]) => (near.has(id) ? [at - (near.get(id) ?? 0)] : [])));
}

async function stopsThrough(llm: FakeLlm, a: TestNode, b: TestNode): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < STOPS; n++) {
    llm.script(silent);
    const { run_id: run } = await clientOf(a).start("x");
    const request = await llm.nextRequest();
    await request.holding;
    const began = performance.now();
    await Promise.all([clientOf(b).stop(run), request.closed]);
    times.push(performance.now() - began);
  }
  return times;
}

/** From the end of the node on which a turn runs to the next call of its model. `heir`: a node that has been at work for some
 *  time; or one that just started, as in a rolling upgrade: its first turn, and its first collections. */
async function endToNextCall(
  cluster: TestCluster,
  llm: FakeLlm,
  signal: "SIGKILL" | "SIGTERM",
  heir: "worked" | "started",
): Promise<number[]> {
  const times: number[] = [];
  const [first, second] = cluster.nodes;
  if (!first || !second) throw new Error("There are not two nodes.");
  const earlier = heir === "worked" ? EARLIER : 0;
  for (let n = 0; n < earlier; n++) {
    llm.script({ text: "whole" });
    const { run_id: run } = await clientOf(second).start("x");
    await Promise.all([llm.nextRequest(), Array.fromAsync(clientOf(second).events(run))]);
  }
  for (let n = 0; n < DEATHS; n++) {
    const node = heir === "started" && n % 2 ? second : first;
    llm.script(silent);
    await clientOf(node).start("x");
    await (await llm.nextRequest()).holding;
    llm.script({ text: "whole" });
    const began = performance.now();
    node.signal(signal);
    await llm.nextRequest();
    times.push(performance.now() - began);
    await node.gone();
    await node.start();
  }
  return times;
}
