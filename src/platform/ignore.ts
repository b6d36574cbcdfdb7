// .gitignore and .ignore: of the rules that fit, the last one of the deepest file decides.
import { join } from "node:path";
import { readHead } from "./confined.ts";
import { matchesPath, segmentsOf } from "./glob.ts";

type Rule = { glob: ReturnType<typeof segmentsOf>; keep: boolean; dirOnly: boolean };
/** The rules of one directory; `depth` is how many names lead to it. */
export type Rules = { depth: number; rules: readonly Rule[] };

export const IGNORE_FILES = [".gitignore", ".ignore"];
const MOST_RULES = 2_000;
const LARGEST = 262_144;
const LONGEST_RULE = 1_000;

const readRules = (text: string): Rule[] =>
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

/** Of a directory, by its real path; mostly there are none. One that cannot be read, or is too large, counts for nothing. */
export async function rulesIn(dir: string): Promise<Rule[]> {
  const texts = IGNORE_FILES.map(async (name) => {
    const { bytes, stat } = await readHead(join(dir, name), LARGEST);
    return stat.size <= LARGEST ? bytes.toString("utf8") : "";
  });
  const read = await Promise.allSettled(texts);
  return readRules(read.map((one) => (one.status === "fulfilled" ? one.value : "")).join("\n"));
}

export function isIgnored(stack: readonly Rules[], path: readonly string[], isDir: boolean): boolean {
  for (const { depth, rules } of stack.toReversed()) {
    const rest = path.slice(depth);
    const rule = rules.findLast(({ glob, dirOnly }) => (isDir || !dirOnly) && matchesPath(glob, rest));
    if (rule) return !rule.keep;
  }
  return false;
}
