// Glob patterns: * ? [a-z] {a,b} within a name, ** for any directories. Patterns come from a model or a repository, so
// matching is linear in the length of the name for any pattern: after a mismatch only the last star is retried, which
// is sufficient.

export type Glob = (path: readonly string[]) => boolean;
type Token = string | { star: true } | { one: true } | { set: string; not: boolean };
/** Most segments are plain names, which are compared directly. */
type Segment = "**" | { name: string } | Token[];

const MOST_ALTERNATIVES = 100;

/** A pattern without "/" matches the name alone. */
export function globOf(pattern: string): Glob {
  const globs = alternatives(pattern.replace(/^\.?\//, "")).map((text) => segmentsOf(text));
  const anywhere = !pattern.includes("/");
  return (path) =>
    globs.some((glob) => (anywhere ? matches(glob, path.slice(-1), sameName) : matches(glob, path, sameName)));
}

export const segmentsOf = (pattern: string): Segment[] =>
  pattern.split("/").map((segment) => {
    if (segment === "**") return "**";
    return /[\\*?[]/.test(segment) ? tokensOf(segment) : { name: segment };
  });

export const matchesPath = (glob: readonly Segment[], path: readonly string[]): boolean =>
  matches(glob, path, sameName);

function sameName(segment: Segment, name: string): boolean {
  if (segment === "**") return false;
  return "name" in segment ? segment.name === name : matches(segment, Array.from(name), sameChar, isStar);
}

function sameChar(token: Token, char: string): boolean {
  if (typeof token === "string") return token === char;
  if ("one" in token) return true;
  return "set" in token && inSet(token.set, char) !== token.not;
}

const isStar = (token: unknown): boolean => typeof token === "object" && token !== null && "star" in token;
const isGlobstar = (segment: unknown): boolean => segment === "**";

function matches<P, T>(
  pattern: readonly P[],
  text: readonly T[],
  same: (part: P, item: T) => boolean,
  star: (part: P) => boolean = isGlobstar,
): boolean {
  let [p, t, lastStar, from] = [0, 0, -1, 0];
  while (t < text.length) {
    const part = pattern[p];
    const item = text[t];
    if (part !== undefined && star(part)) {
      lastStar = p++;
      from = t;
    } else if (part !== undefined && item !== undefined && same(part, item)) {
      p += 1;
      t += 1;
    } else if (lastStar >= 0) {
      p = lastStar + 1;
      t = ++from;
    } else return false;
  }
  for (let part = pattern[p]; part !== undefined && star(part); part = pattern[p]) p += 1;
  return p === pattern.length;
}

function tokensOf(segment: string): Token[] {
  const tokens: Token[] = [];
  for (const [found] of segment.matchAll(/\\[^]|\*+|\?|\[[!^]?\]?[^\]]*\]|[^]/gu)) {
    if (found.startsWith("*")) tokens.push({ star: true });
    else if (found === "?") tokens.push({ one: true });
    else if (found.startsWith("[") && found.length > 2) {
      const not = /^\[[!^]/.test(found);
      tokens.push({ set: found.slice(not ? 2 : 1, -1), not });
    } else tokens.push(found.length > 1 && found.startsWith("\\") ? found.slice(1) : found);
  }
  return tokens;
}

function inSet(set: string, char: string): boolean {
  const chars = Array.from(set);
  for (let i = 0; i < chars.length; i++) {
    const [low = "", dash, high] = chars.slice(i, i + 3);
    if (dash === "-" && high !== undefined) {
      if (low <= char && char <= high) return true;
      i += 2;
    } else if (low === char) return true;
  }
  return false;
}

function alternatives(pattern: string): string[] {
  const done: string[] = [];
  const open = [pattern];
  for (let next = open.pop(); next !== undefined && done.length + open.length < MOST_ALTERNATIVES; next = open.pop()) {
    const found = /\{([^{}]*,[^{}]*)\}/.exec(next);
    if (!found) done.push(next);
    else
      for (const part of found[1]?.split(",") ?? [])
        open.push(next.slice(0, found.index) + part + next.slice(found.index + found[0].length));
  }
  return done;
}
