// Markdown as Telegram can show it: its HTML, which has few tags and refuses a message over one that is not closed. All that
// comes out of here is closed; everything that is not one of our tags is escaped.

import { escaped, partsOf, withoutControls } from "../shared/markdown.ts";

/** `text` is what is left when the formatting is refused all the same. */
export function rendered(markdown: string): { html: string; text: string } {
  const text = withoutControls(markdown);
  return { html: blocks(text).join("\n"), text };
}

// ── Blocks ───────────────────────────────────────────────────────────────────────────────────────────

const HEADING = /^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$/;
const QUOTE = /^ {0,3}>[ \t]?(.*)$/;
const BULLET = /^([ \t]*)[-*+][ \t]+(?=\S)/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;

function blocks(markdown: string): string[] {
  const out: string[] = [];
  const quoted: string[] = [];
  const endQuote = () => {
    const inside = quoted.splice(0).join("\n");
    if (inside.trim()) out.push(`<blockquote>${inside}</blockquote>`);
  };
  for (const part of partsOf(markdown)) {
    const quote = part.kind === "line" ? QUOTE.exec(part.text) : null;
    if (quote) {
      quoted.push(line(quote[1] ?? ""));
      continue;
    }
    endQuote();
    if (part.kind === "line") out.push(line(part.text));
    else if (part.text.trim()) out.push(code(part.text, part.kind === "code" ? part.language : ""));
  }
  endQuote();
  return out;
}

function line(text: string): string {
  const heading = HEADING.exec(text)?.[1];
  if (heading) return `<b>${inline(heading.replace(/^\*\*(.+)\*\*$/, "$1"))}</b>`;
  if (RULE.test(text)) return "———";
  const bullet = BULLET.exec(text);
  return bullet ? `${bullet[1]}• ${inline(text.slice(bullet[0].length))}` : inline(text);
}

function code(text: string, language: string): string {
  const body = escaped(text);
  return /^[\w+#.-]+$/.test(language)
    ? `<pre><code class="language-${language}">${body}</code></pre>`
    : `<pre>${body}</pre>`;
}

// ── Within a line ────────────────────────────────────────────────────────────────────────────────────

type Inline = [pattern: RegExp, show: (groups: string[], linked: boolean) => string | undefined];

const within = (tag: string) => (groups: string[], linked: boolean) =>
  `<${tag}>${inline(groups[0] ?? "", linked)}</${tag}>`;

/** What may be said in a link: a browser would run a `javascript:` one. */
const ADDRESS = /^(?:https?|tg|mailto):/i;

const INLINE: Inline[] = [
  [/\\([!-/:-@[-`{-~])/y, ([sign = ""]) => escaped(sign)],
  [/(`+)(?!`)(.*?[^`])\1(?!`)/y, ([, code = ""]) => `<code>${escaped(code.replace(/^ (.+) $/, "$1"))}</code>`],
  [/!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/y, link],
  // As it stands: the marks in an address are no marks.
  [/<?(https?:\/\/[^\s<>*`]+)>?/y, ([address = ""]) => escaped(address)],
  [/\*\*\*(?=[^\s*])(.*?[^\s*])\*\*\*(?!\*)/y, (groups, linked) => `<b>${within("i")(groups, linked)}</b>`],
  [/\*\*(?=[^\s*])(.*?[^\s])\*\*(?!\*)/y, within("b")],
  [/(?<!\w)__(?=[^\s_])(.*?[^\s])__(?!\w)/y, within("b")],
  [/~~(?=[^\s~])(.*?[^\s])~~(?!~)/y, within("s")],
  [/\*(?=[^\s*])((?:[^*]|\*\*(?=\S)[^*]+\*\*)*?[^\s*])\*(?!\*)/y, within("i")],
  [/(?<!\w)_(?=[^\s_])([^_]*(?:\w_\w[^_]*)*?[^\s_])_(?!\w)/y, within("i")],
];
/** Where something of the above can begin: the rest is skipped in one go. */
const PLAIN = /[^\\`![<h*_~]+/y;

function link([label = "", address = ""]: string[], linked: boolean): string | undefined {
  if (linked || !ADDRESS.test(address)) return undefined;
  return `<a href="${escaped(address).replaceAll('"', "&quot;")}">${inline(label || address, true)}</a>`;
}

/** `linked`: a link holds no other. */
function inline(text: string, linked = false): string {
  let out = "";
  for (let i = 0; i < text.length; ) {
    const { html, length } = plain(text, i) ?? marked(text, i, linked) ?? { html: escaped(text.charAt(i)), length: 1 };
    out += html;
    i += length;
  }
  return out;
}

type Piece = { html: string; length: number };

function plain(text: string, at: number): Piece | undefined {
  PLAIN.lastIndex = at;
  const [found] = PLAIN.exec(text) ?? [];
  return found ? { html: escaped(found), length: found.length } : undefined;
}

function marked(text: string, at: number, linked: boolean): Piece | undefined {
  for (const [pattern, show] of INLINE) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    const html = match ? show(match.slice(1), linked) : undefined;
    if (match && html !== undefined) return { html, length: match[0].length };
  }
  return undefined;
}
