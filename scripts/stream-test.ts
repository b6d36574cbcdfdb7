// npm run stream-test -- --cuts N [--seed S] : event streams cut at random bytes and taken up again, N times, on runs with
// everything in them and servers that are killed; what was put together must be what a viewer sees who was never cut.
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/errors.ts";
import { campaign } from "../test/streams/campaign.ts";

const { values } = read();
if (values.help) {
  console.log(`npm run stream-test -- [options]
  --cuts N  how many (10000)
  --seed S  the first seed (1)`);
  process.exit(0);
}
const { passed, failed } = await campaign({
  cuts: number("cuts", values.cuts),
  seed: number("seed", values.seed),
  say: (line) => console.log(line),
});
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

function read() {
  try {
    return parseArgs({
      options: {
        cuts: { type: "string", default: "10000" },
        seed: { type: "string", default: "1" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    console.error(`${messageOf(error)}\nTry: npm run stream-test -- --help`);
    process.exit(2);
  }
}

function number(name: string, text: string): number {
  const n = Number(text);
  if (Number.isSafeInteger(n) && n > 0) return n;
  console.error(`--${name} must be a whole number above 0, not "${text}".`);
  process.exit(2);
}
