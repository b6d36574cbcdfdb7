// A log file that several processes can write and rotate: hermes.log, hermes.log.1 (newer) … hermes.log.4 (older).
// Writes are synchronous: a line is with the kernel before the caller continues, so a crash or kill -9 loses none, and
// nothing must be flushed on exit. This costs about 9 µs per line.
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";

export type LogFile = { write(line: string): void; close(): void };

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
const RETRY_MS = 1000;
/** A rotation is a few renames; a lock this old belongs to a dead process. */
const STALE_LOCK_MS = 10_000;

export const openLogFile = (file: string, maxBytes: number, files: number): LogFile => {
  let fd: number | null = null;
  let inode = -1;
  let torn = false;
  let lost = 0;
  let retryAt = 0;

  const write = (line: string) => {
    if (lost > 0 && Date.now() < retryAt) {
      lost += 1;
      return;
    }
    try {
      const bytes = Buffer.from((torn ? "\n" : "") + lostNotice(lost) + line);
      writeAll(ready(bytes.length), bytes);
      torn = false;
      lost = 0;
    } catch {
      // Disk full, no permission, or directory gone: the program continues, and the log reports later what is missing.
      close();
      lost += 1;
      retryAt = Date.now() + RETRY_MS;
    }
  };

  const ready = (bytes: number): number => {
    // Checked for each line: another process may have rotated the file, or a person may have deleted it.
    const now = statSync(file, { throwIfNoEntry: false });
    if (now?.ino === inode && now.size > 0 && now.size + bytes > maxBytes) rotate(file, files, inode);
    else if (fd !== null && now?.ino === inode) return fd;
    close();
    const opened = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
    fd = opened;
    const { ino, mode } = fstatSync(opened);
    inode = ino;
    if ((mode & 0o077) !== 0) fchmodSync(opened, 0o600);
    return opened;
  };

  const writeAll = (to: number, bytes: Buffer) => {
    let done = 0;
    while (done < bytes.length) {
      done += writeSync(to, bytes, done);
      torn = done < bytes.length;
    }
  };

  const close = () => {
    if (fd !== null) closeSync(fd);
    fd = null;
    inode = -1;
  };

  return { write, close };
};

/** Age 0 is the file itself; the rotated files follow, newest first. */
export const rotatedName = (file: string, age: number): string => (age === 0 ? file : `${file}.${age}`);

const rotate = (file: string, files: number, inode: number): void => {
  const lock = `${file}.lock`;
  const locked = take(lock);
  if (locked === null) return;
  try {
    // The previous owner of the lock may already have rotated the file.
    if (statSync(file, { throwIfNoEntry: false })?.ino !== inode) return;
    rmSync(rotatedName(file, files - 1), { force: true });
    for (let age = files - 2; age >= 0; age -= 1)
      if (statSync(rotatedName(file, age), { throwIfNoEntry: false }))
        renameSync(rotatedName(file, age), rotatedName(file, age + 1));
  } finally {
    closeSync(locked);
    rmSync(lock, { force: true });
  }
};

const take = (lock: string): number | null => {
  try {
    return openSync(lock, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  } catch {
    const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    if (age > STALE_LOCK_MS) rmSync(lock, { force: true });
    return null;
  }
};

const lostNotice = (lost: number): string =>
  lost === 0
    ? ""
    : `${JSON.stringify({ level: "warn", time: new Date().toISOString(), pid: process.pid, lost, event: "log.lines_lost" })}\n`;
