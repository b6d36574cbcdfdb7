// A talk that always goes the same way, in a process that dies just before or just after its Nth write, and is then
// started again. One who asks does so until there is an answer.
import type { Client, Said } from "./client.ts";
import { Died, type Process, start } from "./process.ts";

const SESSION = "s0";
export const scenarioSessions = [SESSION];
/** Until it is interrupted. */
const FOREVER_MS = 600_000;

/** `died` is false when it needed fewer writes than that. */
export async function scenario(dir: string, fate: string, client: Client): Promise<{ died: boolean }> {
  let process = start(dir, fate);
  let died = false;
  async function insist(step: () => Promise<unknown>): Promise<void> {
    try {
      await process.ready;
      await step();
    } catch (error) {
      if (!(error instanceof Died) || died) throw error;
      died = true;
      await process.gone;
      process = start(dir);
      await insist(step);
    }
  }
  try {
    for (const step of steps(() => process, client)) await insist(step);
  } finally {
    process.end();
    died = (await process.gone).killed || died;
  }
  return { died };
}

function* steps(now: () => Process, client: Client): Generator<() => Promise<unknown>> {
  const say = (record: Said) => () => client.send(now(), record);
  const long = client.compose(SESSION, {
    mode: "queue",
    reply: "push",
    rounds: [
      { ms: 0, calls: ["write", "read", "danger"] },
      { ms: FOREVER_MS, calls: [] },
    ],
  });
  yield say(long);
  yield () => now().until(() => now().asking.has(SESSION) || now().thinking.get(SESSION) === 1);
  yield async () => {
    for (const call of now().asking.get(SESSION) ?? []) await client.decide(now(), SESSION, call, true, "a");
  };
  yield () => now().until(() => now().thinking.get(SESSION) === 1);
  const stopped = client.compose(SESSION, { mode: "queue", reply: "pull", rounds: [] });
  yield say(stopped);
  yield () => client.stop(now(), stopped);
  yield say(client.compose(SESSION, { mode: "interrupt", reply: "push", rounds: [{ ms: 0, calls: ["write"] }] }));
  yield () => client.rest(now());
}
