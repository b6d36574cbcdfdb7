// Which session a place talks in now: the one of its key, until somebody begins anew.

import { createBounded } from "../../core/bounded.ts";
import { changeNote } from "../../core/notes.ts";
import { generation, generationOf } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { asRecord } from "./access.ts";

export type PlaceSessions = ReturnType<typeof createSessions>;

type PlaceState = { now: number; most: number };

/** Bytes: some ten thousand places. Whoever is not among them is read from the store again. */
const MOST_KNOWN = 2_000_000;
/** What one costs beside its key. */
const STATE = 100;

/** `shared`: other nodes change them too, so that nothing is kept here. */
export function createSessions(notes: Notes, shared = false) {
  const known = createBounded<PlaceState>(MOST_KNOWN);
  const keep = (key: string, state: PlaceState) => {
    if (!shared) known.set(key, state, key.length + STATE);
  };
  const nameOf = (key: string) => `talk/${key}`;

  function stateOf(note: unknown): PlaceState {
    const { now, most } = asRecord(note) ?? {};
    return { now: Number(now ?? 1), most: Number(most ?? 1) };
  }

  async function read(key: string): Promise<PlaceState> {
    const state = known.get(key) ?? stateOf(await notes.get(nameOf(key)));
    keep(key, state);
    return state;
  }

  async function change(key: string, make: (most: number) => PlaceState): Promise<PlaceState> {
    const state = await changeNote(notes, nameOf(key), (note) => make(stateOf(note).most));
    keep(key, state);
    return state;
  }

  return {
    current: async (key: string): Promise<string> => generation(key, (await read(key)).now),
    /** The next one, empty. */
    async renew(key: string): Promise<string> {
      const { now } = await change(key, (most) => ({ now: most + 1, most: most + 1 }));
      return generation(key, now);
    },
    /** Back to an earlier one of the same place. */
    async resume(key: string, session: string): Promise<void> {
      const now = generationOf(session);
      await change(key, (most) => ({ now, most: Math.max(now, most) }));
    },
  };
}
