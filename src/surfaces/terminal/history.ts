// What was typed before, over starts: a file with one JSON string a line, for its owner only. Several processes may append
// to it: each record is one write, and begins with the line end, so that a torn one before it cannot spoil it.
import {
  appendFileSync,
  chmodSync,
  closeSync,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRedactor } from "../../platform/redact.ts";

const MOST = 500;
const LONGEST = 10_000;
/** More than every record we keep can need; of a longer file only the end is read. */
const LARGEST_FILE = 16_000_000;

export function openHistory(file: string) {
  const redactor = createRedactor();
  const entries = read(file);

  function add(text: string) {
    // A key that was pasted belongs into no file.
    if (!text.trim() || text.length > LONGEST || text === entries.at(-1) || redactor.text(text) !== text) return;
    entries.push(text);
    if (entries.length > MOST) entries.shift();
    try {
      appendFileSync(file, record(text), { mode: 0o600 });
    } catch {
      // A home that cannot be written to only forgets.
    }
  }

  /** `entries`: newest last. */
  return { entries: () => [...entries], add };
}

const record = (text: string) => `\n${JSON.stringify(text)}`;

function read(file: string): string[] {
  let kept: string[] = [];
  try {
    const { text, size } = endOf(file);
    const all = text.split("\n").flatMap(entryIn);
    kept = all.slice(-MOST);
    chmodSync(file, 0o600);
    // Not at every start: only when half of it is old.
    if (all.length > 2 * MOST || size > LARGEST_FILE) trim(file, kept, size);
  } catch {
    // None yet, or not ours to change.
  }
  return kept;
}

function endOf(file: string): { text: string; size: number } {
  const handle = openSync(file, "r");
  try {
    const { size } = fstatSync(handle);
    const bytes = Buffer.alloc(Math.min(size, LARGEST_FILE));
    const length = readSync(handle, bytes, 0, bytes.length, size - bytes.length);
    return { text: bytes.toString("utf8", 0, length), size };
  } finally {
    closeSync(handle);
  }
}

function entryIn(line: string): string[] {
  try {
    const entry: unknown = JSON.parse(line);
    return typeof entry === "string" ? [entry] : [];
  } catch {
    return []; // torn, or not ours
  }
}

function trim(file: string, kept: readonly string[], size: number) {
  const fresh = `${file}.${process.pid}`;
  try {
    writeFileSync(fresh, kept.map(record).join(""), { mode: 0o600 });
    // Somebody wrote meanwhile: the next start trims it.
    if (statSync(file).size === size) renameSync(fresh, file);
  } finally {
    rmSync(fresh, { force: true });
  }
}
