// Whether a database file is whole, and what is in it fits together.
import type { DatabaseSync } from "node:sqlite";

/** Findings of one kind that are listed. */
const FOUND_MAX = 100;

export function findDamage(db: DatabaseSync): string[] {
  const list = (query: string) =>
    db
      .prepare(query)
      .all()
      .map((row) => String(Object.values(row)[0]));
  const found = (query: string) => list(`${query} LIMIT ${FOUND_MAX}`);
  const damaged = list(`PRAGMA integrity_check(${FOUND_MAX})`).filter((text) => text !== "ok");
  if (damaged.length) return damaged;
  db.exec("BEGIN"); // one moment for all questions; the owner goes on writing
  try {
    const broken = found(
      "SELECT format('session %s: its state is not JSON', key) FROM session WHERE NOT json_valid(state)",
    );
    if (broken.length) return broken;
    return [
      ...found(`
        SELECT format('session %s: has %d entries up to %d, its state says %d', key, n, last, seq)
        FROM (SELECT key, state ->> '$.seq' seq,
            (SELECT count(*) FROM entry WHERE session = key) n,
            (SELECT ifnull(max(seq), 0) FROM entry WHERE session = key) last FROM session)
        WHERE n IS NOT seq OR last IS NOT seq`),
      ...found(`
        SELECT format('session %s: %s is in its inbox, but is not a waiting input', s.key, w.value ->> '$.id')
        FROM session s, json_each(s.state, '$.inbox') w
        WHERE NOT EXISTS (SELECT 1 FROM input i
          WHERE i.id = w.value ->> '$.id' AND i.session = s.key AND i.status = 'waiting')`),
      ...found(`
        SELECT format('input %s waits, but is not in the inbox of %s', i.id, i.session)
        FROM input i LEFT JOIN session s ON s.key = i.session
        WHERE i.status = 'waiting' AND (s.key IS NULL OR NOT EXISTS
          (SELECT 1 FROM json_each(s.state, '$.inbox') w WHERE w.value ->> '$.id' = i.id))`),
      ...found(`
        SELECT format('session %s: is gone, but not its entries', session)
        FROM (SELECT DISTINCT session FROM entry) WHERE session NOT IN (SELECT key FROM session)`),
    ];
  } finally {
    db.exec("ROLLBACK");
  }
}
