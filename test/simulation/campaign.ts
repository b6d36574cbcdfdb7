// Many schedules over several processes: progress, kept regressions, shrinking, planted bugs.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { MUTANTS } from "./mutants.ts";
import type { Plan } from "./plan.ts";
import regressions from "./regressions.json" with { type: "json" };
import seeds from "./seeds.json" with { type: "json" };
import type { Failure, Order, Report } from "./worker.ts";

const CHUNK = 500;
const SHOW = 3;
/** The seed that found each planted bug last. */
const KNOWN = new Map<string, number>(Object.entries(seeds));
const KEPT = regressions as unknown as Plan[];
type Range = { from: number; count: number; bug: string; nodes?: boolean };
type Score = { passed: number; failed: number };
/** `trace`: changes with every task that ran and when. */
type Outcome = Score & { trace: string };

export function createPool(size: number) {
  /** `nodes`: only schedules with several nodes. */
  async function campaign({ from, count, bug, nodes = false }: Range): Promise<Outcome> {
    const began = performance.now();
    const total = { ran: 0, steps: 0, turns: 0, kills: 0, hash: 0, code: "" };
    const failures: Failure[] = [];
    const orders: Order[] = bug ? [] : [{ do: "plans", plans: KEPT }];
    for (let at = 0; at < count; at += CHUNK)
      orders.push({ do: "range", from: from + at, count: Math.min(CHUNK, count - at), nodes, stopAtFirst: false });
    let shown = began;
    await Promise.all(
      Array.from({ length: Math.min(size, orders.length) }, async () => {
        const worker = await spawn(bug);
        for (let order = orders.shift(); order && failures.length < SHOW; order = orders.shift()) {
          const report = await ask(worker, order);
          total.ran += report.ran;
          total.steps += report.steps;
          total.turns += report.turns;
          total.kills += report.kills;
          total.code = report.code;
          for (const hash of report.hashes) total.hash = (total.hash + hash) >>> 0; // in any order the same
          failures.push(...report.failures);
          if (performance.now() - shown < 5_000) continue;
          shown = performance.now();
          console.log(`… ${total.ran} schedules, ${failures.length} failed`);
        }
        worker.disconnect();
      }),
    );
    for (const failure of failures.slice(0, SHOW)) await explain(failure, bug);
    const seconds = (performance.now() - began) / 1000;
    const rate = Math.round(total.ran / seconds);
    console.log(
      `${total.ran} schedules in ${seconds.toFixed(1)} s (${rate}/s on ${size} processes): ${total.steps} steps, ` +
        `${total.turns} turns, ${total.kills} restarts, trace ${total.hash.toString(16)}, code ${total.code}`,
    );
    return { passed: total.ran - failures.length, failed: failures.length, trace: total.hash.toString(16) };
  }

  /** A bug counts as found when some schedule breaks an invariant. `record`: keeps the seeds that found them. */
  async function findBugs(most: number, record: boolean): Promise<Score> {
    // Those that must be looked for come first: at the end every process has something to do.
    const queue = MUTANTS.toSorted((a, b) => Number(KNOWN.has(a.name)) - Number(KNOWN.has(b.name)));
    const found = new Map<string, number>();
    await Promise.all(
      Array.from({ length: size }, async () => {
        for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
          const { ran, failure } = await findBug(mutant.name, most);
          if (failure) found.set(mutant.name, failure.plan.seed);
          console.log(
            failure
              ? `✓ ${mutant.name}: seed ${failure.plan.seed}, the ${ran}th schedule (${failure.message})`
              : `✗ ${mutant.name}: not found in ${most} schedules`,
          );
        }
      }),
    );
    if (record) {
      const kept = MUTANTS.flatMap(({ name }) => (found.has(name) ? [[name, found.get(name)]] : []));
      writeFileSync(new URL("seeds.json", import.meta.url), `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
    }
    return { passed: found.size, failed: MUTANTS.length - found.size };
  }

  /** Begins with the seed that found it last, and with the plans that are kept: what they show, a seed may not show in a million. */
  async function findBug(bug: string, most: number): Promise<{ ran: number; failure: Failure | undefined }> {
    const worker = await spawn(bug);
    let ran = 0;
    const search = async (order: Order) => {
      const report = await ask(worker, order);
      ran += report.ran;
      return report.failures[0];
    };
    const nodes = MUTANTS.some((mutant) => mutant.name === bug && mutant.nodes);
    const seeds = (from: number, count: number) => search({ do: "range", from, count, nodes, stopAtFirst: true });
    const known = KNOWN.get(bug);
    let failure = known === undefined ? undefined : await seeds(known, 1);
    failure ??= await search({ do: "plans", plans: KEPT });
    for (let from = 1; !failure && from <= most; from += CHUNK) failure = await seeds(from, CHUNK);
    worker.disconnect();
    return { ran, failure };
  }

  return { campaign, findBugs };
}

async function explain({ plan, message, invariant }: Failure, bug: string) {
  console.log(`\nseed ${plan.seed} breaks ${message}`);
  const worker = await spawn(bug);
  const small = await shrink(worker, plan, invariant);
  worker.disconnect();
  console.log(`smallest plan that still does (keep it in test/simulation/regressions.json):\n${JSON.stringify(small)}`);
}

/** Leaves out actions and faults one at a time for as long as the same invariant breaks. */
async function shrink(worker: ChildProcess, plan: Plan, invariant: string): Promise<Plan> {
  for (let smaller = true; smaller; ) {
    smaller = false;
    const tries = [
      ...plan.actions.map((_, i) => ({ ...plan, actions: plan.actions.toSpliced(i, 1) })),
      ...plan.faults.map((_, i) => ({ ...plan, faults: plan.faults.toSpliced(i, 1) })),
    ];
    const { failures } = await ask(worker, { do: "plans", plans: tries });
    const found = failures.find((failure) => failure.invariant === invariant);
    if (!found) continue;
    plan = found.plan;
    smaller = true;
  }
  return plan;
}

async function spawn(bug: string): Promise<ChildProcess> {
  const execArgv = ["--expose-internals", "--no-warnings"];
  const worker = fork(new URL("./worker.ts", import.meta.url), [bug], { execArgv });
  await answerOf(worker);
  return worker;
}

async function ask(worker: ChildProcess, order: Order): Promise<Report> {
  const answer = answerOf(worker);
  worker.send(order);
  return (await answer) as Report;
}

async function answerOf(worker: ChildProcess): Promise<unknown> {
  const over = new AbortController();
  const exit = once(worker, "exit", { signal: over.signal }).then(([code]) => {
    throw new Error(`a simulation process ended with ${code}`);
  });
  try {
    const [message] = (await Promise.race([once(worker, "message", { signal: over.signal }), exit])) as [unknown];
    return message;
  } finally {
    over.abort();
    exit.catch(() => {});
  }
}
