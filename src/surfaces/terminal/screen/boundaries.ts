// Where a top-level block of Markdown begins and ends, line by line, as the parser of pi-tui (marked) sees it.

export type Fence = { marker: string; language: string; indent: number };
export type Block =
  /** Whatever comes next begins a new one. */
  | { is: "none" }
  /** Paragraph, quote, table: over at a blank line. */
  | { is: "text"; quote: boolean; last: string; head: string }
  /** HTML that a blank line ends: nothing begins inside. */
  | { is: "html" }
  /** Indented code: goes on after blank lines. */
  | { is: "code" }
  /** `indent`: where the text of the open item begins. `last`: the line before, without that indent. */
  | { is: "list"; indent: number; last: string; fence: Fence | null; fresh: boolean }
  /** HTML and formulas that only their own end ends. */
  | { is: "until"; end: RegExp }
  | ({ is: "fence" } & Fence);

export const NONE: Block = { is: "none" };

const FENCE = /^( *)(`{3,}(?=[^`]*$)|~{3,}) *(\S*)/;
const BULLET = /^(?: {0,3}(?:[*+-]|\d{1,9}[.)]))(?= |$)/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:_ *){3,}|(?:\* *){3,})$/;
const HEADING = /^ {0,3}#{1,6}(?:\s|$)/;
const UNDERLINE = /^ {0,3}(?:=+|-+) *$/;
const TABLE = /^ {0,3}(?:\| *)?:?-+:? *(?:\| *:?-+:? *)*(?:\| *)?$/;
const QUOTE = /^ {0,3}>/;
const FORMULA = /^ {0,3}(?:\$\$|\\\[)/;
const DEFINITION = /^( {0,3}\[(?!\s*\])(?:\\.|[^[\]\\])+\]):/;
const TAGS =
  "(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|" +
  "fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|" +
  "menuitem|meta|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|" +
  "track|ul)(?: |/?>|$)";
const RAW = /^ {0,3}<(script|pre|style|textarea)(?:[\s>]|$)/i;
const ATTRIBUTE = " +[a-z:_][\\w.:-]*(?: *= *(?:\"[^\"]*\"|'[^']*'|[^\\s\"'=<>`]+))?";
const NAME = "(?!script|pre|style|textarea)[a-z][\\w-]*";
/** A tag of a block, or any whole tag alone on its line. */
const HTML = new RegExp(`^ {0,3}(?:</?${TAGS}|<${NAME}(?:${ATTRIBUTE})* */?> *$|</${NAME} *> *$)`, "i");
/** What may begin right after a line of text, beside what is asked for by name. */
const INTERRUPTS = new RegExp(
  `^(?: {0,3}(?:>|(?:[*+-]|1[.)]) +[^ ]|\\$\\$|\\\\\\[)|</?${TAGS}|<(?:script|pre|style|textarea|!--))`,
);
const IN_LIST = /^(?:```|~~~|#|<(?:[a-z].*>|!--)|>)/i;
const SPANS: readonly [begin: RegExp, end: RegExp][] = [
  [/^ {0,3}<!--/, /-->/],
  [/^ {0,3}<\?/, /\?>/],
  [/^ {0,3}<!\[CDATA\[/, /\]\]>/],
  [/^ {0,3}<![A-Z]/i, />/],
];

export const isBlank = (line: string) => /^ *$/.test(line);
export const indentOf = (line: string) => line.search(/[^ ]|$/);

/**
 * `[1]: https://…` gives a name to an address for links anywhere in the text, and shows nothing itself. The links stand in
 * pieces that were shown long ago, so both would be lost: it is shown as it is written.
 */
export const shownDefinition = (block: Block, line: string) =>
  block.is === "none" ? line.replace(DEFINITION, "$1\\:") : line;

/** The state after a line; `ended`: the line is not part of the block before it. */
export function after(block: Block, line: string, blankBefore: boolean): { block: Block; ended: boolean } {
  switch (block.is) {
    case "fence":
      return { block: closes(line, block, 3) ? NONE : block, ended: false };
    case "until":
      return { block: block.end.test(line) ? NONE : block, ended: false };
    case "list": {
      const next = inList(block, line, blankBefore);
      return next ? { block: next, ended: false } : { block: begun(line), ended: true };
    }
    case "none":
    case "html":
    case "code":
    case "text":
      break;
  }
  if (isBlank(line)) return { block: block.is === "code" ? block : NONE, ended: false };
  if (block.is === "html" || (block.is === "code" && indentOf(line) >= 4)) return { block, ended: false };
  if (block.is === "text") {
    const same = inText(block, line);
    if (same) return { block: same, ended: false };
  }
  return { block: begun(line), ended: true };
}

function begun(line: string): Block {
  if (indentOf(line) >= 4) return { is: "code" };
  if (FORMULA.test(line)) return formula(line.trimStart());
  const fence = fenceOf(line);
  if (fence) return { is: "fence", ...fence };
  if (HEADING.test(line) || RULE.test(line)) return NONE;
  if (BULLET.test(line)) return item(line);
  const word = RAW.exec(line);
  if (word) return until(line.slice(word[0].length), new RegExp(`</${word[1]}>`, "i"));
  for (const [begin, end] of SPANS) if (begin.test(line)) return until(line.trimStart().slice(2), end);
  if (HTML.test(line)) return { is: "html" };
  return { is: "text", quote: QUOTE.test(line), last: line, head: "" };
}

const until = (rest: string, end: RegExp): Block => (end.test(rest) ? NONE : { is: "until", end });

function formula(line: string): Block {
  const [end, inside] = line.startsWith("$$") ? [/\$\$ *$/, /\$\$/] : [/\\\] *$/, /\\\]/];
  const rest = line.slice(2);
  if (!inside.test(rest)) return { is: "until", end };
  return end.test(rest) && rest.trim().length > 2 ? NONE : { is: "text", quote: false, last: line, head: "" };
}

