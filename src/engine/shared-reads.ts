// Of many who ask for the same turn at the same time, the first one reads for all: 80 viewers who came at once had 80 copies
// of an answer of 8 MB on their way to them, 2.7 GB at its peak. Nobody is given what was read before a change that they know of.
import type { Store } from "../core/ports.ts";
import type { Entry } from "../core/session.ts";

export function sharingReads(store: Store): Store {
  const reading = new Map<string, Promise<Entry[]>>();
  return {
    ...store,
    turn(id) {
      const known = reading.get(id);
      if (known) return known;
      const read = store.turn(id);
      const over = () => {
        if (reading.get(id) === read) reading.delete(id);
      };
      reading.set(id, read);
      read.then(over, over);
      return read;
    },
    async forget(session) {
      try {
        return await store.forget(session);
      } finally {
        reading.clear();
      }
    },
    async commit(change) {
      try {
        return await store.commit(change);
      } finally {
        for (const { turn } of change.entries) reading.delete(turn);
      }
    },
  };
}
