// Applies one edit to a text. Line ends are compared as if all were "\n". Text that is not replaced keeps its bytes,
// and new text gets the line ends of the file.

/** `lines`: whole lines, near `line` if there are several matches. Otherwise any part of the text, once, or `all` of
 *  them. */
export type Edit = { old: string; new: string; all?: boolean | undefined; line?: number; lines?: boolean };
export type Edited = { text: string; diff: string[] } | { problem: string };

export function applyEdit(text: string, edit: Edit): Edited {
  const view = viewOf(text);
  const old = toLf(edit.old);
  const fresh = toLf(edit.new);
  const found = edit.lines ? findLines(view.lf, old, edit.line ?? 1) : find(view.lf, old, edit.all ?? false);
  if ("problem" in found) return found;
  let after = "";
  let from = 0;
  for (const { start, end, bare } of found.spots) {
    const added = bare ? fresh.replace(/\n$/, "") : fresh;
    after += text.slice(from, view.original(start)) + added.replaceAll("\n", view.eol);
    from = view.original(end);
  }
  after += text.slice(from);
  return { text: after, diff: shortDiff(view.lf, toLf(after)).lines };
}

type Spot = { start: number; end: number; bare?: boolean };
type Match = { spots: Spot[] } | { problem: string };

export const toLf = (text: string) => text.replaceAll("\r\n", "\n");

function viewOf(text: string) {
  const lf = toLf(text);
  /** Positions in `lf` where the line end had two characters. */
  const pairs: number[] = [];
  for (let at = text.indexOf("\r\n"); at >= 0; at = text.indexOf("\r\n", at + 2)) pairs.push(at - pairs.length);
  const ends = lf.split("\n").length - 1;
  const original = (offset: number) => {
    let [low, high] = [0, pairs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((pairs[middle] ?? 0) < offset) low = middle + 1;
      else high = middle;
    }
    return offset + low;
  };
  return { lf, original, eol: pairs.length * 2 > ends ? "\r\n" : "\n" };
}

function find(text: string, old: string, all: boolean): Match {
  const spots = placesOf(text, old, MOST_SPOTS + 1).map((start) => ({ start, end: start + old.length }));
  if (spots.length === 0) return { problem: missing(text, old) };
  if (spots.length > MOST_SPOTS) return { problem: `this text is there more than ${MOST_SPOTS} times` };
  if (spots.length > 1 && !all)
    return {
      problem: `this text is there ${spots.length} times, in lines ${linesOf(text, spots)}: give more of what is around it, or all: true\n${quoted(old)}`,
    };
  return { spots };
}

function findLines(text: string, old: string, line: number): Match {
  if (old === "") {
    const at = line === 0 ? 0 : startOf(text, line + 1);
    // If the last line has no line end, one must be added first. A hunk with context says so; this one cannot.
    return at === null ? { problem: `there is no line ${line} to insert after` } : { spots: [{ start: at, end: at }] };
  }
  const isWhole = (at: number) =>
    (at === 0 || text[at - 1] === "\n") && (old.endsWith("\n") || at + old.length === text.length);
  const spots: Spot[] = placesOf(text, old, MOST_SPOTS, isWhole).map((start) => ({ start, end: start + old.length }));
  // The last line of the file may have no line end although the diff does not say so.
  const bare = old.slice(0, -1);
  const tail = text.length - bare.length;
  if (old.endsWith("\n") && !text.endsWith("\n") && text.endsWith(bare) && (tail === 0 || text[tail - 1] === "\n"))
    spots.push({ start: tail, end: text.length, bare: true });
  const [only] = spots;
  if (!only) return { problem: missing(text, old) };
  if (spots.length === 1) return { spots: [only] };
  const hinted = startOf(text, line);
  const there = spots.find(({ start }) => start === hinted);
  if (there) return { spots: [there] };
  return {
    problem: `these lines are there ${spots.length} times, from lines ${linesOf(text, spots)}, and not at line ${line}: give more context\n${quoted(old)}`,
  };
}

const MOST_SPOTS = 100_000;

