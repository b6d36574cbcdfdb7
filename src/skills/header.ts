// Name and description of a SKILL.md: from its front matter, or else its folder's name and its first paragraph.
import { isMap, isScalar, parseDocument } from "yaml";

export type Header = { name: string; description: string };

export const NAME = "1 to 64 of a-z, 0-9 and -";
export const isName = (text: string) => /^[a-z0-9-]{1,64}$/.test(text);
const LONGEST = 300;
/** Front matter is a few lines. The YAML parser gets no more than this. */
const MOST_YAML = 8_000;
/** How far we search for the first paragraph. */
const MOST_BODY = 20_000;

/** Returns null if neither the file nor its folder has a usable name. */
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

type HeaderFields = { name?: string | undefined; description?: string | undefined };

function fieldsOf(yaml: string): HeaderFields {
  try {
    // Failsafe schema: every scalar is a string, and nothing is resolved, so aliases that multiply cost nothing.
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
    // The YAML is nested too deeply.
  }
  return byLine(yaml);
}

/** Many people write `description: Use this when: …`, which is not valid YAML; we read what they mean. */
function byLine(yaml: string): HeaderFields {
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

/** On one line, without invisible characters, cut to length. */
function onLine(text: string): string {
  const line = text
    .slice(0, MOST_BODY)
    .replaceAll(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u{e0000}-\u{e007f}]+/gu, " ")
    .trim();
  return cut(line, LONGEST);
}

/** At most `most` characters, including the ellipsis. */
export const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, Math.max(0, most - 1)).toWellFormed()}…`;
