// The terminal's colours: readable on their background, none where none are wanted, and only such as the terminal has.
import { Markdown } from "@earendil-works/pi-tui";
import { describe, expect, it } from "vitest";
import { type Depth, type Kind, makeTheme, pickTheme, type Theme } from "../../src/surfaces/terminal/screen/theme.ts";

type Rgb = [number, number, number];

const MODES = ["ready", "busy", "asking"] as const;

/** Every paint of a theme, by its name. */
function paints(theme: Theme): [string, string][] {
  const groups = { markdown: theme.markdown, list: theme.list, code: theme.code, own: theme, editor: theme.editor };
  const named = Object.entries(groups).flatMap(([group, members]) =>
    Object.entries(members).flatMap(([name, paint]): [string, string][] =>
      typeof paint === "function" && name !== "border" && name !== "highlightCode"
        ? [[`${group}.${name}`, (paint as (text: string) => string)("text")]]
        : [],
    ),
  );
  return [...named, ...MODES.map((mode): [string, string] => [`border.${mode}`, theme.border(mode)("text")])];
}

const codes = (painted: string) => [...painted.matchAll(/\x1b\[([\d;]*)m/g)].map(([, code = ""]) => code);
const isColour = (code: string) => /^(?:3[0-8]|4[0-8]|9\d|10[0-7])(?:;|$)/.test(code);

function luminance([red, green, blue]: Rgb): number {
  const [r = 0, g = 0, b = 0] = [red, green, blue].map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: Rgb, other: Rgb): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

describe("a theme", () => {
  it.each<[Kind, Rgb]>([
    ["dark", [30, 30, 30]],
    ["dark", [0, 0, 0]],
    ["light", [255, 255, 255]],
    ["light", [250, 248, 240]],
  ])("stands out from its background: %s on %j", (kind, background) => {
    const theme = makeTheme(kind, 24);
    const faint = theme.faint("text");
    const seen = paints(theme).flatMap(([name, painted]) => {
      const [, ...rgb] = /38;2;(\d+);(\d+);(\d+)/.exec(painted) ?? [];
      return rgb.length === 3 ? [{ name, painted, rgb: rgb.map(Number) as Rgb }] : [];
    });
    expect(seen.length).toBeGreaterThan(15);
    const poor = seen.filter(({ painted, rgb }) => contrast(rgb, background) < (painted === faint ? 3 : 4.5));
    expect(poor).toEqual([]);
  });

  it.each<[Depth, RegExp]>([
    [4, /^(?:3[0-7]|9[0-7]|39)$/],
    [8, /^(?:38;5;(?:1[6-9]|[2-9]\d|1\d\d|2[0-4]\d|25[0-5])|39)$/],
    [24, /^(?:38;2;\d+;\d+;\d+|39)$/],
  ])("has only colours that the terminal shows: %i bits", (depth, allowed) => {
    for (const kind of ["dark", "light"] as const) {
      const used = paints(makeTheme(kind, depth)).flatMap(([, painted]) => codes(painted).filter(isColour));
      expect(used.length).toBeGreaterThan(15);
      expect(used.filter((code) => !allowed.test(code))).toEqual([]);
    }
  });

  it.each([[makeTheme("mono", 24)], [makeTheme("dark", 1)]])(
    "without colour has none, but tells what it must",
    (theme) => {
      const painted = Object.fromEntries(paints(theme));
      expect(Object.values(painted).flatMap(codes).filter(isColour)).toEqual([]);
      for (const name of ["own.user", "own.bad", "own.title", "list.selectedText", "markdown.bold", "border.asking"])
        expect(painted[name], name).toBe("\x1b[1mtext\x1b[22m");
      expect(painted["markdown.code"]).toBe("`text`");
      expect(painted["own.dim"]).toBe("text");
    },
  );

  it("tells good from bad, added from removed and the modes of the border apart", () => {
    for (const kind of ["dark", "light"] as const)
      for (const depth of [4, 8, 24] as const) {
        const theme = makeTheme(kind, depth);
        expect(new Set([theme.good("x"), theme.bad("x"), theme.warn("x"), theme.dim("x")]).size).toBe(4);
        expect(theme.added("x")).not.toBe(theme.removed("x"));
        expect(new Set(MODES.map((mode) => theme.border(mode)("x"))).size).toBe(3);
      }
  });

  it("goes on after a painted part inside", () => {
    const { bad, dim, markdown } = makeTheme("dark", 4);
    expect(dim(`a${bad("b")}c`)).toBe("\x1b[37ma\x1b[31mb\x1b[37mc\x1b[39m");
    expect(bad("")).toBe("");
    const [line = ""] = new Markdown("# a `b` c", 0, 0, markdown).render(20);
    expect(codes(line.slice(0, line.indexOf("c"))).findLast(isColour)).toBe("36");
  });
});

describe("the theme that is picked", () => {
  const env = { TERM: "xterm-256color", COLORTERM: "truecolor" };
  const white = { r: 255, g: 255, b: 255 };
  const black = { r: 16, g: 16, b: 24 };

  it.each([
    ["dark when nothing is known", "auto", env, undefined, "dark"],
    ["light on a light background", "auto", env, white, "light"],
    ["dark on a dark background", "auto", env, black, "dark"],
    ["light by the environment", "auto", { ...env, COLORFGBG: "0;default;15" }, undefined, "light"],
    ["dark by the environment", "auto", { ...env, COLORFGBG: "15;0" }, undefined, "dark"],
    ["dark by the environment, dark grey", "auto", { ...env, COLORFGBG: "15;8" }, undefined, "dark"],
    ["by the terminal's answer before the environment", "auto", { ...env, COLORFGBG: "15;0" }, white, "light"],
    ["the configured one", "light", env, black, "light"],
    ["without colour by NO_COLOR", "dark", { ...env, NO_COLOR: "1" }, white, "mono"],
    ["with colour when NO_COLOR is empty", "auto", { ...env, NO_COLOR: "" }, undefined, "dark"],
    ["without colour on a dumb terminal", "auto", { TERM: "dumb" }, undefined, "mono"],
  ] as const)("is %s", (_name, configured, env, background, kind) => {
    expect(pickTheme(configured, env, background).kind).toBe(kind);
  });

  it.each([
    [{ TERM: "xterm" }, 4],
    [{}, 4],
    [{ TERM: "screen-256color" }, 8],
    [{ TERM: "xterm-256color", COLORTERM: "24bit" }, 24],
    [{ TERM: "xterm-kitty" }, 24],
    [{ TERM: "xterm-direct" }, 24],
    [{ WT_SESSION: "1" }, 24],
  ] as const)("has as many colours as the terminal: %j", (env, depth) => {
    expect(pickTheme("dark", env).accent("x")).toBe(makeTheme("dark", depth).accent("x"));
  });
});
