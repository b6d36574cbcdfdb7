// From nothing to ready: the engine on a file with a long past, and the gateway as users start it, until /health says ok.
// `node start.ts ours DIR` is one process that is timed.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openBare } from "./bare.ts";
import { FILE, never, openBench } from "./engine.ts";
import { type Figure, median, report } from "./figure.ts";
import { BARE_SERVER, endAll, HERMES, launch } from "./process.ts";
import { build, PER_TURN } from "./talk.ts";

/** Opening, claiming and asking who was at work is what a start cannot do without. */
const BARE = `
  const began = performance.now();
  const { DatabaseSync } = require("node:sqlite");
  const db = new DatabaseSync(process.argv[1] + "/${FILE}");
  db.exec("PRAGMA synchronous = FULL; UPDATE owner SET epoch = epoch + 1");
  db.prepare("SELECT key, updated_at FROM session WHERE active = 1 ORDER BY updated_at").all();
  const ready = performance.now() - began;
  process.stdout.write(JSON.stringify({ ready, at: performance.timeOrigin + performance.now() }));`;

const [kind = "", place = ""] = process.argv.slice(2);
if (kind === "ours") await once();
else await measure(process.argv.includes("--quick"));

async function measure(quick: boolean) {
  const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
  const sessions = quick ? 2_000 : 10_000;
  const turns = 100 / PER_TURN;
  const open = 100;
  try {
    const began = performance.now();
    const calm = join(dir, "calm");
    const crashed = join(dir, "crashed");
    let entries = 0;
    for (const [place, unfinished] of [
      [calm, 0],
      [crashed, open],
    ] as const) {
      mkdirSync(place);
      const bare = await openBare(place, "OFF");
      entries = Math.max(entries, build(bare, { sessions, turns, open: unfinished }));
      bare.db.close();
    }
    const size = Math.round(statSync(join(calm, FILE)).size / 1e6);
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    console.log(`(built twice in ${seconds} s: ${sessions} sessions, ${entries} entries, ${size} MB)`);

    const times = Array.from({ length: quick ? 3 : 7 }, () => ({
      calm: run("ours", calm),
      crashed: run("ours", crashed),
      bare: run("bare", calm),
    }));
    const of = (what: "calm" | "crashed" | "bare", part: "ready" | "process") =>
      median(times.map((time) => time[what][part]));
    const on = `${sessions.toLocaleString("en")} sessions`;
    const against = [{ value: of("bare", "ready"), what: "opening the file" }];
    const goal = { value: 1_000 };
    report([
      ...(await programs(join(dir, "home"), quick ? 3 : 9)),
      { name: `open and start, ${on}`, value: of("calm", "ready"), unit: "ms", against, goal },
      {
        name: `open and start, ${on}, ${open} turns to recover`,
        value: of("crashed", "ready"),
        unit: "ms",
        against,
        goal,
      },
      {
        name: `process to ready, ${on}`,
        value: of("calm", "process"),
        unit: "ms",
        against: [{ value: of("bare", "process"), what: "a process that opens the file" }],
        goal,
      },
    ]);
  } finally {
    endAll();
    rmSync(dir, { recursive: true });
  }
}

/** What users start, alternating with the same by nobody. CPU counts all threads: it says on a busy machine what the clock says on a
 *  quiet one. */
async function programs(home: string, rounds: number): Promise<Figure[]> {
  mkdirSync(home, { mode: 0o700 });
  const config = {
    model: { default: "m", base_url: "http://127.0.0.1:9/v1", api_key: "k" },
    gateway: { api_server: { port: 0 } },
  };
  writeFileSync(join(home, "config.yaml"), JSON.stringify({ ...config, logging: { level: "warn" } }), { mode: 0o600 });
  const env = { HERMES_HOME: home, HOME: home };
  const server = async (command: string, args: string[]) => {
    const began = performance.now();
    const started = await launch(command, args, env);
    if (!(await fetch(`${started.url}/health`)).ok) throw new Error("not healthy");
    const figures = { ms: performance.now() - began, cpu: started.cpuMs() };
    await started.stop();
    return figures;
  };
  const program = (command: string, args: string[]) => {
    const began = performance.now();
    spawnSync(command, args, { env: { PATH: process.env["PATH"], ...env }, stdio: "ignore" });
    return performance.now() - began;
  };
  await server(HERMES, ["gateway"]); // fills the caches that every later start has
  program(HERMES, ["--help"]);
  const times: Record<"ours" | "bare" | "oursCpu" | "bareCpu" | "version" | "help" | "node", number[]> = {
    ours: [],
    bare: [],
    oursCpu: [],
    bareCpu: [],
    version: [],
    help: [],
    node: [],
  };
  for (let n = 0; n < rounds; n++) {
    const ours = await server(HERMES, ["gateway"]);
    const bare = await server(process.execPath, ["-e", BARE_SERVER]);
    times.ours.push(ours.ms);
    times.bare.push(bare.ms);
    times.oursCpu.push(ours.cpu);
    times.bareCpu.push(bare.cpu);
    times.version.push(program(HERMES, ["--version"]));
    times.help.push(program(HERMES, ["--help"]));
    times.node.push(program(process.execPath, ["-e", "0"]));
  }
  const row = (
    name: string,
    of: keyof typeof times,
    against: keyof typeof times,
    what: string,
    goal?: number,
  ): Figure => ({
    name,
    value: median(times[of]),
    unit: "ms",
    against: [{ value: median(times[against]), what }],
    ...(goal !== undefined && { goal: { value: goal } }),
  });
  return [
    row("gateway: spawn → /health says ok", "ours", "bare", "a server and a thread", 150),
    row("gateway: CPU until then", "oursCpu", "bareCpu", "a server and a thread"),
    row("hermes --version", "version", "node", "node -e 0"),
    row("hermes --help", "help", "node", "node -e 0"),
  ];
}

function run(kind: "ours" | "bare", place: string): { ready: number; process: number } {
  const began = performance.timeOrigin + performance.now();
  const what = kind === "bare" ? ["-e", BARE, place] : [fileURLToPath(import.meta.url), kind, place];
  const { stdout } = spawnSync(process.execPath, ["--no-warnings", ...what]);
  const { ready, at } = JSON.parse(String(stdout)) as { ready: number; at: number };
  return { ready, process: at - began };
}

/** Ends like a crash: what it has recovered is there to recover for the next one. */
async function once() {
  const began = performance.now();
  await openBench(place, { model: never });
  const ready = performance.now() - began;
  process.stdout.write(JSON.stringify({ ready, at: performance.timeOrigin + performance.now() }), () =>
    process.exit(0),
  );
}
