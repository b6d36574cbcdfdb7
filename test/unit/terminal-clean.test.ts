// What models and tools write cannot drive the terminal, and no line of it is lost.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clean } from "../../src/surfaces/terminal/clean.ts";

const odd = fc.constantFrom(
  "\x1b",
  "[",
  "]",
  "\x9b",
  "\x9d",
  "31m",
  "0;t",
  "\x07",
  "\\",
  "\n",
  "\r",
  "\t",
  "\b",
  "\x7f",
  "a",
);
const text = fc.oneof(
  fc.array(odd).map((parts) => parts.join("")),
  fc.string({ unit: "binary" }),
);

describe("text for a terminal", () => {
  it.each([
    ["colours", "a\x1b[1;31mred\x1b[0m b", "ared b"],
    ["a move of the cursor", "a\x1b[2J\x1b[Hb", "ab"],
    ["a title", "a\x1b]0;title\x07b", "ab"],
    ["a write to the clipboard", "a\x1b]52;c;aGk=\x1b\\b", "ab"],
    ["a link", "\x1b]8;;https://x.y\x1b\\text\x1b]8;;\x1b\\", "text"],
    ["device control", "a\x1bP+q544e\x1b\\b", "ab"],
    ["a sequence in 8-bit form", "a\x9b31mb\x9d0;t\x9cc", "abc"],
    ["an escape with nothing after it", "a\x1b", "a"],
    ["one that is never ended: its line", "a\x1b]0;rest\nnext", "a\nnext"],
    ["other control characters", "a\x00\b\x07\x0b\x7f\x85b", "ab"],
  ])("has no %s", (_name, text, expected) => {
    expect(clean(text)).toBe(expected);
  });

  it("has line ends as \\n and tabs as spaces", () => {
    expect(clean("a\r\nb\tc\n")).toBe("a\nb    c\n");
  });

  it("shows what would turn the direction of reading, or hides", () => {
    expect(clean("rm \u202e txt.exe\u2066 \u200b\ufeff\u2028")).toBe("rm \\u202e txt.exe\\u2066 \\u200b\\ufeff\\u2028");
    expect(clean("half \ud83d")).toBe("half \\ud83d");
  });

  it("keeps words and emoji of any language", () => {
    const words = "naïve Ünïcödé 日本語 עברית\u200f می\u200cخواهم क्षि 👩‍👩‍👧‍👦 ❤️ 🇩🇪";
    expect(clean(words)).toBe(words);
  });

  it("never holds a control character but the line end, and has as many lines as before", () => {
    fc.assert(
      fc.property(text, (text) => {
        const out = clean(text);
        expect(out).not.toMatch(/(?!\n)\p{Cc}|[\u202a-\u202e\u2066-\u2069]/u);
        expect(out.split("\n")).toEqual(text.split("\n").map(clean));
        expect(clean(out)).toBe(out);
      }),
      { numRuns: 1_500, seed: 1 },
    );
  });
});
