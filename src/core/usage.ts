// What model calls used, added up. What nobody said stays unsaid.
import type { Usage } from "./session.ts";

export function usagePlus(one: Usage, other: Usage): Usage {
  const sum = (key: "cached" | "reasoning" | "cost") => {
    const [a, b] = [one[key], other[key]];
    return a === undefined && b === undefined ? {} : { [key]: (a ?? 0) + (b ?? 0) };
  };
  const { input, output } = { input: one.input + other.input, output: one.output + other.output };
  return { input, output, ...sum("cached"), ...sum("reasoning"), ...sum("cost") };
}
