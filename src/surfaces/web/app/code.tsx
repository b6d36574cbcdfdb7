// Code with colours and a button to copy it. Diffs are coloured by their first signs, languages by highlight.js.
import core from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

for (const [name, language] of Object.entries({
  bash,
  css,
  go,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
}))
  core.registerLanguage(name, language);

/** 20 kB take 30 ms. */
const LONGEST = 20_000;

export function Code({ text, language = "" }: { text: string; language?: string }) {
  const [name = ""] = language.split(/\s/, 1);
  const drawn = useMemo(() => (name === "diff" ? diffLines(text.split("\n")) : coloured(text, name)), [text, name]);
  return (
    <figure class="code">
      <figcaption class="line soft">
        <span>{name || "text"}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}>
        <code>{drawn}</code>
      </pre>
    </figure>
  );
}

function CopyButton({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  // Not there over plain HTTP from another machine.
  if (!navigator.clipboard) return null;
  return (
    <button type="button" class="quiet soft" onClick={() => void copy()}>
      {done ? "Copied" : "Copy"}
    </button>
  );
}

export const diffLines = (lines: readonly string[]): ComponentChildren =>
  lines.map((line) => <span class={signOf(line)}>{`${line}\n`}</span>);

const signOf = (line: string): string =>
  line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "place soft" : "";

function coloured(text: string, language: string): ComponentChildren {
  if (!core.getLanguage(language) || text.length > LONGEST) return text;
  return spansIn(core.highlight(text, { language, ignoreIllegals: true }).value);
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/** Its HTML is spans and text only; anything else in it stays text. */
function spansIn(html: string): ComponentChildren[] {
  const open: { scope: string; children: ComponentChildren[] }[] = [{ scope: "", children: [] }];
  for (const [piece, scope] of html.matchAll(/<span class="([\w\- ]*)">|<\/span>|[^<]+|</g)) {
    const inner = open.at(-1);
    if (scope !== undefined) open.push({ scope, children: [] });
    else if (piece === "</span>" && inner && open.length > 1) {
      open.pop();
      open.at(-1)?.children.push(<span class={inner.scope}>{inner.children}</span>);
    } else inner?.children.push(piece.replaceAll(/&(?:amp|lt|gt|quot|#x27);/g, (one) => ENTITIES[one] ?? one));
  }
  return open[0]?.children ?? [];
}
