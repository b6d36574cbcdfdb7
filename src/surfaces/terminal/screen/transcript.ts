// The parts of the transcript. Once there, one only changes with the width, the theme or what is unfolded.
import { type Component, Markdown, truncateToWidth, visibleWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { bodyOf, type CallBody, type CallHead, excerptOf, headOf } from "../../../conversation/calls.ts";
import { type Acted, lasting, MARK } from "../../../conversation/updates.ts";
import { clean, oneLine } from "../clean.ts";
import { highlight, looksLikeDiff } from "./highlight.ts";
import type { Paint, Theme } from "./theme.ts";

/** How things look just now. */
export type TranscriptLook = {
  theme: Theme;
  /** What tools were given and said, and thoughts. */
  unfolded: boolean;
  /** Thoughts also while the rest is folded. */
  thoughts: boolean;
  /** No empty lines between the parts. */
  readonly compact: boolean;
  changed(): void;
  /** Code can be drawn in its colours from now on. */
  coloured(): void;
};

/** Stands where the fence of a code block would be drawn: one character of private use, which a narrow line cannot divide. */
const FENCE = "\ue000";
/** Stands for a blank that the parser would take away. */
const BLANK = "\ue001";
/** The second line of a table in which a column does not begin at the left. */
const RULE = /^ {0,3}\|?(?=.*-:)(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$/;
/** A box, or an aligned column. */
const MAY_CHANGE = /\[[ xX]\]|-:/;
/** A wider column may have to be wrapped. */
const WIDEST_ALIGNED = 24;
const COLOURS = /\x1b\[[\d;]*m/g;
const ARGS_LINES = 20;
const UNFOLDED_LINES = 400;
const PRINTED_LINES = 100;

/** Rendered once for each width. For another theme, or when something is unfolded, it is invalidated. */
function part(render: (width: number) => string[]): Component {
  let kept: { width: number; lines: string[] } | null = null;
  return {
    render(width) {
      if (kept?.width !== width) kept = { width, lines: fitting(render(width), width) };
      return kept.lines;
    },
    invalidate() {
      kept = null;
    },
  };
}

/** The renderer gives up the whole program for a line that is too wide. */
export const fitting = (lines: string[], width: number): string[] =>
  lines.map((line) => (visibleWidth(line) > width ? truncateToWidth(line, width, "") : line));

const apart = ({ compact }: TranscriptLook) => (compact ? [] : [""]);
const wrapped = (text: string, width: number, paint: Paint, indent = "") =>
  wrapTextWithAnsi(clean(text), Math.max(1, width - indent.length)).map((line) => indent + paint(line));

/** Markdown as it is drawn in the answer and in what we say. Code stands apart by its indent, not by its fences. */
export function drawn(look: TranscriptLook, text: string, width: number): string[] {
  const { theme, coloured } = look;
  const highlightCode = (code: string, language?: string) => highlight(code, language, theme, coloured);
  const style = { ...theme.markdown, highlightCode, codeBlockBorder: () => FENCE };
  const given = outsideCode(clean(text), (prose) => withColumns(withBoxes(prose)));
  const lines = new Markdown(given, 0, 0, style).render(width);
  return lines.flatMap((padded) => {
    const line = padded.trimEnd(); // the renderer fills each line with blanks: half of what a terminal was sent
    if (line.includes(BLANK)) return [line.replaceAll(BLANK, " ")];
    if (!line.includes(FENCE)) return [line];
    const rest = line.replaceAll(FENCE, "");
    return /^[\s│]*$/.test(rest.replaceAll(COLOURS, "")) ? [] : [rest];
  });
}

function outsideCode(text: string, change: (prose: string) => string): string {
  if (!MAY_CHANGE.test(text)) return text; // most text, and it is looked at for each frame
  let fence = "";
  const parts: { isCode: boolean; lines: string[] }[] = [];
  for (const line of text.split("\n")) {
    const [, marks = ""] = /^[\s>]*(?:[-*+] +)*(`{3,}|~{3,})/.exec(line) ?? [];
    const isEdge = marks !== "" && (!fence || marks.startsWith(fence));
    const isCode = fence !== "" || isEdge;
    if (isEdge) fence = fence ? "" : marks;
    if (parts.at(-1)?.isCode === isCode) parts.at(-1)?.lines.push(line);
    else parts.push({ isCode, lines: [line] });
  }
  return parts.map(({ isCode, lines }) => (isCode ? lines.join("\n") : change(lines.join("\n")))).join("\n");
}

/** Items that are to be ticked off. The parser's own marks are wider than a box, and it would not fill the lines. */
const withBoxes = (text: string): string =>
  text.replaceAll(
    /^([ \t>]*(?:[-*+]|\d+[.)]) +)\[([ xX])\](?= )/gm,
    (_, lead: string, tick: string) => lead + (tick === " " ? "☐" : "☑"),
  );

/** Numbers end below each other where a table says so: the renderer lets every column begin at the left. */
function withColumns(text: string): string {
  const lines = text.split("\n");
  for (let at = 1; at < lines.length; at++) {
    if (!RULE.test(lines[at] ?? "")) continue;
    const end = lines.findIndex((line, i) => i > at && !line.includes("|"));
    const rows = lines.slice(at - 1, end < 0 ? lines.length : end).map(cellsOf);
    const aligns = rows[1]?.map((cell) => /^:?-+:$/.test(cell) && (cell.startsWith(":") ? 0.5 : 1)) ?? [];
    for (const [column, share] of aligns.entries()) {
      const widths = rows.map((row) => visibleWidth((row[column] ?? "").replaceAll(/[`*]/g, "")));
      const widest = Math.max(...widths.toSpliced(1, 1));
      if (!share || widest > WIDEST_ALIGNED) continue;
      for (const [i, row] of rows.entries())
        if (i !== 1 && row[column] !== undefined)
          row[column] = BLANK.repeat(Math.floor((widest - (widths[i] ?? 0)) * share)) + row[column];
    }
    lines.splice(at - 1, rows.length, ...rows.map((row) => `| ${row.join(" | ")} |`));
    at += rows.length - 2;
  }
  return lines.join("\n");
}

