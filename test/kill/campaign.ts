// Many runs, a few at a time: first a kill between every two writes of the scenario, then storms.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../../src/core/errors.ts";
import type { TestServer } from "../fakes/postgres.ts";
import { type Client, createClient } from "./client.ts";
import { compileCache, killAll, start } from "./process.ts";
import { scenario, scenarioSessions } from "./scenario.ts";
import { placeStore } from "./store.ts";
import { storm, stormSessions } from "./storm.ts";
import { verify } from "./verify.ts";

const PROGRESS_MS = 5_000;
/** Failures of the scenario after which no more are looked for: one that always fails has no last write. */
const ENOUGH = 4;

/** `server`: the stores are places in it; null: files. */
export async function campaign(options: { runs: number; seed: number; atOnce: number; server: TestServer | null }) {
  const { runs, seed, atOnce, server } = options;
  const began = performance.now();
  const base = mkdtempSync(join(tmpdir(), "hermes-kill-"));
  const total = { runs: 0, kills: 0, acknowledged: 0, turns: 0, entries: 0 };
  const kept: string[] = [];
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      killAll();
      rmSync(base, { recursive: true, force: true });
      rmSync(compileCache, { recursive: true, force: true });
      process.exit(130);
    });

  /** Whether everything held. */
  async function run(name: string, again: string, client: Client, work: (dir: string) => Promise<number>) {
    const dir = join(base, name);
    mkdirSync(dir);
    await placeStore(dir, server);
    try {
      const kills = await work(dir);
      const { turns, entries } = await verify(dir, client);
      total.kills += kills;
      total.turns += turns;
      total.entries += entries;
      total.acknowledged += client.said.filter((record) => record.receipt).length;
      rmSync(dir, { recursive: true });
      return true;
    } catch (error) {
      writeFileSync(join(dir, "client.jsonl"), client.journal.map((line) => `${JSON.stringify(line)}\n`).join(""));
      console.log(`✗ ${name}: ${messageOf(error)}\n  kept in ${dir}, again with ${again}`);
      kept.push(dir);
      return false;
    }
  }

  async function everyPoint(): Promise<void> {
    let next = 1;
    let most = Number.POSITIVE_INFINITY;
    await together(atOnce, async () => {
      while (next <= most && kept.length < ENOUGH) {
        const n = next++;
        for (const when of ["before", "after"]) {
          const client = createClient(scenarioSessions);
          await run(`scenario-${when}-${n}`, "any --seed", client, async (dir) => {
            const { died } = await scenario(dir, `${when}:${n}`, client);
            if (!died) most = Math.min(most, n - 1);
            return Number(died);
          });
        }
      }
    });
    const each = kept.length < ENOUGH ? `each of its ${most} writes` : `some of its writes`;
    console.log(`scenario: killed just before and just after ${each}, ${kept.length} failed`);
  }

  async function storms(): Promise<number> {
    let next = seed;
    let failed = 0;
    let shown = performance.now();
    await together(atOnce, async () => {
      while (next < seed + runs) {
        const mine = next++;
        const client = createClient(stormSessions);
        const again = `npm run kill-test -- --runs 1 --seed ${mine}${server ? " --postgres 1" : ""}`;
        const held = await run(`seed-${mine}`, again, client, async (dir) => (await storm(mine, dir, client)).kills);
        total.runs++;
        if (!held) failed++;
        if (performance.now() - shown < PROGRESS_MS) continue;
        shown = performance.now();
        console.log(`… ${total.runs} of ${runs} runs, ${total.kills} kills, ${failed} failed`);
      }
    });
    return failed;
  }

  try {
    await warmUp(base);
    await everyPoint();
    const points = kept.length;
    const failed = await storms();
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(
      `${total.runs} runs in ${seconds} s: ${total.kills} kills, ${total.acknowledged} inputs acknowledged, ` +
        `${total.turns} turns, ${total.entries} entries`,
    );
    return { passed: total.runs - failed, failed: failed + points };
  } finally {
    killAll();
    rmSync(compileCache, { recursive: true, force: true });
    if (!kept.length) rmSync(base, { recursive: true });
  }
}

const together = (n: number, work: () => Promise<void>) => Promise.all(Array.from({ length: n }, work));

/** One that ends by itself leaves its code compiled for all that do not. */
async function warmUp(base: string): Promise<void> {
  const dir = join(base, "warm-up");
  mkdirSync(dir);
  const process = start(dir);
  process.end();
  await process.gone.catch(() => {}); // the first run will say so too
  rmSync(dir, { recursive: true });
}
