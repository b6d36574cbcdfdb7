// npm run soak -- --hours N | --minutes N [--seed S] : a real gateway at work with chats, runs, viewers and tools for so long, nothing
// killed; its memory, descriptors and timers must not grow.
import { readNumbers } from "../test/numbers.ts";
import { soak } from "../test/soak/soak.ts";

const { hours, minutes, seed } = readNumbers("soak", {
  hours: { meaning: "how long; the memory is judged from one hour on", usual: 0 },
  minutes: { meaning: "and so many minutes", usual: 0 },
  seed: { meaning: "which random moments", usual: 1 },
});
const { passed, problems } = await soak({
  minutes: hours * 60 + minutes || 10,
  seed,
  say: (line) => console.log(line),
});
for (const problem of problems) console.log(`✗ ${problem}`);
console.log(`${passed} passed, ${problems.length} failed`);
process.exit(problems.length ? 1 : 0);
