// Which session a place talks in now: the one of its key, until somebody begins anew.
import { changeNote } from "../../core/notes.ts";
import { generation, generationOf } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { asRecord } from "./access.ts";

export type PlaceSessions = ReturnType<typeof createSessions>;

type PlaceState = { now: number; most: number };

export function createSessions(notes: Notes) {
  const nameOf = (key: string) => `talk/${key}`;

  function stateOf(note: unknown): PlaceState {
    const { now, most } = asRecord(note) ?? {};
    return { now: Number(now ?? 1), most: Number(most ?? 1) };
  }

  const change = (key: string, make: (most: number) => PlaceState): Promise<PlaceState> =>
    changeNote(notes, nameOf(key), (note) => make(stateOf(note).most));

  return {
    current: async (key: string): Promise<string> => generation(key, stateOf(await notes.get(nameOf(key))).now),
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
