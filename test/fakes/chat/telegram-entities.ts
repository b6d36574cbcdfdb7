// Formatting as Telegram reads it: HTML and MarkdownV2 become a text and its entities, or the reason why not.
import type { MessageEntity } from "grammy/types";

export type Formatted = { text: string; entities: MessageEntity[] };

/** A string is what the answer says after "can't parse entities: ". */
export function formatted(source: string, mode: "HTML" | "MarkdownV2" | undefined): Formatted | string {
  if (mode === "HTML") return html(source);
  if (mode === "MarkdownV2") return markdown(source);
  return { text: source, entities: [] };
}

type Kind = "bold" | "italic" | "underline" | "strikethrough" | "spoiler" | "blockquote" | "code" | "pre" | "link";
type Open = { kind: Kind; mark: string; from: number; at: number; url?: string; language?: string | undefined };

const bytes = (source: string, at: number) => Buffer.byteLength(source.slice(0, at));

/** In UTF-16 units, as Telegram counts offsets. */
function entity(open: Open, text: string): MessageEntity[] {
  const span = { offset: open.from, length: text.length - open.from };
  if (span.length === 0) return [];
  if (open.kind === "link") return open.url ? [{ type: "text_link", url: open.url, ...span }] : [];
  if (open.kind === "pre") return [{ type: "pre", ...span, ...(open.language && { language: open.language }) }];
  return [{ type: open.kind, ...span }];
}

const byPlace = (entities: MessageEntity[]) => entities.sort((a, b) => a.offset - b.offset || b.length - a.length);

// ── HTML ──────────────────────────────────────────────────────────────────────────────────────────────

