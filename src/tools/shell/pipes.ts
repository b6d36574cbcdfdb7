// Real pipes. What Node gives a child as "pipe" is a socket, and `echo x > /dev/stderr` in a script then fails (ENXIO);
// one pipe for both outputs also keeps their order. Node cannot make one, so named ones are made in advance and
// unlinked when used. Not for what a child reads: to open a FIFO whose writer has gone would wait for ever.
import { closeSync, constants, existsSync, mkdtempSync, openSync, readdirSync, rmSync, unlinkSync } from "node:fs";
import { Socket, type SocketConstructorOpts } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf } from "../../core/errors.ts";

/** `read` is null when somebody else looks after it. */
export type Pipe = { read: number | null; write: number };
/** Makes FIFOs with these names. */
export type MakeFifos = (paths: string[]) => Promise<boolean>;

const BATCH = 16;
const PREFIX = "hermes-pipes-";

export function createPipes(make: MakeFifos): () => Promise<Pipe | null> {
  const ready: string[] = [];
  let dir = "";
  let made = 0;
  let making: Promise<boolean> | null = null;

  async function refill(): Promise<boolean> {
    if (!existsSync(dir)) {
      removeOld();
      const fresh = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
      process.once("exit", () => rmSync(fresh, { recursive: true, force: true }));
      dir = fresh;
    }
    const paths = Array.from({ length: BATCH }, () => join(dir, String(made++)));
    const done = await make(paths);
    if (done) ready.push(...paths);
    return done;
  }

  return async () => {
    while (ready.length > 0 || (await (making ??= refill().finally(() => (making = null))))) {
      const path = ready.pop();
      if (path !== undefined && existsSync(path)) return opened(path); // cleaners of /tmp take what is old
    }
    return null;
  };
}

function opened(path: string): Pipe {
  // Opened for both first, so that neither end waits for the other.
  const both = openSync(path, constants.O_RDWR);
  const read = openSync(path, constants.O_RDONLY);
  const write = openSync(path, constants.O_WRONLY);
  closeSync(both);
  unlinkSync(path);
  return { read, write };
}

/** Those of processes that were killed. Another user's are not ours to remove. */
function removeOld(): void {
  for (const name of readdirSync(tmpdir()).filter((name) => name.startsWith(PREFIX)))
    try {
      if (isGone(Number.parseInt(name.slice(PREFIX.length), 10))) rmSync(join(tmpdir(), name), { recursive: true });
    } catch {
      // Somebody else did it.
    }
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return codeOf(error) === "ESRCH";
  }
}

/** Takes what is written into it, piece by piece, all through one buffer; the next when the last was taken. */
export function readerOf(fd: number, take: (bytes: Uint8Array) => Promise<void> | undefined): Socket {
  const buffer = Buffer.allocUnsafe(64 * 1024);
  const onread = {
    buffer,
    callback: (bytes: number) => {
      const taken = take(buffer.subarray(0, bytes));
      void taken?.then(() => socket.resume());
      return taken === undefined;
    },
  };
  // `onread` is known to the constructor, not yet to its types.
  const options: SocketConstructorOpts & { onread: typeof onread } = { fd, readable: true, writable: false, onread };
  const socket: Socket = new Socket(options);
  return socket.resume();
}
