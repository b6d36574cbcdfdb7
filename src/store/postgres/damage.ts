// Whether what is stored fits together.
import type { Connections } from "./connections.ts";

/** Findings of one kind that are listed. */
const FOUND_MAX = 100;
const FINDINGS = [
  `SELECT format('session %s: has %s entries up to %s, its state says %s', key, n, last, entries) FROM (
    SELECT s.key, s.entries, count(e.seq) n, coalesce(max(e.seq), 0) last
    FROM session s LEFT JOIN entry e ON e.session = s.key GROUP BY s.key) counted
   WHERE n <> entries OR last <> entries`,
  `SELECT format('session %s: %s is in its inbox, but is not a waiting input', s.key, w ->> 'id')
   FROM session s, json_array_elements(s.state::json -> 'inbox') w
   WHERE NOT EXISTS (SELECT 1 FROM input i WHERE i.session = s.key AND i.id = w ->> 'id' AND i.status = 'waiting')`,
  `SELECT format('input %s waits, but is not in the inbox of %s', i.id, i.session)
   FROM input i LEFT JOIN session s ON s.key = i.session
   WHERE i.status = 'waiting' AND (s.key IS NULL OR NOT EXISTS
     (SELECT 1 FROM json_array_elements(s.state::json -> 'inbox') w WHERE w ->> 'id' = i.id))`,
  `SELECT DISTINCT format('session %s: is gone, but not its entries', e.session)
   FROM entry e LEFT JOIN session s ON s.key = e.session WHERE s.key IS NULL`,
];

export async function findDamage({ slow }: Connections): Promise<string[]> {
  const found: string[] = [];
  for (const finding of FINDINGS)
    for (const row of await slow({ text: `${finding} LIMIT ${FOUND_MAX}` })) found.push(String(Object.values(row)[0]));
  return found;
}
