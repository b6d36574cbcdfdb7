// The paths below a directory that a person may mean: nearest first, without what .gitignore names, never too many.
import type { Dirent } from "node:fs";
import { opendir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { clean } from "./clean.ts";

/** Looked at, not only found: a directory of a million files must not hold up who types. */
const MOST_ENTRIES = 20_000;
const DEEPEST = 12;
/** So many are judged before a key is looked after. */
const AT_A_TIME = 1_000;
const LARGEST_RULES = 100_000;
const NEVER = new Set([".git", "node_modules"]);

type Token = string | RegExp;
/** Most are plain names, which are compared at once. */
type Segment = string | Token[];
type Rule = { segments: readonly Segment[]; keep: boolean; dirOnly: boolean };
/** `depth`: how many names lead to the directory whose rules these are. */
type Rules = { depth: number; rules: readonly Rule[] };
type Place = { names: readonly string[]; above: readonly Rules[] };

/** Relative, directories with a "/" at their end. */
export async function pathsBelow(top: string): Promise<string[]> {
  const paths: string[] = [];
  const places: Place[] = [{ names: [], above: [] }];
  let left = MOST_ENTRIES;
  for (let place = places.shift(); place && left > 0; place = places.shift()) {
    const dir = join(top, ...place.names);
    const entries = await entriesOf(dir, left);
    left -= entries.length;
    const rules = entries.some(({ name }) => name === ".gitignore") ? await rulesIn(dir) : [];
    const all = rules.length > 0 ? [...place.above, { depth: place.names.length, rules }] : place.above;
    for (const [i, entry] of entries.entries()) {
      if (i % AT_A_TIME === AT_A_TIME - 1) await turn();
      const names = [...place.names, entry.name];
      const isDir = entry.isDirectory();
      // A name that cannot be shown, or not be quoted, cannot be meant either.
      if (NEVER.has(entry.name) || /["\n]/.test(entry.name) || clean(entry.name) !== entry.name) continue;
      if (isIgnored(all, names, isDir)) continue;
      paths.push(isDir ? `${names.join("/")}/` : names.join("/"));
      if (isDir && names.length < DEEPEST) places.push({ names, above: all });
    }
  }
  return paths;
}

async function entriesOf(dir: string, most: number): Promise<Dirent[]> {
  const entries: Dirent[] = [];
  try {
    for await (const entry of await opendir(dir, { bufferSize: 256 })) if (entries.push(entry) >= most) break;
  } catch {
    // Not to be read by us: then it is passed over.
  }
  return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

async function rulesIn(dir: string): Promise<Rule[]> {
  try {
    const text = await readFile(join(dir, ".gitignore"), "utf8");
    return text.slice(0, LARGEST_RULES).split("\n").flatMap(ruleIn);
  } catch {
    return [];
  }
}

function ruleIn(raw: string): Rule[] {
  const line = raw.trim();
  const body = line.replace(/^!/, "").replace(/\/+$/, "");
  if (body === "" || line.startsWith("#")) return [];
  // Without a "/" in it, it is about a name anywhere below.
  const segments = (body.includes("/") ? body.replace(/^\//, "") : `**/${body}`).split("/").map(segmentOf);
  return [{ segments, keep: line.startsWith("!"), dirOnly: line.endsWith("/") }];
}

/** The deepest file that says something decides, and in it the last rule that fits. */
function isIgnored(above: readonly Rules[], names: readonly string[], isDir: boolean): boolean {
  for (const { depth, rules } of above.toReversed()) {
    const rest = names.slice(depth);
    const fits = ({ segments, dirOnly }: Rule) => (isDir || !dirOnly) && matches(segments, rest, isGlobstar, sameName);
    const rule = rules.findLast(fits);
    if (rule) return !rule.keep;
  }
  return false;
}

const segmentOf = (text: string): Segment =>
  text === "**" || !/[*?[\\]/.test(text)
    ? text
    : [...text.matchAll(/\*+|\[[!^]?[\w.-]+\]|\\?./gs)].map(([token]) => {
        if (token.startsWith("[") && token.length > 1) return setOf(token);
        return token.startsWith("\\") ? token.slice(1) : token;
      });

function setOf(token: string): Token {
  try {
    return new RegExp(`^${token.replace(/^\[!/, "[^")}$`);
  } catch {
    return token; // [z-a]: fits nothing
  }
}

const isGlobstar = (segment: Segment) => segment === "**";
const isStar = (token: Token) => typeof token === "string" && token.startsWith("*");
const sameName = (segment: Segment, name: string) =>
  typeof segment === "string" ? segment === name : matches(segment, name, isStar, sameChar);
const sameChar = (token: Token, char: string) =>
  typeof token === "string" ? token === char || token === "?" : token.test(char);

/** After a mismatch only the last star is tried again, which is enough: no pattern costs more than length by length. */
function matches<P, T>(
  pattern: readonly P[],
  text: ArrayLike<T>,
  star: (part: P) => boolean,
  same: (part: P, item: T) => boolean,
): boolean {
  let [at, lastStar, from] = [0, -1, 0];
  for (let i = 0; i < text.length; ) {
    const [part, item] = [pattern[at], text[i]];
    if (part !== undefined && star(part)) {
      lastStar = at++;
      from = i;
    } else if (part !== undefined && item !== undefined && same(part, item)) {
      at += 1;
      i += 1;
    } else if (lastStar >= 0) {
      at = lastStar + 1;
      i = ++from;
    } else return false;
  }
  return pattern.slice(at).every(star);
}
