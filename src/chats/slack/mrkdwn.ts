// Markdown as Slack's mrkdwn, which has one star for bold, no headings and no tables, and wants three signs escaped.
import { escaped, partsOf, unfenced, withoutControls } from "../shared/markdown.ts";

export function slackMrkdwn(markdown: string): string {
  return partsOf(withoutControls(markdown))
    .map((part) => (part.kind === "line" ? line(part.text) : `\`\`\`\n${escaped(unfenced(part.text))}\n\`\`\``))
    .join("\n");
}

function line(text: string): string {
  const [, heading] = /^#{1,6}\s+(.+?)\s*#*$/.exec(text) ?? [];
  if (heading !== undefined) return `*${inline(heading.replaceAll(/\*\*|__/g, ""))}*`;
  const [, quote, quoted = ""] = /^\s{0,3}(>+)\s?(.*)$/.exec(text) ?? [];
  if (quote !== undefined) return `> ${line(quoted)}`;
  const [, indent = "", item] = /^(\s*)[-*+]\s+(.+)$/.exec(text) ?? [];
  if (item !== undefined) return `${indent}${indent ? "◦" : "•"} ${inline(item)}`;
  return inline(text);
}

const INLINE = new RegExp(
  [
    /(?<ticks>`+)(?<code>[^`]+)\k<ticks>(?!`)/,
    /!?\[(?<name>[^\]]*)\]\((?<url>(?:https?:\/\/|mailto:)[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+"[^"]*")?\)/,
    /<(?<bare>(?:https?:\/\/|mailto:)[^\s<>|]+)>/,
    /\*\*\*(?<both>[^\s*](?:[^*]*[^\s*])?)\*\*\*/,
    /\*\*(?<bold>[^\s*](?:.*?[^\s*])?)\*\*/,
    /(?<!\w)__(?<under>[^\s_](?:.*?[^\s_])?)__(?!\w)/,
    /(?<![\w*])\*(?<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])/,
    /~~(?<struck>[^\s~](?:.*?[^\s~])?)~~/,
    /\\(?<sign>[\\`*_{}[\]()#+.!~|<>-])/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

function inline(text: string): string {
  let shown = "";
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    shown += escaped(text.slice(from, match.index)) + marked(match.groups ?? {});
    from = match.index + match[0].length;
  }
  return shown + escaped(text.slice(from));
}

function marked(found: Partial<Record<string, string>>): string {
  const { code, name, url, bare, both, bold, under, slanted, struck, sign } = found;
  if (code !== undefined) return `\`${escaped(code)}\``;
  if (url !== undefined) return `<${escaped(url).replaceAll("|", "%7C")}|${escaped(name || url)}>`;
  if (bare !== undefined) return `<${escaped(bare)}>`;
  if (both !== undefined) return `*_${inline(both)}_*`;
  if (bold !== undefined || under !== undefined) return `*${inline(bold ?? under ?? "")}*`;
  if (slanted !== undefined) return `_${inline(slanted)}_`;
  if (struck !== undefined) return `~${inline(struck)}~`;
  return escaped(sign ?? "");
}

const FENCE = "```";

/** In pieces of at most `most` signs, at the ends of lines where that is possible; code that is cut stays code. */
export function sections(mrkdwn: string, most: number): string[] {
  const room = most - 2 * (FENCE.length + 1);
  const pieces: string[] = [];
  let piece = "";
  let inCode = false;
  const close = () => {
    if (piece.trim() !== "") pieces.push(inCode ? `${piece}\n${FENCE}` : piece);
    piece = inCode ? FENCE : "";
  };
  for (const whole of mrkdwn.split("\n")) {
    for (const line of slices(whole, room)) {
      if (piece.length + 1 + line.length > room) close();
      piece += piece === "" ? line : `\n${line}`;
    }
    if (whole.startsWith(FENCE)) inCode = !inCode;
  }
  inCode = false;
  close();
  return pieces;
}

/** Not within an escape: the half of one would be shown. */
function slices(line: string, most: number): string[] {
  if (line.length <= most) return [line];
  const cut = line.slice(0, most).replace(/&[a-z]{0,3}$/, "").length;
  return [line.slice(0, cut), ...slices(line.slice(cut), most)];
}
