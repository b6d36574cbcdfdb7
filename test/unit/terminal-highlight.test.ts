// Code in colours: the same text in as many lines, by the theme, without a cost before the first code is shown.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify, stripVTControlCharacters } from "node:util";
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { highlight, looksLikeDiff } from "../../src/surfaces/terminal/screen/highlight.ts";
import { makeTheme } from "../../src/surfaces/terminal/screen/theme.ts";

const ROOT = new URL("../..", import.meta.url);
const theme = makeTheme("dark", 4);
const { keyword, text, number, name, comment } = theme.code;
const SAMPLES: [language: string, code: string, painted: string][] = [
  ["ts", "const a = 1; // x", `${keyword("const")} a = ${number("1")}; ${comment("// x")}`],
  ["jsx", 'return "a";', `${keyword("return")} ${text('"a"')};`],
  ["json", '{ "a": 1 }', `{ ${name('"a"')}: ${number("1")} }`],
  ["python", "def f(): # x", `${keyword("def")} ${name("f")}(): ${comment("# x")}`],
  ["sh", "if true; then", `${keyword("if")} `],
  ["go", "func f() {}", `${keyword("func")} `],
  ["rust", "let a = 1;", keyword("let")],
  ["java", "return 1;", keyword("return")],
  ["c", "return 1;", keyword("return")],
  ["c++", "return 1;", keyword("return")],
  ["css", "a { color: red; }", name("color")],
  ["html", '<a href="x">', keyword("a")],
  ["yml", "a: 1", number("1")],
  ["sql", "SELECT 1", keyword("SELECT")],
  ["md", "# T", name("# T")],
  ["docker", "FROM a", keyword("FROM")],
];

/** With its language loaded. */
async function painted(code: string, language: string, by = theme): Promise<string[]> {
  const ready = Promise.withResolvers<void>();
  const first = highlight(code, language, by, ready.resolve);
  if (first.some((line) => line.includes("\x1b"))) return first;
  await ready.promise;
  return highlight(code, language, by);
}

describe("code", () => {
  it.each(SAMPLES)("of a language is painted: %s", async (language, code, expected) => {
    expect((await painted(code, language)).join("\n")).toContain(expected);
  });

  it("is plain until its language is loaded, and then says so, once for each who waits", async () => {
    vi.resetModules();
    const { highlight } = await import("../../src/surfaces/terminal/screen/highlight.ts");
    const calls: string[] = [];
    const both = Promise.withResolvers<void>();
    const told = (who: string) => () => calls.push(who) === 2 && both.resolve();
    const [first, second] = [told("first"), told("second")];
    for (const onReady of [first, second, first]) expect(highlight("let a;", "ts", theme, onReady)).toEqual(["let a;"]);
    await both.promise;
    expect(calls).toEqual(["first", "second"]);
    expect(highlight("let a;", "ts title=x", theme)).toEqual([`${keyword("let")} a;`]);
  });

  it("has each line painted by itself", async () => {
    expect(await painted("/* a\nb */ x", "js")).toEqual([comment("/* a"), `${comment("b */")} x`]);
    const [line] = await painted("`a ${b + 1} c`", "ts");
    expect(line).toBe(`${text("`a ")}\${b + ${number("1")}}${text(" c`")}`);
  });

  it.each([
    ["without a language", undefined, theme],
    ["of a language we do not know", "brainfuck", theme],
    ["without colours", "ts", makeTheme("mono", 24)],
  ])("stays as it is %s", (_name, language, by) => {
    const ready = vi.fn<() => void>();
    expect(highlight("const a = 1;\nb", language, by, ready)).toEqual(["const a = 1;", "b"]);
    expect(ready).not.toHaveBeenCalled();
  });

  it("stays as it is when it is too long", async () => {
    await painted("let a", "ts");
    const code = "const a = 1;\n".repeat(2_000);
    expect(highlight(code, "ts", theme)).toEqual(code.split("\n"));
  });

  it("is never changed but in its colours", async () => {
    for (const [language, code] of SAMPLES) await painted(code, language);
    const pieces = fc.constantFrom(
      ...SAMPLES.map(([, code]) => code),
      "\n",
      "\n",
      "<&>\"'&amp;",
      "`",
      '"',
      "/*",
      "*/",
      "<b>",
      "é🙂",
    );
    const languages = fc.constantFrom(...SAMPLES.map(([language]) => language), "diff", "");
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 30 }), languages, (parts, language) => {
        const code = parts.join("");
        expect(highlight(code, language, theme).map(stripVTControlCharacters)).toEqual(code.split("\n"));
      }),
      { numRuns: 300, seed: 1 },
    );
  });

  it("that grows is painted as if it had come at once, at the cost of what is new", async () => {
    const code = readFileSync(new URL("src/engine/engine.ts", ROOT), "utf8").slice(0, 6_000);
    await painted("let a", "ts");
    // A theme of its own: nothing is remembered from one to the other.
    const once = makeTheme("dark", 4);
    const whole = counted(() => highlight(code, "ts", once));
    const steps = Array.from({ length: 120 }, (_, i) => code.slice(0, 50 * (i + 1)));
    const grown = counted(() => steps.map((step) => highlight(step, "ts", theme)).at(-1));
    expect(grown.result).toEqual(whole.result);
    // Read from the beginning each time it would be 60 times as much.
    expect(grown.looks).toBeLessThan(15 * whole.looks);
    const other = code.replaceAll("const", "let");
    expect(highlight(other, "ts", theme).map(stripVTControlCharacters)).toEqual(other.split("\n"));
  });
});