/**
 * Where a text occurs; with `counts` only there, and also where one overlaps the next. Knuth, Morris and Pratt: linear for whatever a model
 * gives, where indexOf can be made to take hours.
 */
function placesOf(text: string, wanted: string, most: number, counts?: (at: number) => boolean): number[] {
  const borders = new Int32Array(wanted.length + 1);
  for (let i = 1, k = 0; i < wanted.length; borders[++i] = k) {
    while (k > 0 && wanted[i] !== wanted[k]) k = borders[k] ?? 0;
    if (wanted[i] === wanted[k]) k += 1;
  }
  const places: number[] = [];
  for (let at = 0, k = 0; at < text.length && places.length < most; at++) {
    while (k > 0 && text[at] !== wanted[k]) k = borders[k] ?? 0;
    if (text[at] === wanted[k]) k += 1;
    if (k < wanted.length) continue;
    const start = at - wanted.length + 1;
    if (!counts || counts(start)) places.push(start);
    k = counts ? (borders[k] ?? 0) : 0;
  }
  return places;
}

/** The position where a line begins; the first line is 1. */
function startOf(text: string, line: number): number | null {
  let at = 0;
  for (let i = 1; i < line; i++) {
    const end = text.indexOf("\n", at);
    if (end < 0) return i === line - 1 && at < text.length ? text.length : null;
    at = end + 1;
  }
  return at;
}

const lineOf = (text: string, offset: number) => text.slice(0, offset).split("\n").length;
const linesOf = (text: string, spots: Spot[]) =>
  spots
    .slice(0, 10)
    .map(({ start }) => lineOf(text, start))
    .join(", ") + (spots.length > 10 ? ", …" : "");

/** A suggestion of what the model may have meant. Only shown, never applied. */
function missing(text: string, old: string): string {
  const lines = text.split("\n");
  const wanted = old.replace(/\n$/, "").split("\n");
  const squeezed = (line: string) => line.replace(/\s+/g, "");
  const [keys, lineKeys] = [wanted.map(squeezed), lines.map(squeezed)];
  const first = keys.findIndex((key) => key !== "");
  const squeezedText = `\n${lineKeys.join("\n")}\n`;
  const [near] = first < 0 ? [] : placesOf(squeezedText, `\n${keys.join("\n")}\n`, 1);
  if (near !== undefined) {
    const at = squeezedText.slice(0, near).split("\n").length - 1;
    const there = lines.slice(at, at + wanted.length).join("\n");
    return `this text is not there, but lines ${at + 1}-${at + wanted.length} differ from it only in white space. They are, exactly:\n${quoted(there)}`;
  }
  const starts = lineKeys.flatMap((key, i) => (first >= 0 && key === keys[first] ? [i + 1] : [])).slice(0, 5);
  const hint = starts.length > 0 ? ` Its first line is at line ${starts.join(", ")}; what follows there differs.` : "";
  return `this text is not there.${hint} Read the file again and copy it without the line numbers\n${quoted(old)}`;
}

const MOST_QUOTED = 1_500;
const quoted = (text: string) =>
  text.length > MOST_QUOTED ? `${text.slice(0, MOST_QUOTED)}\n[… ${text.length - MOST_QUOTED} more characters]` : text;

const CONTEXT = 2;
const MOST_DIFF = 60;

/** From the first to the last changed line, and how many lines went and came there. */
export function shortDiff(before: string, after: string, most = MOST_DIFF) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const [from, oldEnd, newEnd] = [Math.max(0, head - CONTEXT), a.length - tail, b.length - tail];
  const lines = [
    ...a.slice(from, head).map((line) => ` ${line}`),
    ...a.slice(head, oldEnd).map((line) => `-${line}`),
    ...b.slice(head, newEnd).map((line) => `+${line}`),
    ...b.slice(newEnd, newEnd + CONTEXT).map((line) => ` ${line}`),
  ];
  const left = lines.length - most;
  const shown = [...lines.slice(0, most), ...(left > 0 ? [`[… ${left} more lines]`] : [])];
  return { lines: [`@@ line ${from + 1} @@`, ...shown], removed: oldEnd - head, added: newEnd - head };
}
