// What the process runner costs and how fast it ends things, against a bare spawn and a kill of its group.
//   node bench/exec.ts [--quick]
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { closeNetns } from "../src/tools/sandbox/netns.ts";
import { chooseSandbox, type Sandbox } from "../src/tools/sandbox/sandbox.ts";
import { openNetns, probeSandbox, run } from "../src/tools/shell/exec.ts";
import { createTerminal } from "../src/tools/shell/terminal.ts";
import { localStateIn } from "../test/fakes/local-state.ts";
import { marked, SHAPES } from "../test/fakes/shapes.ts";
import { type Figure, median, percentile, report } from "./figure.ts";

/** How long a bare kill may take before what is left counts as surviving. */
const SURVIVES_MS = 500;
const GIGABYTE = `yes "0123456789 0123456789 0123456789 0123456789" | head -c ${1024 ** 3}`;

type Box = { name: string; sandbox: Sandbox | null };
let calls = 0;
const marker = () => `bench-${process.pid}-${calls++}.`;

export async function benchExec(quick = false): Promise<Figure[]> {
  const probe = await probeSandbox();
  const boxes: Box[] = [{ name: "no sandbox", sandbox: null }];
  const netns = probe.usable ? await openNetns("bench") : null;
  if (probe.usable) boxes.push({ name: "sandbox", sandbox: { writable: [], hidden: [], netns } });
  else console.log(`no figures with a sandbox: ${probe.why}`);
  const figures = await spawning(boxes, quick ? 20 : 200);
  for (const [shape, command] of Object.entries(SHAPES))
    figures.push(...(await aborting(shape, command, boxes, quick ? 5 : 50)));
  figures.push(...(await gigabyte(boxes)), ...(probe.usable ? await tool(quick ? 20 : 100) : []));
  if (netns) closeNetns(netns);
  return figures;
}

/** All of it, as the agent's tool does it: the session's network, a look at the repositories before and after. */
async function tool(times: number): Promise<Figure[]> {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-bench-")));
  const [home, workspace] = [join(dir, "home"), fileURLToPath(new URL("..", import.meta.url))];
  mkdirSync(home, { mode: 0o700 });
  const terminal = createTerminal({
    localState: localStateIn(home),
    home,
    workspace,
    sandbox: chooseSandbox({
      mode: "required",
      probe: { usable: true },
      writable: [workspace],
      homes: { hermes: home, user: homedir() },
      path: process.env.PATH ?? "",
    }),
    policy: { judge: () => ({ verdict: "allow", reason: "" }), canKeep: () => false, keep: () => Promise.resolve() },
    onComplete: () => {},
    log: () => {},
    network: { mode: "ask", allow: [] },
  });
  const call = { session: "s", turn: "t", call: "c", signal: new AbortController().signal };
  const use = () => terminal.tools[0]?.run({ command: "true" }, call) ?? Promise.resolve();
  const first = await timed(use);
  const value = await repeated(times, use);
  await terminal.close();
  rmSync(dir, { recursive: true, force: true });
  return [
    { name: "the terminal tool, sandbox, first command of a session", value: first, unit: "ms" },
    { name: "the terminal tool, sandbox, later ones", value, unit: "ms" },
  ];
}

async function spawning(boxes: Box[], times: number): Promise<Figure[]> {
  const bare = await repeated(times, () => once(spawn("bash", ["-c", "true"], { stdio: "pipe" }), "close"));
  const figures: Figure[] = [];
  for (const { name, sandbox } of boxes) {
    const value = await repeated(times, () => run("true", { cwd: "/", marker: marker(), sandbox }));
    figures.push({ name: `a command, ${name}`, value, unit: "ms", against: [{ value: bare, what: "bare spawn" }] });
  }
  return figures;
}

async function aborting(shape: string, command: string, boxes: Box[], times: number): Promise<Figure[]> {
  const bare = await bareAborts(command, times);
  const figures: Figure[] = [];
  for (const { name, sandbox } of boxes) {
    const all: number[] = [];
    for (let round = 0; round < times; round++) all.push(await abort(command, sandbox));
    const left = bare.left > 0 ? ` (bare: ${bare.left} of ${times} live on)` : "";
    figures.push({
      name: `abort → dead p99, ${shape}, ${name}${left}`,
      value: percentile(all, 99),
      unit: "ms",
      against: bare.times.length > 0 ? [{ value: percentile(bare.times, 99), what: "bare group kill" }] : [],
      goal: { value: 300 },
    });
  }
  return figures;
}

async function abort(command: string, sandbox: Sandbox | null): Promise<number> {
  const stop = new AbortController();
  const mark = marker();
  let from = 0;
  const onOutput = (text: string) => {
    if (from > 0 || !text.includes("ready")) return;
    from = performance.now();
    stop.abort();
  };
  await run(command, { cwd: "/", marker: mark, sandbox, onOutput, signal: stop.signal });
  const took = performance.now() - from;
  if (marked(mark).length > 0) throw new Error(`survived an abort: ${command}`);
  return took;
}

/** What everybody does: SIGKILL to the group. */
async function bareAborts(command: string, times: number): Promise<{ times: number[]; left: number }> {
  const all: number[] = [];
  for (let round = 0; round < times; round++) {
    const mark = marker();
    const env = { PATH: process.env.PATH, BENCH: mark };
    const child = spawn("bash", ["-c", command], { detached: true, stdio: ["ignore", "pipe", "ignore"], env });
    let text = "";
    for await (const piece of child.stdout) {
      text += String(piece);
      if (text.includes("ready")) break;
    }
    const from = performance.now();
    process.kill(-(child.pid ?? 0), "SIGKILL");
    let alive = marked(mark);
    for (; alive.length > 0 && performance.now() - from < SURVIVES_MS; alive = marked(mark))
      await new Promise(setImmediate);
    if (alive.length === 0) all.push(performance.now() - from);
    for (const pid of alive) process.kill(pid, "SIGKILL");
  }
  return { times: all, left: times - all.length };
}

async function gigabyte(boxes: Box[]): Promise<Figure[]> {
  const bare = await timed(async () => {
    const child = spawn("bash", ["-c", GIGABYTE], { stdio: ["ignore", "pipe", "ignore"] });
    child.stdout.resume();
    await once(child, "close");
  });
  const figures: Figure[] = [];
  const script = fileURLToPath(new URL("../test/fakes/exec-child.ts", import.meta.url));
  for (const { name, sandbox } of boxes) {
    const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
    const spool = { file: join(dir, "out.txt") };
    const value = await timed(() => run(GIGABYTE, { cwd: "/", marker: marker(), sandbox, spool }));
    const args = ["--no-warnings", script, "gigabyte", join(dir, "rss.txt"), marker(), ...(sandbox ? ["sandbox"] : [])];
    const said: { grown: number } = JSON.parse(spawnSync(process.execPath, args, { encoding: "utf8" }).stdout);
    rmSync(dir, { recursive: true, force: true });
    const against = [{ value: bare, what: "bare, thrown away" }];
    figures.push({ name: `1 GB of output, ${name}`, value, unit: "ms", against });
    figures.push({ name: `1 GB of output, memory, ${name}`, value: said.grown / 1e6, unit: "MB", goal: { value: 64 } });
  }
  return figures;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

async function repeated(times: number, work: () => Promise<unknown>): Promise<number> {
  await work(); // once for nothing: files, pipes and code are warm
  const all: number[] = [];
  for (let round = 0; round < times; round++) all.push(await timed(work));
  return median(all);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) report(await benchExec(process.argv.includes("--quick")));
