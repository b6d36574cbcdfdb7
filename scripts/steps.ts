// Commands in lanes: the lanes side by side, the commands of a lane one after the other. A line for each, and the whole output of
// each that failed.
import { spawn } from "node:child_process";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

type Step = {
  name: string;
  command: readonly [string, ...string[]];
  /** Its output is shown while it runs. */
  live?: boolean;
};

const root = fileURLToPath(new URL("..", import.meta.url));
const PATH = `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH ?? ""}`;

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
  for (const { name, command, live = false } of steps) {
    const began = performance.now();
    const { ok, output } = await run(command, live);
    oks.push(ok);
    const took = secondsSince(began);
    console.log(
      ok ? `── ${name} passed (${took})` : `── ${name} failed (${took}): ${command.join(" ")}\n${output.trim()}\n`,
    );
  }
  return oks;
}

function run([file, ...args]: Step["command"], live: boolean): Promise<{ ok: boolean; output: string }> {
  return new Promise((resolve) => {
    const env = { ...process.env, PATH };
    const child = spawn(file, args, { cwd: root, env, stdio: live ? "inherit" : ["ignore", "pipe", "pipe"] });
    const chunks: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.on("error", (error) => resolve({ ok: false, output: error.message }));
    child.on("close", (code) => resolve({ ok: code === 0, output: Buffer.concat(chunks).toString() }));
  });
}

const secondsSince = (began: number) => `${((performance.now() - began) / 1000).toFixed(1)} s`;