function inText(block: Block & { is: "text" }, line: string): Block | null {
  if (UNDERLINE.test(line) && !block.quote) return indentOf(block.last) < 4 ? NONE : null;
  if (RULE.test(line) || HEADING.test(line) || INTERRUPTS.test(line) || isTopFence(line)) return null;
  if (block.quote && (BULLET.test(line) || /^ {0,3}> ?$/.test(block.last))) return null;
  const isTable = block.head === "" && TABLE.test(line) && line.includes("|") && block.last.includes("|");
  return { ...block, last: line, head: isTable ? `${block.last}\n${line}\n` : block.head };
}

function inList(block: Block & { is: "list" }, line: string, blankBefore: boolean): Block | null {
  const { indent, last, fence } = block;
  // An item without text is over at the blank line after it.
  if (line.trim() === "")
    return { ...block, indent: last.trim() === "" && block.fresh ? Infinity : indent, fresh: false };
  const lead = indentOf(line);
  const mostLead = Math.min(3, indent - 1);
  const near = lead <= mostLead;
  if (near && (IN_LIST.test(line.slice(lead)) || RULE.test(line))) return null;
  if (near && BULLET.test(line)) return item(line);
  if (lead < indent) {
    const empty = block.fresh && last.trim() === "";
    const before = indentOf(last);
    const over = before >= 4 || (before <= mostLead && (/^ *(?:```|~~~|#)/.test(last) || RULE.test(last)));
    if (blankBefore || empty || over) return null;
  }
  return { ...block, last: line.slice(indent), fence: innerFence(fence, line), fresh: false };
}

function item(line: string): Block {
  const marker = BULLET.exec(line)?.[0] ?? "";
  const last = line.slice(marker.length);
  const lead = last.search(/[^ ]/);
  const indent = marker.length + (lead < 0 || lead > 4 ? 1 : lead);
  const fence = innerFence(null, " ".repeat(marker.length) + last);
  return { is: "list", indent, last, fence, fresh: true };
}

/** Code inside an item matters only for a cut: the list itself ends by its indent. */
function innerFence(open: Fence | null, line: string): Fence | null {
  if (open) return closes(line, open, open.indent + 3) ? null : open;
  const text = line.replace(/^(?: *(?:[*+-]|\d{1,9}[.)]) )+/, (markers) => " ".repeat(markers.length));
  return fenceOf(text);
}

const isTopFence = (line: string) => indentOf(line) <= 3 && FENCE.test(line);

function fenceOf(line: string): Fence | null {
  const [, lead = "", marker, language = ""] = FENCE.exec(line) ?? [];
  return marker === undefined ? null : { marker, language, indent: lead.length };
}

function closes(line: string, { marker }: Fence, mostIndent: number): boolean {
  const text = line.trimStart();
  return indentOf(line) <= mostIndent && text.startsWith(marker) && /^[~`]* *$/.test(text.slice(marker.length));
}
