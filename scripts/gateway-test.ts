// npm run gateway-test -- --messages N --chats M --seconds S [--seed S] : people talk in many chats at random moments to a
// real gateway that is killed every few seconds and restarted once by command; every message must be answered exactly once.
import { storm } from "../test/gateway/storm.ts";
import { readNumbers } from "../test/numbers.ts";

const given = readNumbers("gateway-test", {
  messages: { meaning: "how many are said", usual: 1_000 },
  chats: { meaning: "in how many chats", usual: 20 },
  seconds: { meaning: "within how many seconds", usual: 120 },
  seed: { meaning: "which random moments", usual: 1 },
});
const { passed, problems } = await storm({
  ...given,
  say: (line) => console.log(line),
});
for (const problem of problems.slice(0, 50)) console.log(`✗ ${problem}`);
console.log(`${passed} passed, ${problems.length} failed`);
process.exit(problems.length ? 1 : 0);
