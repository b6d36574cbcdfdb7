// What a SKILL.md says of itself: front matter if it has any, else its folder's name and its first paragraph.
import { isMap, isScalar, parseDocument } from "yaml";

export type Header = { name: string; description: string };

export const NAME = "1 to 64 of a-z, 0-9 and -";
const isName = (text: string) => /^[a-z0-9-]{1,64}$/.test(text);
const LONGEST = 300;
/** Front matter is a few lines. A parser of YAML is not shown more than this, whatever is in the file. */
const MOST_YAML = 8_000;
/** How far the first paragraph is looked for. */
const MOST_BODY = 20_000;

/** Null: neither it nor its folder has a name that can be used. */
export function headerOf(source: string, folder: string): Header | null {
  const text = source.replace(/^\ufeff/, "").replaceAll(/\r\n?/g, "\n");
  const [whole = "", yaml = ""] = /^---[ \t]*\n([^]*?)(?<=\n)---[ \t]*(?:\n|$)/.exec(text) ?? [];
  const fields = fieldsOf(yaml);
  const named = fields.name?.trim() ?? "";
  const name = isName(named) ? named : folder;
  if (!isName(name)) return null;
  const description = onLine(fields.description ?? "") || onLine(firstParagraph(text.slice(whole.length)));
  return { name, description };
}

type Fields = { name?: string | undefined; description?: string | undefined };

function fieldsOf(yaml: string): Fields {
  try {
    // Failsafe: every scalar is a string. Nothing is resolved, so an alias that multiplies costs nothing.
    const document = yaml.length <= MOST_YAML ? parseDocument(yaml, { schema: "failsafe", logLevel: "silent" }) : null;
    const { contents } = document ?? {};
    if (document?.errors.length === 0 && isMap(contents)) {
      const field = (name: string) => {
        const node = contents.get(name, true);
        return isScalar(node) && typeof node.value === "string" ? node.value : undefined;
      };
      return { name: field("name"), description: field("description") };
    }
  } catch {
    // Nested too deep to be parsed.
  }
  return byLine(yaml);
}

/** Many write `description: Use this when: …`, which is no YAML, and mean what they write. */
function byLine(yaml: string): Fields {
  const field = (name: string) => new RegExp(`^${name}:[ \\t]*(.+)$`, "m").exec(yaml)?.[1];
  return { name: field("name"), description: field("description") };
}

function firstParagraph(body: string): string {
  const paragraphs = body
    .slice(0, MOST_BODY)
    .split(/\n[ \t]*\n/)
    .map((part) => part.replaceAll(/^[ \t]*#.*$/gm, "").trim());
  return paragraphs.find((part) => part !== "") ?? "";
}

/** On one line, without what cannot be seen, cut. */
function onLine(text: string): string {
  const line = text
    .slice(0, MOST_BODY)
    .replaceAll(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u{e0000}-\u{e007f}]+/gu, " ")
    .trim();
  return cut(line, LONGEST);
}

/** At most so many characters, the mark included. */
export const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, Math.max(0, most - 1)).toWellFormed()}…`;
