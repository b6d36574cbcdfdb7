// A day of one million sessions, at a thousandth and at a hundredth of its size, through the real engine and store on PostgreSQL: whether a turn
// costs the same where there are ten times as many sessions. As in such a cluster, no session is in memory when somebody speaks.
import { ALONE, type Store } from "../src/core/store.ts";
import { openPostgres } from "../src/store/postgres/postgres.ts";
import { startPostgres, type TestServer } from "../test/fakes/postgres.ts";
import { type Bench, openBench } from "./engine.ts";
import { type Figure, median, report } from "./figure.ts";

const quick = process.argv.includes("--quick");
const SESSIONS = { small: 1_000, large: 10_000 };
/** Of each session. */
const TURNS = quick ? 1 : 2;
const AT_ONCE = 200;
const SLICES = quick ? 4 : 8;
const SLICE = 400;
const LOOKS = quick ? 20 : 100;

const nameOf = (n: number, sessions: number) => `agent:main:api:dm:${(n * 7_919) % sessions}`;

type Day = {
  sessions: number;
  bench: Bench;
  store: Store;
  node: string;
  /** Of one turn. */
  cost: { stored: number; wal: number; pages: number; calls: number };
  rates: number[];
  cpu: number[];
  looks: number[];
  lists: number[];
  searches: number[];
};

const server = await startPostgres({ synced: true });
try {
  const small = await dayOf(SESSIONS.small);
  const large = await dayOf(SESSIONS.large);
  // In turns: both meet the same machine.
  for (let slice = 0; slice <= SLICES; slice++) for (const day of [small, large]) await measure(day, slice);
  // From here on the engines write nothing: a node among several takes their place.
  for (const day of [small, large]) day.node = await day.store.nodes.join({ ...ALONE, address: "http://127.0.0.1:1" });
  for (const { store } of [small, large]) await store.search("light", { limit: 1 }); // adds what is new to the index
  for (let n = 0; n < LOOKS; n++) for (const day of [small, large]) await look(day);
  await small.bench.close();
  await large.bench.close();
  const figure = (name: string, unit: Figure["unit"], of: (day: Day) => number, goal: number): Figure => ({
    name,
    value: of(large),
    unit,
    against: [{ value: of(small), what: "1/1000" }],
    goal: { ratio: goal },
  });
  report([
    figure("turns in a day at 1/100", "/s", ({ rates }) => median(rates), 1.3),
    figure("CPU of hermes for a turn", "ms", ({ cpu }) => median(cpu), 1.3),
    figure("stored for a turn, with indices", "kB", ({ cost }) => cost.stored / 1_000, 1.2),
    figure("write-ahead log for a turn", "kB", ({ cost }) => cost.wal / 1_000, 1.3),
    figure("pages that PostgreSQL visits for a turn", "pages", ({ cost }) => cost.pages, 1.3),
    figure("calls of PostgreSQL for a turn", "calls", ({ cost }) => cost.calls, 1.5),
    figure("what a node asks each second", "ms", ({ looks }) => median(looks), 2),
    figure("the newest 50 sessions", "ms", ({ lists }) => median(lists), 2),
    figure("a search in one session", "ms", ({ searches }) => median(searches), 2),
  ]);
} finally {
  await server.stop();
}

/** Every session speaks, in an order that no cache foresees. */
async function dayOf(sessions: number): Promise<Day> {
  const url = await server.place();
  const before = await usage(server, url);
  const filling = await openBench("", { store: await openPostgres({ url }), warm: 0 });
  await speak(filling, sessions, sessions * TURNS, "fill");
  await filling.close(); // only connections that have ended have told all that they counted
  const after = await usage(server, url);
  const of = (what: keyof typeof before) => (after[what] - before[what]) / (sessions * TURNS);
  const cost = { stored: of("stored"), wal: of("wal"), pages: of("pages"), calls: of("calls") };
  const store = await openPostgres({ url });
  const bench = await openBench("", { store, warm: 0 });
  return { sessions, bench, store, node: "", cost, rates: [], cpu: [], looks: [], lists: [], searches: [] };
}

async function speak(bench: Bench, sessions: number, turns: number, name: string): Promise<void> {
  let next = 0;
  const talk = async () => {
    for (let n = next++; n < turns; n = next++) await bench.turn(nameOf(n, sessions), `${name} ${n}`);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, talk));
}

async function measure({ sessions, bench, rates, cpu }: Day, slice: number): Promise<void> {
  const began = performance.now();
  const { user, system } = process.cpuUsage();
  await speak(bench, sessions, SLICE, `slice ${slice}`);
  const used = process.cpuUsage();
  if (slice === 0) return; // to warm up
  rates.push(SLICE / ((performance.now() - began) / 1_000));
  cpu.push((used.user + used.system - user - system) / 1_000 / SLICE);
}

/** What a node asks each second, a list of sessions, and what memory asks before a turn. */
async function look({ sessions, store, node, looks, lists, searches }: Day): Promise<void> {
  const { nodes, catalog, search } = store;
  const asked = performance.now();
  await nodes.beat(node);
  await nodes.reap();
  await nodes.claim(node, 10);
  looks.push(performance.now() - asked);
  const listed = performance.now();
  await catalog.sessions({ limit: 50, top: true });
  lists.push(performance.now() - listed);
  const session = nameOf(searches.length * 7, sessions);
  const searched = performance.now();
  await search("light wind", { session, limit: 5 });
  searches.push(performance.now() - searched);
}

async function usage(from: TestServer, url: string) {
  const [row] = await from.sql(
    `SELECT pg_stat_clear_snapshot(), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') wal,
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace) stored,
       (SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()) pages,
       (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) calls`,
    url,
  );
  const of = (name: string) => Number(row?.[name]);
  return { wal: of("wal"), stored: of("stored"), pages: of("pages"), calls: of("calls") };
}
