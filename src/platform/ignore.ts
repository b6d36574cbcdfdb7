// .gitignore and .ignore: of all matching rules, the last one of the deepest file decides.
import { join } from "node:path";
import { readHead } from "./confined.ts";
import { matchesPath, segmentsOf } from "./glob.ts";

type IgnoreRule = { glob: ReturnType<typeof segmentsOf>; keep: boolean; dirOnly: boolean };
/** The rules of one directory; `depth` is the number of path segments above it. */
export type IgnoreRules = { depth: number; rules: readonly IgnoreRule[] };

export const IGNORE_FILES = [".gitignore", ".ignore"];
const MOST_RULES = 2_000;
const LARGEST = 262_144;
const LONGEST_RULE = 1_000;

const readRules = (text: string): IgnoreRule[] =>
  text
    .split("\n")
    .slice(0, MOST_RULES)
    .filter((line) => line.length <= LONGEST_RULE)
    .flatMap((raw) => {
      const line = raw.replace(/\r$/, "").replace(/(?<!\\)\s+$/, "");
      if (line === "" || line.startsWith("#")) return [];
      const keep = line.startsWith("!");
      const body = line.replace(/^!/, "").replace(/\/+$/, "");
      if (body === "") return [];
      const anchored = body.includes("/");
      return [
        { glob: segmentsOf((anchored ? "" : "**/") + body.replace(/^\//, "")), keep, dirOnly: line.endsWith("/") },
      ];
    });

/** The rules of a directory, by its real path; usually none. A file that cannot be read or is too large is ignored. */
export async function rulesIn(dir: string): Promise<IgnoreRule[]> {
  const texts = IGNORE_FILES.map(async (name) => {
    const { bytes, stat } = await readHead(join(dir, name), LARGEST);
    return stat.size <= LARGEST ? bytes.toString("utf8") : "";
  });
  const read = await Promise.allSettled(texts);
  return readRules(read.map((one) => (one.status === "fulfilled" ? one.value : "")).join("\n"));
}

export function isIgnored(stack: readonly IgnoreRules[], path: readonly string[], isDir: boolean): boolean {
  for (const { depth, rules } of stack.toReversed()) {
    const rest = path.slice(depth);
    const rule = rules.findLast(({ glob, dirOnly }) => (isDir || !dirOnly) && matchesPath(glob, rest));
    if (rule) return !rule.keep;
  }
  return false;
}
