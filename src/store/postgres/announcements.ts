// Announcements in PostgreSQL. They are made by the journal, with the commit that they belong to.
import type { Announcements } from "../../core/store.ts";
import { announcementOf } from "../rows.ts";
import type { Connections } from "./connections.ts";

const LIST = `SELECT id, recipient "to", session, turn, at, attempts, due, error, dead FROM announcement
  WHERE dead = $1 AND id > $2 ORDER BY id LIMIT $3`;
const UPDATE = "UPDATE announcement SET attempts = $2, due = $3, error = $4, dead = $5 WHERE id = $1";

export const announcementsPort = ({ read, lanes }: Connections): Announcements => ({
  list: async ({ dead, after, limit }) =>
    (await read({ text: LIST, values: [dead, after, limit] })).map(announcementOf),
  update: async (id, next) => {
    const query = next
      ? { text: UPDATE, values: [id, next.attempts, next.due, next.error, next.dead] }
      : { text: "DELETE FROM announcement WHERE id = $1", values: [id] };
    await lanes.query(String(id), query);
  },
});
