// The catalog in PostgreSQL. It reads the journal's table of sessions, and removes sessions with all that is in them.
import type { Catalog } from "../../core/store.ts";
import { behind, summaryOf } from "../rows.ts";
import type { Connections } from "./connections.ts";

/** Sessions in one transaction. */
const PRUNE_AT_ONCE = 100;
const SUMMARY = `SELECT key session, title, parent, active, entries, created_at "createdAt", updated_at "updatedAt" FROM session`;
const LIST = `${SUMMARY} WHERE (updated_at, key) < ($1, $2) AND (NOT $3 OR parent IS NULL) AND (NOT $4 OR active)
    AND ($5 = '' OR position(lower($5 COLLATE "C") IN lower(title)) > 0) AND key >= $6 AND key < $7
  ORDER BY updated_at DESC, key DESC LIMIT $8`;

export const catalogPort = ({ read, lanes }: Connections): Catalog => ({
  sessions: async ({ after, limit, top = false, active = false, titled = "", prefix = "" }) => {
    const { updatedAt, session } = after ?? { updatedAt: Number.MAX_SAFE_INTEGER, session: "" };
    const values = [updatedAt, session, top, active, titled, prefix, behind(prefix), limit];
    return (await read({ name: "sessions", text: LIST, values })).map(summaryOf);
  },
  summary: async (session) => {
    const [row] = await read({ text: `${SUMMARY} WHERE key = $1`, values: [session] });
    return row ? summaryOf(row) : null;
  },
  retitle: async (session, title) => {
    const text = "UPDATE session SET title = $2 WHERE key = $1 RETURNING 1";
    return (await lanes.query(session, { text, values: [session, title] })).length === 1;
  },
  granted: async () =>
    (await read({ text: "SELECT key FROM session WHERE granted ORDER BY key" })).map(({ key }) => String(key)),
  forget: async ({ session, node, version }) => {
    const text = "SELECT forget_session($1::text, $2, $3) verdict";
    const [row] = await lanes.query(session, { text, values: [node, session, version] });
    const verdict = row?.["verdict"];
    return verdict === "done" || verdict === "stale" || verdict === "elsewhere" ? verdict : "fenced";
  },
  prune: async (prefix, before) => {
    const text = "SELECT prune_sessions($1, $2, $3, $4) gone";
    for (let gone = 0; ; ) {
      const [row] = await lanes.query(prefix, { text, values: [prefix, behind(prefix), before, PRUNE_AT_ONCE] });
      const some = Number(row?.["gone"]);
      gone += some;
      if (some < PRUNE_AT_ONCE) return gone;
    }
  },
});
