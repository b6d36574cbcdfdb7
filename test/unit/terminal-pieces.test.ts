// Markdown in pieces: the same text as in one, whatever it is made of and however it came, at a cost that is its length.
import { Markdown } from "@earendil-works/pi-tui";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clean } from "../../src/surfaces/terminal/clean.ts";
import { createPieces } from "../../src/surfaces/terminal/screen/pieces.ts";
import { makeTheme } from "../../src/surfaces/terminal/screen/theme.ts";

const { markdown } = makeTheme("mono", 1);
const LONGEST = 4_096;

/** As it stands on a screen wide enough, without empty lines and indents. */
const shown = (texts: readonly string[]) =>
  texts
    .flatMap((text) => new Markdown(clean(text), 0, 0, markdown).render(5_000))
    .map((line) => line.trim())
    .filter((line) => line !== "");

function inPieces(text: string, sizes: readonly number[] = []): string[] {
  const pieces = createPieces();
  const out: string[] = [];
  let at = 0;
  for (const size of sizes) {
    out.push(...pieces.push(text.slice(at, at + size)));
    at += size;
  }
  return [...out, ...pieces.push(text.slice(at)), ...pieces.end()];
}

const evenly = (text: string, size: number) => Array.from({ length: Math.ceil(text.length / size) }, () => size);

/** Lines in any order, most of which mean something else after another one. */
const LINES = [
  ["", "", "", "", "word", "two words", " one", "  inner", "   three", "    four", "      six", "    "],
  ["- a", "* b", "+ c", "1. one", "2. two", "10) ten", "1) x", "  - nested", "    - deep", "\t- t", "- ```"],
  ["```", "```ts", "~~~", "  ```", "    ```", "`` `x` ``", "```a```"],
  ["> quote", "> - q\n> - r\n", "> ```\n> code\n> ```\n", ">", "# head", "#", "---", "***", "- - -"],
  ["| a | b |\n|---|---|\n| 1 | 2 |", "| 3 | 4 |", "<div>", "</div>", "<b>x</b>", "\n<!-- c", "-->"],
  ["<pre>", "</pre>", "<details>", "**bold", "bold**", "$5 and $6", "\n$$z$$", "\n\\[ a \\]"],
  ["\n$$\nx = 1\n\ny = 2\n$$", "\n\\[\n\nb\n\\]"],
].flat();
const text = fc.array(fc.constantFrom(...LINES), { maxLength: 14 }).map((lines) => `${lines.join("\n")}\n`);

