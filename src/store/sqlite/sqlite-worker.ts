// The thread that owns the database file, so that an fsync never blocks the event loop.
//
// W1  While one transaction is being synced, requests pile up; all of them are the next transaction. An answer
//     leaves after COMMIT has returned. (I2)
// W2  Everything is checked before anything is written, by the only writer there is: a commit that is stale,
//     fenced or a duplicate takes no other one of its group with it. (I3, I21)
// W3  Reads of a group are done after its transaction: they see every commit that was asked for before them.
// W4  If nobody can say whether a COMMIT landed, nothing more is read or written here. The thread ends, the
//     next one opens the file again, and what that one reads is what landed.
import { readdirSync, readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { parentPort, receiveMessageOnPort } from "node:worker_threads";
import { collectWhenIdle } from "../../platform/idle-gc.ts";
import { announcementTable } from "./announcements.ts";
import { catalogTable } from "./catalog.ts";
import { findDamage } from "./damage.ts";
import { journalTables } from "./journal.ts";
import { nodeTable } from "./nodes.ts";
import { noteTable } from "./notes.ts";
import { searchIndex } from "./search.ts";

export type DatabasePlace = { file: string; readOnly: boolean; maxPages: number | null };
/** What the thread can be asked to do, by name. */
export type Operations = ReturnType<typeof journalTables> &
  ReturnType<typeof catalogTable> &
  ReturnType<typeof noteTable> &
  ReturnType<typeof announcementTable> &
  ReturnType<typeof nodeTable> &
  Pick<ReturnType<typeof searchIndex>, "index" | "search"> & {
    open(place: DatabasePlace): void;
    check(): string[];
    close(): void;
  };
/** `args` are those of the operation. */
export type Request = { id: number; op: keyof Operations; args: unknown[] };
/** `config`: no restart will help. */
export type Failure = { landed: "no" | "unknown"; message: string; config: boolean };
/** `value` is what the operation returns. `ending`: why the thread ends (W4), for whoever is still waiting for it. */
export type WorkerReply = { id: number; value: unknown } | { id: number; failure: Failure } | { ending: string };

const WRITES = new Set<keyof Operations>([
  "join",
  "commit",
  "retitle",
  "forget",
  "updateAnnouncement",
  "setNote",
  "swapNote",
  "prune",
  "index",
]);

const REST_MS = 50;
const INDEX_AT_REST = 100; // 3 ms, for which a commit may have to wait
const GROUP = 256; // bounds how long the first of a group waits for the last
const BUSY_MS = 1_000; // only a person with a database tool open can hold the lock we wait for
const APPLICATION_ID = 1_214_607_981; // "Herm", as in migration 001
// SQLite's primary result codes: https://sqlite.org/rescode.html
const NONE = 0;
const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const CONSTRAINT = 19;
const NOTADB = 26;

if (!parentPort) throw new Error("sqlite-worker.ts runs in a worker thread");
const port = parentPort;
/** Whether there may be entries that are not in the index. Who had the file before us may have left some. */
let unindexed = true;
let atRest = false;
const rest = setTimeout(() => {
  atRest = true;
  indexSome();
}, REST_MS).unref();
let store: ReturnType<typeof storeIn> | null = null;
let ended = false;
/** For messages; known before it is open. */
let file = "the store";

/** Gives its pages and heap back. */
const resting = collectWhenIdle(() => {
  store?.db.exec("PRAGMA shrink_memory");
  return true;
});

port.on("message", (first: Request) => {
  resting.active();
  atRest = false;
  if (ended) return; // one that was under way when the port was closed; its asker hears that the thread has ended
  const group = [first];
  for (let next = received(); next && group.push(next) < GROUP; ) next = received();
  serve(group);
  unindexed ||= group.some(({ op }) => op === "commit");
  if (ended) end();
  else rest.refresh();
});

/** What was said is indexed while nobody asks for anything, so that whoever searches need not wait for it. */
function indexSome(): void {
  if (!atRest || !unindexed || ended || !store || store.place.readOnly) return;
  const [answer] = index([{ id: 0, op: "index", args: [INDEX_AT_REST] }]);
  unindexed = answer !== undefined && "value" in answer && answer.value === true; // else a search says what is wrong
  if (ended) end();
  else setImmediate(indexSome); // whoever asks meanwhile is served before
}

function end(): void {
  clearTimeout(rest);
  store?.db.close();
  port.close();
}

function received(): Request | undefined {
  const waiting: { message: Request } | undefined = receiveMessageOnPort(port);
  return waiting?.message;
}

/** A commit is answered before anything else of its group is done. */
function serve(group: Request[]): void {
  const writes = group.filter(({ op }) => WRITES.has(op) && op !== "index");
  const indexing = group.filter(({ op }) => op === "index"); // each by itself: no commit fails with it
  const reads = group.filter(({ op }) => !WRITES.has(op));
  answer(write(writes));
  answer([...index(indexing), ...reads.map(read)]);
}

function answer(replies: WorkerReply[]): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  if (replies.length) port.postMessage(replies);
}

