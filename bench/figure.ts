// A figure and how it is shown: beside what something simpler needs for the same work in the same run. A ratio above 1
// is always the worse one.
export type Figure = {
  name: string;
  value: number;
  unit: "ms" | "/s" | "MB" | "kB" | "pages" | "calls";
  /** The same without us, and what that is; the goal is about the first. */
  against?: { value: number; what: string }[];
  /** The most that is fine; the least, of what is better when there is more of it. */
  goal?: { ratio: number } | { value: number };
};

const ratio = ({ value, unit }: Figure, other: number) => (unit === "/s" ? other / value : value / other);

export function met(figure: Figure): boolean {
  const { goal, value, against: [first] = [] } = figure;
  if (!goal) return true;
  if ("ratio" in goal) return first !== undefined && ratio(figure, first.value) <= goal.ratio;
  return figure.unit === "/s" ? value >= goal.value : value <= goal.value;
}

function lineOf(figure: Figure): string {
  const { name, value, unit, against = [], goal } = figure;
  const ratios = against.map(
    (other) => `${ratio(figure, other.value).toFixed(2)} × ${other.what} (${shown(other.value, unit)})`,
  );
  const limit =
    goal && `goal ${"ratio" in goal ? `${goal.ratio} ×` : shown(goal.value, unit)} ${met(figure) ? "✓" : "✗"}`;
  const start = `${name.padEnd(52)}${shown(value, unit).padStart(11)}`;
  return [start, ratios.join(", "), ...(limit ? [limit] : [])].join("  ").trimEnd();
}

function shown(value: number, unit: string): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 3;
  return `${value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits })} ${unit}`;
}

export function percentile(values: number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;
}
export const median = (values: number[]) => percentile(values, 50);

/** Shows the figures of one file; bench/run.ts hears of them too. */
export function report(figures: Figure[]): void {
  for (const figure of figures) console.log(lineOf(figure));
  process.send?.(figures);
}
