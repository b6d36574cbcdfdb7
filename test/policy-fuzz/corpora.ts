// The commands of test/data, as they would be given to a shell.
import { readFileSync } from "node:fs";

const data = (name: string): string => readFileSync(new URL(`../data/${name}`, import.meta.url), "utf8");

export type Row = { kind: string; runs: boolean; command: string };
/** The commands are written as literals of Python. */
export const rows = (name: string): Row[] =>
  data(name)
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => {
      const [kind = "", runs = "", literal = ""] = line.split("\t");
      return { kind, runs: runs === "yes", command: decode(literal) };
    });

const decode = (literal: string): string => {
  const names: Record<string, string> = { n: "\n", t: "\t", r: "\r" };
  return literal
    .slice(1, -1)
    .replace(/\\(?:x([\da-f]{2})|u([\da-f]{4})|([^]))/g, (_all, hex?: string, wide?: string, char?: string) => {
      const code = hex ?? wide;
      return code === undefined ? (names[char ?? ""] ?? char ?? "") : String.fromCharCode(Number.parseInt(code, 16));
    });
};

/** What only looks, and what does something. */
export const everyday = (): { read: string[]; work: string[] } => {
  const [read = "", work = ""] =
    data("everyday-commands.txt")
      .split(/^# read$/m)[1]
      ?.split(/^# work$/m) ?? [];
  const lines = (text: string) =>
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => (line.includes("<<'EOF'") ? line.replaceAll("\\n", "\n") : line));
  return { read: lines(read), work: lines(work) };
};

export const secretReads = (): string[] => data("secret-reads.txt").trim().split("\n");