/** What is lost of the index in a power cut is indexed again, so it does not wait for the disk: the next commit's fsync is of
 *  the whole log. */
function index(requests: Request[]): WorkerReply[] {
  if (!requests.length) return [];
  const { db } = opened();
  db.exec("PRAGMA synchronous = NORMAL");
  try {
    return requests.flatMap((request) => write([request]));
  } finally {
    db.exec("PRAGMA synchronous = FULL");
  }
}

/** One transaction for all of them (W1). */
function write(group: Request[]): WorkerReply[] {
  if (!group.length) return [];
  const { begin, commit } = opened();
  const fail = (landed: "no" | "unknown", error: unknown) =>
    group.map(({ id }): WorkerReply => ({ id, failure: failureOf(error, landed) }));
  let answers: WorkerReply[];
  try {
    begin.run();
    answers = group.map((request) => ({ id: request.id, value: perform(request) }));
  } catch (error) {
    if (!rollback()) giveUp(error);
    const code = codeOf(error);
    // Nothing that a disk does: a caller's mistake, such as an entry's number used twice. Only that caller pays.
    if ((code === NONE || code === CONSTRAINT) && group.length > 1 && !ended)
      return group.flatMap((request) => write([request]));
    return fail("no", error);
  }
  try {
    commit.run();
    return answers;
  } catch (error) {
    const code = codeOf(error);
    const undone = (code === FULL || code === BUSY) && rollback();
    if (!undone) giveUp(error);
    return fail(undone ? "no" : "unknown", error);
  }
}

/** W4. It is said even if nobody asked: the index is written at rest, and a commit that comes then finds the thread ending. */
function giveUp(error: unknown): void {
  ended = true;
  answer([{ ending: failureOf(error, "unknown").message }]);
}

function read(request: Request): WorkerReply {
  try {
    if (ended) throw new Error("the file is being opened again after an error"); // W4
    return { id: request.id, value: perform(request) };
  } catch (error) {
    return { id: request.id, failure: failureOf(error, "no", request.op === "open") };
  }
}

function perform({ op, args }: Request): unknown {
  const operation: (...args: never[]) => unknown = op === "open" ? open : opened().operations[op];
  return Reflect.apply(operation, undefined, args);
}

// ── Opening and closing ───────────────────────────────────────────────────────────────────────────────

class Unusable extends Error {}

