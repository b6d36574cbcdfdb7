// The store in PostgreSQL, for those who outgrow one file. Each port has a file.
import { ConfigError, messageOf } from "../../core/errors.ts";
import type { Store } from "../../core/store.ts";
import { announcementsPort } from "./announcements.ts";
import { catalogPort } from "./catalog.ts";
import { openConnections } from "./connections.ts";
import { findDamage } from "./damage.ts";
import { journalPort } from "./journal.ts";
import { isMistake, openLink } from "./link.ts";
import { checkPooler, migrate } from "./migrate.ts";
import { nodesPort } from "./nodes.ts";
import { notesPort } from "./notes.ts";
import { openPresence } from "./presence.ts";
import { searchPort } from "./search.ts";

export type PostgresOptions = {
  url: string;
  /** For a process that only looks: takes no lock, creates and migrates nothing, cannot write. */
  readOnly?: boolean;
  /** Other processes write too, each a node of one cluster. Otherwise this one has the store to itself. */
  member?: boolean;
};

/** Throws StoreInUse if another process owns the store, ConfigError if no restart can help, StoreFault if the server does not answer. */
export async function openPostgres({ url, readOnly = false, member = false }: PostgresOptions): Promise<Store> {
  const link = openLink(url);
  try {
    await migrate(link, readOnly);
    if (!readOnly) await checkPooler(link);
    const presence = readOnly ? null : await openPresence(link, member);
    const connections = openConnections(link, readOnly);
    let closed: Promise<void> | null = null;
    return {
      journal: journalPort(connections),
      catalog: catalogPort(connections),
      notes: notesPort(connections),
      announcements: announcementsPort(connections),
      search: searchPort(connections),
      nodes: nodesPort(connections, presence),
      check: async () => {
        try {
          await checkPooler(link);
          return await findDamage(connections);
        } catch (error) {
          return [messageOf(error)];
        }
      },
      close: () => {
        closed ??= connections.close().then(() => presence?.close());
        return closed;
      },
    };
  } catch (error) {
    await link.close();
    throw isMistake(error) ? new ConfigError(messageOf(error), { cause: error }) : error;
  }
}
