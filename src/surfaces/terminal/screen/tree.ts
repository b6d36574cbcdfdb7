// The paths below a directory that a person may mean: nearest first, without what .gitignore names, never too many.
import type { Dirent } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { openDir, realInside } from "../../../platform/confined.ts";
import { IGNORE_FILES, type IgnoreRules, isIgnored, rulesIn } from "../../../platform/ignore.ts";
import { clean } from "../clean.ts";

/** Looked at, not only found: a directory of a million files must not hold up who types. */
const MOST_ENTRIES = 20_000;
const DEEPEST = 12;
/** Paths that are judged before keys are handled again. */
const AT_A_TIME = 1_000;
const NEVER = new Set([".git", "node_modules"]);

type TreePlace = { names: readonly string[]; above: readonly IgnoreRules[] };

/** Relative, directories with a "/" at their end. */
export async function pathsBelow(top: string): Promise<string[]> {
  const paths: string[] = [];
  const root = await realInside(top, []).catch(() => top);
  const places: TreePlace[] = [{ names: [], above: [] }];
  let left = MOST_ENTRIES;
  for (let place = places.shift(); place && left > 0; place = places.shift()) {
    const dir = join(root, ...place.names);
    const entries = await entriesOf(dir, left);
    left -= entries.length;
    const rules = entries.some(({ name }) => IGNORE_FILES.includes(name)) ? await rulesIn(dir) : [];
    const all = rules.length > 0 ? [...place.above, { depth: place.names.length, rules }] : place.above;
    for (const [i, entry] of entries.entries()) {
      if (i % AT_A_TIME === AT_A_TIME - 1) await turn();
      const names = [...place.names, entry.name];
      const isDir = entry.isDirectory();
      // A name that cannot be shown, or not be quoted, cannot be meant either.
      if (NEVER.has(entry.name) || /["\n]/.test(entry.name) || clean(entry.name) !== entry.name) continue;
      if (isIgnored(all, names, isDir)) continue;
      paths.push(isDir ? `${names.join("/")}/` : names.join("/"));
      if (isDir && names.length < DEEPEST) places.push({ names, above: all });
    }
  }
  return paths;
}

async function entriesOf(dir: string, most: number): Promise<Dirent[]> {
  try {
    await using opened = await openDir(dir);
    return await opened.entries(most);
  } catch {
    return []; // not to be read by us: then it is passed over
  }
}
