// npm run kill-test -- --runs N [--seed S] : real processes on real files, killed with SIGKILL between every two writes
// of a scenario and at random moments of runs S … S+N-1, started again, and checked for anything lost or done twice.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/errors.ts";
import { campaign } from "../test/kill/campaign.ts";

const { values } = read();
if (values.help) {
  console.log(`npm run kill-test -- [options]
  --runs N     how many (50); each is one directory and several kills
  --seed S     the first seed (1)
  --at-once N  runs at the same time (${values["at-once"]})`);
  process.exit(0);
}
const { passed, failed } = await campaign({
  runs: number("runs", values.runs),
  seed: number("seed", values.seed),
  atOnce: number("at-once", values["at-once"]),
});
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;

function read() {
  try {
    return parseArgs({
      options: {
        runs: { type: "string", default: "50" },
        seed: { type: "string", default: "1" },
        "at-once": { type: "string", default: String(Math.min(availableParallelism() + 1, 8)) },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    console.error(`${messageOf(error)}\nTry: npm run kill-test -- --help`);
    process.exit(2);
  }
}

function number(name: string, text: string): number {
  const n = Number(text);
  if (Number.isSafeInteger(n) && n > 0) return n;
  console.error(`--${name} must be a whole number above 0, not "${text}".`);
  process.exit(2);
}
