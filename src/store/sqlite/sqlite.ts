// The embedded store: one SQLite file, written by one process, through one worker thread (sqlite-worker.ts).
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import { ConfigError, messageOf, StoreFault } from "../../core/errors.ts";
import type { Commit, Found, SessionRow, Store } from "../../core/ports.ts";
import { type Entry, type Fact, fresh, upgraded } from "../../core/session.ts";
import { type FoundRow, snippetOf, textOf } from "./search.ts";
import type {
  Answer,
  AnswerTo,
  CommitRow,
  EntryRow,
  Failure,
  Place,
  Question,
  Request,
  StateRow,
} from "./sqlite-worker.ts";

export type SqliteOptions = {
  file: string;
  /** For a process that only looks: takes no lock, creates and migrates nothing, cannot write. */
  readOnly?: boolean;
  /** How many pages of 4 KiB the file may have: a test's way to fill the disk. */
  maxPages?: number;
};

/** Another process owns the file, or this one has it open already. */
export class StoreInUse extends Error {
  override readonly name = "StoreInUse";
  readonly pid: number | null;
  constructor(file: string, pid: number | null) {
    super(`${file} is in use by ${pid ? `process ${pid}` : "another process"}; stop it or choose another file`);
    this.pid = pid;
  }
}

const STATE_VERSION = fresh.v;
// https://sqlite.org/rescode.html
const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
const PATIENT = "PRAGMA busy_timeout = 1000"; // of two that start together, one writes its pid while the other reads it
const INDEX_AT_ONCE = 500; // entries, likewise
const PRUNE_AT_ONCE = 100; // sessions in one transaction: the longest that a commit waits for a prune

