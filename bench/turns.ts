// What a plain turn costs: two commits (accepted; answered), one session after another and many at once.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Commit } from "../src/core/store.ts";
import { openBare, openThread, type Row, rowOf, type Thread } from "./bare.ts";
import { type Bench, openBench } from "./engine.ts";
import { type Figure, median, percentile, report } from "./figure.ts";

const quick = process.argv.includes("--quick");
const SLICES = quick ? 4 : 12; // the three take turns, so that all meet the same disk and the same neighbours
const TURNS = { one: quick ? 50 : 100, many: quick ? 1_000 : 4_000 }; // in one slice

type Slice = { times: number[]; rate: number; cpu: number };
type Delay = { p99: number; max: number };
type Load = { ours: Slice[]; thread: Slice[]; inline: Slice[]; delays: Delay[] };

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
try {
  const idle = await delayDuring(() => new Promise((resolve) => setTimeout(resolve, 500)));
  const one = await load(1, TURNS.one);
  const many = await load(200, TURNS.many);
  report([
    ...figures("1 session", one),
    ...figures("200 sessions", many),
    {
      name: "event loop delay p99, 200 sessions",
      value: median(many.delays.map((delay) => delay.p99)),
      unit: "ms",
      against: [{ value: idle.p99, what: "an idle loop" }],
    },
    {
      name: "event loop delay max, 200 sessions",
      value: Math.max(...many.delays.map((delay) => delay.max)),
      unit: "ms",
      against: [{ value: idle.max, what: "an idle loop" }],
    },
  ]);
} finally {
  rmSync(dir, { recursive: true });
}

function figures(sessions: string, { ours, thread, inline }: Load): Figure[] {
  const figure = (name: string, unit: Figure["unit"], of: (slices: Slice[]) => number, goal?: number): Figure => ({
    name: `${name}, ${sessions}`,
    unit,
    value: of(ours),
    against: [
      { value: of(thread), what: "bare" },
      { value: of(inline), what: "bare in-line" },
    ],
    ...(goal && { goal: { ratio: goal } }),
  });
  const times = (slices: Slice[]) => slices.flatMap((slice) => slice.times);
  return [
    figure("accept p50", "ms", (slices) => percentile(times(slices), 50), 2),
    figure("accept p99", "ms", (slices) => percentile(times(slices), 99)),
    figure("turns", "/s", (slices) => median(slices.map((slice) => slice.rate)), 2),
    figure("CPU per turn", "ms", (slices) => median(slices.map((slice) => slice.cpu))),
  ];
}

async function load(sessions: number, turns: number): Promise<Load> {
  const [a = "", b = "", c = ""] = ["ours", "thread", "inline"].map((name) => join(dir, `${name}-${sessions}`));
  for (const place of [a, b, c]) mkdirSync(place);
  const commits: Commit[] = [];
  const bench = await openBench(a, { onCommit: (commit) => commits.push(commit) });
  const thread = await openThread(b);
  const bare = await openBare(c);
  const found: Load = { ours: [], thread: [], inline: [], delays: [] };
  for (let slice = 0; slice <= SLICES; slice++) {
    let ours: Slice | null = null;
    const delay = await delayDuring(async () => {
      ours = await engineSlice(bench, sessions, turns, slice);
    });
    const rows = commits.splice(0).map(rowOf);
    const theirs = await threadSlice(thread, rows);
    const inline = inlineSlice(bare.commit, rows, sessions);
    if (!ours || slice === 0) continue; // to warm up
    found.ours.push(ours);
    found.thread.push(theirs);
    found.inline.push(inline);
    found.delays.push(delay);
  }
  await bench.close();
  await thread.close();
  bare.db.close();
  return found;
}

async function engineSlice(bench: Bench, sessions: number, turns: number, slice: number): Promise<Slice> {
  const times: number[] = [];
  let next = 0;
  const talk = async (_: unknown, session: number) => {
    while (next < turns) times.push((await bench.turn(`s${session}`, `${slice} ${next++}`)).accepted);
  };
  const measured = meter();
  await Promise.all(Array.from({ length: sessions }, talk));
  return { times, ...measured(turns) };
}

/** The commits of ours: those of one session one after another, those of different ones side by side. */
async function threadSlice({ commit }: Thread, rows: Row[]): Promise<Slice> {
  const times: number[] = [];
  const sessions = Map.groupBy(rows, (row) => row.session);
  const measured = meter();
  await Promise.all(
    sessions.values().map(async (rows) => {
      for (const row of rows) {
        const began = performance.now();
        await commit(row);
        if (row.accepted.length) times.push(performance.now() - began);
      }
    }),
  );
  return { times, ...measured(rows.length / 2) };
}

function inlineSlice(commit: (rows: Row[]) => void, rows: Row[], sessions: number): Slice {
  const times: number[] = [];
  const measured = meter();
  for (let at = 0; at < rows.length; at += sessions) {
    const began = performance.now();
    commit(rows.slice(at, at + sessions));
    times.push(performance.now() - began);
  }
  return { times, ...measured(rows.length / 2) };
}

function meter() {
  const began = performance.now();
  const cpu = process.cpuUsage();
  return (turns: number) => {
    const ms = performance.now() - began;
    const { user, system } = process.cpuUsage(cpu);
    return { rate: turns / (ms / 1000), cpu: (user + system) / 1000 / turns };
  };
}

async function delayDuring(work: () => Promise<unknown>): Promise<Delay> {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  await work();
  delays.disable();
  return { p99: delays.percentile(99) / 1e6, max: delays.max / 1e6 };
}
