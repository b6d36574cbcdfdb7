// A picture of a terminal's screen as an SVG: a window with a title, and its cells as text that can be selected.

/** An index into the palette of 256, or "#rrggbb". */
type Colour = number | string;

/** A wide character is one cell of width 2. */
export type Cell = {
  text: string;
  width: number;
  fg?: Colour | undefined;
  bg?: Colour | undefined;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  strike?: boolean;
  inverse?: boolean;
};

const CELL = { width: 8.4, height: 18 };
const BASELINE = 13;
const PADDING = 14;
const BAR = 34;
const FONT = `14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace`;
const THEME = { fg: "#d5d9e0", bg: "#15181e", bar: "#21252d", edge: "#343a46", title: "#8b93a1" };
const BUTTONS = ["#ec6a5e", "#f4bf4f", "#61c554"];
/** The eight, then the bright eight. */
const ANSI = (
  "#2a2f39 #ef6b73 #8ccf7e #e5c76b #67a9f2 #c47fd5 #6cc7cf #c8ccd4 " +
  "#6b7280 #f48b91 #a9dd9d #efd98f #8fc1f7 #d6a1e3 #93dae0 #ffffff"
).split(" ");

export function drawScreen(title: string, cols: number, rows: Cell[][]): string {
  const width = number(cols * CELL.width + 2 * PADDING);
  const height = number(rows.length * CELL.height + BAR + 2 * PADDING);
  const buttons = BUTTONS.map((fill, at) => `<circle cx="${20 + 20 * at}" cy="${BAR / 2}" r="6" fill="${fill}"/>`);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<title>${escaped(title)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect x=".5" y=".5" width="${number(width - 1)}" height="${number(height - 1)}" rx="9" fill="${THEME.bg}"/>`,
    `<path d="M.5 ${BAR}V9.5a9 9 0 0 1 9-9H${number(width - 9.5)}a9 9 0 0 1 9 9V${BAR}z" fill="${THEME.bar}"/>`,
    `<rect x=".5" y=".5" width="${number(width - 1)}" height="${number(height - 1)}" rx="9" class="edge"/>`,
    ...buttons,
    `<text x="${number(width / 2)}" y="${BAR / 2 + 4}" class="title">${escaped(title)}</text>`,
    `<g transform="translate(${PADDING} ${BAR + PADDING})" xml:space="preserve">`,
    ...rows.flatMap(background),
    ...rows.flatMap(foreground),
    "</g>",
    "</svg>",
  ];
  return `${lines.join("\n")}\n`;
}

const STYLE = [
  `text{font:${FONT};fill:${THEME.fg};white-space:pre}`,
  `.title{font-size:12px;fill:${THEME.title};text-anchor:middle}`,
  `.edge{fill:none;stroke:${THEME.edge}}`,
  ".b{font-weight:bold}.d{fill-opacity:.6}.i{font-style:italic}",
  ".u{text-decoration:underline}.s{text-decoration:line-through}.u.s{text-decoration:underline line-through}",
].join("");

function background(cells: Cell[], row: number): string[] {
  const runs: { x: number; width: number; fill: string }[] = [];
  for (const { x, cell } of placed(cells)) {
    const { bg: fill } = coloursOf(cell);
    const last = runs.at(-1);
    if (fill === THEME.bg) continue;
    if (last && last.fill === fill && last.x + last.width === x) last.width += cell.width;
    else runs.push({ x, width: cell.width, fill });
  }
  return runs.map(({ x, width, fill }) => {
    const size = `width="${number(width * CELL.width)}" height="${CELL.height}"`;
    const place = `x="${number(x * CELL.width)}" y="${row * CELL.height}"`;
    return `<rect ${place} ${size} fill="${fill}" shape-rendering="crispEdges"/>`;
  });
}

/** `each` is the width of its characters, `blanks` how many of them at its end are only there to be copied along. */
type Run = { x: number; text: string; width: number; each: number; style: string; blanks: number };

/**
 * Every run says where it begins and how long it is, so that the columns stay in line in any font. After two blanks a new
 * one begins: not every viewer knows the length.
 */
function foreground(cells: Cell[], row: number): string[] {
  const runs: Run[] = [];
  for (const { x, cell } of placed(cells)) {
    const style = styleOf(cell);
    const last = runs.at(-1);
    const near = last && last.each === cell.width && last.x + last.width === x ? last : undefined;
    const lined = cell.underline || cell.strike;
    if (cell.text.trim() === "" && !lined) {
      if (!near || /[us]"/.test(near.style)) continue;
      near.text += " ";
      near.width += 1;
      near.blanks += 1;
    } else if (near && near.style === style && near.blanks < 2) {
      near.text += cell.text || " ";
      near.width += cell.width;
      near.blanks = 0;
    } else runs.push({ x, text: cell.text || " ", width: cell.width, each: cell.width, style, blanks: 0 });
  }
  const spans = runs.map((run) => {
    const cut = run === runs.at(-1) ? run.blanks : 0;
    const place = `x="${number(run.x * CELL.width)}" textLength="${number((run.width - cut) * CELL.width)}"`;
    return `<tspan ${place}${run.style}>${escaped(run.text.slice(0, run.text.length - cut))}</tspan>`;
  });
  return spans.length === 0 ? [] : [`<text y="${row * CELL.height + BASELINE}">${spans.join("")}</text>`];
}

function placed(cells: Cell[]): { x: number; cell: Cell }[] {
  let x = 0;
  return cells.map((cell) => {
    const at = x;
    x += cell.width;
    return { x: at, cell };
  });
}

/** Its attributes, the classes last: `foreground` looks for the lined ones at the end. */
function styleOf(cell: Cell): string {
  const { fg } = coloursOf(cell);
  const classes = [
    cell.bold && "b",
    cell.dim && "d",
    cell.italic && "i",
    cell.underline && "u",
    cell.strike && "s",
  ].filter(Boolean);
  return `${fg === THEME.fg ? "" : ` fill="${fg}"`}${classes.length > 0 ? ` class="${classes.join(" ")}"` : ""}`;
}

function coloursOf(cell: Cell): { fg: string; bg: string } {
  const fg = cell.fg === undefined ? THEME.fg : colour(cell.fg);
  const bg = cell.bg === undefined ? THEME.bg : colour(cell.bg);
  return cell.inverse ? { fg: bg, bg: fg } : { fg, bg };
}

function colour(given: Colour): string {
  if (typeof given === "string") return given;
  const ansi = ANSI[given];
  if (ansi) return ansi;
  if (given >= 232) return hex(Array(3).fill(8 + 10 * (given - 232)));
  const cube = given - 16;
  return hex([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((level) => (level ? 55 + 40 * level : 0)));
}

const hex = (parts: number[]) => `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
const number = (value: number) => Math.round(value * 100) / 100;

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
/** Control characters may not stand in XML at all. */
const escaped = (text: string) =>
  text.replaceAll(/[&<>"]/g, (char) => ENTITIES[char] ?? char).replaceAll(/[\x00-\x1f\x7f]/g, " ");