function open(place: DatabasePlace): void {
  const { readOnly, maxPages } = place;
  ({ file } = place);
  const url = pathToFileURL(file);
  url.searchParams.set("mode", readOnly ? "ro" : "rw"); // never creates: an empty file must not hide a lost one
  const db = new DatabaseSync(url, { readOnly, timeout: BUSY_MS, enableForeignKeyConstraints: false });
  try {
    const migrations = new URL("./migrations/", import.meta.url);
    const steps = readdirSync(migrations).sort();
    const version = schemaVersion(db, place, steps.length);
    if (!readOnly) {
      // NORMAL while migrating saves an fsync per step; the first commit that counts syncs them all.
      db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
      for (let step = version; step < steps.length; step++) {
        db.exec("BEGIN IMMEDIATE");
        db.exec(readFileSync(new URL(steps[step] ?? "", migrations), "utf8"));
        db.exec(`PRAGMA user_version = ${step + 1}; COMMIT`);
      }
      // 16 MB of WAL and of cache instead of 4 and 2: 1.3 times the commits (10,000 sessions, groups of 200).
      db.exec("PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -16000");
      db.exec("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON"); // I2; a plain fsync on macOS stops at the drive's cache
      if (maxPages !== null) db.exec(`PRAGMA max_page_count = ${maxPages}`);
    }
    store = storeIn(db, place);
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Changes nothing: a file that is not ours stays as it is. */
function schemaVersion(db: DatabaseSync, { file, readOnly }: DatabasePlace, known: number): number {
  const number = (query: string) => Object.values(db.prepare(query).get() ?? {})[0];
  const version = Number(number("PRAGMA user_version"));
  const application = number("PRAGMA application_id");
  const empty = version === 0 && application === 0 && number("SELECT count(*) FROM sqlite_schema") === 0;
  if (!empty && application !== APPLICATION_ID)
    throw new Unusable(`${file} is another program's database; choose another file`);
  if (version > known)
    throw new Unusable(
      `${file} was written by a newer hermes (schema ${version}, this one knows ${known}); ` +
        "install that version or move the file away",
    );
  if (version < known && readOnly)
    throw new Unusable(`${file} was written by an older hermes (schema ${version}, not ${known}); start hermes once`);
  return version;
}

function storeIn(db: DatabaseSync, place: DatabasePlace) {
  const search = searchIndex(db);
  const nodes = nodeTable(db);
  const operations: Omit<Operations, "open"> = {
    ...nodes,
    ...journalTables(db, nodes.newest),
    ...catalogTable(db, { newest: nodes.newest, unindex: search.unindex }),
    ...noteTable(db),
    ...announcementTable(db),
    index: search.index,
    search: search.search,
    check: () => findDamage(db),
    close,
  };
  return {
    db,
    place,
    operations,
    begin: db.prepare("BEGIN IMMEDIATE"),
    commit: db.prepare("COMMIT"),
    reset: search.reset,
  };
}

function close(): void {
  ended = true;
  const { db, place } = opened();
  try {
    if (!place.readOnly) db.exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch {
    // The disk may be full. The WAL holds everything, and the next start reads it.
  }
}

function opened() {
  if (!store) throw new Error("the store is not open");
  return store;
}

/** Whether nothing of the transaction is left. */
function rollback(): boolean {
  const { db, reset } = opened();
  reset();
  try {
    if (db.isTransaction) db.exec("ROLLBACK"); // SQLite has done it by itself after some errors
  } catch {
    return false;
  }
  return true;
}

// ── Faults ────────────────────────────────────────────────────────────────────────────────────────────

const codeOf = (error: unknown) =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode & 0xff : NONE;

function failureOf(error: unknown, landed: "no" | "unknown", opening = false): Failure {
  const text = error instanceof Error ? error.message : String(error);
  const code = codeOf(error);
  const fails = (message: string, config = false): Failure => ({ landed, message, config: config && opening });
  if (error instanceof Unusable) return fails(text, true);
  switch (code) {
    case FULL:
      return fails(`the disk that holds ${file} is full; free some space`);
    case BUSY:
    case LOCKED:
      return fails(`another program has locked ${file}; close it`);
    case IOERR:
      return fails(`the disk that holds ${file} failed (${text}); look into the system's log`);
    case READONLY:
    case CANTOPEN:
      return fails(`${file} cannot be opened or written (${text}); see that it exists and belongs to this user`, true);
    case NOTADB:
      if (opening) return fails(`${file} is not a hermes database; choose another file or move it away`, true);
      return fails(`${file} is damaged (${text}); stop hermes and restore the file from a backup`);
    case CORRUPT:
      return fails(`${file} is damaged (${text}); stop hermes and restore the file from a backup`, true);
    default:
      return fails(`${file}: ${text}`);
  }
}
