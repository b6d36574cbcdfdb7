// What the editor offers while one types: slash commands and their arguments, files after "@", and any path on Tab.
import { setImmediate as turn } from "node:timers/promises";
import {
  type AutocompleteItem,
  type AutocompleteProvider,
  type AutocompleteSuggestions,
  CombinedAutocompleteProvider,
  fuzzyMatch,
} from "@earendil-works/pi-tui";
import { unlessAborted } from "../../../core/wait.ts";
import { clean } from "../clean.ts";
import { pathsBelow } from "./tree.ts";

type CompletableCommand = { name: string; argument?: string; description: string; complete?: readonly string[] };

const MOST_ITEMS = 30;
/** How long a list of the files is used before they are listed again. */
const FRESH_MS = 3_000;
/** Names that are compared before keys are handled again: about 1 ms. */
const AT_A_TIME = 1_000;
const MENTION = /(?:^|[\s"'=]|[\u3000-\u303f\uff00-\uffef])(@(?:"[^"]*|[^\s"'=]*))$/u;
/** What ends a path for who reads the message. */
const NEEDS_QUOTES = /[\s'=]|[\u3000-\u303f\uff00-\uffef…—“”‘’]/u;

export function createCompletion(commands: readonly CompletableCommand[], cwd: string): AutocompleteProvider {
  const builtIn = new CombinedAutocompleteProvider(
    commands.map(({ name, description, argument }) => ({
      name,
      description,
      ...(argument && { argumentHint: argument }),
    })),
    cwd,
  );
  let looked: { paths: Promise<string[]>; at: number } | null = null;

  function files(): Promise<string[]> {
    if (looked && performance.now() - looked.at < FRESH_MS) return looked.paths;
    const look = { paths: pathsBelow(cwd), at: Infinity };
    looked = look;
    void look.paths.then(() => (look.at = performance.now()));
    return look.paths;
  }

  async function mentions(mention: string, signal: AbortSignal): Promise<AutocompleteItem[]> {
    const quoted = mention.startsWith('@"');
    const query = mention.slice(quoted ? 2 : 1);
    // Beyond this directory nothing is searched: there a path is completed name by name.
    if (/^(?:~|\/|\.\.?\/)/.test(query)) return elsewhere(query, quoted, signal);
    // The search goes on when a key is pressed meanwhile: the next look is for the same files.
    const paths = await unlessAborted(files(), signal).catch(() => null);
    const best = paths ? await nearest(paths, query, signal) : [];
    return best.map((path) => {
      const name = path.slice(path.lastIndexOf("/", path.length - 2) + 1);
      return { value: `@${quotedPath(path, quoted)}`, label: name, description: path };
    });
  }

  async function elsewhere(query: string, quoted: boolean, signal: AbortSignal): Promise<AutocompleteItem[]> {
    const text = quoted ? `"${query}` : query;
    const found = await builtIn.getSuggestions([text], 0, text.length, { signal, force: true });
    return (found?.items ?? []).map((item) => ({ ...item, value: `@${item.value}` }));
  }

  async function suggested(text: string, line: number, signal: AbortSignal, asked: boolean) {
    const [, mention] = MENTION.exec(text) ?? [];
    if (mention) return { items: await mentions(mention, signal), prefix: mention };
    const [, name, argument = ""] = (line === 0 && /^\/(\S+) +(.*)$/.exec(text)) || [];
    const complete = commands.find((command) => command.name === name)?.complete;
    // Not before a letter of it, unless asked for: Enter after "/stop " must not choose "all".
    if (complete) return asked || argument ? { items: choices(complete, argument), prefix: argument } : null;
    if (!asked && (line > 0 || !text.startsWith("/"))) return null;
    return builtIn.getSuggestions([text], 0, text.length, { signal, force: asked });
  }

  return {
    async getSuggestions(lines, line, column, { signal, force }): Promise<AutocompleteSuggestions | null> {
      const found = await suggested((lines[line] ?? "").slice(0, column), line, signal, force ?? false);
      const items = (found?.items ?? []).filter(({ value }) => !value.includes("\n") && clean(value) === value);
      return found && items.length > 0 && !signal.aborted ? { ...found, items } : null;
    },
    applyCompletion(lines, line, column, item, prefix) {
      // The list may be for what stood there some keys ago: then what was typed stays as it is.
      const text = (lines[line] ?? "").slice(0, column);
      const isFresh = prefix ? text.endsWith(prefix) : /(?:^|\s)$/.test(text);
      if (!isFresh) return { lines, cursorLine: line, cursorCol: column };
      return builtIn.applyCompletion(lines, line, column, item, prefix);
    },
    shouldTriggerFileCompletion: (...at) => builtIn.shouldTriggerFileCompletion(...at),
  };
}

const choices = (complete: readonly string[], prefix: string): AutocompleteItem[] =>
  complete.filter((value) => value.startsWith(prefix.toLowerCase())).map((value) => ({ value, label: value }));

const quotedPath = (path: string, quoted: boolean) => (quoted || NEEDS_QUOTES.test(path) ? `"${path}"` : path);

/** Best first: by its name, by its path, by letters in that order; then the nearer one, then the shorter. */
async function nearest(paths: readonly string[], query: string, signal: AbortSignal): Promise<string[]> {
  const found: { path: string; rank: number; depth: number }[] = [];
  for (let from = 0; from < paths.length && !signal.aborted; from += AT_A_TIME) {
    for (const path of paths.slice(from, from + AT_A_TIME)) {
      const rank = rankOf(path.toLowerCase(), query.toLowerCase());
      if (rank !== null) found.push({ path, rank, depth: path.replace(/\/$/, "").split("/").length });
    }
    await turn();
  }
  const shorter = (a: string, b: string) => a.length - b.length || (a < b ? -1 : 1);
  found.sort((a, b) => a.rank - b.rank || a.depth - b.depth || shorter(a.path, b.path));
  return found.slice(0, MOST_ITEMS).map(({ path }) => path);
}

function rankOf(path: string, query: string): number | null {
  const bare = path.replace(/\/$/, "");
  const name = bare.slice(bare.lastIndexOf("/") + 1);
  if (query === "") return 0;
  if (name === query || bare === query) return -4_000;
  if (name.startsWith(query) || path.startsWith(query)) return -3_000;
  if (name.includes(query)) return -2_000;
  if (path.includes(query)) return -1_000;
  const { matches, score } = fuzzyMatch(query, path);
  return matches ? score : null;
}
