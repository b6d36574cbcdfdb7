// ripgrep as a filter: it only says which of the given files may match. Matching itself is done here, so there is one
// definition of ignored files, confinement and patterns, with any version of ripgrep and without it.
import type { RunProgram } from "./common.ts";
import type { FoundFile } from "./walk.ts";

const MOST_NAMES = 100_000;

export type Sieve = (batch: readonly FoundFile[]) => Promise<readonly FoundFile[]>;

/** The program from the install, never one that happens to be on the machine. Null if there is none for this
 *  platform. */
export const bundledRipgrep = async (): Promise<string | null> =>
  (await import("@vscode/ripgrep").catch(() => null))?.rgPath ?? null;

export function createSieve(options: {
  ripgrep: RunProgram;
  cwd: string;
  /** Null if ripgrep would interpret this pattern differently. */
  pattern: string | null;
  literal: boolean;
  ignoreCase: boolean;
  signal: AbortSignal;
}): Sieve {
  const { ripgrep, cwd, pattern, literal, ignoreCase, signal } = options;
  let usable = pattern !== null;
  return async (batch) => {
    // ripgrep prints names as lines, so a name with a control character cannot be read back.
    const [given, odd] = split(batch, ({ path }) => path.every((name) => !/[\p{C}\uFFFD]/u.test(name)));
    if (!usable || given.length === 0) return batch;
    const names = given.map(({ path }) => `./${path.join("/")}`);
    const flags = ["--files-with-matches", "--no-config", "--no-messages", "--color=never", "--crlf", "--text"];
    const how = [literal ? "--fixed-strings" : "", ignoreCase ? "--ignore-case" : "--case-sensitive"].filter(Boolean);
    const args = [...flags, ...how, "--regexp", pattern ?? "", "--", ...names];
    const { code, output, truncated } = await ripgrep(args, { cwd, signal });
    const hits = new Set(output.split(/\r?\n/).filter(Boolean)); // with --crlf, version 13.0 ends its own lines this way
    // Code 1 means no match. Any other code, or a name that was not given, is not an answer; then the files are read
    // here.
    if ((code !== 0 && code !== 1) || truncated || !hits.isSubsetOf(new Set(names))) {
      usable = false;
      return batch;
    }
    const kept = new Set([...odd, ...given.filter((_, i) => hits.has(names[i] ?? ""))]);
    return batch.filter((file) => kept.has(file));
  };
}

/** Groups of files that fit on a command line. */
export async function* inBatches(files: AsyncIterable<FoundFile>): AsyncGenerator<FoundFile[]> {
  let batch: FoundFile[] = [];
  let length = 0;
  for await (const file of files) {
    batch.push(file);
    length += file.real.length + 4;
    if (length < MOST_NAMES && batch.length < 1_000) continue;
    yield batch;
    batch = [];
    length = 0;
  }
  if (batch.length > 0) yield batch;
}

const split = <T>(items: readonly T[], test: (item: T) => boolean): [T[], T[]] => [
  items.filter((item) => test(item)),
  items.filter((item) => !test(item)),
];

/** The same pattern in Rust's dialect, or one that matches more; null if the two may differ. */
export function toRust({ source, unicode }: RegExp): string | null {
  if (!unicode) return null;
  let rust = "";
  let rest = source;
  while (rest !== "") {
    const found = PIECES.find(([piece]) => piece.test(rest));
    const [text] = found?.[0].exec(rest) ?? [];
    if (!found || !text) return null;
    rust += found[1] ?? text;
    rest = rest.slice(text.length);
  }
  return rust;
}

const PIECES: [RegExp, string?][] = [
  [/^\\d/, "[0-9]"],
  [/^\\w/, "[0-9A-Za-z_]"],
  [/^\\s/, "[\\s\\x{FEFF}]"],
  [/^\\b/, "(?-u:\\b)"],
  [/^\\[.*+?^${}()|[\]\\/-]/],
  [/^\[\^?(?:[\w .,:;=+*?!@#$%'"/()|<>]|-(?!-))+\]/],
  [/^\(\?:/],
  [/^\((?!\?)/],
  [/^\{\d+(?:,\d*)?\}/],
  [/^[)|.^$*+?]/],
  [/^[^\\[\](){}|.^$*+?]/u],
];
