// Whether a process grew, from samples that were taken while nothing was going on.

export type Sample = {
  /** Hours since the start. */
  at: number;
  rss: number;
  /** After a collection. */
  heap: number;
  external: number;
  descriptors: number;
  timers: number;
  handles: number;
};
export type Verdict = { name: string; ok: boolean; text: string };

const MB = 1_000_000;
const MOST_MB_PER_HOUR = 1;
/** A shorter one is all warm-up: caches fill, and the heap settles. */
const SHORTEST_HOURS = 1;
/** A connection that is kept for its next request, a timer that is about to end. */
const SLACK = 6;

export function judgeGrowth(samples: readonly Sample[]): Verdict[] {
  const second = samples.slice(Math.floor(samples.length / 2));
  const hours = samples.at(-1)?.at ?? 0;
  const slope = slopeOf(second.map(({ at, rss }) => ({ x: at, y: rss / MB })));
  const judged = hours >= SHORTEST_HOURS;
  const memory = {
    name: "memory",
    ok: !judged || slope <= MOST_MB_PER_HOUR,
    text: `RSS ${mb(second[0]?.rss)} to ${mb(second.at(-1)?.rss)} MB in the second half, ${slope.toFixed(2)} MB/h${judged ? "" : " (too short to judge)"}; heap ${mb(second[0]?.heap)} to ${mb(second.at(-1)?.heap)} MB`,
  };
  const counts = (["descriptors", "timers", "handles"] as const).map((name) => {
    const quarter = Math.max(1, Math.floor(samples.length / 4));
    const before = median(samples.slice(quarter, 2 * quarter).map((sample) => sample[name]));
    const after = median(samples.slice(-quarter).map((sample) => sample[name]));
    return {
      name,
      ok: after <= before + SLACK,
      text: `${name}: ${before} in the second quarter, ${after} in the last`,
    };
  });
  return [memory, ...counts];
}

/** Least squares. */
export function slopeOf(points: readonly { x: number; y: number }[]): number {
  const x = mean(points.map((point) => point.x));
  const y = mean(points.map((point) => point.y));
  const spread = sum(points.map((point) => (point.x - x) ** 2));
  return spread === 0 ? 0 : sum(points.map((point) => (point.x - x) * (point.y - y))) / spread;
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);
const mean = (numbers: readonly number[]) => sum(numbers) / Math.max(1, numbers.length);
const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
const mb = (bytes = 0) => (bytes / MB).toFixed(1);
