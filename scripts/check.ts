// Everything about the source that a machine can judge without running it. Quiet when all is well.
import { type ChildProcess, spawn } from "node:child_process";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const PATH = `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH ?? ""}`;
const how = { cwd: root, env: { ...process.env, PATH } };

// Longest first; two at a time, since most of them use more than one core by themselves.
const AT_ONCE = 2;
const PARTS = {
  architecture: () => spawn("vitest", ["run", "--reporter=dot", "test/unit/architecture.test.ts"], how),
  "dead code": () => spawn("knip", ["--no-config-hints"], how),
  types: () => spawn("tsc", [], how),
  "types of the console": () => spawn("tsc", ["-p", "src/surfaces/web/app"], how),
  lint: () => spawn("oxlint", ["--deny-warnings"], how),
  format: () => spawn("biome", ["check", "."], how),
};

const outcome = (child: ChildProcess): Promise<{ ok: boolean; output: string }> =>
  new Promise((resolve) => {
    const chunks: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => chunks.push(chunk));
    child.on("error", (error) => resolve({ ok: false, output: error.message }));
    child.on("close", (code) => resolve({ ok: code === 0, output: Buffer.concat(chunks).toString() }));
  });

const started = performance.now();
const waiting = Object.entries(PARTS);
let failed = 0;

const work = async () => {
  for (let part = waiting.shift(); part; part = waiting.shift()) {
    const [name, start] = part;
    const child = start();
    const { ok, output } = await outcome(child);
    if (ok) continue;
    failed += 1;
    console.log(`── ${name} failed: ${child.spawnargs.join(" ")}\n${output.trim()}\n`);
  }
};
await Promise.all(Array.from({ length: AT_ONCE }, work));

const passed = Object.keys(PARTS).length - failed;
const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(`check: ${passed} passed, ${failed} failed (${seconds} s)`);
process.exitCode = failed === 0 ? 0 : 1;
