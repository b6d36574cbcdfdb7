// Markdown in the parts that dialects differ in: fenced code, tables, and lines of everything else.

export type MarkdownPart =
  | { kind: "code"; language: string; text: string }
  | { kind: "table"; text: string }
  | { kind: "line"; text: string };

const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** A fence that nobody closed ends with the text. */
export function partsOf(markdown: string): MarkdownPart[] {
  const lines = markdown.split("\n");
  const parts: MarkdownPart[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const [, fence = "", language = ""] = FENCE.exec(line) ?? [];
    if (fence) {
      const rest = lines.slice(at + 1);
      const length = rest.findIndex((one) => closes(one, fence));
      const code = length < 0 ? rest : rest.slice(0, length);
      parts.push({ kind: "code", language, text: code.join("\n") });
      at += code.length + 1;
    } else if (line.includes("|") && isRule(lines[at + 1])) {
      const below = lines.slice(at + 2);
      const length = below.findIndex((one) => !one.includes("|"));
      const rows = length < 0 ? below : below.slice(0, length);
      parts.push({ kind: "table", text: aligned([line, ...rows].map(cellsOf)) });
      at += rows.length + 1;
    } else parts.push({ kind: "line", text: line });
  }
  return parts;
}

const closes = (line: string, fence: string) => {
  const marks = line.trim();
  return marks.length >= fence.length && marks === fence.charAt(0).repeat(marks.length);
};
const isRule = (line: string | undefined) => line !== undefined && line.includes("|") && RULE.test(line);

const cellsOf = (row: string): string[] =>
  row
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) =>
      cell
        .trim()
        .replaceAll("\\|", "|")
        .replaceAll(/\*\*|__|`/g, ""),
    );

/** In columns, for a font in which all letters are equally wide. */
function aligned(rows: string[][]): string {
  const widths = rows.reduce<number[]>((widest, row) => {
    const columns = Math.max(widest.length, row.length);
    return Array.from({ length: columns }, (_, column) => Math.max(widest[column] ?? 0, row[column]?.length ?? 0));
  }, []);
  const shown = rows.map((row) =>
    widths
      .map((width, column) => (row[column] ?? "").padEnd(width))
      .join("  ")
      .trimEnd(),
  );
  const [head = "", ...body] = shown;
  return [head, widths.map((width) => "-".repeat(width)).join("  "), ...body].join("\n");
}

/** Both of Slack and of Telegram's HTML. */
export const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Code that does not end the fence around it. */
export const unfenced = (code: string): string => code.replaceAll("```", "`\u200b``");

/** Control characters, but not tabs and ends of lines. */
export const withoutControls = (text: string): string =>
  text.replaceAll(/\r\n?/g, "\n").replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
