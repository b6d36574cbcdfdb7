// .gitignore and .ignore: of the rules that fit, the last one of the deepest file decides.
import { matchesPath, segmentsOf } from "./glob.ts";

type Rule = { glob: ReturnType<typeof segmentsOf>; keep: boolean; dirOnly: boolean };
/** The rules of one directory; `depth` is how many names lead to it. */
export type Rules = { depth: number; rules: readonly Rule[] };

export const IGNORE_FILES = [".gitignore", ".ignore"];
const MOST_RULES = 2_000;
const LONGEST_RULE = 1_000;

export const readRules = (text: string): Rule[] =>
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

export function isIgnored(stack: readonly Rules[], path: readonly string[], isDir: boolean): boolean {
  for (const { depth, rules } of stack.toReversed()) {
    const rest = path.slice(depth);
    const rule = rules.findLast(({ glob, dirOnly }) => (isDir || !dirOnly) && matchesPath(glob, rest));
    if (rule) return !rule.keep;
  }
  return false;
}
