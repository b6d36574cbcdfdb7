// Announcements in SQLite. They are made by the journal, with the commit that they belong to.
import type { DatabaseSync } from "node:sqlite";
import type { Announcement, AnnouncementPage, Announcements, NextAttempt } from "../../core/store.ts";
import { announcementOf } from "../rows.ts";
import type { Thread } from "./thread.ts";

export function announcementTable(db: DatabaseSync) {
  const sql = {
    list: db.prepare(
      `SELECT id, recipient "to", session, turn, at, attempts, due, error, dead FROM announcement
       WHERE dead = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    update: db.prepare("UPDATE announcement SET attempts = ?, due = ?, error = ?, dead = ? WHERE id = ?"),
    delete: db.prepare("DELETE FROM announcement WHERE id = ?"),
  };
  return {
    announcements: ({ dead, after, limit }: AnnouncementPage): Announcement[] =>
      sql.list.all(Number(dead), after, limit).map(announcementOf),
    updateAnnouncement(id: number, next: NextAttempt | null): void {
      if (next) sql.update.run(next.attempts, next.due, next.error, Number(next.dead), id);
      else sql.delete.run(id);
    },
  };
}

export const announcementsPort = ({ ask, write }: Thread): Announcements => ({
  list: (page) => ask("announcements", page),
  update: (id, next) => write("updateAnnouncement", id, next),
});
