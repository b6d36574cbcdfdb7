import { expect, test } from "vitest";
import { type Cell, drawScreen } from "../../scripts/svg.ts";

const cells = (text: string, style: Partial<Cell> = {}): Cell[] =>
  Array.from(text, (char) => ({ text: char, width: 1, ...style }));
const wide = (text: string): Cell[] => Array.from(text, (char) => ({ text: char, width: 2 }));
/** The spans of the first row that has any, without the frame. */
const spans = (...row: Cell[]) => drawScreen("t", 80, [row]).match(/<tspan.*?<\/tspan>/g) ?? [];
const fills = (...row: Cell[]) =>
  /<rect (x="\S+" y="\S+" width="\S+").* fill="(\S+)" shape/.exec(drawScreen("t", 80, [row]));

test("cells of one style are one span, which knows its place and length", () => {
  expect(spans(...cells("  two words"))).toEqual(['<tspan x="16.8" textLength="75.6">two words</tspan>']);
  expect(spans(...cells("ab"), ...cells("cd", { bold: true, italic: true }), ...cells("ef"))).toEqual([
    '<tspan x="0" textLength="16.8">ab</tspan>',
    '<tspan x="16.8" textLength="16.8" class="b i">cd</tspan>',
    '<tspan x="33.6" textLength="16.8">ef</tspan>',
  ]);
});

test("after a gap a new span begins, so that columns stay in line; its blanks can be copied", () => {
  expect(spans(...cells("a   |   "))).toEqual([
    '<tspan x="0" textLength="33.6">a   </tspan>',
    '<tspan x="33.6" textLength="8.4">|</tspan>',
  ]);
});

test("a blank has no style of its own, unless it is underlined", () => {
  expect(spans(...cells("a", { fg: 1 }), ...cells(" "), ...cells("b", { fg: 1 }))).toHaveLength(1);
  expect(spans(...cells("a b ", { underline: true }), ...cells(" c"))).toEqual([
    '<tspan x="0" textLength="33.6" class="u">a b </tspan>',
    '<tspan x="42" textLength="8.4">c</tspan>',
  ]);
});

test("a wide character takes two cells", () => {
  expect(spans(...cells("a"), ...wide("日本"), ...cells("b"))).toEqual([
    '<tspan x="0" textLength="8.4">a</tspan>',
    '<tspan x="8.4" textLength="33.6">日本</tspan>',
    '<tspan x="42" textLength="8.4">b</tspan>',
  ]);
});

test("what means something in XML is escaped, in the title too", () => {
  expect(spans(...cells("<b>&\x1b"))).toEqual(['<tspan x="0" textLength="42">&lt;b&gt;&amp; </tspan>']);
  expect(drawScreen("a < b", 1, [])).toContain("<title>a &lt; b</title>");
});

test.each([
  [9, "#f48b91"],
  [16, "#000000"],
  [21, "#0000ff"],
  [110, "#87afd7"],
  [231, "#ffffff"],
  [232, "#080808"],
  [255, "#eeeeee"],
  ["#123456", "#123456"],
])("colour %s is %s", (given, shown) => {
  expect(spans(...cells("x", { fg: given }))).toEqual([`<tspan x="0" textLength="8.4" fill="${shown}">x</tspan>`]);
  expect(fills(...cells("  "), ...cells("ab ", { bg: given }))?.slice(1)).toEqual([
    'x="16.8" y="0" width="25.2"',
    shown,
  ]);
});

test("inverse swaps the colours, those of the theme too", () => {
  const [span = ""] = spans(...cells("x", { inverse: true }));
  const theme = /fill="(\S+)"/.exec(span)?.[1];
  expect(fills(...cells("x", { inverse: true, bg: 4 }))?.[2]).toMatch(/^#d/);
  expect(spans(...cells("x", { inverse: true, bg: 4 }))[0]).toContain('fill="#67a9f2"');
  expect(drawScreen("t", 1, [])).toContain(`rx="9" fill="${theme}"`);
});

test("the same screen gives the same picture, as high as its rows", () => {
  const rows = [cells("one"), [], cells("three", { dim: true, strike: true })];
  expect(drawScreen("t", 10, rows)).toBe(drawScreen("t", 10, rows));
  expect(drawScreen("t", 10, rows)).toContain('width="112" height="116" viewBox="0 0 112 116"');
  expect(drawScreen("t", 10, rows)).toContain(
    '<text y="49"><tspan x="0" textLength="42" class="d s">three</tspan></text>',
  );
});
