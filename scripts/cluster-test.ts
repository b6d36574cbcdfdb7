// npm run cluster-test -- --minutes N [--people P] [--seed S] : people talk over HTTP and Telegram to three nodes on one PostgreSQL, while
// nodes are killed, stand still or are drained every few seconds, and PostgreSQL is restarted.
import { storm } from "../test/cluster/storm.ts";
import { readNumbers } from "../test/numbers.ts";

const given = readNumbers("cluster-test", {
  minutes: { meaning: "how long people talk", usual: 10 },
  people: { meaning: "how many, each over HTTP and in a chat", usual: 6 },
  seed: { meaning: "which random moments", usual: 1 },
});
const { passed, problems } = await storm({
  seconds: given.minutes * 60,
  everyMs: 6_000,
  pauseMs: 10_000,
  people: given.people,
  seed: given.seed,
  say: (line) => console.log(line),
});
for (const problem of problems.slice(0, 50)) console.log(`✗ ${problem}`);
console.log(`${passed} passed, ${problems.length} failed`);
process.exit(problems.length ? 1 : 0);
