// Adds up what model calls used. If the cost of one call is not known, the sum has no cost: people would read the cost of some calls
// as the cost of all.
import type { Usage } from "./session.ts";

export function usagePlus(one: Usage, other: Usage): Usage {
  const sum = (key: "cached" | "reasoning") => {
    const [a, b] = [one[key], other[key]];
    return a === undefined && b === undefined ? {} : { [key]: (a ?? 0) + (b ?? 0) };
  };
  const { input, output } = { input: one.input + other.input, output: one.output + other.output };
  const calls = [one, other].filter((usage) => usage.input + usage.output > 0);
  const costs = calls.flatMap(({ cost }) => (cost === undefined ? [] : [cost]));
  const cost = costs.length === calls.length && costs.length > 0 && { cost: costs.reduce((all, next) => all + next) };
  return { input, output, ...sum("cached"), ...sum("reasoning"), ...cost };
}
