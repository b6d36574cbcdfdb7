// What the policy takes for a literal must be what bash makes of it: thousands of odd words, through both.
import { execFileSync } from "node:child_process";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { loadParser, readScript } from "../../src/policy/reading.ts";
import { isHarmlessAwk, isHarmlessSed } from "../../src/policy/scripts.ts";

const parse = await loadParser();

const PIECES = [
  "a b - o = ~ / \\ \\\\ \\n 'x' \"y\" ' \" $'\\x41' $'\\u00e9' $'\\'' $'\\e[1m' $'\\cA' $'\\0101' $'\\x4' \\\" \\' \\$ $ % { } , .. {a} {}",
  '@ # ! ^ "\\a" "\\$" "$" \'\' "" é 日 [ ] x= x=~ :~ + {a,b} * ? "\'" \'"\' \\* \'*\' "*" \\{a,b} {1..2} $\'a\\nb\' ~root \'~\' \\~ ( ) ; & | < > `',
]
  .join(" ")
  .split(" ");
const word = fc
  .array(fc.constantFrom(...PIECES, " ", "\\\n", "\n", "\t"), { minLength: 1, maxLength: 7 })
  .map((all) => all.join(""));

describe("literal words", () => {
  it("are what bash says they are", () => {
    const seen: { text: string; values: string[] }[] = [];
    for (const text of fc.sample(word, { numRuns: 6_000, seed: 42 })) {
      const { steps, doubts } = readScript(`P ${text}`, parse);
      const [step, ...more] = steps;
      if (doubts.length > 0 || more.length > 0 || step?.step !== "command") continue;
      const { argv, assigns, redirects } = step.command;
      const values = argv.slice(1).map(({ value }) => value);
      if (argv[0]?.value !== "P" || assigns.length > 0 || redirects.length > 0) continue;
      if (values.every((value) => value !== null)) seen.push({ text, values });
    }
    expect(seen.length).toBeGreaterThan(1_000);
    const script = `P() { printf '%s\\0' "$#" "$@"; }
      while IFS= read -r -d '' text; do eval "P $text"; printf 'END\\0'; done`;
    const said = execFileSync("bash", ["-c", script], {
      // Patterns are not among the words, so it does not matter where.
      cwd: "/",
      env: { HOME: "/h", LC_ALL: "C.UTF-8", PATH: process.env.PATH },
      input: seen.map(({ text }) => `${text}\0`).join(""),
      maxBuffer: 50_000_000,
    })
      .toString()
      .split("\0");
    let at = 0;
    for (const { text, values } of seen) {
      const count = Number(said[at]);
      expect({ text, values: said.slice(at + 1, at + 1 + count) }).toEqual({ text, values });
      at += count + 2;
      expect(said[at - 1]).toBe("END");
    }
  });
});

describe("programs of sed", () => {
  it.each([
    "1,50p",
    "$p",
    "/a/,/b/p",
    "s/a/b/g",
    "s|a/b|c|",
    "5q",
    "5{p;q}",
    "/x/!d",
    "1~2d",
    "$!N;P;D",
    ":a;N;ba",
    "/a/I{s/b/c/;p}",
    "s/[0-9]*/x/",
    "s/a\\/b/c/p",
    "=",
    "y/abc/xyz/",
    "# note\np",
    "0,/x/d",
    "1,+3p",
  ])("%s only prints", (script) => expect(isHarmlessSed(script)).toBe(true));
  it.each([
    "w x",
    "1w x",
    "s/a/b/w x",
    "s/a/b/e",
    "e ls",
    "1e",
    "r x",
    "R x",
    "W x",
    "s/[/]/x/w y",
    "p;w x",
    "{w x\n}",
    "s/a/b/gw x",
    "a text",
    "i\\\nx",
    "c x",
    "/a/w x",
    "$!w x",
    "s/a/\\\nw x/",
    "v 4.2",
    "s/a/b",
    "p p",
    "",
    "\\",
  ])("%s is not accepted", (script) => expect(isHarmlessSed(script)).toBe(script === ""));
});

describe("programs of awk", () => {
  it.each([
    "{print $1}",
    "NR>=10 && NR<=20",
    "$3 > 100 {print $1}",
    "/a|b/ {n++} END {print n}",
    'BEGIN{FS=","} {print $2}',
    "{ if ($1 > 5) print }",
    "{print $1/2}",
    "!seen[$0]++",
    '{gsub(/a/, "b"); print}',
    "NF",
    '{printf "%s\\n", $1}',
    "$1 ~ /^x/",
    "END{print NR}",
  ])("%s only prints", (program) => expect(isHarmlessAwk(program)).toBe(true));
  it.each([
    '{print > "x"}',
    '{print >> "x"}',
    '{print | "sh"}',
    '{system("x")}',
    '"ls" | getline',
    '{getline < "x"}',
    '{ if (1) /"/ ; print "x" > "y" #"\n}',
    '{print(1)(2) > "x"}',
    '@load "x"',
    '{print "a" |& "b"}',
    'BEGIN { printf("x") > "f" }',
    "{print",
    "}",
    "{ print $1 > $2 }",
  ])("%s is not accepted", (program) => expect(isHarmlessAwk(program)).toBe(false));
});
