// Makes commands, judges each, and runs those that are allowed: none may take long to judge, change anything, run anything
// planted, or print a secret.
import { createPolicy } from "../../src/policy/policy.ts";
import { createRandom } from "../simulation/scheduler.ts";
import { generate } from "./generate.ts";
import { openJail } from "./jail.ts";

/** Of one thread. What takes longer is tried again, since the machine collects garbage now and then. */
const LONGEST_MS = 50;
const TRIES = 3;
const BATCH = 300;
const AT_ONCE = 2;

export const campaign = async (options: {
  commands: number;
  seed: number;
  say(line: string): void;
}): Promise<{ passed: number; failed: number }> => {
  const { commands, seed, say } = options;
  const outside = await createPolicy({ rules: [], mode: "manual", sandbox: false });
  const inside = await createPolicy({ rules: [], mode: "manual", sandbox: true });
  const jail = openJail();
  if (!jail) say("bubblewrap does not work here: commands are judged, and none of those that are allowed is run");
  const random = createRandom(seed);
  const place = { cwd: "/home/me/project", home: "/home/me" };
  const allowed = new Set<string>();
  const pool: string[] = [];
  const running = new Set<Promise<void>>();
  let waiting: string[] = [];
  let slowest = 0;
  let failed = 0;

  const isAllowed = (command: string): boolean => {
    let least = Number.POSITIVE_INFINITY;
    let verdict = "";
    for (let left = TRIES; left > 0 && least > LONGEST_MS; left--) {
      const started = process.threadCpuUsage();
      inside.judge(command, place);
      ({ verdict } = outside.judge(command, place));
      const { user, system } = process.threadCpuUsage(started);
      least = Math.min(least, (user + system) / 2_000);
    }
    slowest = Math.max(slowest, least);
    if (least > LONGEST_MS) fail(command, `judging it took ${least.toFixed(0)} ms`);
    return verdict === "allow";
  };
  const fail = (command: string, how: string) => {
    failed += 1;
    say(`${how}: ${JSON.stringify(command)}`);
  };
  const runWaiting = async () => {
    const batch = waiting;
    waiting = [];
    if (running.size >= AT_ONCE) await Promise.race(running);
    const done = (async () => {
      for (const { command, how } of (await jail?.escaped(batch)) ?? []) fail(command, how);
    })().finally(() => running.delete(done));
    running.add(done);
  };

  for (let index = 0; index < commands; index++) {
    const command = generate(random, pool);
    // No program can be given a zero byte.
    if (!isAllowed(command) || allowed.has(command) || command.includes("\0")) continue;
    allowed.add(command);
    pool.push(command);
    waiting.push(command);
    if (waiting.length >= BATCH) await runWaiting();
  }
  await runWaiting();
  await Promise.all(running);
  jail?.close();
  say(
    `${commands} commands from seed ${seed}; ${allowed.size} different ones allowed${jail ? " and run" : ""}; the slowest took ${slowest.toFixed(1)} ms`,
  );
  return { passed: commands - failed, failed };
};
