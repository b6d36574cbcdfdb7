// What sessions that nobody uses at the moment take of memory.
// `node idle.ts load|fresh DIR N WARM` is one process that is looked at.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FILE, openBench } from "./engine.ts";
import { type Figure, report } from "./figure.ts";

const BARE = `
  const { DatabaseSync } = require("node:sqlite");
  const db = new DatabaseSync(process.argv[1] + "/${FILE}");
  db.prepare("SELECT count(*) FROM session").get();
  gc();
  process.stdout.write(JSON.stringify(process.memoryUsage()));`;

const WARM = 1_000;
const [kind = "", place = "", count = "0", warm = "0"] = process.argv.slice(2);
if (kind === "load" || kind === "fresh") await look();
else measure(process.argv.includes("--quick") ? 2_000 : 10_000);

function measure(sessions: number) {
  const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
  try {
    const look = (...args: string[]): { rss: number; heapUsed: number } =>
      JSON.parse(execFileSync(process.execPath, ["--expose-gc", "--no-warnings", ...args], { encoding: "utf8" }));
    const ours = (kind: "load" | "fresh", place: string, warm: number) =>
      look(fileURLToPath(import.meta.url), kind, join(dir, place), `${sessions}`, `${warm}`);
    const n = sessions.toLocaleString("en");
    const kept = ours("load", "kept", sessions);
    const few = ours("load", "few", WARM);
    const fresh = ours("fresh", "kept", WARM);
    const bare = look("-e", BARE, join(dir, "kept"));
    const rss = (name: string, { rss }: typeof bare): Figure => ({
      name: `RSS, ${name}`,
      value: rss / 1e6,
      unit: "MB",
      against: [{ value: bare.rss / 1e6, what: "a process with the file open" }],
    });
    report([
      rss(`fresh process on ${n} sessions`, fresh),
      rss(`${n} idle sessions, all warm`, kept),
      rss(`${n} idle sessions, ${WARM.toLocaleString("en")} warm`, few),
      { name: `heap in use, ${n} idle sessions, all warm`, value: kept.heapUsed / 1e6, unit: "MB" },
      {
        name: "heap of one idle session that is warm",
        value: (kept.heapUsed - few.heapUsed) / 1e3 / (sessions - WARM),
        unit: "kB",
      },
    ]);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

async function look() {
  const close = await openEngine();
  for (let n = 0; n < 3; n++) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  process.stdout.write(JSON.stringify(process.memoryUsage()));
  await close();
}

async function openEngine() {
  const bench = await openBench(place, { warm: Number(warm) });
  let next = kind === "load" ? 0 : Number(count);
  const talk = async () => {
    while (next < Number(count)) {
      const n = next++;
      await bench.turn(`agent:main:telegram:dm:${n}`, `${n}`);
    }
  };
  await Promise.all(Array.from({ length: 200 }, talk));
  return bench.close;
}
