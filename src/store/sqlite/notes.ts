// Notes in SQLite.
import type { DatabaseSync } from "node:sqlite";
import { createBounded } from "../../core/bounded.ts";
import type { Notes } from "../../core/store.ts";
import { behind, jsonOf, undamaged } from "../rows.ts";
import type { Thread } from "./thread.ts";

/** `value` is JSON. */
type NoteRow = { key: string; value: string; at: number };

export function noteTable(db: DatabaseSync) {
  const sql = {
    get: db.prepare("SELECT value FROM note WHERE key = ?"),
    list: db.prepare("SELECT key, value, at FROM note WHERE key >= ? AND key < ? ORDER BY key"),
    set: db.prepare(
      "INSERT INTO note VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at",
    ),
    delete: db.prepare("DELETE FROM note WHERE key = ?"),
  };
  function note(key: string): string | null {
    const row = sql.get.get(key);
    return row ? String(row["value"]) : null;
  }
  function setNote(key: string, value: string | null, at: number): void {
    if (value === null) sql.delete.run(key);
    else sql.set.run(key, value, at);
  }
  return {
    note,
    setNote,
    notes: (prefix: string): NoteRow[] =>
      sql.list
        .all(prefix, behind(prefix))
        .map(({ key, value, at }) => ({ key: String(key), value: String(value), at: Number(at) })),
    swapNote(key: string, from: string | null, to: string | null, at: number): boolean {
      if (note(key) !== from) return false;
      setNote(key, to, at);
      return true;
    },
  };
}

/** Characters of the notes that are known, and of their keys: some thousand. */
const MOST_KNOWN = 1_000_000;
/** What one costs beside its text. */
const OVERHEAD = 100;

/** A chat message looks at five notes, which are hardly ever written: those that were read are known until they are written. Nobody else
 *  can write this file. */
export function notesPort({ file, readOnly, ask, write }: Thread): Notes {
  /** JSON; null: there is no such note. */
  const known = createBounded<string | null>(MOST_KNOWN);
  const reading = new Map<string, symbol>();
  const valueOf = (key: string, json: string) => undamaged(`note ${key} in ${file}`, (): unknown => JSON.parse(json));

  async function read(key: string): Promise<string | null> {
    if (readOnly) return ask("note", key); // its owner writes it
    const mine = Symbol();
    reading.set(key, mine);
    try {
      const json = await ask("note", key);
      if (reading.get(key) === mine) known.set(key, json, key.length + (json?.length ?? 0) + OVERHEAD);
      return json;
    } finally {
      if (reading.get(key) === mine) reading.delete(key);
    }
  }

  /** Also for who reads it now. The thread answers in order: whoever reads after this sees what is written. */
  function forget(key: string): void {
    known.delete(key);
    reading.delete(key);
  }

  return {
    get: async (key) => {
      const kept = known.get(key);
      const json = kept === undefined ? await read(key) : kept;
      return json === null ? undefined : valueOf(key, json);
    },
    set: (key, value) => {
      forget(key);
      return write("setNote", key, jsonOf(value), Date.now());
    },
    swap: (key, from, to) => {
      forget(key);
      return write("swapNote", key, jsonOf(from), jsonOf(to), Date.now());
    },
    list: async (prefix) =>
      (await ask("notes", prefix)).map(({ key, value, at }) => ({ key, at, value: valueOf(key, value) })),
  };
}
