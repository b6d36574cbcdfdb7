// npm run stream-test -- --cuts N [--seed S] : event streams cut at random bytes and taken up again, N times, on runs with
// everything in them and servers that are killed; what was put together must be what a viewer sees who was never cut.

import { readNumbers } from "../test/numbers.ts";
import { campaign } from "../test/streams/campaign.ts";

const { cuts, seed } = readNumbers("stream-test", {
  cuts: { meaning: "how many", usual: 10_000 },
  seed: { meaning: "the first seed", usual: 1 },
});
const { passed, failed } = await campaign({
  cuts,
  seed,
  say: (line) => console.log(line),
});
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
