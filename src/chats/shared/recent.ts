import { createBounded } from "../../core/bounded.ts";

/** Remembers the last `most` names. */
export function recent(most: number) {
  const names = createBounded<true>(most);
  return { has: (name: string) => names.get(name) ?? false, add: (name: string) => names.set(name, true) };
}
