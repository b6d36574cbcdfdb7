// npm run simulate -- --schedules N [--seed S] [--nodes] [--bug NAME | --bugs] : schedules S … S+N-1 of the simulator on every
// core. A failing one prints its seed, is shrunk, and can be kept in test/simulation/regressions.json.
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createPool } from "../test/simulation/campaign.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "20000" },
    seed: { type: "string", default: "1" },
    nodes: { type: "boolean", default: false },
    bug: { type: "string" },
    bugs: { type: "boolean", default: false },
    record: { type: "boolean", default: false },
    workers: { type: "string", default: String(Math.min(availableParallelism(), 8)) },
    help: { type: "boolean", short: "h", default: false },
  },
});
if (values.help) {
  console.log(`npm run simulate -- [options]
  --schedules N  how many (20000)      --seed S   the first seed (1)
  --nodes        each with several nodes (else one in seven)
  --bug NAME     with a planted bug    --bugs     every planted bug: each must be found
  --record       with --bugs: keeps the seeds that found them in test/simulation/seeds.json, where the next search begins
  --workers N    processes (${values.workers})`);
  process.exit(0);
}
// Each planted bug has a process of its own: 0.8 s of work to start one, 0.3 s with code that is compiled already.
process.env["NODE_COMPILE_CACHE"] ??= fileURLToPath(new URL("../node_modules/.cache/hermes", import.meta.url));
const schedules = number("schedules", values.schedules);
const seed = number("seed", values.seed);
const pool = createPool(number("workers", values.workers));
const { passed, failed } = values.bugs
  ? await pool.findBugs(schedules, values.record)
  : await pool.campaign({ from: seed, count: schedules, nodes: values.nodes, bug: values.bug ?? "" });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;

function number(name: string, text: string): number {
  const n = Number(text);
  if (Number.isSafeInteger(n) && n > 0) return n;
  console.error(`--${name} must be a whole number above 0, not "${text}".`);
  process.exit(2);
}
