// Converts HTML to readable text: headings, lists, links, tables and code as in Markdown, without anything that a
// reader of the page would not see.
import { setImmediate } from "node:timers/promises";
import { attempt } from "../../platform/attempt.ts";
import { plain } from "../../platform/fence.ts";

/** After each piece of this size, other work gets a turn. */
const PIECE = 32_768;
/** The parser checks all open elements at every end tag: deep nesting would take minutes. */
const DEEPEST = 500;

const DROPPED = new Set("script style noscript template svg math iframe object canvas audio video datalist".split(" "));
const BLOCKS = new Set(
  "p div section article main header footer nav aside ul ol dl table figure blockquote form fieldset details h1 h2 h3 h4 h5 h6 pre hr body".split(
    " ",
  ),
);
const LINES = new Set("br li tr dt dd option figcaption summary caption".split(" "));
const GAPS = ["", " ", "\n", "\n\n"];

export type Readable = { title: string; text: string };

export async function readHtml(html: string, base: URL): Promise<Readable> {
  const { Parser } = await import("htmlparser2");
  const reader = createReader(base);
  const parser = new Parser(
    {
      onopentag: (name, attributes) => reader.open(name, attributes),
      ontext: (text) => reader.text(text),
      onclosetag: () => reader.close(),
    },
    { lowerCaseTags: true, decodeEntities: true },
  );
  for (let at = 0; at < html.length && !reader.tooDeep(); at += PIECE) {
    parser.write(html.slice(at, at + PIECE));
    await setImmediate();
  }
  if (!reader.tooDeep()) parser.end();
  return reader.done();
}

type OpenElement = { name: string; hides: boolean; end?: () => void };

function createReader(base: URL) {
  const parts: string[] = [];
  const path: OpenElement[] = [];
  const lists: { next: number | null }[] = [];
  let title = "";
  let hidden = 0;
  let pre = 0;
  let gap = 0;
  /** Written before the next text, if there is one: an empty heading or link leaves nothing. */
  let prefix = "";

  const apart = (wide: number) => {
    gap = Math.max(gap, wide);
  };
  function put(text: string): void {
    if (parts.length > 0) parts.push(GAPS[gap] ?? "");
    parts.push(prefix, text);
    gap = 0;
    prefix = "";
  }
  /** `begin` and `end` are written only if there is text between them. */
  function around(begin: string, end: string): () => void {
    const before = prefix;
    const written = parts.length;
    prefix += begin;
    return () => {
      if (parts.length === written) prefix = before;
      else parts.push(end);
    };
  }

  function open(name: string, attributes: Record<string, string>): void {
    const hides = DROPPED.has(name) || "hidden" in attributes || /display:\s*none/i.test(attributes.style ?? "");
    const opened: OpenElement = { name, hides };
    path.push(opened);
    if (hides) hidden++;
    if (hidden > 0) return;
    if (BLOCKS.has(name)) apart(3);
    if (LINES.has(name)) apart(2);
    const end = begin(name, attributes);
    if (end) opened.end = end;
  }

  function begin(name: string, attributes: Record<string, string>): (() => void) | undefined {
    if (/^h[1-6]$/.test(name)) return around(`${"#".repeat(Number(name[1]))} `, "");
    switch (name) {
      case "a": {
        const href = linkOf(attributes.href, base);
        return href ? around("[", `](${href})`) : undefined;
      }
      case "img":
        if (attributes.alt?.trim()) put(`[image: ${attributes.alt.trim()}]`);
        return undefined;
      case "ul":
      case "ol":
        if (lists.length > 0) gap = 2;
        lists.push({ next: name === "ol" ? 1 : null });
        return () => lists.pop();
      case "li": {
        const list = lists.at(-1);
        const mark = list?.next ? `${list.next++}.` : "-";
        return around(`${"  ".repeat(Math.max(0, lists.length - 1))}${mark} `, "");
      }
      case "td":
      case "th":
        if (gap < 2) {
          prefix += parts.length > 0 ? "| " : "";
          apart(1);
        }
        return undefined;
      case "pre": {
        const end = around("```\n", "\n```");
        pre++;
        return () => {
          pre--;
          end();
        };
      }
      case "code":
      case "kbd":
        return pre > 0 ? undefined : around("`", "`");
      case "hr":
        put("---");
    }
    return undefined;
  }

  function close(): void {
    const closed = path.pop();
    if (!closed) return;
    if (closed.hides) hidden--;
    closed.end?.();
    if (hidden > 0) return;
    if (BLOCKS.has(closed.name)) apart(lists.length > 0 ? 2 : 3);
    if (LINES.has(closed.name) && closed.name !== "br") apart(2);
  }

  function text(raw: string): void {
    if (hidden > 0) return;
    if (path.at(-1)?.name === "title" && path.length < 5) {
      title += raw;
      return;
    }
    if (pre > 0) return put(raw);
    const words = raw.replaceAll(/[\s\u200b\u00ad]+/g, " ");
    if (words.startsWith(" ")) apart(1);
    if (words.trim() !== "") put(words.trim());
    if (words.endsWith(" ")) apart(1);
  }

  return {
    open,
    close,
    text,
    tooDeep: () => path.length > DEEPEST,
    done: (): Readable => ({ title: plain(title).replaceAll(/\s+/g, " ").trim(), text: parts.join("") }),
  };
}

/** The target of a link, if it is another page. */
function linkOf(href: string | undefined, base: URL): string | null {
  if (!href || href.startsWith("#")) return null;
  const url = URL.parse(href, base.href);
  return url && /^https?:$/.test(url.protocol) && url.href.length < 500 ? url.href : null;
}

const DEEPEST_JSON = 50;
const LONGEST_JSON = 1_000_000;

/** Indented, unless that would make it many times as long. */
export function readJson(json: string): string {
  if (json.length > LONGEST_JSON || depthOf(json) > DEEPEST_JSON) return json;
  return attempt(() => JSON.stringify(JSON.parse(json), null, 2)) ?? json;
}

function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (const char of json) {
    if (char === "{" || char === "[") deepest = Math.max(deepest, ++depth);
    if (char === "}" || char === "]") depth--;
  }
  return deepest;
}
