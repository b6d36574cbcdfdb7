// Notes in SQLite.
import type { DatabaseSync } from "node:sqlite";
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

export function notesPort({ file, ask, write }: Thread): Notes {
  const valueOf = (key: string, json: string) => undamaged(`note ${key} in ${file}`, (): unknown => JSON.parse(json));
  return {
    get: async (key) => {
      const json = await ask("note", key);
      return json === null ? undefined : valueOf(key, json);
    },
    set: (key, value) => write("setNote", key, jsonOf(value), Date.now()),
    swap: (key, from, to) => write("swapNote", key, jsonOf(from), jsonOf(to), Date.now()),
    list: async (prefix) =>
      (await ask("notes", prefix)).map(({ key, value, at }) => ({ key, at, value: valueOf(key, value) })),
  };
}
