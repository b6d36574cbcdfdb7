// Which of the known names a misspelt one means.

/** The name closest to the typed one, or null if none is close. */
export function nearest(typed: string, names: readonly string[]): string | null {
  let best: string | null = null;
  let fewest = Math.max(1, Math.min(3, Math.floor(typed.length / 4))) + 1;
  for (const name of names) {
    if (Math.abs(name.length - typed.length) >= fewest) continue;
    const edits = distance(typed.toLowerCase(), name.toLowerCase());
    if (edits < fewest) [best, fewest] = [name, edits];
  }
  return best;
}

/** Edit distance: letters to add, remove, change or swap with their neighbour. */
export function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (let i = 0; i < a.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j += 1) {
      const change = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1);
      const swap = i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j] ? (before[j - 1] ?? 0) + 1 : change;
      next.push(Math.min(change, swap, (next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1));
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}
