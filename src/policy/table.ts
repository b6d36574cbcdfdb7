// Tables are written as words over several lines.

export const wordsOf = (text: string): string[] => text.trim().split(/\s+/);

/** Matches exactly one of these words, each of which may be a pattern. */
export const oneOf = (text: string, flags = ""): RegExp => new RegExp(`^(?:${wordsOf(text).join("|")})$`, flags);

/** The table's own entry: a program may be called `constructor`. */
export const own = <T>(table: Record<string, T>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

export const has = (words: readonly string[], wanted: RegExp): boolean => words.some((word) => wanted.test(word));

/** The same entry for several names. */
export const entries = <T>(names: string, entry: T): Record<string, T> =>
  Object.fromEntries(wordsOf(names).map((name) => [name, entry]));
