// Which session a place talks in now: the one of its key, until somebody begins anew.

import { generation, generationOf } from "../../core/session-key.ts";
import type { Notes } from "../../core/store.ts";
import { asRecord } from "./access.ts";

export type Sessions = ReturnType<typeof createSessions>;

export function createSessions(notes: Notes) {
  const known = new Map<string, { now: number; most: number }>();
  const nameOf = (key: string) => `talk/${key}`;

  async function read(key: string) {
    const found = known.get(key);
    if (found) return found;
    const { now, most } = asRecord(await notes.get(nameOf(key))) ?? {};
    const state = { now: Number(now ?? 1), most: Number(most ?? 1) };
    known.set(key, state);
    return state;
  }

  async function write(key: string, state: { now: number; most: number }) {
    await notes.set(nameOf(key), state);
    known.set(key, state);
  }

  return {
    current: async (key: string): Promise<string> => generation(key, (await read(key)).now),
    /** The next one, empty. */
    async renew(key: string): Promise<string> {
      const { most } = await read(key);
      await write(key, { now: most + 1, most: most + 1 });
      return generation(key, most + 1);
    },
    /** Back to an earlier one of the same place. */
    async resume(key: string, session: string): Promise<void> {
      const { most } = await read(key);
      const now = generationOf(session);
      await write(key, { now, most: Math.max(now, most) });
    },
  };
}
