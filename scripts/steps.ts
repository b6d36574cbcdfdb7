// Commands in lanes: the lanes side by side, the commands of a lane one after the other. A line for each, and the whole output of
// each that failed.
import type { ChildProcess, SpawnOptions } from "node:child_process";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

type Step = { name: string; start(how: SpawnOptions): ChildProcess };

const cwd = fileURLToPath(new URL("..", import.meta.url));
const PATH = `${join(cwd, "node_modules", ".bin")}${delimiter}${process.env.PATH ?? ""}`;

/** Whether all have passed. */
export async function runSteps(title: string, lanes: readonly (readonly Step[])[]): Promise<boolean> {
  const began = performance.now();
  const oks = (await Promise.all(lanes.map(runLane))).flat();
  const passed = oks.filter(Boolean).length;
  console.log(`${title}: ${passed} passed, ${oks.length - passed} failed (${secondsSince(began)})`);
  return passed === oks.length;
}

async function runLane(steps: readonly Step[]): Promise<boolean[]> {
  const oks: boolean[] = [];
  for (const { name, start } of steps) {
    const began = performance.now();
    const child = start({ cwd, env: { ...process.env, PATH } });
    const { ok, output } = await outcome(child);
    oks.push(ok);
    const took = secondsSince(began);
    console.log(
      ok ? `── ${name} passed (${took})` : `── ${name} failed (${took}): ${child.spawnargs.join(" ")}\n${output}`,
    );
  }
  return oks;
}

const outcome = (child: ChildProcess): Promise<{ ok: boolean; output: string }> =>
  new Promise((resolve) => {
    const chunks: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.on("error", (error) => resolve({ ok: false, output: error.message }));
    child.on("close", (code) => resolve({ ok: code === 0, output: Buffer.concat(chunks).toString() }));
  });

const secondsSince = (began: number) => `${((performance.now() - began) / 1000).toFixed(1)} s`;
