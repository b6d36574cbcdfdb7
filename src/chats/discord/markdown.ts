// Discord reads most of Markdown by itself. This is the rest: tables, small headings, pictures, and calls to everybody.
import { partsOf, unfenced, withoutControls } from "../shared/markdown.ts";

/** Sent by people with a plan it could be twice that; bots have this much. */
export const LONGEST = 2_000;

/** As it is where the rendering would be too long. */
export function discordMarkdown(markdown: string): string {
  const plain = withoutControls(markdown);
  const rendered = partsOf(plain)
    .map((part) => {
      if (part.kind === "line") return line(part.text);
      return `\`\`\`${part.kind === "code" ? part.language : ""}\n${unfenced(part.text)}\n\`\`\``;
    })
    .join("\n");
  return rendered.length > LONGEST ? plain : rendered;
}

const line = (text: string) =>
  outsideCode(text.replace(/^#{4,6}\s+(.+?)\s*#*$/, "**$1**"), (words) =>
    words
      .replaceAll(/!\[([^\]]*)\]\((https?:[^\s()]+)\)/g, (_, name, url) => `[${name || "picture"}](${url})`)
      // It would call nobody, since no mention is allowed; but it should not look as if it did.
      .replaceAll(/@(?=everyone|here)/g, "@\u200b"),
  );

const outsideCode = (text: string, change: (words: string) => string) =>
  text
    .split(/(`+[^`]+`+)/)
    .map((piece, index) => (index % 2 === 1 ? piece : change(piece)))
    .join("");
