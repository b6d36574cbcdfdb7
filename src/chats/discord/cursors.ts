// The last message of each channel that was taken, for the next process: Discord keeps nothing for a client that is away.
import { messageOf } from "../../core/errors.ts";
import type { Clock, Log } from "../../core/ports.ts";
import type { Notes } from "../../core/store.ts";
import { logFailure } from "../../platform/log-failure.ts";
import type { Lanes } from "../shared/lanes.ts";

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

/** So that a busy channel does not cost a write for each message. After a crash, messages behind the written cursor come twice and are
 *  taken once. */
const EVERY_MS = 1_000;

export type Cursors = ReturnType<typeof openCursors>;

export function openCursors(options: { store: CursorStore | undefined; lanes: Lanes; clock: Clock; log: Log }) {
  const { store, lanes, clock, log } = options;
  const unwritten = new Map<string, string>();
  const writers = new Map<string, Promise<void>>();
  const limits = new Map<string, string>();
  const stopping = new AbortController();

  async function write(channel: string, to: CursorStore): Promise<void> {
    for (let message = unwritten.get(channel); message !== undefined; message = unwritten.get(channel)) {
      unwritten.delete(channel);
      await to.set(channel, message).catch(logFailure(log, "warn", "chat.unmarked", { platform: "discord", channel }));
      await clock.sleep(EVERY_MS, stopping.signal);
    }
    writers.delete(channel);
  }

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
      if (!store || (most && !isNewer(most, message))) return;
      unwritten.set(channel, message);
      if (!writers.has(channel)) writers.set(channel, write(channel, store));
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
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(writers.values());
    },
  };
}

/** Numbers too large for a double, as text. */
export const isNewer = (a: string, b: string) => a.length > b.length || (a.length === b.length && a > b);
