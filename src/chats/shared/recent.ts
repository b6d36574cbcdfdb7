import { createBounded } from "../../core/bounded.ts";

export type RecentIds = { has(name: string): boolean; add(name: string): void };

/** Remembers the last `most` names. */
export function recent(most: number): RecentIds {
  const names = createBounded<true>(most);
  return { has: (name) => names.get(name) ?? false, add: (name) => names.set(name, true) };
}