/** Throws StoreInUse at once if the file has an owner, ConfigError if it is not a file that we can use. */
export async function openSqlite({ file, readOnly = false, maxPages }: SqliteOptions): Promise<Store> {
  const path = readOnly ? existing(file) : create(file);
  const place: Place = { file: path, readOnly, maxPages: maxPages ?? null };
  const unlock = readOnly ? () => {} : lock(path);
  const start = () =>
    connect(place, () => {
      link = null; // whoever asks next starts another thread
    });
  let link: Promise<Link> | null = start();
  try {
    await link;
  } catch (error) {
    unlock();
    throw error;
  }

  /** Searches have a thread of their own, so that no commit waits for one; it is kept, since each turn may search. */
  let reader: Promise<Link> | null = null;
  let closing: Promise<void> | null = null;
  let mine: number | null = null;
  const long = new Set<Promise<unknown>>();
  const send = async <Q extends Question>(question: Q) => {
    link ??= start().catch((error: unknown) => {
      throw new StoreFault("no", messageOf(error), { cause: error });
    });
    return (await link).ask(question);
  };
  const refuse = (why: string) => Promise.reject(new StoreFault("no", `${path} ${why}`));
  const ask = <Q extends Question>(question: Q): Promise<AnswerTo[Q["op"]]> =>
    closing ? refuse("is closed") : send(question);
  const write = <Q extends Question>(question: Q): Promise<AnswerTo[Q["op"]]> =>
    readOnly ? refuse("was opened to read only") : ask(question);
  /** `close` waits for these: they are more than one request. */
  const takingLong = async <T>(work: () => Promise<T>): Promise<T> => {
    if (closing) return refuse("is closed");
    const result = work();
    long.add(result);
    return result.finally(() => long.delete(result));
  };

  async function prune(prefix: string, before: number): Promise<number> {
    if (readOnly) return refuse("was opened to read only");
    for (let gone = 0; ; ) {
      const some = await send({ op: "prune", prefix, before, limit: PRUNE_AT_ONCE });
      gone += some;
      if (some < PRUNE_AT_ONCE) return gone;
    }
  }

  async function search(query: string, session: string | null, limit: number): Promise<Found[]> {
    let more = !readOnly; // one that only looks finds what the owner's searches have taken in
    while (more) more = (await send({ op: "index", limit: INDEX_AT_ONCE })) && closing === null;
    reader ??= connect({ ...place, readOnly: true }, () => {
      reader = null;
    });
    const rows = await reader
      .then((link) => link.ask({ op: "search", query, session, limit }))
      .catch((error: unknown) => {
        throw error instanceof StoreFault ? error : new StoreFault("no", messageOf(error), { cause: error });
      });
    return rows.map((row) => foundOf(row, query, path));
  }

  async function close(): Promise<void> {
    await Promise.allSettled(long);
    // A dead thread has nothing left to close.
    for (const open of [reader, link]) await open?.then(disconnect).catch(() => {});
    unlock();
  }

  return {
    claim: async () => {
      mine = await write({ op: "claim" });
      return mine;
    },
    // While we hold the lock nobody else can claim: no need to ask the thread, behind whatever it writes.
    epoch: () => (mine === null ? ask({ op: "epoch" }) : Promise.resolve(mine)),
    load: async (session) => {
      const row = await ask({ op: "load", session });
      return row && sessionOf(row, path);
    },
    commit: async (change) => write({ op: "commit", change: rowOf(change) }),
    entries: async (session, after, limit) => entriesOf(await ask({ op: "entries", session, after, limit }), path),
    turn: async (id) => entriesOf(await ask({ op: "turn", id }), path),
    input: (id) => ask({ op: "input", id }),
    active: () => ask({ op: "active" }),
    children: (parent) => ask({ op: "children", parent }),
    granted: () => ask({ op: "granted" }),
    sessions: ({ after = null, limit, top = false, active = false, titled = "", prefix = "" }) =>
      ask({ op: "sessions", after, limit, top, active, titled, prefix }),
    summary: (session) => ask({ op: "summary", session }),
    retitle: (session, title) => write({ op: "retitle", session, title }),
    forget: ({ session, epoch, version }) => write({ op: "forget", session, epoch, version }),
    announcements: (page) => ask({ op: "announcements", ...page }),
    announced: async (id, next) => void (await write({ op: "announced", id, next })),
    notes: {
      get: async (key) => {
        const value = await ask({ op: "note", key });
        return value === null ? undefined : undamaged(`note ${key} in ${path}`, (): unknown => JSON.parse(value));
      },
      set: async (key, value) => {
        const json = value === undefined ? null : JSON.stringify(value);
        await write({ op: "write", key, value: json, at: Date.now() });
      },
      list: async (prefix) =>
        (await ask({ op: "notes", prefix })).map(({ key, value, at }) => ({
          key,
          at,
          value: undamaged(`note ${key} in ${path}`, (): unknown => JSON.parse(value)),
        })),
    },
    search: (query, { session, limit }) => takingLong(() => search(query, session ?? null, limit)),
    prune: (prefix, before) => takingLong(() => prune(prefix, before)),
    check: () => takingLong(() => check(place)),
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

async function check(place: Place): Promise<string[]> {
  try {
    return await aside(place, { op: "check" });
  } catch (error) {
    return [messageOf(error)];
  }
}

/** On a thread of its own: it reads the whole file, and commits do not wait for that. */
async function aside<Q extends Question>(place: Place, question: Q): Promise<AnswerTo[Q["op"]]> {
  const reader = await connect({ ...place, readOnly: true }, () => {});
  try {
    return await reader.ask(question);
  } finally {
    await disconnect(reader);
  }
}

// ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────

function rowOf({ state, entries, title = "", announced = [], ...rest }: Commit): CommitRow {
  return {
    ...rest,
    title,
    announced,
    state: JSON.stringify(state),
    entries: entries.map(({ seq, turn, at, ...fact }) => ({ seq, turn, at, fact: JSON.stringify(fact) })),
  };
}

function sessionOf(row: StateRow, file: string): SessionRow {
  const state = undamaged(`session ${row.session} in ${file}`, (): { v: number } => JSON.parse(row.state));
  if (state.v > STATE_VERSION)
    throw new ConfigError(
      `session ${row.session} in ${file} was written by a newer hermes (state ${state.v}, ` +
        `this one knows ${STATE_VERSION}); install that version`,
    );
  return { ...row, state: upgraded(state) };
}

function entriesOf(rows: EntryRow[], file: string): Entry[] {
  return rows.map(({ seq, turn, at, fact: json }) => {
    const fact = undamaged(`entry ${seq} of turn ${turn} in ${file}`, (): Fact => JSON.parse(json));
    return { seq, turn, at, ...fact };
  });
}

function foundOf({ session, seq, turn, at, fact: json }: FoundRow, query: string, file: string): Found {
  const fact = undamaged(`entry ${seq} of ${session} in ${file}`, (): Fact => JSON.parse(json));
  return { session, seq, turn, at, text: snippetOf(textOf(fact), query) };
}

function undamaged<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new StoreFault("no", `${what} is damaged; restore the file from a backup`, { cause: error });
  }
}

// ── The thread ────────────────────────────────────────────────────────────────────────────────────────

type Link = {
  ask: <Q extends Question>(question: Q) => Promise<AnswerTo[Q["op"]]>;
  exited: Promise<void>;
};
type Asker = { resolve(value: unknown): void; reject(error: Error): void };

