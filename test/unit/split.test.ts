import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitMarkdown } from "../../src/surfaces/gateway/split.ts";

const bare = (text: string) => text.replace(/\s/g, "");
/** What a reader of this part alone sees as code, with its language. */
function codeOf(part: string): { language: string; code: string }[] {
  const blocks: { language: string; code: string }[] = [];
  let open: { language: string; code: string } | undefined;
  for (const line of part.split("\n")) {
    const fence = /^```(\w*)$/.exec(line);
    if (fence && open) open = undefined;
    else if (fence) blocks.push((open = { language: fence[1] ?? "", code: "" }));
    else if (open) open.code += line;
  }
  expect(open, `a fence stays open in ${JSON.stringify(part)}`).toBeUndefined();
  return blocks;
}

describe("a short text", () => {
  it("is one part, as it is", () => {
    const text = "Hello.\n\n```ts\nlet a;\n```\n";
    expect(splitMarkdown(text, text.length)).toEqual([text]);
  });

  it("of nothing but space is no part at all", () => {
    expect(splitMarkdown(" \n ", 10)).toEqual([]);
    expect(splitMarkdown("\n".repeat(100), 10)).toEqual([]);
  });
});

describe("a long text is cut", () => {
  it.each([
    [
      "between paragraphs",
      "One two.\nThree.\n\nFour five six seven.",
      30,
      ["One two.\nThree.", "Four five six seven."],
    ],
    ["else between lines", "First line here\nsecond line", 20, ["First line here", "second line"]],
    ["else between sentences", "It is so. Is it not? I do not know", 24, ["It is so. Is it not?", "I do not know"]],
    ["else between words", "one two three four", 10, ["one two", "three four"]],
    ["else anywhere", "abcdefghijklm", 5, ["abcde", "fghij", "klm"]],
    [
      "between paragraphs only where that leaves no scrap",
      "Hi.\n\nThis is much longer than that.",
      24,
      ["Hi.\n\nThis is much longer", "than that."],
    ],
    [
      "before a block of code",
      "Look at this:\n```ts\nlet a = 1;\n```\nand",
      32,
      ["Look at this:", "```ts\nlet a = 1;\n```\nand"],
    ],
  ])("%s", (_where, text, longest, parts) => {
    expect(splitMarkdown(text, longest)).toEqual(parts);
  });

  it("within code so that both parts are code of that language", () => {
    const text = "```ts\nlet a = 1;\n\n  let b = 2;\nlet c = 3;\n```";
    expect(splitMarkdown(text, 36)).toEqual(["```ts\nlet a = 1;\n\n  let b = 2;\n```", "```ts\nlet c = 3;\n```"]);
    expect(splitMarkdown(`  ~~~~py\n  ${"x".repeat(50)}\n  ~~~~`, 46)).toEqual([
      `  ~~~~py\n  ${"x".repeat(28)}\n  ~~~~`,
      `  ~~~~py\n${"x".repeat(22)}\n  ~~~~`,
    ]);
  });

  it("within code whose fence was never closed", () => {
    const parts = splitMarkdown(`\`\`\`\n${"line\n".repeat(20)}`, 40);
    expect(parts.length).toBeGreaterThan(2);
    for (const part of parts) expect(part.startsWith("```\nline")).toBe(true);
    expect(parts.slice(0, -1).every((part) => part.endsWith("line\n```"))).toBe(true);
  });

  it("not within what people see as one sign", () => {
    const text = "👩‍👩‍👧‍👦🇩🇪🇫🇷é🏳️‍🌈".repeat(10);
    const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });
    const signsOf = (part: string) => Array.from(segmenter.segment(part), ({ segment }) => segment);
    for (let longest = 12; longest < 40; longest++) {
      const parts = splitMarkdown(text, longest);
      expect(parts.flatMap(signsOf)).toEqual(signsOf(text));
      expect(Math.max(...parts.map((part) => part.length))).toBeLessThanOrEqual(longest);
    }
  });

  it("in time that grows with its length", () => {
    const parts = splitMarkdown(`${"x".repeat(1_000_000)}\n\`\`\`\n${"a b\n".repeat(250_000)}`, 4096);
    expect(bare(parts.join("")).replaceAll("```", "")).toBe("x".repeat(1_000_000) + "ab".repeat(250_000));
  });
});

const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 400 }),
  fc.string({
    unit: fc.constantFrom("a", "b ", " ", "\n", "\n\n", ". ", "```\n", "\n```ts\n", "~~~\n", "😀", "é", "\r\n"),
    maxLength: 200,
  }),
);

describe("whatever the text", () => {
  it("no part is too long or blank, and no character is torn", () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 2, max: 120 }), (text, longest) => {
        for (const part of splitMarkdown(text, longest)) {
          expect(part.length).toBeLessThanOrEqual(longest);
          expect(part.trim()).not.toBe("");
          if (text.isWellFormed()) expect(part.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 1000, seed: 1 },
    );
  });

  it("only space is lost, and only fences are added", () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 2, max: 120 }), (text, longest) => {
        const parts = splitMarkdown(text, longest);
        const joined = bare(parts.join(""));
        const fenced = /`{3}|~{3}/.test(text);
        const unfenced = (whole: string) => (fenced ? bare(whole).replace(/[`~]+(ts)?/g, "") : bare(whole));
        expect(unfenced(joined)).toBe(unfenced(text));
      }),
      { numRuns: 1000, seed: 2 },
    );
  });

  it("code stays code of its language, and prose stays prose", () => {
    const line = fc
      .string({ unit: fc.constantFrom("a", "bc", " ", "é", "😀"), maxLength: 60 })
      .filter((one) => one.trim() !== "");
    const prose = fc.array(line, { minLength: 1, maxLength: 5 }).map((lines) => ({ language: null, lines }));
    const code = fc.record({
      language: fc.constantFrom("", "ts", "python"),
      lines: fc
        .tuple(line, fc.array(fc.oneof(line, fc.constant("")), { maxLength: 10 }), line)
        .map((lines) => lines.flat()),
    });
    fc.assert(
      fc.property(
        fc.array(fc.oneof(prose, code), { maxLength: 8 }),
        fc.integer({ min: 40, max: 200 }),
        (blocks, longest) => {
          const text = blocks
            .map(({ language, lines }) =>
              (language === null ? lines : [`\`\`\`${language}`, ...lines, "```"]).join("\n"),
            )
            .join("\n\n");
          const parts = splitMarkdown(text, longest);
          const found = parts.flatMap(codeOf);
          for (const language of ["", "ts", "python"]) {
            const wanted = blocks.filter((block) => block.language === language).map(({ lines }) => lines.join(""));
            const got = found.filter((block) => block.language === language).map(({ code }) => code);
            expect(bare(got.join(""))).toBe(bare(wanted.join("")));
          }
          for (const { code } of found) expect(code.trim()).not.toBe("");
        },
      ),
      { numRuns: 700, seed: 3 },
    );
  });
});
