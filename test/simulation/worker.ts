// Runs schedules for scripts/simulate.ts. Needs `--expose-internals`: microtasks are drained synchronously between
// tasks, an order of magnitude faster than going through setImmediate.
import { hash } from "node:crypto";
import { createRequire, registerHooks } from "node:module";
import { MUTANTS, pathOf, planted as plantedIn } from "./mutants.ts";
import type { Plan } from "./plan.ts";
import type { Result } from "./schedule.ts";

export type Order =
  | { do: "range"; from: number; count: number; nodes: boolean; stopAtFirst: boolean }
  | { do: "plans"; plans: Plan[] };
export type Failure = { plan: Plan; invariant: string; message: string };
export type Report = {
  ran: number;
  steps: number;
  turns: number;
  kills: number;
  hashes: number[];
  failures: Failure[];
  /** Of all files that are run, the product's and the simulator's: a campaign may go on another day, on the same code. */
  code: string;
};

const { internalBinding } = createRequire(import.meta.url)("internal/test/binding") as {
  internalBinding(name: "task_queue"): { runMicrotasks(): void };
};
const { runMicrotasks } = internalBinding("task_queue");

// Refusals and faults are thrown all the time, and nobody reads where from.
if (!process.env["TRACE"]) Error.stackTraceLimit = 0;
const planted = process.argv[2] ?? "";
const PRODUCT = new URL("../../src/", import.meta.url).href;
const loaded = { src: [] as string[], test: [] as string[] };
hookSources(planted);
const { runSchedule } = await import("./schedule.ts");
const { makePlan } = await import("./plan.ts");
const hashOf = (files: string[]) => hash("sha256", files.toSorted().join()).slice(0, 8);
const code = `${hashOf(loaded.src)}, simulator ${hashOf(loaded.test)}`;

// A violation is recorded where it is found; that nobody caught it in the midst of the engine is no news.
const known = (error: unknown) => error instanceof Error && error.name === "Violation";
for (const event of ["unhandledRejection", "uncaughtException"])
  process.on(event, (error: unknown) => {
    if (known(error)) return;
    console.error(error);
    process.exit(1);
  });
process.on("message", (order: Order) => {
  // From a timer: inside a message handler we would be in the midst of the queue that is drained by hand.
  setTimeout(() => process.send?.(carryOut(order)), 0);
});
process.send?.("ready");

function carryOut(order: Order): Report {
  const report: Report = { ran: 0, steps: 0, turns: 0, kills: 0, hashes: [], failures: [], code };
  const run = (plan: Plan) => {
    const result = attempt(plan);
    report.ran++;
    report.steps += result.steps;
    report.turns += result.turns;
    report.kills += result.kills;
    report.hashes.push(result.hash);
    const { violation } = result;
    if (violation) report.failures.push({ plan, invariant: violation.invariant, message: violation.message });
  };
  if (order.do === "plans") order.plans.forEach(run);
  else
    for (let seed = order.from; seed < order.from + order.count; seed++) {
      run(makePlan(seed, order.nodes));
      if (order.stopAtFirst && report.failures.length) break;
    }
  return report;
}

function attempt(plan: Plan): Result {
  try {
    return runSchedule(plan, runMicrotasks, process.env["TRACE"] ? console.log : null);
  } catch (error) {
    console.error(`seed ${plan.seed} (TRACE=1 shows where):`, error); // not a violation: the code or the simulator itself broke
    process.exit(1);
  }
}

/** Puts a named bug into the source as it is loaded. */
function hookSources(name: string) {
  const mutant = MUTANTS.find((m) => m.name === name);
  if (name && !mutant) throw new Error(`There is no planted bug "${name}".`);
  registerHooks({
    load(url, context, nextLoad) {
      const next = nextLoad(url, context);
      const source = Buffer.from((next.source ?? "") as Uint8Array).toString();
      loaded[url.startsWith(PRODUCT) ? "src" : "test"].push(hash("sha256", source));
      const file = mutant?.edits.find((edit) => url.endsWith(`/${pathOf(edit.file)}`))?.file;
      return mutant && file ? { ...next, source: plantedIn(mutant, file, source) } : next;
    },
  });
}
