export type Recent = { has(name: string): boolean; add(name: string): void };

/** Remembers the newest names, so many of them. */
export function recent(most: number): Recent {
  const names = new Set<string>();
  return {
    has: (name) => names.has(name),
    add(name) {
      names.delete(name);
      names.add(name);
      for (const oldest of names) {
        if (names.size <= most) break;
        names.delete(oldest);
      }
    },
  };
}
