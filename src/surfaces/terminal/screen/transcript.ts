// The parts of the transcript. Once there, one only changes with the width, the theme or what is unfolded.
import { type Component, Markdown, truncateToWidth, visibleWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { clean, oneLine } from "../clean.ts";
import { type Acted, lasting, MARK, preview } from "../updates.ts";
import { highlight, looksLikeDiff } from "./highlight.ts";
import type { Paint, Theme } from "./theme.ts";

/** How things look just now. */
export type TranscriptLook = {
  theme: Theme;
  /** What tools were given and said, and thoughts. */
  unfolded: boolean;
  /** Thoughts also while the rest is folded. */
  readonly thoughts: boolean;
  /** No empty lines between the parts. */
  readonly compact: boolean;
  changed(): void;
  /** Code can be drawn in its colours from now on. */
  coloured(): void;
};

const FAILED_LINES = 3;
const DIFF_LINES = 20;
const UNFOLDED_LINES = 400;
const PRINTED_LINES = 100;

/** Rendered once for each width and way of looking. */
function part(look: TranscriptLook, render: (width: number) => string[]): Component {
  let kept: { width: number; theme: Theme; unfolded: boolean; lines: string[] } | null = null;
  return {
    render(width) {
      if (kept?.width !== width || kept.theme !== look.theme || kept.unfolded !== look.unfolded)
        kept = { width, theme: look.theme, unfolded: look.unfolded, lines: fitting(render(width), width) };
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

/** Markdown as it is drawn in the answer and in what we say. */
export function drawn(look: TranscriptLook, text: string, width: number): string[] {
  const { theme, coloured } = look;
  const highlightCode = (code: string, language?: string) => highlight(code, language, theme, coloured);
  return new Markdown(clean(text), 0, 0, { ...theme.markdown, highlightCode }).render(width);
}

export const markdown = (look: TranscriptLook, text: string): Component =>
  part(look, (width) => drawn(look, text, width));

/** A piece of an answer; pieces stand apart by one line. */
export const answer = (look: TranscriptLook, text: string): Component =>
  part(look, (width) => [...apart(look), ...drawn(look, text, width)]);

export const message = (look: TranscriptLook, text: string, images: number): Component =>
  part(look, (width) => {
    const { user, dim } = look.theme;
    const [first = "", ...rest] = wrapped(text, width - 2, user);
    const pictures = images ? [dim(`  ${images === 1 ? "1 picture" : `${images} pictures`}`)] : [];
    return [...apart(look), `${user("❯")} ${first}`, ...rest.map((line) => `  ${line}`), ...pictures];
  });

export const aside = (look: TranscriptLook, text: string, paint: (theme: Theme) => Paint): Component =>
  part(look, (width) => wrapped(text, width, paint(look.theme)));

export const thought = (look: TranscriptLook, text: string): Component =>
  part(look, (width) =>
    look.unfolded || look.thoughts ? [...apart(look), ...wrapped(text.trim(), width, look.theme.dim, "  ")] : [],
  );

export const tool = (look: TranscriptLook, call: Acted): Component =>
  part(look, (width) => {
    const { theme, unfolded } = look;
    const paint = call.outcome === "ok" ? theme.good : theme.bad;
    const head = toolLine(theme, paint(MARK[call.outcome]), call, lasting(call.ms), width);
    const failed = call.outcome !== "ok" && call.outcome !== "skipped";
    const diff = looksLikeDiff(call.text);
    const most = unfolded ? UNFOLDED_LINES : diff ? DIFF_LINES : failed ? FAILED_LINES : 0;
    if (!most) return [head];
    return [head, ...unfoldedArgs(look, call, width), ...excerpt(look, call.text, width, most, diff)];
  });

/** A tool on one line: how it stands, what it is, what it works on, how long. */
export function toolLine(theme: Theme, sign: string, call: Pick<Acted, "tool" | "args">, time: string, width: number) {
  const what = `${sign} ${theme.title(oneLine(call.tool))} ${theme.dim(oneLine(preview(call.args)))}`;
  const room = width - time.length - 1;
  return room < 20 ? truncateToWidth(what, width, "…") : `${truncateToWidth(what, room, "…")} ${theme.faint(time)}`;
}

function unfoldedArgs({ theme, unfolded }: TranscriptLook, { args }: Acted, width: number): string[] {
  if (!unfolded) return [];
  const shown = typeof args === "object" && args !== null ? Object.entries(args) : [];
  return shown.flatMap(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return wrapped(`${name}: ${text}`, width, theme.faint, "  ").slice(0, DIFF_LINES);
  });
}

/** The first lines; of what failed the last ones, where the reason is. */
function excerpt(
  { theme, unfolded }: TranscriptLook,
  text: string,
  width: number,
  most: number,
  diff: boolean,
): string[] {
  const all = clean(text).trimEnd().split("\n");
  const lines = diff || unfolded ? all.slice(0, most) : all.slice(-most);
  const painted = diff ? highlight(lines.join("\n"), "diff", theme) : lines.map(theme.dim);
  const shown = painted.flatMap((line) => wrapTextWithAnsi(line, Math.max(1, width - 2)).map((half) => `  ${half}`));
  const left = all.length - lines.length;
  return left > 0 && (diff || unfolded) ? [...shown, theme.faint(`  … ${left} more lines`)] : shown;
}

/** What the person's own command printed: its beginning and its end. */
export const printed = (look: TranscriptLook, text: string): Component =>
  part(look, (width) => {
    const all = clean(text).trimEnd().split("\n");
    const left = all.length - 2 * PRINTED_LINES;
    const lines =
      left > 0 ? [...all.slice(0, PRINTED_LINES), "… lines are left out here …", ...all.slice(-PRINTED_LINES)] : all;
    return lines.flatMap((line) => wrapped(line, width, look.theme.dim, "  "));
  });
