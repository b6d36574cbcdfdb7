// Markdown that streams in, as pieces that are settled: whole top-level blocks, without the blank lines around them. Only
// the rest, 8 kB or so, is parsed again as it grows, so an answer of 10 MB costs its length and no memory.
import { after, type Block, type Fence, indentOf, isBlank, NONE, shownDefinition } from "./boundaries.ts";
import { clean } from "./clean.ts";

export type Pieces = {
  /** What is settled now. */
  push(delta: string): string[];
  /** What is not. */
  rest(): string;
  end(): string[];
};

/** A block that is longer is cut: at an item of a list, at the end of a line, or in the line if that is as long. */
const LONGEST = 8_192;
/** What a piece after a cut begins with (the fence again, the head of the table again). More would be worth a page. */
const LONGEST_AGAIN = 512;
const WINDOW = 256;
const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

export function createPieces(): Pieces {
  /** Whole lines, and the line that is not over. */
  let tail = "";
  let line = "";
  let block: Block = NONE;
  let blank = false;
  /** Where in the tail the last item of a list begins. */
  let lastItem = 0;
  /** After a cut in a fence that was indented: so much is taken off its lines. */
  let dedent = 0;
  let settled: string[] = [];

  function settle(text: string) {
    const end = text.indexOf("\n", text.trimEnd().length);
    const piece = text.slice(0, end < 0 ? text.length : end).replace(/^(?: *\n)+/, "");
    if (piece.trim() !== "") settled.push(piece);
  }

  function add(raw: string, torn = false) {
    const plain = clean(raw);
    const text = shownDefinition(block, plain.slice(Math.min(dedent, indentOf(plain))));
    const next = after(block, text, blank);
    if (next.ended && blank && indentOf(text) < 4) {
      settle(tail);
      tail = "";
      lastItem = 0;
    }
    block = next.block;
    blank = isBlank(text);
    if (block.is === "list" && block.fresh) lastItem = tail.length;
    if (block.is !== "fence") dedent = 0;
    tail += `${text}\n`;
    if (torn || tail.length > LONGEST) cut();
  }

  function cut() {
    const fence = block.is === "fence" ? block : block.is === "list" ? block.fence : null;
    if (lastItem > 0) {
      settle(tail.slice(0, lastItem));
      tail = tail.slice(lastItem);
    } else if (fence && again(fence).length <= LONGEST_AGAIN) {
      settle(tail + closing(fence));
      tail = again(fence);
      dedent ||= fence.indent;
      block = { is: "fence", ...fence, indent: 0 };
    } else {
      settle(tail);
      tail = block.is === "text" && block.head.length <= LONGEST_AGAIN ? block.head : "";
      block = tail === "" ? NONE : block;
    }
    lastItem = 0;
  }

  function push(delta: string): string[] {
    let from = 0;
    for (let at = delta.indexOf("\n"); at >= 0; at = delta.indexOf("\n", from)) {
      line += delta.slice(from, at);
      shorten();
      add(line);
      line = "";
      from = at + 1;
    }
    line += delta.slice(from);
    shorten();
    return taken();
  }

  function shorten() {
    while (line.length > LONGEST) {
      const at = placeToCut(line);
      add(line.slice(0, at), true);
      line = line.slice(at);
    }
  }

  function taken(): string[] {
    const out = settled;
    settled = [];
    return out;
  }

  function end(): string[] {
    if (line !== "") add(line);
    // Closed, or else a last line of "``" would be taken for half of its end.
    settle(tail + (block.is === "fence" ? closing(block) : ""));
    [tail, line, block, blank, lastItem, dedent] = ["", "", NONE, false, 0, 0];
    return taken();
  }

  return { push, rest: () => tail + shownDefinition(block, line), end };
}

const closing = (fence: Fence) => " ".repeat(fence.indent) + fence.marker;
const again = (fence: Fence) => `${fence.marker}${fence.language}\n`;

/** Before a word, else before a letter (a sign could begin a list or a quote there), else between two characters. */
function placeToCut(line: string): number {
  const from = LONGEST - WINDOW;
  const places = [...graphemes.segment(line.slice(from, LONGEST))].slice(1).toReversed();
  const isLetter = ({ segment }: { segment: string }) => /^\p{L}/u.test(segment);
  const word = places.find((place) => isLetter(place) && /\s/.test(line.charAt(from + place.index - 1)));
  const place = word ?? places.find(isLetter) ?? places[0];
  return from + (place?.index ?? WINDOW);
}
