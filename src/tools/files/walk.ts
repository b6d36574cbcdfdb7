// All regular files below a directory, in order of names. Links are not followed. Each directory is opened by its
// identity, so one that is swapped for a link during the walk is skipped.
import type { Dirent } from "node:fs";
import { join, relative } from "node:path";
import { openDir, within } from "../../platform/confined.ts";
import { IGNORE_FILES, type IgnoreRules, isIgnored, rulesIn } from "../../platform/ignore.ts";

export type Walk = {
  /** Must not be entered. */
  skip(real: string): boolean;
  /** Also hidden and ignored files. */
  all: boolean;
  /** The directory where ignore files begin to count: the workspace. */
  top: string;
  /** Entries that may still be visited; at 0 the walk is incomplete. */
  budget: { entries: number };
  signal: AbortSignal;
};
export type FoundFile = { real: string; path: string[] };

const DEEPEST = 100;

export async function* walk(base: string, how: Walk): AsyncGenerator<FoundFile> {
  const top = within(how.top, base) ? how.top : base;
  const above = namesOf(top, base);
  const stack: IgnoreRules[] = [];
  for (let depth = 0; depth < above.length && !how.all; depth++)
    stack.push({ depth, rules: await rulesIn(join(top, ...above.slice(0, depth))) });
  yield* below(base, above, above.length, stack, how);
}

const namesOf = (from: string, to: string) => relative(from, to).split("/").filter(Boolean);

/** `names` is the path from the top to this directory; its first `start` names lead to the beginning of the walk. */
async function* below(
  dir: string,
  names: string[],
  start: number,
  above: IgnoreRules[],
  how: Walk,
): AsyncGenerator<FoundFile> {
  how.signal.throwIfAborted();
  const entries = await entriesOf(dir, how.budget.entries + 1);
  const hasRules = !how.all && entries.some(({ name }) => IGNORE_FILES.includes(name));
  const stack = hasRules ? [...above, { depth: names.length, rules: await rulesIn(dir) }] : above;
  for (const entry of entries) {
    if (how.budget.entries <= 0) return;
    how.budget.entries -= 1;
    const { name } = entry;
    const real = join(dir, name);
    const path = [...names, name];
    const isDir = entry.isDirectory();
    if ((!isDir && !entry.isFile()) || name === ".git" || how.skip(real)) continue;
    if (!how.all && (name.startsWith(".") || isIgnored(stack, path, isDir))) continue;
    if (!isDir) yield { real, path: path.slice(start) };
    else if (names.length < DEEPEST) yield* below(real, path, start, stack, how);
  }
}

/** Empty if the directory cannot be read. */
async function entriesOf(real: string, most: number): Promise<Dirent[]> {
  try {
    await using dir = await openDir(real);
    return await dir.entries(most);
  } catch {
    return [];
  }
}