describe("pieces of Markdown", () => {
  it("show the same as the whole, however it is split", () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(6), { maxLength: 30 }), (whole, sizes) => {
        expect(shown(inPieces(whole, sizes))).toEqual(shown([whole]));
      }),
      { numRuns: 1_500, seed: 1 },
    );
  });

  it("do not depend on how the text came", () => {
    fc.assert(
      fc.property(text, fc.array(fc.nat(6), { maxLength: 30 }), (whole, sizes) => {
        expect(inPieces(whole, sizes)).toEqual(inPieces(whole));
      }),
      { numRuns: 300, seed: 2 },
    );
  });

  it.each([
    ["paragraphs", "one\ntwo\n\nthree\n", ["one\ntwo", "three"]],
    [
      "a list with blank lines between its items",
      "- a\n\n- b\n\n  more of b\n\nend\n",
      ["- a\n\n- b\n\n  more of b", "end"],
    ],
    ["code with blank lines", "```ts\na\n\nb\n```\n\nend\n", ["```ts\na\n\nb\n```", "end"]],
    ["a fence in a fence", "````\n```\n\n```\n\n````\n\nend\n", ["````\n```\n\n```\n\n````", "end"]],
    [
      "code in an item",
      "1. a\n\n   ~~~\n   x\n\n   y\n   ~~~\n\nend\n",
      ["1. a\n\n   ~~~\n   x\n\n   y\n   ~~~", "end"],
    ],
    ["a comment over blank lines", "<!-- a\n\nb -->\n\nend\n", ["<!-- a\n\nb -->", "end"]],
    ["indented code with blank lines", "a\n\n    x\n\n    y\n\nend\n", ["a", "    x\n\n    y", "end"]],
  ])("are whole blocks: %s", (_name, whole, expected) => {
    expect(inPieces(whole, evenly(whole, 1))).toEqual(expected);
  });

  it("are settled as soon as the next block has begun", () => {
    const pieces = createPieces();
    expect(pieces.push("one\n\ntw")).toEqual([]);
    expect(pieces.rest()).toBe("one\n\ntw");
    expect(pieces.push("o\n")).toEqual(["one"]);
    expect(pieces.rest()).toBe("two\n");
    expect(pieces.end()).toEqual(["two"]);
    expect(pieces.rest()).toBe("");
  });

  it("show what a reference is defined as, since the links to it may be long settled", () => {
    const whole = "see [the text][1]\n\n[1]: https://example.org/a\n[2]: https://example.org/b\n";
    const lines = shown(inPieces(whole));
    expect(lines).toEqual(["see [the text][1]", expect.stringContaining("[1]: "), expect.stringContaining("[2]: ")]);
    expect(lines.join(" ")).toContain("https://example.org/a");
    const pieces = createPieces();
    pieces.push("[1]: https://example.org/a");
    expect(shown([pieces.rest()]).join()).toContain("https://example.org/a");
  });

  it("keep what looks like a definition in code as it is", () => {
    expect(inPieces("```\n[a]: b\n```\n")).toEqual(["```\n[a]: b\n```"]);
  });
});

describe("a block without an end", () => {
  const words = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `w${i + from}`);

  it("of code is closed and opened again with its language", () => {
    const code = words(4_000).map((word, i) => (i % 7 === 0 ? "" : word));
    const whole = `  \`\`\`ts title\n${code.map((line) => `  ${line}`).join("\n")}\n  \`\`\`\n\nend\n`;
    const out = inPieces(whole, evenly(whole, 900));
    expect(out.pop()).toBe("end");
    expect(out.length).toBeGreaterThan(2);
    for (const piece of out) expect(piece).toMatch(/^ *```ts[^]*\n *```$/);
    expect(shown(out).filter((line) => !line.startsWith("```"))).toEqual(code.filter(Boolean));
  });

  it.each(["1.", "-", "10)", "- 1."])(
    "of code in an item of a list (%s) stays code, and ends where it ends",
    (bullet) => {
      const lead = " ".repeat(bullet.length + 1);
      const code = words(3_000).map((word) => `${lead}  ${word}`);
      const whole = `${bullet} first\n\n${lead}\`\`\`py\n${code.join("\n")}\n${lead}\`\`\`\n\n${lead}after\n\n# Done\n`;
      const out = inPieces(whole, evenly(whole, 900));
      const lines = shown(out).filter((line) => !line.startsWith("```"));
      expect(lines[0]).toContain("first");
      expect(lines.slice(1)).toEqual([...words(3_000), "after", expect.stringContaining("Done")]);
      expect(out.at(-1)).toBe("# Done");
    },
  );

  it("of a list is cut between its items, and the numbers go on", () => {
    const items = words(3_000).map((word, i) => `${i + 1}. ${word}\n   - under ${word}`);
    const out = inPieces(`${items.join("\n")}\n`, evenly(items.join("\n"), 900));
    expect(out.length).toBeGreaterThan(5);
    expect(shown(out)).toEqual(shown([items.join("\n")]));
  });

  it("of a table has its head again", () => {
    const rows = words(2_000).map((word) => `| ${word} | x |`);
    const whole = `| name | is |\n|---|---|\n${rows.join("\n")}\n`;
    const out = inPieces(whole, evenly(whole, 900));
    expect(out.length).toBeGreaterThan(2);
    for (const piece of out) expect(piece).toMatch(/^\| name \| is \|\n\|---\|---\|\n\| w/);
    const cells = shown(out).flatMap((line) => /w\d+/.exec(line)?.[0] ?? []);
    expect(cells).toEqual(words(2_000));
  });

  it("of one line is cut before a word, never in a character", () => {
    const family = "👩‍👩‍👧‍👦";
    const line = `${words(20_000).join(" ")} ${family.repeat(3_000)}${"क्षि".repeat(3_000)} ${"x".repeat(1_000_000)}`;
    const out = inPieces(line, evenly(line, 4_093));
    for (const piece of out) expect(piece.length).toBeLessThanOrEqual(LONGEST);
    for (const piece of out.slice(0, 10)) expect(piece).toMatch(/^w\d+ [^]* w\d+$/);
    const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
    const apart = out.flatMap((piece) => [...graphemes.segment(piece)].map(({ segment }) => segment));
    const whole = [...graphemes.segment(line)].map(({ segment }) => segment);
    expect(apart.filter((segment) => segment !== " ")).toEqual(whole.filter((segment) => segment !== " "));
  });

  it("loses no word, whatever it is made of", () => {
    const long = fc.array(fc.constantFrom(...LINES), { minLength: 3, maxLength: 20 });
    fc.assert(
      fc.property(long, fc.integer({ min: 1, max: 700 }), (lines, size) => {
        const wanted = words(2_000);
        const whole = wanted.map((word, i) => `${lines[i % lines.length]}\n${word}`).join("\n");
        expect(inPieces(whole, evenly(whole, size)).join("\n").match(/w\d+/g)).toEqual(wanted);
      }),
      { numRuns: 30, seed: 3 },
    );
  });

  it("does not grow by an opening line that is itself endless", () => {
    const whole = `\`\`\`${"x".repeat(8_000)}\n${"line\n".repeat(20_000)}`;
    expect(inPieces(whole).join("").length).toBeLessThan(whole.length * 1.2);
  });
});

