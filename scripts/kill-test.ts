// npm run kill-test -- --runs N [--seed S] : real processes on real files, killed with SIGKILL between every two writes
// of a scenario and at random moments of runs S … S+N-1, started again, and checked for anything lost or done twice.
import { availableParallelism } from "node:os";
import { startPostgres } from "../test/fakes/postgres.ts";
import { campaign } from "../test/kill/campaign.ts";
import { readNumbers } from "../test/numbers.ts";

const given = readNumbers("kill-test", {
  runs: { meaning: "how many; each is one directory and several kills", usual: 50 },
  seed: { meaning: "the first seed", usual: 1 },
  postgres: { meaning: "1: on PostgreSQL instead of files", usual: 0 },
  "at-once": { meaning: "runs at the same time", usual: Math.min(availableParallelism() + 1, 8) },
});
const server = given.postgres ? await startPostgres() : null;
const { passed, failed } = await campaign({
  server,
  runs: given.runs,
  seed: given.seed,
  atOnce: given["at-once"],
});
await server?.stop();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
