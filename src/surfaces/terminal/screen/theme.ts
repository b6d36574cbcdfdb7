// The colours of the terminal: few and calm, one meaning each. Every function takes text and gives it back painted.
import type { EditorTheme, MarkdownTheme, RgbColor, SelectListTheme } from "@earendil-works/pi-tui";

export type Paint = (text: string) => string;
export type Kind = "dark" | "light" | "mono";
/** How many bits of colour the terminal shows. */
export type Depth = 1 | 4 | 8 | 24;
/** What the editor's border tells: it waits for a message, a turn runs, a question waits for its answer. */
type PromptState = "ready" | "busy" | "asking";

export type Theme = ReturnType<typeof themeOf>;

/** As RGB, and the nearest of the 16 colours every terminal has (its foreground code). */
type Colour = readonly [red: number, green: number, blue: number, basic: number];
type Palette = Record<"accent" | "dim" | "faint" | "green" | "red" | "amber" | "violet" | "teal", Colour>;

// Each stands out from its background by 4.5:1, "faint" by 3:1 (WCAG), measured in the test.
const DARK: Palette = {
  accent: [125, 174, 219, 36],
  dim: [152, 160, 170, 37],
  faint: [116, 124, 134, 90],
  green: [140, 190, 130, 32],
  red: [226, 124, 118, 31],
  amber: [216, 175, 110, 33],
  violet: [190, 160, 214, 35],
  teal: [124, 190, 180, 36],
};
// Of the 16, yellow and cyan cannot be read on white.
const LIGHT: Palette = {
  accent: [30, 98, 160, 34],
  dim: [88, 96, 105, 90],
  faint: [128, 134, 141, 90],
  green: [38, 112, 52, 32],
  red: [180, 40, 40, 31],
  amber: [138, 86, 6, 35],
  violet: [114, 66, 150, 35],
  teal: [0, 104, 100, 34],
};

const plain: Paint = (text) => text;
const bold = painter("1", "22");
const italic = painter("3", "23");
const underline = painter("4", "24");
const strikethrough = painter("9", "29");
const shapes = { bold, italic, underline, strikethrough };

export function makeTheme(kind: Kind, depth: Depth): Theme {
  if (kind === "mono" || depth === 1) return mono();
  const palette = kind === "dark" ? DARK : LIGHT;
  return themeOf(kind, (name) => painter(foreground(palette[name], depth), "39"));
}

/** What NO_COLOR leaves: weight and line where words and signs alone would not tell. */
function mono(): Theme {
  const theme = themeOf("mono", (name) => MONO[name] ?? plain);
  return { ...theme, user: bold, removed: plain, code: { ...theme.code, number: plain } };
}
const MONO: Partial<Record<keyof Palette, Paint>> = { red: bold, amber: bold, teal: (text) => `\`${text}\`` };

function themeOf(kind: Kind, paint: (name: keyof Palette) => Paint) {
  const [accent, dim, faint] = [paint("accent"), paint("dim"), paint("faint")];
  const [good, bad, warn] = [paint("green"), paint("red"), paint("amber")];
  const list: SelectListTheme = {
    selectedPrefix: accent,
    selectedText: (text: string) => accent(bold(text)),
    description: dim,
    scrollInfo: faint,
    noMatch: dim,
  };
  // Without `highlightCode`: the screen adds it, see highlight.ts.
  const markdown: MarkdownTheme = {
    ...shapes,
    heading: accent,
    link: accent,
    linkUrl: dim,
    code: paint("teal"),
    codeBlock: plain,
    codeBlockBorder: faint,
    quote: dim,
    quoteBorder: faint,
    hr: faint,
    listBullet: accent,
  };
  const editor: EditorTheme = { borderColor: faint, selectList: list };
  return {
    kind,
    markdown,
    editor,
    list,
    user: accent, // what the person wrote
    accent,
    dim, // beside the point, but to be read
    faint, // for details that should not draw attention
    good,
    bad,
    warn,
    added: good,
    removed: bad,
    title: bold,
    code: { keyword: paint("violet"), text: good, number: warn, name: accent, comment: dim },
    border: (mode: PromptState): Paint => ({ ready: faint, busy: accent, asking: warn })[mode],
  };
}

/** `background` is the terminal's own answer (OSC 11), which is worth more than what the environment says. */
export function pickTheme(configured: Kind | "auto", env: NodeJS.ProcessEnv, background?: RgbColor): Theme {
  const depth = depthOf(env);
  if (env.NO_COLOR) return makeTheme("mono", depth);
  if (configured !== "auto") return makeTheme(configured, depth);
  const light = background ? isLight(background) : /(?:^|;)(?:7|9|1[0-5])$/.test(env.COLORFGBG ?? "");
  return makeTheme(light ? "light" : "dark", depth);
}

function depthOf({ COLORTERM = "", TERM = "", WT_SESSION }: NodeJS.ProcessEnv): Depth {
  if (TERM === "dumb") return 1;
  if (/^(?:truecolor|24bit)$/i.test(COLORTERM) || /-direct$|kitty|ghostty|alacritty|foot|wezterm/.test(TERM)) return 24;
  if (WT_SESSION) return 24;
  return TERM.includes("256color") ? 8 : 4;
}

const isLight = ({ r, g, b }: RgbColor) => 0.2126 * r + 0.7152 * g + 0.0722 * b > 127;

function foreground([red, green, blue, basic]: Colour, depth: 4 | 8 | 24): string {
  if (depth === 4) return String(basic);
  return depth === 24 ? `38;2;${red};${green};${blue}` : `38;5;${nearestOf256(red, green, blue)}`;
}

/** Of the 6×6×6 cube (16–231) or the greys (232–255), which differ by 10 each. */
function nearestOf256(red: number, green: number, blue: number): number {
  const step = (part: number) => (part < 48 ? 0 : part < 115 ? 1 : Math.round((part - 55) / 40));
  const level = (at: number) => (at === 0 ? 0 : 55 + 40 * at);
  const far = (r: number, g: number, b: number) => (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
  const [r, g, b] = [step(red), step(green), step(blue)];
  const grey = Math.min(23, Math.max(0, Math.round(((red + green + blue) / 3 - 8) / 10)));
  const shade = 8 + 10 * grey;
  return far(shade, shade, shade) < far(level(r), level(g), level(b)) ? 232 + grey : 16 + 36 * r + 6 * g + b;
}

/** Only what was opened is closed, and what a painted part inside closes is opened again: paints can be nested. */
function painter(open: string, close: string): Paint {
  const [on, off] = [`\x1b[${open}m`, `\x1b[${close}m`];
  return (text) => (text === "" ? "" : on + text.replaceAll(off, on) + off);
}
