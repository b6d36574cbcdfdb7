// Cuts a long reply into messages. Only space is lost at a cut, and code that is cut is code in both parts.

type CodeFence = { indent: string; marks: string; language: string };
type Cut = { at: number; rank: Rank; fence: CodeFence | null };
type Rank = (typeof RANKS)[number];

const RANKS = ["paragraph", "line", "sentence", "word", "anywhere"] as const;
/** A part that is emptier than this is not worth a nicer cut. */
const EMPTIEST = 1 / 3;
const FENCE = /^([ \t]{0,40})(`{3,}|~{3,})[ \t]*([^\s`]{0,40})[^\n`]{0,100}$/;
const LONGEST_FENCE = 300;
const SENTENCE = /[.!?…]["'”’)\]*_]*\s+|[。！？]+\s*/g;
const WORD = /\s+/g;
/** Made when it is first needed: 11 ms of a start. */
let graphemes: Intl.Segmenter | null = null;

/** No part is longer than `longest`, none is blank, and together they hold the whole text. */
export function splitMarkdown(text: string, longest: number): string[] {
  const parts: string[] = [];
  let rest = text;
  let fence: CodeFence | null = null;
  while (openingOf(fence).length + rest.length > longest) {
    const { at, fence: next } = bestCut(rest, longest, fence);
    const head = next ? rest.slice(0, at).replace(/\n$/, "") : rest.slice(0, at).trimEnd();
    if (head.trim() !== "") parts.push(openingOf(fence) + head + closingOf(next));
    rest = next ? rest.slice(at) : rest.slice(at).replace(/^(?:[^\S\n]*\n)+/, "");
    fence = next;
  }
  if (rest.trim() !== "") parts.push(openingOf(fence) + rest);
  return parts;
}

const openingOf = (fence: CodeFence | null) => (fence ? `${fence.indent}${fence.marks}${fence.language}\n` : "");
const closingOf = (fence: CodeFence | null) => (fence ? `\n${fence.indent}${fence.marks}` : "");

function bestCut(rest: string, longest: number, fence: CodeFence | null): Cut {
  const room = longest - openingOf(fence).length;
  const cuts = cutsOf(rest.slice(0, room + LONGEST_FENCE), room, longest, fence);
  for (const [worst, rank] of RANKS.entries()) {
    const least = rank === "anywhere" ? 1 : room * EMPTIEST;
    const cut = cuts.findLast((one) => one.at >= least && RANKS.indexOf(one.rank) <= worst);
    if (cut) return cut;
  }
  return { at: wholeCharacters(rest, room), rank: "anywhere", fence: null };
}

/** Every place that leaves room for what closes an open fence, in order. */
function cutsOf(window: string, room: number, longest: number, before: CodeFence | null): Cut[] {
  const cuts: Cut[] = [];
  const add = (at: number, rank: Rank, fence: CodeFence | null, dropped = 0) => {
    if (at > 0 && at - dropped + closingOf(fence).length <= room) cuts.push({ at, rank, fence });
  };
  let fence = before;
  let above: "nothing" | "text" | "blank" | "opening" | "closing" = "nothing";
  for (let from = 0; from <= Math.min(room, window.length); ) {
    const found = window.indexOf("\n", from);
    const to = found < 0 ? window.length : found;
    const line = window.slice(from, to);
    const closes = fence !== null && isClosing(line, fence);
    const opens = fence ? null : fenceOf(line, longest);
    // An empty block of code would be all that is left of it on one side.
    if (above !== "opening" && !closes) {
      const apart = fence === null && (above === "blank" || above === "closing" || opens !== null);
      add(from, apart ? "paragraph" : "line", fence, 1);
    }
    const left = room - from - closingOf(fence).length;
    if (!opens && !closes)
      for (const { at, rank, space } of withinLine(line, left)) add(from + at, rank, fence, fence ? 0 : space);
    fence = closes ? null : (opens ?? fence);
    above = closes ? "closing" : opens ? "opening" : line.trim() === "" ? "blank" : "text";
    from = to + 1;
  }
  return cuts;
}

type Gap = { at: number; rank: Rank; space: number };

function withinLine(line: string, room: number): Gap[] {
  const ends = (pattern: RegExp, rank: Rank) =>
    Array.from(line.matchAll(pattern), ({ index, 0: found }): Gap => {
      return { at: index + found.length, rank, space: found.length - found.trimEnd().length };
    });
  const nice = [...ends(WORD, "word"), ...ends(SENTENCE, "sentence")];
  // Only the line that does not fit is ever cut just anywhere.
  const any = line.length >= room ? anywhere(line) : [];
  return [...any, ...nice].filter(({ at }) => at > 0 && at < line.length).sort((a, b) => a.at - b.at);
}

const anywhere = (line: string) =>
  Array.from(
    (graphemes ??= new Intl.Segmenter("en", { granularity: "grapheme" })).segment(line),
    ({ index }): Gap => ({ at: index, rank: "anywhere", space: 0 }),
  );

function fenceOf(line: string, longest: number): CodeFence | null {
  const [, indent = "", marks = "", language = ""] = FENCE.exec(line) ?? [];
  if (!marks) return null;
  const fence = { indent, marks, language };
  // Where most of every part would be fences, the text is cut as if there were none.
  return openingOf(fence).length + closingOf(fence).length > longest / 2 ? null : fence;
}

const isClosing = (line: string, { marks }: CodeFence) => {
  const trimmed = line.trim();
  return trimmed.length >= marks.length && trimmed === marks.charAt(0).repeat(trimmed.length);
};

/** Not between the halves of a surrogate pair, where there is room for both. */
function wholeCharacters(text: string, room: number): number {
  const at = Math.max(1, room);
  return at > 1 && /^[\uD800-\uDBFF][\uDC00-\uDFFF]/.test(text.slice(at - 1, at + 1)) ? at - 1 : at;
}