/** Starts the thread and opens the file. `onExit` is told when the thread ends, for whatever reason. */
async function connect(place: Place, onExit: () => void): Promise<Link> {
  // None of our flags: --input-type, for one, is refused by a worker that runs a file.
  const worker = new Worker(new URL("./sqlite-worker.ts", import.meta.url), { execArgv: [] });
  const askers = new Map<number, Asker>();
  let asked = 0;
  let gone = false;
  let cause: unknown;

  worker.on("message", (answers: Answer[]) => {
    for (const answer of answers) {
      const asker = askers.get(answer.id);
      askers.delete(answer.id);
      if ("failure" in answer) asker?.reject(errorOf(answer.failure));
      else asker?.resolve(answer.value);
    }
  });
  worker.on("error", (error) => {
    cause = error;
  });
  const exited = new Promise<void>((resolve) => {
    worker.once("exit", () => {
      gone = true;
      onExit();
      const why = cause ? `: ${messageOf(cause)}` : "";
      for (const asker of askers.values())
        asker.reject(
          new StoreFault("unknown", `the thread that writes ${place.file} ended${why}; it is started again`, { cause }),
        );
      askers.clear();
      resolve();
    });
  });

  const ask = <Q extends Question>(question: Q) =>
    new Promise<AnswerTo[Q["op"]]>((resolve, reject) => {
      if (gone) return reject(new StoreFault("no", `the thread that writes ${place.file} has ended; ask again`));
      const id = ++asked;
      askers.set(id, { resolve, reject });
      const request: Request = { id, question };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      worker.postMessage(request); // one message for all of a tick was no faster (200 commits at once)
    });

  try {
    await ask({ op: "open", ...place });
  } catch (error) {
    await worker.terminate();
    throw error;
  }
  return { ask, exited };
}

/** What was asked before is answered before. */
async function disconnect({ ask, exited }: Link): Promise<void> {
  await ask({ op: "close" });
  await exited;
}

const errorOf = ({ config, landed, message }: Failure) =>
  config ? new ConfigError(message) : new StoreFault(landed, message);

// ── Files ─────────────────────────────────────────────────────────────────────────────────────────────

function existing(file: string): string {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new ConfigError(`there is no file ${file}`);
  return realpathSync(file);
}

function create(file: string): string {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    keepPrivate(file);
    const path = realpathSync(file); // two names for one file are one lock
    keepPrivate(`${path}.lock`);
    for (const beside of [`${path}-wal`, `${path}-shm`]) if (existsSync(beside)) keepPrivate(beside);
    return path;
  } catch (error) {
    const text = `cannot create ${file}: ${messageOf(error)}`;
    throw hasCode(error, "ENOSPC") ? new StoreFault("no", text) : new ConfigError(text, { cause: error });
  }
}

/** SQLite gives -wal and -shm the mode of the database. Never opens a file that is there: closing it again would
 * drop the locks that SQLite holds on it in this process (https://sqlite.org/howtocorrupt.html, 2.2). */
function keepPrivate(file: string): void {
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error;
    const there = statSync(file);
    if (!there.isFile()) throw new Error("it is not a file", { cause: error });
    if (there.mode & 0o077) chmodSync(file, 0o600);
  }
}

const hasCode = (error: unknown, code: string) => error instanceof Error && "code" in error && error.code === code;

/** Somebody who asks who the owner is has the lock for less than a millisecond; whoever starts just then waits for that. */
const LOOKED_AT_MS = 200;

/** A transaction that never ends, in a file beside the store: the system takes it back however we die. The pid
 * is committed first, as `user_version`, where a process that is refused can read it. */
function lock(file: string, look = false): () => void {
  const db = new DatabaseSync(`${file}.lock`, { open: false, timeout: look ? 0 : LOOKED_AT_MS });
  try {
    db.open();
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE");
    if (look) return () => db.close();
    db.exec(PATIENT);
    db.exec(`PRAGMA user_version = ${process.pid}; COMMIT; BEGIN IMMEDIATE`);
    return () => db.close();
  } catch (error) {
    const pid = ownerOf(db);
    if (db.isOpen) db.close();
    const code = error instanceof Error && "errcode" in error ? Number(error.errcode) & 0xff : 0;
    if (code === SQLITE_BUSY) throw new StoreInUse(file, pid);
    // No matter of the configuration: whoever starts us again may find room.
    if (code === SQLITE_FULL || code === SQLITE_IOERR)
      throw new StoreFault("no", `the disk that holds ${file} is full or failed (${messageOf(error)})`, {
        cause: error,
      });
    throw new ConfigError(`cannot lock ${file}: ${messageOf(error)}; if nothing uses it, remove ${file}.lock`, {
      cause: error,
    });
  }
}

/** The process that has this file open to write; null: none has. */
export function ownerPid(file: string): number | null {
  if (!existsSync(`${file}.lock`)) return null;
  try {
    lock(file, true)();
    return null;
  } catch (error) {
    if (error instanceof StoreInUse) return error.pid;
    throw error;
  }
}

function ownerOf(db: DatabaseSync): number | null {
  try {
    db.exec(PATIENT);
    return Number(db.prepare("PRAGMA user_version").get()?.user_version) || null;
  } catch {
    return null;
  }
}
