// Markdown as Telegram can show it: its HTML, which has few tags and refuses a message over one that is not closed. All that
// comes out of here is closed; everything that is not one of our tags is escaped.

/** `text` is what is left when the formatting is refused all the same. */
export function rendered(markdown: string): { html: string; text: string } {
  const text = markdown.replace(/\r\n?/g, "\n").replace(CONTROLS, "");
  return { html: blocks(text.split("\n")).join("\n"), text };
}

/** All but tab and line feed. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// ── Blocks ───────────────────────────────────────────────────────────────────────────────────────────

const FENCE = /^([ \t]*)(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const BULLET = /^([ \t]*)[-*+][ \t]+(?=\S)/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const TABLE_RULE = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

function blocks(lines: string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i < lines.length; ) {
    const taken = code(lines, i) ?? table(lines, i) ?? quote(lines, i) ?? { html: line(lines[i] ?? ""), next: i + 1 };
    out.push(taken.html);
    i = taken.next;
  }
  return out;
}

type Taken = { html: string; next: number };

function line(text: string): string {
  const heading = HEADING.exec(text);
  if (heading) return `<b>${inline((heading[1] ?? "").replace(/^\*\*(.+)\*\*$/, "$1"))}</b>`;
  if (RULE.test(text)) return "———";
  const bullet = BULLET.exec(text);
  if (bullet) return `${bullet[1]}• ${inline(text.slice(bullet[0].length))}`;
  return inline(text);
}

/** Up to its end, or to the end of everything: a fence that is not closed yet is code as well. */
function code(lines: string[], at: number): Taken | undefined {
  const [, indent = "", marks = "", language = ""] = FENCE.exec(lines[at] ?? "") ?? [];
  if (!marks) return undefined;
  const closing = new RegExp(`^[ \\t]*${marks.charAt(0)}{${marks.length},}[ \\t]*$`);
  const end = lines.findIndex((one, i) => i > at && closing.test(one));
  const inside = lines.slice(at + 1, end < 0 ? undefined : end);
  const body = escape(inside.map((one) => (one.startsWith(indent) ? one.slice(indent.length) : one)).join("\n"));
  const html = language ? `<pre><code class="language-${language}">${body}</code></pre>` : `<pre>${body}</pre>`;
  return { html: body.trim() === "" ? "" : html, next: end < 0 ? lines.length : end + 1 };
}

/** Telegram has none: columns under each other, in letters of the same width. */
function table(lines: string[], at: number): Taken | undefined {
  const rule = lines[at + 1] ?? "";
  if (!lines[at]?.includes("|") || !rule.includes("|") || !TABLE_RULE.test(rule)) return undefined;
  const end = lines.findIndex((one, i) => i > at + 1 && !one.includes("|"));
  const next = end < 0 ? lines.length : end;
  const rows = [lines[at], ...lines.slice(at + 2, next)].map((row) => cellsOf(row ?? ""));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const show = (row: string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(" | ")
      .trimEnd();
  const [head = [], ...body] = rows;
  const shown = [show(head), widths.map((width) => "-".repeat(width)).join("-+-"), ...body.map(show)];
  return { html: `<pre>${escape(shown.join("\n"))}</pre>`, next };
}

const cellsOf = (row: string) =>
  row
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) =>
      cell
        .trim()
        .replaceAll("\\|", "|")
        .replace(/\*\*|__|~~|`/g, ""),
    );

function quote(lines: string[], at: number): Taken | undefined {
  const end = lines.findIndex((one, i) => i >= at && !QUOTE.test(one));
  const next = end < 0 ? lines.length : end;
  if (next === at) return undefined;
  const inside = lines.slice(at, next).map((one) => line(QUOTE.exec(one)?.[1] ?? ""));
  return { html: inside.join("").trim() ? `<blockquote>${inside.join("\n")}</blockquote>` : "", next };
}

// ── Within a line ────────────────────────────────────────────────────────────────────────────────────

type Inline = [pattern: RegExp, show: (groups: string[], linked: boolean) => string | undefined];

const within = (tag: string) => (groups: string[], linked: boolean) =>
  `<${tag}>${inline(groups[0] ?? "", linked)}</${tag}>`;

/** What may be said in a link: a browser would run a `javascript:` one. */
const ADDRESS = /^(?:https?|tg|mailto):/i;

const INLINE: Inline[] = [
  [/\\([!-/:-@[-`{-~])/y, ([sign = ""]) => escape(sign)],
  [/(`+)(?!`)(.*?[^`])\1(?!`)/y, ([, code = ""]) => `<code>${escape(code.replace(/^ (.+) $/, "$1"))}</code>`],
  [/!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/y, link],
  // As it stands: the marks in an address are no marks.
  [/<?(https?:\/\/[^\s<>*`]+)>?/y, ([address = ""]) => escape(address)],
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
  return `<a href="${escape(address).replaceAll('"', "&quot;")}">${inline(label || address, true)}</a>`;
}

/** `linked`: a link holds no other. */
function inline(text: string, linked = false): string {
  let out = "";
  for (let i = 0; i < text.length; ) {
    const { html, length } = plain(text, i) ?? marked(text, i, linked) ?? { html: escape(text.charAt(i)), length: 1 };
    out += html;
    i += length;
  }
  return out;
}

type Piece = { html: string; length: number };

function plain(text: string, at: number): Piece | undefined {
  PLAIN.lastIndex = at;
  const [found] = PLAIN.exec(text) ?? [];
  return found ? { html: escape(found), length: found.length } : undefined;
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
