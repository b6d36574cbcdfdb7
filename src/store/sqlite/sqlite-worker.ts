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
import type { Announcement, InputRow, SessionSummary, Verdict } from "../../core/ports.ts";
import { type AnnouncementPage, type Catalog, createCatalog, type Next, type NoteRow, type Page } from "./catalog.ts";
import { findDamage } from "./damage.ts";
import { createSearch, type FoundRow, type Search } from "./search.ts";

export type Place = { file: string; readOnly: boolean; maxPages: number | null };
export type EntryRow = { seq: number; turn: string; at: number; fact: string };
/** A Commit with its JSON already made, so that only strings and numbers cross between the threads. */
export type CommitRow = {
  session: string;
  epoch: number;
  version: number;
  active: boolean;
  parent: string | null;
  at: number;
  state: string;
  entries: EntryRow[];
  accepted: { id: string; digest: string }[];
  taken: { id: string; turn: string | null }[];
  title: string;
  announced: { to: string; turn: string }[];
};
export type StateRow = {
  session: string;
  epoch: number;
  version: number;
  state: string;
  parent: string | null;
  createdAt: number;
  updatedAt: number;
};

export type Question =
  | ({ op: "open" } & Place)
  | { op: "claim" }
  | { op: "commit"; change: CommitRow }
  | { op: "retitle"; session: string; title: string }
  | { op: "forget"; session: string; epoch: number; version: number }
  | { op: "announced"; id: number; next: Next }
  | { op: "write"; key: string; value: string | null; at: number }
  /** A few sessions at a time, so that commits do not wait for all of them. */
  | { op: "prune"; prefix: string; before: number; limit: number }
  /** Some entries at a time, as above. */
  | { op: "index"; limit: number }
  | { op: "search"; query: string; session: string | null; limit: number }
  | { op: "epoch" }
  | { op: "load"; session: string }
  | { op: "entries"; session: string; after: number; limit: number }
  | { op: "turn"; id: string }
  | { op: "input"; id: string }
  | { op: "active" }
  | { op: "children"; parent: string }
  | { op: "granted" }
  | ({ op: "sessions" } & Page)
  | { op: "summary"; session: string }
  | ({ op: "announcements" } & AnnouncementPage)
  | { op: "note"; key: string }
  | { op: "notes"; prefix: string }
  | { op: "check" }
  | { op: "close" };
export type AnswerTo = {
  open: null;
  claim: number;
  commit: Verdict;
  retitle: boolean;
  forget: Exclude<Verdict, "duplicate">;
  announced: null;
  write: null;
  prune: number;
  /** Whether there is more. */
  index: boolean;
  search: FoundRow[];
  epoch: number;
  load: StateRow | null;
  entries: EntryRow[];
  turn: EntryRow[];
  input: InputRow | null;
  active: { session: string; updatedAt: number }[];
  children: string[];
  granted: string[];
  sessions: SessionSummary[];
  summary: SessionSummary | null;
  announcements: Announcement[];
  note: string | null;
  notes: NoteRow[];
  check: string[];
  close: null;
};
/** `config`: no restart will help. */
export type Failure = { landed: "no" | "unknown"; message: string; config: boolean };
export type Request = { id: number; question: Question };
/** `value` is an AnswerTo[op]. */
export type Answer = { id: number; value: unknown } | { id: number; failure: Failure };

const WRITES = ["claim", "commit", "retitle", "forget", "announced", "write", "prune", "index"] as const;
type Write = Extract<Question, { op: (typeof WRITES)[number] }>;
type Read = Exclude<Question, Write>;

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
let store: { db: DatabaseSync; sql: Statements; catalog: Catalog; search: Search; place: Place } | null = null;
let ended = false;

port.on("message", (first: Request) => {
  if (ended) return; // one that was under way when the port was closed; its asker hears that the thread has ended
  const group = [first];
  for (let next = received(); next && group.push(next) < GROUP; ) next = received();
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  port.postMessage(serve(group));
  if (!ended) return;
  store?.db.close();
  port.close();
});

function received(): Request | undefined {
  const waiting: { message: Request } | undefined = receiveMessageOnPort(port);
  return waiting?.message;
}

function serve(group: Request[]): Answer[] {
  const writes: { id: number; question: Write }[] = [];
  const indexing: typeof writes = []; // each by itself: no commit fails with it
  const reads: { id: number; question: Read }[] = [];
  for (const { id, question } of group) {
    if (isWrite(question)) (question.op === "index" ? indexing : writes).push({ id, question });
    else reads.push({ id, question });
  }
  return [
    ...write(writes),
    ...indexing.flatMap((request) => write([request])),
    ...reads.map(({ id, question }) => answerRead(id, question)),
  ];
}