const TAGS: Record<string, Kind> = {
  b: "bold",
  strong: "bold",
  i: "italic",
  em: "italic",
  u: "underline",
  ins: "underline",
  s: "strikethrough",
  strike: "strikethrough",
  del: "strikethrough",
  span: "spoiler",
  "tg-spoiler": "spoiler",
  blockquote: "blockquote",
  code: "code",
  pre: "pre",
  a: "link",
};
const CHARACTERS: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"' };
const TAG = /<(\/?)([^\s>]*)([^>]*)(>?)/y;
const ESCAPE = /&(?:(lt|gt|amp|quot)|#(\d{1,7})|#x([\da-f]{1,6}));/iy;

function html(source: string): Formatted | string {
  const open: Open[] = [];
  const entities: MessageEntity[] = [];
  let text = "";
  for (let i = 0; i < source.length; ) {
    const escape = source[i] === "&" ? from(ESCAPE, source, i) : undefined;
    if (escape) {
      const [all, name, decimal, hex] = escape;
      text += CHARACTERS[name?.toLowerCase() ?? ""] ?? String.fromCodePoint(Number(decimal ?? `0x${hex}`));
      i += all.length;
      continue;
    }
    const tag = source[i] === "<" ? from(TAG, source, i) : undefined;
    if (!tag) {
      text += source[i];
      i += 1;
      continue;
    }
    const [all, slash, rawName = "", attributes = "", end] = tag;
    const name = rawName.toLowerCase();
    const at = bytes(source, i);
    if (slash) {
      const last = open.pop();
      if (!last) return `Unexpected end tag at byte offset ${at}`;
      if (name && name !== last.mark)
        return `Unmatched end tag at byte offset ${at}, expected "</${last.mark}>", found "</${name}>"`;
      const block = open.at(-1);
      const named = last.language && block?.kind === "pre" && block.from === last.from;
      if (named) block.language = last.language;
      else entities.push(...entity(last, text));
    } else {
      const kind = TAGS[name];
      if (!kind) return `Unsupported start tag "${name}" at byte offset ${at}`;
      if (!end) return `Unclosed start tag at byte offset ${at}`;
      if (name === "span" && !/class=["']?tg-spoiler\b/.test(attributes))
        return `Tag "span" must have class "tg-spoiler" at byte offset ${at}`;
      const url = /href=(?:"([^"]*)"|'([^']*)'|(\S+))/i.exec(attributes);
      const language = /class=["']?language-([^\s"'>]+)/.exec(attributes)?.[1];
      open.push({ kind, mark: name, from: text.length, at, url: url?.[1] ?? url?.[2] ?? url?.[3] ?? "", language });
    }
    i += all.length;
  }
  const left = open.at(-1);
  if (left) return `Can't find end tag corresponding to start tag "${left.mark}"`;
  return { text, entities: byPlace(entities) };
}

function from(pattern: RegExp, source: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(source) ?? undefined;
}

// ── MarkdownV2 ────────────────────────────────────────────────────────────────────────────────────────

const RESERVED = "_*[]()~`>#+-=|{}.!";
const MARKS: [string, Kind][] = [
  ["```", "pre"],
  ["`", "code"],
  ["__", "underline"],
  ["||", "spoiler"],
  ["_", "italic"],
  ["*", "bold"],
  ["~", "strikethrough"],
  ["[", "link"],
];

function markdown(source: string): Formatted | string {
  const open: Open[] = [];
  const entities: MessageEntity[] = [];
  let text = "";
  let quote: Open | undefined;
  for (let i = 0; i < source.length; ) {
    const char = source[i] ?? "";
    const next = source.charCodeAt(i + 1);
    if (char === "\\" && next > 0 && next < 127) {
      text += source[i + 1];
      i += 2;
      continue;
    }
    const last = open.at(-1);
    const verbatim = last?.kind === "pre" || last?.kind === "code";
    const lineStart = i === 0 || source[i - 1] === "\n";
    if (lineStart && quote && char !== ">") {
      entities.push(...entity(quote, text));
      quote = undefined;
    }
    if (lineStart && char === ">" && !verbatim) {
      quote ??= { kind: "blockquote", mark: ">", from: text.length, at: bytes(source, i) };
      i += 1;
      continue;
    }
    if (verbatim ? !source.startsWith(last.mark, i) : !RESERVED.includes(char)) {
      text += char;
      i += 1;
      continue;
    }
    if (last?.kind === "link" && char === "]") {
      const target = from(/\]\(((?:\\.|[^)\\])*)\)/y, source, i);
      open.pop();
      if (target) last.url = target[1] ?? "";
      entities.push(...entity(last, text));
      i += target?.[0].length ?? 1;
      continue;
    }
    if (last && last.kind !== "link" && source.startsWith(last.mark, i)) {
      open.pop();
      entities.push(...entity(last, text));
      i += last.mark.length;
      continue;
    }
    const mark = MARKS.find(([sign]) => source.startsWith(sign, i));
    if (!mark) return `Character '${char}' is reserved and must be escaped with the preceding '\\'`;
    const [sign, kind] = mark;
    const language = kind === "pre" ? from(/(\w*)\n/y, source, i + sign.length) : undefined;
    open.push({ kind, mark: sign, from: text.length, at: bytes(source, i), language: language?.[1] });
    i += sign.length + (language?.[0].length ?? 0);
  }
  const left = open.at(-1);
  if (left)
    return `Can't find end of ${left.kind[0]?.toUpperCase()}${left.kind.slice(1)} entity at byte offset ${left.at}`;
  if (quote) entities.push(...entity(quote, text));
  return { text, entities: byPlace(entities) };
}

// ── What people write ─────────────────────────────────────────────────────────────────────────────────

/** Telegram marks these by itself in what anybody writes. */
export function found(text: string): MessageEntity[] {
  const all = (pattern: RegExp, type: "bot_command" | "mention" | "url") =>
    [...text.matchAll(pattern)].map((match) => ({ type, offset: match.index, length: match[0].length }));
  return byPlace([
    ...all(/(?<![\w/])\/[a-z0-9_]{1,32}(?:@\w{3,32})?(?![\w/])/gi, "bot_command"),
    ...all(/(?<![\w@/])@[a-z]\w{3,31}\b/gi, "mention"),
    ...all(/https?:\/\/[^\s<>]+/g, "url"),
  ]);
}
