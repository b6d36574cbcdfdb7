// The embedded store: one SQLite file, written by one process, through one worker thread (sqlite-worker.ts). Each port has a
// file: what it does in the thread, over its tables, and what it does in this process, over the thread.
import type { Store } from "../../core/store.ts";
import { announcementsPort } from "./announcements.ts";
import { catalogPort } from "./catalog.ts";
import { createFile, existingFile, lockFile } from "./file.ts";
import { journalPort } from "./journal.ts";
import { nodesPort } from "./nodes.ts";
import { notesPort } from "./notes.ts";
import { searchPort } from "./search.ts";
import { openThread } from "./thread.ts";

export type SqliteOptions = {
  file: string;
  /** For a process that only looks: takes no lock, creates and migrates nothing, cannot write. */
  readOnly?: boolean;
  /** How many pages of 4 KiB the file may have: a test's way to fill the disk. */
  maxPages?: number;
};

/** Throws StoreInUse at once if the file has an owner, ConfigError if it is not a file that we can use. */
export async function openSqlite({ file, readOnly = false, maxPages }: SqliteOptions): Promise<Store> {
  const path = readOnly ? existingFile(file) : createFile(file);
  const unlock = readOnly ? () => {} : lockFile(path);
  const thread = await openThread({ file: path, readOnly, maxPages: maxPages ?? null }).catch((error: unknown) => {
    unlock();
    throw error;
  });
  const { nodes, ownerOf } = nodesPort(thread);
  let closed: Promise<void> | null = null;
  return {
    nodes,
    journal: journalPort(thread, ownerOf),
    catalog: catalogPort(thread),
    notes: notesPort(thread),
    announcements: announcementsPort(thread),
    search: searchPort(thread),
    check: () => thread.long(() => thread.check()),
    close: () => {
      closed ??= thread.close().then(unlock);
      return closed;
    },
  };
}