const isWrite = (question: Question): question is Write => WRITES.some((op) => op === question.op);

/** One transaction for all of them (W1). */
function write(group: { id: number; question: Write }[]): Answer[] {
  if (!group.length) return [];
  const { sql } = opened();
  const fail = (landed: "no" | "unknown", error: unknown) =>
    group.map(({ id }): Answer => ({ id, failure: failureOf(error, landed) }));
  let answers: Answer[];
  try {
    sql.begin.run();
    answers = group.map(({ id, question }) => ({ id, value: apply(question) }));
  } catch (error) {
    if (!rollback()) ended = true;
    const code = codeOf(error);
    // Nothing that a disk does: a caller's mistake, such as an entry's number used twice. Only that caller pays.
    if ((code === NONE || code === CONSTRAINT) && group.length > 1 && !ended)
      return group.flatMap((request) => write([request]));
    return fail("no", error);
  }
  try {
    sql.commit.run();
    return answers;
  } catch (error) {
    const code = codeOf(error);
    const undone = (code === FULL || code === BUSY) && rollback();
    if (!undone) ended = true; // W4
    return fail(undone ? "no" : "unknown", error);
  }
}

function apply(question: Write): AnswerTo[Write["op"]] {
  const { sql, search, catalog } = opened();
  switch (question.op) {
    case "commit":
      return commit(question.change);
    case "prune":
      return prune(question);
    case "index":
      return search.index(question.limit);
    case "retitle":
      return catalog.retitle(question.session, question.title);
    case "announced":
      return catalog.announced(question.id, question.next);
    case "write":
      return catalog.write(question.key, question.value, question.at);
    case "forget":
      return forget(question);
    case "claim":
      return Number(sql.claim.get()?.epoch);
  }
}

function commit(change: CommitRow): Verdict {
  const { sql, catalog } = opened();
  const { session, epoch, version, at, parent, state } = change;
  const active = change.active ? 1 : 0;
  if (epoch < currentEpoch()) return "fenced";
  if (version !== (sql.version.get(session)?.version ?? 0)) return "stale";
  const ids = new Set(change.accepted.map(({ id }) => id));
  if (ids.size < change.accepted.length) return "duplicate";
  for (const id of ids) if (sql.isKnown.get(id)) return "duplicate";

  if (version === 0) sql.create.run(session, epoch, 1, active, parent, at, at, state, change.title);
  else sql.change.run(epoch, version + 1, active, parent, at, state, change.title, session);
  for (const { seq, turn, at, fact } of change.entries) sql.append.run(session, seq, turn, at, fact);
  for (const { id, digest } of change.accepted) sql.accept.run(id, session, digest, at);
  for (const { id, turn } of change.taken) sql.take.run(turn === null ? "withdrawn" : "taken", turn, id);
  for (const { to, turn } of change.announced) catalog.announce(to, session, turn, at);
  return "done";
}

function prune({ prefix, before, limit }: Extract<Question, { op: "prune" }>): number {
  const { sql } = opened();
  const old = sql.old.all(before, prefix, `${prefix}\u{10ffff}`, limit).map(({ key }) => String(key));
  for (const key of old) drop(key);
  return old.length;
}

function forget({ session, epoch, version }: Extract<Question, { op: "forget" }>): AnswerTo["forget"] {
  if (epoch < currentEpoch()) return "fenced";
  if (version !== opened().sql.version.get(session)?.version) return "stale";
  drop(session);
  return "done";
}

function drop(key: string) {
  const { sql, search } = opened();
  search.forget(key);
  sql.dropEntries.run(key);
  sql.dropInputs.run(key);
  sql.dropSession.run(key);
}

function answerRead(id: number, question: Read): Answer {
  try {
    if (ended) throw new Error("the file is being opened again after an error"); // W4
    return { id, value: read(question) };
  } catch (error) {
    return { id, failure: failureOf(error, "no", question.op === "open" ? question : undefined) };
  }
}

