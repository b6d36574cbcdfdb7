// What a process printed: head and tail in memory, all of it in a file once it is more. Memory stays flat at any size.
import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { messageOf } from "../../core/errors.ts";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { createCleaner } from "./clean.ts";

export type Captured = {
  output: string;
  /** Bytes in all, after cleaning. */
  bytes: number;
  truncated: boolean;
  /** Where the rest can be read. */
  file?: string;
  /** Why the file does not hold everything. */
  note?: string;
};
export type Spool = {
  file: string;
  /** From the first byte on, not only when memory is full. */
  always?: boolean;
  maxBytes?: number;
};

const CAP_BYTES = 50 * 1024;
const FILE_BYTES = 100 * 1024 * 1024;
/** A disk that does not answer keeps nobody waiting for longer. */
const DISK_MS = 2000;

export function createOutput(options: {
  capBytes?: number | undefined;
  spool?: Spool | undefined;
  onOutput?: ((text: string) => void) | undefined;
}) {
  const { capBytes = CAP_BYTES, spool, onOutput } = options;
  const cleaner = createCleaner();
  const all = createKeep(capBytes);
  let unread = createKeep(capBytes);
  const file = spool && createFile(spool);

  function add(pieces: Uint8Array[]): Promise<void> | undefined {
    const late = pieces.filter((bytes) => bytes.length > 0).flatMap(keep);
    return late.length > 0 ? file?.write(late) : undefined;
  }

  /** What is to be in the file. */
  function keep(bytes: Uint8Array): Uint8Array[] {
    const before = all.fits() && !all.fits(bytes.length) ? all.whole() : null;
    all.add(bytes);
    unread.add(bytes);
    onOutput?.(textOf(bytes));
    if (spool?.always) return [bytes];
    return all.fits() ? [] : [...(before ? [before] : []), bytes];
  }

  async function finish(): Promise<void> {
    await add(cleaner.end());
    await file?.close();
  }

  return {
    /** The next piece may come when it resolves: a slow disk slows the process, never fills our memory. */
    write: (bytes: Uint8Array) => add(cleaner.push(bytes)),
    /** What came since this was last asked, with the line that is not over yet. */
    fresh: () => {
      const text = unread.text("…") + cleaner.pending();
      unread = createKeep(capBytes);
      return text;
    },
    now,
    end: async () => {
      await within(clock, DISK_MS, finish());
      return now();
    },
  };

  function now(): Captured {
    const kept = file?.kept();
    const where = kept?.file ? `; ${kept.note ? "more" : "all"} of it is in ${kept.file}` : "";
    return {
      output: all.text(kept?.note ? `${where}; ${kept.note}` : where) + cleaner.pending(),
      bytes: all.bytes(),
      truncated: !all.fits(),
      ...kept,
    };
  }
}

/** The first and the last half of a cap, and nothing while it all fits. */
function createKeep(cap: number) {
  const half = cap >> 1;
  const head = Buffer.allocUnsafe(cap);
  const ring = Buffer.allocUnsafe(half);
  let bytes = 0;

  function add(piece: Uint8Array): void {
    if (bytes < cap) head.set(piece.subarray(0, cap - bytes), bytes);
    const from = Math.max(0, piece.length - half);
    for (let at = from; at < piece.length; ) {
      const to = (bytes + at) % half;
      const part = piece.subarray(at, at + half - to);
      ring.set(part, to);
      at += part.length;
    }
    bytes += piece.length;
  }

  function text(where: string): string {
    if (bytes <= cap) return head.toString("utf8", 0, bytes);
    // Neither cut goes through a character.
    let end = half;
    while (isMiddle(head[end])) end--;
    const tail = Buffer.concat([ring.subarray(bytes % half), ring.subarray(0, bytes % half)]);
    let start = 0;
    while (isMiddle(tail[start])) start++;
    const left = bytes - end - (tail.length - start);
    return `${head.toString("utf8", 0, end)}\n[… ${left} bytes left out${where} …]\n${tail.toString("utf8", start)}`;
  }

  const whole = () => Buffer.from(head.subarray(0, bytes));
  return { add, text, whole, bytes: () => bytes, fits: (more = 0) => bytes + more <= cap };
}

const textOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
const isMiddle = (byte = 0) => (byte & 0xc0) === 0x80;

/** Readable by its owner only, never more than its limit. A full disk is a note, not the end of the command. */
function createFile({ file, maxBytes = FILE_BYTES }: Spool) {
  let handle: FileHandle | null = null;
  let written = 0;
  let note = "";
  let last = Promise.resolve();

  function write(pieces: Uint8Array[]): Promise<void> | undefined {
    if (note) return undefined;
    last = last.then(() => append(pieces));
    return last;
  }

  async function append(pieces: Uint8Array[]): Promise<void> {
    try {
      handle ??= await create(file);
      for (const bytes of pieces) {
        const room = bytes.subarray(0, maxBytes - written);
        await handle.write(room);
        written += room.length;
        if (room.length < bytes.length) note = `the file ends after ${maxBytes} bytes, what followed was dropped`;
      }
    } catch (error) {
      note = `the file is not complete: ${messageOf(error)}`;
    }
  }

  async function close(): Promise<void> {
    await handle?.close().catch(() => {});
    inUse.delete(file);
  }

  return { write, close, kept: () => ({ ...(handle && { file }), ...(note && { note }) }) };
}

const inUse = new Set<string>();

async function create(file: string): Promise<FileHandle> {
  const dir = dirname(file);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  makeRoom(dir);
  // "wx": never through a link that somebody put there.
  const handle = await open(file, "wx", 0o600);
  inUse.add(file);
  return handle;
}

const DIR_FILES = 100;
const DIR_BYTES = 1024 ** 3;

/** The oldest go first, never one that is being written. */
function makeRoom(dir: string): void {
  const files = readdirSync(dir)
    .map((name) => join(dir, name))
    .filter((file) => !inUse.has(file))
    .map((file) => ({ file, ...size(file) }))
    .toSorted((a, b) => b.at - a.at);
  let total = 0;
  for (const [index, { file, bytes }] of files.entries()) {
    total += bytes;
    if (index >= DIR_FILES || total > DIR_BYTES) rmSync(file, { force: true });
  }
}

function size(file: string): { at: number; bytes: number } {
  const stat = statSync(file, { throwIfNoEntry: false });
  return { at: stat?.mtimeMs ?? 0, bytes: stat?.size ?? 0 };
}
