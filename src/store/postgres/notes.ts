// Notes in PostgreSQL.
import type { Notes } from "../../core/store.ts";
import { behind, jsonOf, undamaged } from "../rows.ts";
import type { Connections } from "./connections.ts";
import type { Query } from "./link.ts";

const SET = `INSERT INTO note VALUES ($1, $2, $3)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at`;

export const noteQuery = (key: string): Query => ({
  name: "note",
  text: "SELECT value FROM note WHERE key = $1",
  values: [key],
});

export function notesPort({ where, read, lanes }: Connections): Notes {
  const valueOf = (key: string, json: unknown) =>
    undamaged(`note ${key} in ${where}`, (): unknown => JSON.parse(String(json)));
  const write = (key: string, text: string, ...values: unknown[]) =>
    lanes.query(key, { text: `${text} RETURNING 1`, values: [key, ...values] });
  return {
    get: async (key) => {
      const query = noteQuery(key);
      const [row] = lanes.isBusy(key) ? await lanes.query(key, query) : await read(query);
      return row && valueOf(key, row["value"]);
    },
    set: async (key, value) => {
      const json = jsonOf(value);
      if (json === null) await write(key, "DELETE FROM note WHERE key = $1");
      else await write(key, SET, json, Date.now());
    },
    swap: async (key, from, to) => {
      const [was, json] = [jsonOf(from), jsonOf(to)];
      if (was === null && json === null) return (await read(existing(key))).length === 0;
      if (was === null) {
        const insert = "INSERT INTO note VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING";
        return (await write(key, insert, json, Date.now())).length === 1;
      }
      if (json === null) return (await write(key, "DELETE FROM note WHERE key = $1 AND value = $2", was)).length === 1;
      const update = "UPDATE note SET value = $3, at = $4 WHERE key = $1 AND value = $2";
      return (await write(key, update, was, json, Date.now())).length === 1;
    },
    list: async (prefix) => {
      const text = "SELECT key, value, at FROM note WHERE key >= $1 AND key < $2 ORDER BY key";
      return (await read({ text, values: [prefix, behind(prefix)] })).map((row) => {
        const key = String(row["key"]);
        return { key, at: Number(row["at"]), value: valueOf(key, row["value"]) };
      });
    },
  };
}

const existing = (key: string) => ({ text: "SELECT 1 FROM note WHERE key = $1", values: [key] });
