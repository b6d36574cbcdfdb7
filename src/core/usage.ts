// What model calls used, added up. What is not known of a call is not known of the sum: a cost of some calls would be read as that
// of all.
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