// oxlint-disable-next-line typescript/consistent-return -- tsc knows that the switch is exhaustive
function read(question: Read): unknown {
  if (question.op === "open") return open(question);
  const { sql, search, catalog } = opened();
  switch (question.op) {
    case "search":
      return search.find(question.query, question.session, question.limit);
    case "epoch":
      return currentEpoch();
    case "load":
      return sql.load.get(question.session) ?? null;
    case "entries":
      return sql.entries.all(question.session, question.after, question.limit);
    case "turn":
      return sql.turn.all(question.id);
    case "input":
      return sql.input.get(question.id) ?? null;
    case "active":
      return catalog.active();
    case "granted":
      return catalog.granted();
    case "children":
      return catalog.children(question.parent);
    case "sessions":
      return catalog.sessions(question);
    case "summary":
      return catalog.summary(question.session);
    case "announcements":
      return catalog.announcements(question);
    case "note":
      return catalog.note(question.key);
    case "notes":
      return catalog.notes(question.prefix);
    case "check":
      return findDamage(opened().db);
    case "close":
      return close();
  }
}

// ── Opening and closing ───────────────────────────────────────────────────────────────────────────────

class Unusable extends Error {}

function open({ file, readOnly, maxPages }: Place): null {
  const place = { file, readOnly, maxPages };
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
    store = { db, sql: prepare(db), catalog: createCatalog(db), search: createSearch(db), place };
    return null;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Changes nothing: a file that is not ours stays as it is. */
function schemaVersion(db: DatabaseSync, { file, readOnly }: Place, known: number): number {
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

function close(): null {
  ended = true;
  const { db, place } = opened();
  try {
    if (!place.readOnly) db.exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch {
    // The disk may be full. The WAL holds everything, and the next start reads it.
  }
  return null;
}

// ── SQL ───────────────────────────────────────────────────────────────────────────────────────────────

type Statements = ReturnType<typeof prepare>;

function prepare(db: DatabaseSync) {
  return {
    begin: db.prepare("BEGIN IMMEDIATE"),
    commit: db.prepare("COMMIT"),
    epoch: db.prepare("SELECT epoch FROM owner WHERE id = 1"),
    claim: db.prepare(
      "INSERT INTO owner VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
    ),

    version: db.prepare("SELECT version FROM session WHERE key = ?"),
    isKnown: db.prepare("SELECT 1 FROM input WHERE id = ?"),
    create: db.prepare(
      `INSERT INTO session (key, epoch, version, active, parent, created_at, updated_at, state, title)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    change: db.prepare(
      `UPDATE session SET epoch = ?, version = ?, active = ?, parent = ?, updated_at = ?, state = ?,
         title = CASE title WHEN '' THEN ? ELSE title END WHERE key = ?`,
    ),
    append: db.prepare("INSERT INTO entry (session, seq, turn, at, fact) VALUES (?, ?, ?, ?, ?)"),
    accept: db.prepare("INSERT INTO input (id, session, digest, at, status) VALUES (?, ?, ?, ?, 'waiting')"),
    take: db.prepare("UPDATE input SET status = ?, turn = ? WHERE id = ?"),

    load: db.prepare(
      `SELECT key session, epoch, version, state, parent, created_at createdAt, updated_at updatedAt
       FROM session WHERE key = ?`,
    ),
    entries: db.prepare("SELECT seq, turn, at, fact FROM entry WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"),
    turn: db.prepare("SELECT seq, turn, at, fact FROM entry WHERE turn = ? ORDER BY seq"),
    input: db.prepare("SELECT id, session, digest, at, status, turn FROM input WHERE id = ?"),

    // One whose memories have not been told of it is active, but it has no work.
    old: db.prepare(
      `SELECT key FROM session WHERE updated_at < ? AND key >= ? AND key < ? AND (active = 0 OR
         (state ->> '$.turn' IS NULL AND (state ->> '$.parked' OR json_array_length(state, '$.inbox') = 0))) LIMIT ?`,
    ),
    dropEntries: db.prepare("DELETE FROM entry WHERE session = ?"),
    dropInputs: db.prepare("DELETE FROM input WHERE session = ?"),
    dropSession: db.prepare("DELETE FROM session WHERE key = ?"),
  };
}

const currentEpoch = () => Number(opened().sql.epoch.get()?.epoch ?? 0);

function opened() {
  if (!store) throw new Error("the store is not open");
  return store;
}

/** Whether nothing of the transaction is left. */
function rollback(): boolean {
  const { db, search } = opened();
  search.reset();
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

function failureOf(error: unknown, landed: "no" | "unknown", opening?: Place): Failure {
  const file = (opening ?? store?.place)?.file ?? "the store";
  const text = error instanceof Error ? error.message : String(error);
  const code = codeOf(error);
  const fails = (message: string, config = false): Failure => ({ landed, message, config: config && !!opening });
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
