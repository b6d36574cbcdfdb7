// Markdown that streams in, as pieces that are settled: whole top-level blocks. Where a block ends is asked of the parser that
// will draw it: of complete lines, all blocks but the last are settled. Only that last one, 4 kB at most, is parsed again as
// it grows, so an answer of 10 MB costs its length and no memory.
import { Marked } from "@earendil-works/pi-tui";

/** A block that is longer is cut: at an item of a list, at the end of a line, or in the line if that is as long. */
const LONGEST = 4_096;
/** As the renderer has it. */
const TAB = "    ";
/** Where in a line that is too long a good place to cut is looked for. */
const WINDOW = 256;
/** What a piece begins with again after a cut (the fence, the head of a table). More would be worth a page. */
const LONGEST_AGAIN = 512;
const TABLE = /^[^\n]*\|[^\n]*\n[ |:-]*-[ |:-]*\n/;
const DEFINITION = /^( {0,3}\[(?:\\.|[^[\]\\])+\]):/gm;

// The renderer's own: formulas are blocks too.
const marked = new Marked({
  extensions: [
    {
      name: "formula",
      level: "block",
      tokenizer(source) {
        const [raw] = /^ {0,3}(?:\$\$[^]*?\S[^]*?(?:\$\$|$)|\\\[[^]*?(?:\\\]|$))[ \t]*(?:\n|$)/.exec(source) ?? [];
        return raw === undefined ? undefined : { type: "formula", raw };
      },
    },
  ],
});
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

export function createPieces() {
  let tail = "";
  /** Code that was cut out of a list: its lines are moved to the left until it ends. `from`: where they have not been yet. */
  let moved: { fence: OpenFence; from: number } | null = null;

  /** Returns what is settled now. In portions, as if it had streamed in: each cut reads the whole tail, and 400 kB of code at once took 4 s. */
  function push(delta: string): string[] {
    const portions = Array.from({ length: Math.ceil(delta.length / LONGEST) }, (_, n) =>
      delta.slice(n * LONGEST, (n + 1) * LONGEST),
    );
    return portions.flatMap(take);
  }

  function take(delta: string): string[] {
    tail += delta.replaceAll("\r\n", "\n").replaceAll("\t", TAB);
    if (!delta.includes("\n") && tail.length <= LONGEST) return [];
    move();
    const whole = tail.lastIndexOf("\n") + 1;
    const blocks = blocksIn(tail.slice(0, whole));
    const before = tail.length;
    tail = (blocks.pop() ?? "") + tail.slice(whole);
    if (moved) moved.from -= before - tail.length;
    while (tail.length > LONGEST) blocks.push(cut());
    return blocks.map(trimmed).filter(Boolean);
  }

  /** Takes the first part off the tail. Code and tables begin again in the rest. */
  function cut(): string {
    const items = itemsIn(tail);
    const at = items.length > 1 ? tail.length - (items.at(-1)?.length ?? 0) : placeToCut(tail);
    const piece = tail.slice(0, at);
    const fence = openFence(piece);
    const again = fence ? `${fence.marker}${fence.language}\n` : items.length > 1 ? "" : (TABLE.exec(piece)?.[0] ?? "");
    if (again.length > LONGEST_AGAIN) {
      tail = tail.slice(at);
      return piece;
    }
    tail = again + tail.slice(at);
    if (!fence) return piece;
    const was = moved?.fence.marker === fence.marker ? moved : { fence, from: at };
    moved = { fence: was.fence, from: again.length + Math.max(0, was.from - at) };
    move();
    return `${piece.trimEnd()}\n${" ".repeat(fence.indent)}${fence.marker}`;
  }

  function move(): void {
    while (moved) {
      const end = tail.indexOf("\n", moved.from) + 1;
      if (end === 0) return;
      const { fence, from } = moved;
      const line = tail.slice(from, end);
      const kept = line.slice(Math.min(fence.indent, line.search(/[^ ]/)));
      tail = tail.slice(0, from) + kept + tail.slice(end);
      moved = closes(fence, kept) ? null : { fence, from: from + kept.length };
    }
  }

  return {
    push,
    /** What is not settled. */
    rest: () => shown(tail),
    end(): string[] {
      const blocks = blocksIn(tail);
      [tail, moved] = ["", null];
      return blocks.map(trimmed).filter(Boolean);
    },
  };
}

type OpenFence = { indent: number; marker: string; language: string };
const closes = ({ marker }: OpenFence, line: string) => line.trim().startsWith(marker) && /^(.)\1*$/.test(line.trim());

/** The fence that is still open at the end of the text, also one in an item of a list. */
function openFence(text: string): OpenFence | null {
  let open: OpenFence | null = null;
  for (const line of text.split("\n")) {
    if (open) open = closes(open, line) ? null : open;
    else {
      const [, lead, marker, language] =
        /^((?: *(?:[*+-]|\d+[.)]) +)* *)(`{3,}(?=[^`]*$)|~{3,}) *(\S*)/.exec(line) ?? [];
      if (lead !== undefined && marker && language !== undefined) open = { indent: lead.length, marker, language };
    }
  }
  return open;
}

/** The blank lines after a block belong to it. */
function blocksIn(text: string): string[] {
  const blocks: string[] = [];
  for (const { type, raw } of tokensOf(text)) {
    const last = blocks.length - 1;
    if (type === "space" && last >= 0) blocks[last] += raw;
    else blocks.push(type === "def" ? shown(raw) : raw);
  }
  return blocks;
}

/** The items of a list, where the text is one. */
function itemsIn(text: string): string[] {
  const [list] = tokensOf(text);
  const items: unknown[] = list?.type === "list" && "items" in list && Array.isArray(list.items) ? list.items : [];
  return items.flatMap((item) =>
    typeof item === "object" && item !== null && "raw" in item && typeof item.raw === "string" ? [item.raw] : [],
  );
}

const tokensOf = (text: string) => new marked.Lexer(marked.defaults).blockTokens(text, []);

/** `[1]: https://…` names an address for links anywhere in the text, and shows nothing itself. The links may stand in
 *  pieces that were shown long ago, so both would be lost: it is shown as it is written. */
const shown = (text: string) =>
  /^ *(?:```|~~~)|\n *(?:```|~~~)/.test(text) ? text : text.replaceAll(DEFINITION, "$1\\:");

const trimmed = (piece: string) => piece.trimEnd().replace(/^(?:[ \t]*\n)+/, "");

/** At the end of a line, else before a word, else between two characters. */
function placeToCut(text: string): number {
  const line = text.lastIndexOf("\n", LONGEST - 1) + 1;
  if (line > LONGEST_AGAIN) return line;
  const from = LONGEST - WINDOW;
  // A little beyond, so that none of them is only the half of one.
  const segments = [...graphemes.segment(text.slice(from, LONGEST + WINDOW))];
  const places = segments.filter(({ index }) => index > 0 && index < WINDOW).toReversed();
  const word = places.find(({ segment, index }) => /^\p{L}/u.test(segment) && /\s/.test(text.charAt(from + index - 1)));
  return from + ((word ?? places[0])?.index ?? WINDOW);
}