describe("the cost", () => {
  const CHAPTER =
    "# T\n\nSome words of it, in a line as long as lines are, and then\nanother one that says no more than the first.\n\n- a\n- b\n\n  more\n\n```js\nf();\n\ng();\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n";
  const KINDS: [string, string][] = [
    ["ordinary text", CHAPTER],
    ["blank lines", "\n"],
    ["code without an end", "x = 1\n\n"],
    ["a line without an end", "word "],
    ["a list without an end", "- a\n\n  b\n"],
  ];

  it.each(KINDS)("of twice as much is twice as much: %s", (name, unit) => {
    const begin = name.startsWith("code") ? "```\n" : "";
    const once = work(begin + unit.repeat(15_000 / unit.length));
    const twice = work(begin + unit.repeat(30_000 / unit.length));
    expect(twice / once).toBeGreaterThan(1.8);
    expect(twice / once).toBeLessThan(2.3);
  });

  it.each(KINDS)("in memory is a few pages, however much comes: %s", (name, unit) => {
    const pieces = createPieces();
    const delta = unit.repeat(5_000 / unit.length);
    let most = 0;
    if (name.startsWith("code")) pieces.push("```\n");
    for (let sent = 0; sent < (unit === CHAPTER ? 600_000 : 200_000); sent += delta.length) {
      pieces.push(delta);
      most = Math.max(most, pieces.rest().length);
    }
    expect(most).toBeLessThan(LONGEST + 6_000);
  });

  /** How many characters rules are tried on, while the text comes 50 at a time. */
  function work(text: string): number {
    const { exec } = RegExp.prototype;
    let looked = 0;
    const counted = function (this: RegExp, subject: string) {
      looked += subject.length + 1;
      return exec.call(this, subject);
    };
    Reflect.set(RegExp.prototype, "exec", counted);
    try {
      inPieces(text, evenly(text, 50));
    } finally {
      Reflect.set(RegExp.prototype, "exec", exec);
    }
    return looked;
  }
});
