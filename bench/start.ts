// From nothing to ready on a file with a long past. `node start.ts ours DIR` is one process that is timed.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openBare } from "./bare.ts";
import { FILE, never, openBench } from "./engine.ts";
import { median, report } from "./figure.ts";
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
    rmSync(dir, { recursive: true });
  }
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
