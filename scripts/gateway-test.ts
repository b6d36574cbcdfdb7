// npm run gateway-test -- --messages N --chats M --seconds S [--seed S] : people talk in many chats at random moments to a
// real gateway that is killed every few seconds and restarted once by command; every message must be answered exactly once.
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/errors.ts";
import { storm } from "../test/gateway/storm.ts";

const { values } = read();
if (values.help) {
  console.log(`npm run gateway-test -- [options]
  --messages N  how many are said (1000)
  --chats M     in how many chats (20)
  --seconds S   within how many seconds (120)
  --seed S      which random moments (1)`);
  process.exit(0);
}
const { passed, problems } = await storm({
  messages: number("messages", values.messages),
  chats: number("chats", values.chats),
  seconds: number("seconds", values.seconds),
  seed: number("seed", values.seed),
  say: (line) => console.log(line),
});
for (const problem of problems.slice(0, 50)) console.log(`✗ ${problem}`);
console.log(`${passed} passed, ${problems.length} failed`);
process.exit(problems.length ? 1 : 0);

function read() {
  try {
    return parseArgs({
      options: {
        messages: { type: "string", default: "1000" },
        chats: { type: "string", default: "20" },
        seconds: { type: "string", default: "120" },
        seed: { type: "string", default: "1" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    console.error(`${messageOf(error)}\nTry: npm run gateway-test -- --help`);
    process.exit(2);
  }
}

function number(name: string, text: string): number {
  const n = Number(text);
  if (Number.isSafeInteger(n) && n > 0) return n;
  console.error(`--${name} must be a whole number above 0, not "${text}".`);
  process.exit(2);
}