/** How often a pattern was tried. */
function counted<T>(act: () => T): { result: T; looks: number } {
  const { exec } = RegExp.prototype;
  let looks = 0;
  Reflect.set(RegExp.prototype, "exec", function (this: RegExp, subject: string) {
    looks += 1;
    return exec.call(this, subject);
  });
  try {
    const result = act();
    return { result, looks };
  } finally {
    Reflect.set(RegExp.prototype, "exec", exec);
  }
}

describe("a diff", () => {
  const DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n same\n-old\n--- old\n+new\n";

  it.each(["diff", "patch", "", "text"])("is painted by its signs: %s", (language) => {
    const { dim, accent, added, removed } = theme;
    expect(highlight(DIFF, language, theme)).toEqual([
      dim("diff --git a/x b/x"),
      dim("--- a/x"),
      dim("+++ b/x"),
      accent("@@ -1,2 +1,2 @@ f"),
      " same",
      removed("-old"),
      removed("--- old"),
      added("+new"),
      "",
    ]);
  });

  it("is known by its head or a change, not by signs alone", () => {
    expect(looksLikeDiff(DIFF)).toBe(true);
    expect(looksLikeDiff("Done.\n@@ -1 +1 @@\n-a\n+b")).toBe(true);
    expect(looksLikeDiff("- a list\n- of things\n+ more")).toBe(false);
    expect(looksLikeDiff("---\ntitle: x\n---\n")).toBe(false);
    expect(looksLikeDiff("let i = 0;\n--i\n++i")).toBe(false);
  });
});

it("costs nothing at the start: the highlighter is loaded by the first code only", async () => {
  const program = `
    const { highlight } = await import("./src/surfaces/terminal/screen/highlight.ts");
    const { makeTheme } = await import("./src/surfaces/terminal/screen/theme.ts");
    const { createRequire } = await import("node:module");
    const loaded = () => Object.keys(createRequire(process.cwd() + "/x").cache).filter((file) => file.includes("highlight.js")).length;
    const before = loaded();
    highlight("text", undefined, makeTheme("dark", 24));
    highlight("- a", "diff", makeTheme("dark", 24));
    highlight("let a", "ts", makeTheme("mono", 24));
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    const between = loaded();
    await new Promise((resolve) => highlight("let a", "ts", makeTheme("dark", 24), resolve));
    console.log(JSON.stringify([before, between, loaded()]));`;
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--input-type=module-typescript", "-e", program], { cwd: ROOT });
  expect(JSON.parse(stdout)).toEqual([0, 0, 1]);
});
