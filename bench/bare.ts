// The same SQL without us: rows that are ready, statements that are prepared, no checks. Two ways:
//
// `openThread` has it done by a thread that takes whatever has come in meanwhile as one transaction. Everybody who
// keeps an fsync off his event loop pays for that hop, so a ratio to this is the price of the engine itself: the
// machine, its promises, JSON, and looking before writing. It is what the goals are about.
//
// `openBare` does it here and now, one transaction for as many commits as there are sessions, and blocks the loop
// meanwhile. Nothing that is durable can be cheaper.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import type { Commit } from "../src/core/store.ts";
import { openSqlite } from "../src/store/sqlite/sqlite.ts";
import { FILE } from "./engine.ts";

export type Row = Omit<Commit, "state" | "entries"> & {
  state: string;
  entries: { seq: number; turn: string; at: number; fact: string }[];
};

export function rowOf({ state, entries, ...rest }: Commit): Row {
  return {
    ...rest,
    state: JSON.stringify(state),
    entries: entries.map(({ seq, turn, at, ...fact }) => ({ seq, turn, at, fact: JSON.stringify(fact) })),
  };
}

export type Bare = { commit(rows: Row[]): void; db: DatabaseSync };

/** `synchronous`: OFF only for what is built before something is measured. */
export async function openBare(dir: string, synchronous: "FULL" | "OFF" = "FULL"): Promise<Bare> {
  const file = join(dir, FILE);
  await (await openSqlite({ file })).close(); // makes the tables
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA synchronous = ${synchronous}; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -16000`);
  const create = db.prepare(
    `INSERT INTO session (key, epoch, version, active, parent, created_at, updated_at, state)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const change = db.prepare(
    "UPDATE session SET epoch = ?, version = ?, active = ?, parent = ?, updated_at = ?, state = ? WHERE key = ?",
  );
  const append = db.prepare("INSERT INTO entry (session, seq, turn, at, fact) VALUES (?, ?, ?, ?, ?)");
  const accept = db.prepare("INSERT INTO input (id, session, digest, at, status) VALUES (?, ?, ?, ?, 'waiting')");
  const take = db.prepare("UPDATE input SET status = ?, turn = ? WHERE id = ?");

  function one({ session, node, version, parent, at, state, ...row }: Row) {
    const active = Number(row.active);
    if (version === 0) create.run(session, Number(node), 1, active, parent, at, at, state);
    else change.run(Number(node), version + 1, active, parent, at, state, session);
    for (const { seq, turn, at, fact } of row.entries) append.run(session, seq, turn, at, fact);
    for (const { id, digest } of row.accepted) accept.run(id, session, digest, at);
    for (const { id, turn } of row.taken) take.run(turn === null ? "withdrawn" : "taken", turn, id);
  }

  return {
    db,
    commit(rows) {
      db.exec("BEGIN IMMEDIATE");
      for (const row of rows) one(row);
      db.exec("COMMIT");
    },
  };
}

export type Thread = { commit(row: Row): Promise<void>; close(): Promise<unknown> };

export async function openThread(dir: string): Promise<Thread> {
  const worker = new Worker(new URL("./bare-worker.ts", import.meta.url), { workerData: dir, execArgv: [] });
  const waiting: (() => void)[] = [];
  const ready = new Promise<void>((resolve) => waiting.push(resolve));
  // Answers come in the order of the questions: how many is all there is to say.
  worker.on("message", (done: number) => {
    for (const resolve of waiting.splice(0, done)) resolve();
  });
  await ready;
  return {
    commit: (row) =>
      new Promise((resolve) => {
        waiting.push(resolve);
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
        worker.postMessage(row);
      }),
    close: () => worker.terminate(),
  };
}
