// Of many who ask for the same turn at the same time, the first one reads for all: 80 viewers who came at once had 80 copies
// of an answer of 8 MB on their way to them, 2.7 GB at its peak. Nobody is given what was read before a change that they know of.
import type { Entry } from "../core/session.ts";
import type { Store } from "../core/store.ts";

type Ports = Pick<Store, "journal" | "catalog">;

/** `alone`: nobody else writes to this store; of another node's changes nothing is heard here. */
export function sharingReads({ journal, catalog }: Ports, alone: () => boolean): Ports {
  const reading = new Map<string, Promise<Entry[]>>();
  return {
    journal: {
      ...journal,
      turn(id) {
        const known = alone() ? reading.get(id) : undefined;
        if (known) return known;
        const read = journal.turn(id);
        const over = () => {
          if (reading.get(id) === read) reading.delete(id);
        };
        reading.set(id, read);
        read.then(over, over);
        return read;
      },
      async commit(change) {
        try {
          return await journal.commit(change);
        } finally {
          for (const { turn } of change.entries) reading.delete(turn);
        }
      },
    },
    catalog: {
      ...catalog,
      async forget(which) {
        try {
          return await catalog.forget(which);
        } finally {
          reading.clear();
        }
      },
    },
  };
}
