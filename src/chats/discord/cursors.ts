// The last message of each channel that was taken, for the next process: Discord keeps nothing for a client that is away.
import { messageOf } from "../../core/errors.ts";
import type { Clock, Log } from "../../core/ports.ts";
import type { Notes } from "../../core/store.ts";
import type { Lanes } from "../shared/lanes.ts";
import { openWriter } from "./writer.ts";

type Cursor = { channel: string; message: string };

/** A cursor is the newest message of its channel that was taken, with all before it. */
export type CursorStore = ReturnType<typeof cursorsIn>;

export function cursorsIn(notes: Notes) {
  const nameOf = (channel: string) => `mark/discord/${channel}`;
  return {
    list: async (): Promise<Cursor[]> => {
      const found = await notes.list(nameOf(""));
      return found.map(({ key, value }) => ({ channel: key.slice(nameOf("").length), message: String(value) }));
    },
    set: (channel: string, message: string) => notes.set(nameOf(channel), message),
  };
}

export type Cursors = ReturnType<typeof openCursors>;

export function openCursors(options: { store: CursorStore | undefined; lanes: Lanes; clock: Clock; log: Log }) {
  const { store, lanes, clock, log } = options;
  const writer = store && openWriter(store.set, "chat.unmarked", { clock, log });
  const limits = new Map<string, string>();

  function limit(channel: string, message: string): void {
    const lowest = limits.get(channel);
    if (!lowest || isNewer(lowest, message)) limits.set(channel, message);
  }

  return {
    /** The cursors of so many channels with the newest messages; oldest first. */
    async load(most: number): Promise<Cursor[]> {
      try {
        const all = ((await store?.list()) ?? []).toSorted((a, b) => (isNewer(a.message, b.message) ? 1 : -1));
        if (all.length > most) log("warn", "chat.gap", { platform: "discord", channels: all.length, looksInto: most });
        return all.slice(-most);
      } catch (error) {
        log("error", "chat.gap", { platform: "discord", error: messageOf(error) });
        return [];
      }
    },
    advance(channel: string, message: string): void {
      const most = limits.get(channel);
      if (!most || isNewer(most, message)) writer?.save(channel, message);
    },
    /** In the lane of its channel. While this is not taken, no cursor goes as far as `from`, whatever is taken after it: when
     *  we stop, it is given up, and what waits behind it may be taken all the same. */
    async inOrder(channel: string, from: () => string, take: () => Promise<void>): Promise<void> {
      let failed = false;
      const isTaken = await lanes.add(channel, async () => {
        if (failed) limits.delete(channel);
        try {
          await take();
        } catch (error) {
          failed = true;
          limit(channel, from());
          throw error;
        }
      });
      if (!isTaken) limit(channel, from());
    },
    /** Resolves when all cursors are written. */
    stop: async () => writer?.stop(),
  };
}

/** Numbers too large for a double, as text. */
export const isNewer = (a: string, b: string) => a.length > b.length || (a.length === b.length && a > b);
