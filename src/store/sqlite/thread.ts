// The thread that owns the database file (sqlite-worker.ts), as the ports of this process see it.
import { Worker } from "node:worker_threads";
import { ConfigError, messageOf, StoreFault } from "../../core/errors.ts";
import type { DatabasePlace, Failure, Operations, Request, WorkerReply } from "./sqlite-worker.ts";

type AskWorker = <Op extends keyof Operations>(
  op: Op,
  ...args: Parameters<Operations[Op]>
) => Promise<ReturnType<Operations[Op]>>;

export type Thread = Awaited<ReturnType<typeof openThread>>;

export async function openThread(place: DatabasePlace) {
  const { file, readOnly } = place;
  const start = () =>
    connect(place, () => {
      link = null; // whoever asks next starts another thread
    });
  let link: Promise<WorkerLink> | null = start();
  await link;

  /** Kept, since each turn may search. */
  let reader: Promise<WorkerLink> | null = null;
  let closing: Promise<void> | null = null;
  const longWork = new Set<Promise<unknown>>();
  const send: AskWorker = (op, ...args) => {
    link ??= start().catch(unopened);
    return link.then(({ ask }) => ask(op, ...args));
  };
  const refuse = (why: string) => Promise.reject(new StoreFault("no", `${file} ${why}`));
  const ask: AskWorker = (op, ...args) => (closing ? refuse("is closed") : send(op, ...args));
  const unlessReadOnly =
    (ask: AskWorker): AskWorker =>
    (op, ...args) =>
      readOnly ? refuse("was opened to read only") : ask(op, ...args);

  /** Asks a second thread that only reads: no commit waits for it. */
  const look: AskWorker = (op, ...args) => {
    reader ??= connect({ ...place, readOnly: true }, () => {
      reader = null;
    }).catch(unopened);
    return reader.then(({ ask }) => ask(op, ...args));
  };

  async function close(): Promise<void> {
    await Promise.allSettled(longWork);
    // A dead thread has nothing left to close.
    for (const open of [reader, link]) await open?.then(disconnect).catch(() => {});
  }

  return {
    file,
    readOnly,
    ask,
    /** As `ask`, refused where the file was opened to read only. */
    write: unlessReadOnly(ask),
    /** For work that is more than one request: `close` waits for it, and it may still write until then. */
    async long<T>(work: (write: AskWorker, closing: () => boolean) => Promise<T>): Promise<T> {
      if (closing) return refuse("is closed");
      const result = work(unlessReadOnly(send), () => closing !== null);
      longWork.add(result);
      return result.finally(() => longWork.delete(result));
    },
    look,
    check: () => check(place),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

function unopened(error: unknown): never {
  throw new StoreFault("no", messageOf(error), { cause: error });
}

/** On a thread of its own: it reads the whole file, and commits do not wait for that. */
async function check(place: DatabasePlace): Promise<string[]> {
  try {
    const reader = await connect({ ...place, readOnly: true }, () => {});
    try {
      return await reader.ask("check");
    } finally {
      await disconnect(reader);
    }
  } catch (error) {
    return [messageOf(error)];
  }
}

type WorkerLink = { ask: AskWorker; exited: Promise<void> };
type Asker = { resolve(value: unknown): void; reject(error: Error): void };

/** Starts the thread and opens the file. `onExit` is told when the thread ends, for whatever reason. */
async function connect(place: DatabasePlace, onExit: () => void): Promise<WorkerLink> {
  // None of our flags: --input-type, for one, is refused by a worker that runs a file.
  const worker = new Worker(new URL("./sqlite-worker.ts", import.meta.url), { execArgv: [] });
  const askers = new Map<number, Asker>();
  let asked = 0;
  let gone = false;
  let fault = new StoreFault("unknown", `the thread that writes ${place.file} ended; it is started again`);

  worker.on("message", (answers: WorkerReply[]) => {
    for (const answer of answers) {
      if ("ending" in answer) {
        fault = new StoreFault("unknown", answer.ending);
        continue;
      }
      const asker = askers.get(answer.id);
      askers.delete(answer.id);
      if ("failure" in answer) asker?.reject(errorOf(answer.failure));
      else asker?.resolve(answer.value);
    }
  });
  worker.on("error", (error) => {
    fault = new StoreFault(
      "unknown",
      `the thread that writes ${place.file} ended: ${messageOf(error)}; it is started again`,
      { cause: error },
    );
  });
  const exited = new Promise<void>((resolve) => {
    worker.once("exit", () => {
      gone = true;
      onExit();
      for (const asker of askers.values()) asker.reject(fault);
      askers.clear();
      resolve();
    });
  });

  const ask: AskWorker = (op, ...args) =>
    new Promise((resolve, reject) => {
      if (gone) return reject(new StoreFault("no", `the thread that writes ${place.file} has ended; ask again`));
      const id = ++asked;
      askers.set(id, { resolve, reject });
      const request: Request = { id, op, args };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(request); // one message for all of a tick was no faster (200 commits at once)
    });

  try {
    await ask("open", place);
  } catch (error) {
    await worker.terminate();
    throw error;
  }
  return { ask, exited };
}

/** What was asked before is answered before. */
async function disconnect({ ask, exited }: WorkerLink): Promise<void> {
  await ask("close");
  await exited;
}

const errorOf = ({ config, landed, message }: Failure) =>
  config ? new ConfigError(message) : new StoreFault(landed, message);