const cellsOf = (row: string): string[] =>
  row
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());

export const markdown = (look: TranscriptLook, text: string): Component => part((width) => drawn(look, text, width));

/** A piece of an answer; pieces stand apart by one line. */
export const answer = (look: TranscriptLook, text: string): Component =>
  part((width) => [...apart(look), ...drawn(look, text, width)]);

export const message = (look: TranscriptLook, text: string, images: number): Component =>
  part((width) => {
    const { user, dim } = look.theme;
    const [first = "", ...rest] = wrapped(text, width - 2, user);
    const pictures = images ? [dim(`  ${images === 1 ? "1 picture" : `${images} pictures`}`)] : [];
    return [...apart(look), `${user("❯")} ${first}`, ...rest.map((line) => `  ${line}`), ...pictures];
  });

export const aside = (look: TranscriptLook, text: string, paint: (theme: Theme) => Paint): Component =>
  part((width) => wrapped(text, width, paint(look.theme)));

export const thought = (look: TranscriptLook, text: string): Component =>
  part((width) =>
    look.unfolded || look.thoughts ? [...apart(look), ...wrapped(text.trim(), width, look.theme.dim, "  ")] : [],
  );

export const tool = (look: TranscriptLook, call: Acted): Component => {
  const [head, body] = [headOf(call), bodyOf(call)];
  return part((width) => {
    const { theme, unfolded } = look;
    const paint = call.outcome === "ok" ? theme.good : theme.bad;
    const line = toolLine(theme, paint(MARK[call.outcome]), head, lasting(call.ms), width);
    if (!unfolded) return [line, ...excerpt(theme, body, width)];
    const isChange = body.kind === "diff" && call.tool !== "terminal";
    return [line, ...(isChange ? [] : argsLines(theme, call, width)), ...whole(theme, call, body, width)];
  });
};

/** A tool on one line: how it stands, what it is, what it works on, how long. */
export function toolLine(theme: Theme, sign: string, { name, about, counts }: CallHead, time: string, width: number) {
  const room = width - time.length - 1;
  const words = [sign, theme.title(oneLine(name)), theme.dim(oneLine(about)), counts].filter(Boolean);
  const what = words.join(" ");
  if (room < 20) return truncateToWidth(what, width, "…");
  const rest = counts ? room - visibleWidth(counts) - 1 : room;
  const short =
    visibleWidth(what) <= room ? what : `${truncateToWidth(words.slice(0, 3).join(" "), rest, "…")} ${counts}`;
  return `${short.trimEnd()} ${theme.faint(time)}`;
}

function argsLines(theme: Theme, { args }: Acted, width: number): string[] {
  const shown = typeof args === "object" && args !== null ? Object.entries(args) : [];
  return shown.flatMap(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return wrapped(`${name}: ${text}`, width, theme.faint, "  ").slice(0, ARGS_LINES);
  });
}

function excerpt(theme: Theme, { kind, lines }: CallBody, width: number): string[] {
  const { shown, left, isBeginning } = excerptOf({ kind, lines: lines.map(clean) });
  const fitted = painted(theme, kind, shown).map((line) => truncateToWidth(`  ${line}`, width, "…"));
  const more = left > 0 ? [theme.faint(`  … +${left} lines, Ctrl+O`)] : [];
  return isBeginning ? [...fitted, ...more] : [...more, ...fitted];
}

function whole(theme: Theme, { text, outcome }: Acted, { kind, lines }: CallBody, width: number): string[] {
  const isAll = kind === "diff" || kind === "list" || outcome === "cancelled";
  const all = clean(isAll ? lines.join("\n") : text)
    .trimEnd()
    .split("\n");
  const left = all.length - UNFOLDED_LINES;
  const shown = painted(theme, kind, all.slice(0, UNFOLDED_LINES)).flatMap((line) =>
    wrapTextWithAnsi(line, Math.max(1, width - 2)).map((half) => `  ${half}`),
  );
  return left > 0 ? [...shown, theme.faint(`  … ${left} more lines`)] : shown;
}

const painted = (theme: Theme, kind: CallBody["kind"], lines: string[]): string[] =>
  kind === "diff" || looksLikeDiff(lines.join("\n"))
    ? highlight(lines.join("\n"), "diff", theme)
    : lines.map(kind === "list" ? (line) => line : theme.dim);

/** What the person's own command printed: its beginning and its end. */
export const printed = (look: TranscriptLook, text: string): Component =>
  part((width) => {
    const all = clean(text).trimEnd().split("\n");
    const left = all.length - 2 * PRINTED_LINES;
    const lines =
      left > 0 ? [...all.slice(0, PRINTED_LINES), "… lines are left out here …", ...all.slice(-PRINTED_LINES)] : all;
    return lines.flatMap((line) => wrapped(line, width, look.theme.dim, "  "));
  });
