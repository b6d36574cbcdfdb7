// Whether a long talk makes its next turn slower.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBare } from "./bare.ts";
import { openBench } from "./engine.ts";
import { type Figure, median, report } from "./figure.ts";
import { PER_TURN, talkOf } from "./talk.ts";

const quick = process.argv.includes("--quick");
const SIZES = [100, 1_000, 10_000];
const TURNS = quick ? 30 : 150;
const COLD = quick ? 3 : 7;

const dir = mkdtempSync(join(tmpdir(), "hermes-bench-"));
try {
  const bare = await openBare(dir, "OFF");
  for (const size of SIZES)
    bare.commit([
      talkOf(`warm-${size}`, size / PER_TURN),
      ...Array.from({ length: COLD }, (_, n) => talkOf(`cold-${size}-${n}`, size / PER_TURN)),
    ]);
  bare.db.close();

  const bench = await openBench(dir);
  const cold = new Map(SIZES.map((size) => [size, [] as number[]]));
  const warm = new Map(SIZES.map((size) => [size, { accepted: [] as number[], ended: [] as number[] }]));
  for (const size of SIZES) await bench.turn(`warm-${size}`, `first of ${size}`);
  // One after another and in turns: they meet the same disk.
  for (let n = 0; n < COLD; n++)
    for (const [size, times] of cold) times.push((await bench.turn(`cold-${size}-${n}`, `cold ${size} ${n}`)).ended);
  for (let n = 0; n < TURNS; n++)
    for (const [size, times] of warm) {
      const { accepted, ended } = await bench.turn(`warm-${size}`, `${size} ${n}`);
      times.accepted.push(accepted);
      times.ended.push(ended);
    }
  await bench.close();

  const [smallest = 0] = SIZES;
  const table = (name: string, of: (size: number) => number, goal?: number): Figure[] =>
    SIZES.map((size) => ({
      name: `${name}, ${size.toLocaleString("en")} entries`,
      value: of(size),
      unit: "ms",
      ...(size > smallest && { against: [{ value: of(smallest), what: `${smallest} entries` }] }),
      ...(size > smallest && goal && { goal: { ratio: goal } }),
    }));
  report([
    ...table("accept p50", (size) => median(warm.get(size)?.accepted ?? []), 1.5),
    ...table("turn p50", (size) => median(warm.get(size)?.ended ?? []), 1.5),
    ...table("first turn after a start", (size) => median(cold.get(size) ?? [])),
  ]);
} finally {
  rmSync(dir, { recursive: true });
}
