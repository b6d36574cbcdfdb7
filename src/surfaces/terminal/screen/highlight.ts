// Code in colours: diffs by their first signs, languages by highlight.js, which is loaded when the first of them is shown.
import type { HighlightCore } from "./languages.js";
import type { Paint, Theme } from "./theme.ts";

type ColourScope = keyof Theme["code"];

/** 20 kB of TypeScript take 30 ms. */
const LONGEST = 20_000;
/** Where code that grows is remembered, so that only its new lines are read again. */
const WORTH_KEEPING = 1_000;
/** Each with its other names. */
const LANGUAGES = [
  "bash sh shell zsh",
  "c h",
  "cpp c++ cc cxx hpp",
  "css",
  "dockerfile docker",
  "go golang",
  "java",
  "javascript js jsx mjs cjs",
  "json jsonc json5",
  "markdown md",
  "python py python3",
  "rust rs",
  "sql",
  "typescript ts tsx mts cts",
  "xml html svg vue",
  "yaml yml",
];
const NAMES = new Map(
  LANGUAGES.flatMap((names) => names.split(" ").map((name, _, [language = ""]) => [name, language] as const)),
);
/** Languages inside of languages. */
const INSIDE: Record<string, readonly string[]> = { xml: ["css", "javascript"], dockerfile: ["bash"] };
const SCOPES: readonly [ColourScope, string][] = [
  ["keyword", "keyword selector-tag name"],
  ["text", "string regexp char code link"],
  ["number", "number literal symbol bullet"],
  ["name", "title attr attribute property section type built_in variable template-variable selector-class selector-id"],
  ["comment", "comment quote doctag meta"],
];
const PAINTS = new Map(SCOPES.flatMap(([scope, names]) => names.split(" ").map((name) => [name, scope] as const)));
const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

const ready = new Set<string>();
/** Who wants to know when a language is there; null once it has been looked for. */
const waiting = new Map<string, Set<() => void> | null>();
let core: HighlightCore | null = null;
let grown: { language: string; theme: Theme; code: string; lines: string[] } | null = null;

/** As many lines as the code has. `onReady`: it looks better from now on. */
export function highlight(code: string, language: string | undefined, theme: Theme, onReady?: () => void): string[] {
  const word = /^[\w+-]+/.exec(language ?? "")?.[0].toLowerCase() ?? "";
  const name = NAMES.get(word);
  if (word === "diff" || word === "patch" || (!name && looksLikeDiff(code))) return paintDiff(code, theme);
  if (!name || theme.kind === "mono" || code.length > LONGEST) return code.split("\n");
  if (!core || !ready.has(name)) {
    load(name, onReady);
    return code.split("\n");
  }
  return paintCode(core, code, name, theme);
}

export const looksLikeDiff = (text: string): boolean =>
  /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|^--- \S.*\n\+\+\+ \S/m.test(text);

function paintDiff(code: string, theme: Theme): string[] {
  return code.split("\n").map((line, i, lines) => {
    const isName = line.startsWith("--- ") && lines[i + 1]?.startsWith("+++ ");
    const isOther = line.startsWith("+++ ") && lines[i - 1]?.startsWith("--- ");
    if (isName || isOther || /^(?:diff --git|index [0-9a-f]+\.\.) ?/.test(line)) return theme.dim(line);
    if (line.startsWith("@@")) return theme.accent(line);
    if (line.startsWith("+")) return theme.added(line);
    return line.startsWith("-") ? theme.removed(line) : line;
  });
}

/** After what is drawn just now: it takes 10 ms, and 40 more for the first code. */
function load(language: string, onReady?: () => void) {
  const others = waiting.get(language);
  if (onReady) others?.add(onReady);
  if (others !== undefined) return;
  const callbacks = new Set(onReady ? [onReady] : []);
  waiting.set(language, callbacks);
  setImmediate(() => void loadNow(language, callbacks));
}

async function loadNow(language: string, callbacks: ReadonlySet<() => void>): Promise<void> {
  const { register } = await import("./languages.js");
  waiting.set(language, null);
  core = register([language, ...(INSIDE[language] ?? [])]);
  ready.add(language);
  for (const callback of callbacks) callback();
}

function paintCode(core: HighlightCore, code: string, language: string, theme: Theme): string[] {
  const known = grown?.language === language && grown.theme === theme && code.startsWith(grown.code) ? grown : null;
  const rest = code.slice(known?.code.length ?? 0);
  const { value } = core.highlight(rest, { language, ignoreIllegals: true });
  const { lines: fresh, whole } = paintTags(value, theme);
  const lines = [...(known?.lines ?? []), ...fresh];
  const kept = code.length - rest.length + rest.split("\n", whole).join("\n").length + 1;
  if (whole > 0 && kept > WORTH_KEEPING)
    grown = { language, theme, code: code.slice(0, kept), lines: lines.slice(0, lines.length - fresh.length + whole) };
  return lines;
}

/** `whole`: after so many lines nothing was open, so what follows can be read by itself. */
function paintTags(html: string, theme: Theme): { lines: string[]; whole: number } {
  const lines = [""];
  const open: (Paint | null)[] = [];
  let whole = 0;
  for (const [token, scope] of html.matchAll(/<span class="(?:hljs-)?([\w-]+)[^"]*">|<\/span>|[^<]+/g)) {
    if (scope !== undefined) open.push(paintOf(scope, theme, open.at(-1) ?? null));
    else if (token === "</span>") open.pop();
    else {
      const paint = open.at(-1);
      const parts = token.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity] ?? entity).split("\n");
      for (const [i, part] of parts.entries()) {
        if (i > 0) lines.push("");
        if (i > 0 && open.length === 0) whole = lines.length - 1;
        lines[lines.length - 1] += paint ? paint(part) : part;
      }
    }
  }
  return { lines, whole };
}

function paintOf(scope: string, theme: Theme, outer: Paint | null): Paint | null {
  const name = PAINTS.get(scope);
  // What is put into a string is code again.
  if (scope === "subst") return null;
  return name ? theme.code[name] : outer;
}
