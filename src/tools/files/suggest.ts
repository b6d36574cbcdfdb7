// "Did you mean …?" for a path that does not exist.
import { basename, dirname, join } from "node:path";
import { distance } from "../../core/nearest.ts";
import { openDir } from "../../platform/confined.ts";
import type { Confine } from "./confine.ts";
import { orNull } from "./trouble.ts";
import { walk } from "./walk.ts";

const MOST = 3;
const MOST_SEEN = 5_000;

/** Similar names in the same directory, then files of this name elsewhere in the workspace. */
export async function similar(confine: Confine, real: string, signal: AbortSignal): Promise<string[]> {
  const wanted = basename(real).toLowerCase();
  const furthest = Math.max(1, Math.floor(wanted.length / 4));
  const near = (await siblings(dirname(real)))
    .filter((name) => Math.abs(name.length - wanted.length) <= furthest)
    .map((name) => ({ name, far: distance(name.toLowerCase(), wanted) }))
    .filter(({ far }) => far <= furthest)
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
