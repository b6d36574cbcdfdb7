// `hermes logs`: shows the end of the log and, with -f, new lines, across any number of rotations.
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import type { Clock } from "../../core/ports.ts";
import { rotatedName } from "../../platform/logfile.ts";
import { atLeast, type Level, parseRecord, pretty, printable } from "../../platform/logline.ts";

const POLL_MS = 200;
const NEWLINE = 10;

/** How far a file has been read. The inode stays the same when the file is rotated to another name. */
type LogPlace = { inode: number; offset: number };

export type LogsOptions = {
  file: string;
  lines: number;
  level: Level;
  json: boolean;
  follow: boolean;
  colour: boolean;
  /** Resolves when the text is written, so that a slow reader slows us down. */
  print: (text: string) => Promise<void>;
  clock: Clock;
};

/** With `follow`, runs until the process ends. Returns false if there is no log. */
export const showLogs = async (options: LogsOptions): Promise<boolean> => {
  const { file, lines, follow, print, clock } = options;
  const last = tail(file, lines, (line) => format(line, options));
  if (last.shown.length > 0) await print(`${last.shown.join("\n")}\n`);
  if (!follow) return last.place.inode !== -1;

  let { place } = last;
  for (;;) {
    for (const path of unread(file, place)) {
      const read = readFrom(path, place);
      if (!read) continue;
      place = read.place;
      const shown = read.lines.flatMap((line) => format(line, options) ?? []);
      if (shown.length > 0) await print(`${shown.join("\n")}\n`);
    }
    await clock.sleep(POLL_MS);
  }
};

const format = (line: string, { level, json, colour }: LogsOptions): string | null => {
  const record = parseRecord(line);
  if (record) {
    if (!atLeast(record.level, level)) return null;
    return json ? line : pretty(record, colour);
  }
  // A line of another program, or torn by a full disk: it has no level and is not JSON.
  return json || level !== "debug" || line.trim() === "" ? null : printable(line);
};

/** The last lines for which `show` returns text, from as many rotated files as needed, and the end of the newest
 *  file. */
const tail = (file: string, want: number, show: (line: string) => string | null) => {
  const shown: string[] = [];
  let place: LogPlace = { inode: -1, offset: 0 };
  for (let age = 0; age === 0 || shown.length < want; age += 1) {
    const read = readFrom(rotatedName(file, age), { inode: -1, offset: 0 });
    if (!read && age > 0) break;
    if (!read) continue;
    if (age === 0) ({ place } = read);
    for (let n = read.lines.length - 1; n >= 0 && shown.length < want; n -= 1) {
      const line = show(read.lines[n] ?? "");
      if (line !== null) shown.push(line);
    }
  }
  return { shown: shown.toReversed(), place };
};

/** The files with new lines, oldest first: the one we were reading, whatever its name is now, and all newer ones. */
const unread = (file: string, place: LogPlace): string[] => {
  const paths = [file];
  if (inodeOf(file) === place.inode) return paths;
  for (let age = 1; ; age += 1) {
    const path = rotatedName(file, age);
    const inode = inodeOf(path);
    // Somebody deleted the file that we were reading: only the present one is new.
    if (inode === null) return [file];
    paths.unshift(path);
    if (inode === place.inode) return paths;
  }
};

const inodeOf = (path: string): number | null => statSync(path, { throwIfNoEntry: false })?.ino ?? null;

/** The complete lines after `place`; all lines if it is another file or was truncated. */
const readFrom = (path: string, place: LogPlace): { lines: string[]; place: LogPlace } | null => {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw error;
  }
  try {
    const { ino, size } = fstatSync(fd);
    const start = ino === place.inode && place.offset <= size ? place.offset : 0;
    const bytes = Buffer.alloc(size - start);
    const length = readSync(fd, bytes, 0, bytes.length, start);
    const end = bytes.lastIndexOf(NEWLINE, length - 1);
    const lines = end < 0 ? [] : bytes.toString("utf8", 0, end).split("\n");
    return { lines, place: { inode: ino, offset: start + end + 1 } };
  } finally {
    closeSync(fd);
  }
};
