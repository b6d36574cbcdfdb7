// "Did you mean …?" for a path that does not exist.
import { basename, dirname, join } from "node:path";
import { openDir } from "../../platform/confined.ts";
import type { Confine } from "./confine.ts";
import { orNull } from "./trouble.ts";
import { walk } from "./walk.ts";

const MOST = 3;
const MOST_SEEN = 5_000;

/** Similar names in the same directory, then files of this name elsewhere in the workspace. */
export async function similar(confine: Confine, real: string, signal: AbortSignal): Promise<string[]> {
  const wanted = basename(real).toLowerCase();
  const far = (name: string) => distance(name.toLowerCase(), wanted);
  const near = (await siblings(dirname(real)))
    .map((name) => ({ name, far: far(name) }))
    .filter(({ far }) => far <= Math.max(1, Math.floor(wanted.length / 4)))
    .toSorted((a, b) => a.far - b.far)
    .map(({ name }) => join(dirname(real), name));
  if (near.length === 0) {
    const budget = { entries: MOST_SEEN };
    const how = { skip: confine.forbidden, all: false, top: confine.workspace, budget, signal };
    for await (const file of walk(confine.workspace, how)) {
      if (basename(file.real).toLowerCase() === wanted) near.push(file.real);
      if (near.length >= MOST) break;
    }
  }
  return near.slice(0, MOST).map(confine.shown);
}

async function siblings(real: string): Promise<string[]> {
  const opened = await orNull(openDir(real)).catch(() => null);
  if (!opened) return [];
  await using dir = opened;
  return (await dir.entries(MOST_SEEN)).map(({ name }) => name);
}

/** Edit distance. */
function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8 || a.length > 255) return 255;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same));
    }
    row = next;
  }
  return row[b.length] ?? 255;
}
