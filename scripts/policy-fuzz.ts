// npm run policy-fuzz -- --commands N [--seed S] : N commands made by a grammar and by twisting known attacks are judged; those
// that are allowed run in a real bash, in a jail, where none may change, run or reveal anything.
import { readNumbers } from "../test/numbers.ts";
import { campaign } from "../test/policy-fuzz/campaign.ts";

const { commands, seed } = readNumbers("policy-fuzz", {
  commands: { meaning: "how many", usual: 50_000 },
  seed: { meaning: "another seed, other commands", usual: 1 },
});
const { passed, failed } = await campaign({ commands, seed, say: (line) => console.log(line) });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
