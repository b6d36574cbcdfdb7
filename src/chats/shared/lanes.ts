// Inbound events in order: one at a time for a place, side by side for different places. An event that is not taken
// is tried again with growing pauses, and what follows in its place waits behind it.
import { messageOf } from "../../core/errors.ts";
import type { Clock, Log, Random } from "../../core/ports.ts";
import { pause } from "./reconnect.ts";

export type Lanes = ReturnType<typeof openLanes>;

const MOST_WAITING = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export function openLanes(options: { platform: string; clock: Clock; random: Random; log: Log }) {
  const { platform, clock, random, log } = options;
  const lanes = new Map<string, { end: Promise<unknown>; waiting: number }>();
  const stopping = new AbortController();

  async function taken(take: () => Promise<void>): Promise<boolean> {
    for (let attempt = 0; ; attempt++) {
      try {
        await take();
        return true;
      } catch (error) {
        log("warn", "chat.untaken", { platform, attempt, error: messageOf(error) });
      }
      await clock.sleep(pause(attempt, random, { most: LONGEST_PAUSE_MS }), stopping.signal);
      if (stopping.signal.aborted) return false;
    }
  }

  return {
    /** True: the event was taken. False: it was dropped, because we stop or too many events wait in that place. */
    async add(place: string, take: () => Promise<void>): Promise<boolean> {
      const lane = lanes.get(place) ?? { end: Promise.resolve(), waiting: 0 };
      if (stopping.signal.aborted || lane.waiting >= MOST_WAITING) return false;
      lanes.set(place, lane);
      lane.waiting += 1;
      const mine = lane.end.then(() => taken(take));
      lane.end = mine;
      try {
        return await mine;
      } finally {
        lane.waiting -= 1;
        if (lane.waiting === 0) lanes.delete(place);
      }
    },
    /** How many events of that place wait or are being taken. */
    waiting: (place: string) => lanes.get(place)?.waiting ?? 0,
    /** Takes no new events; events that wait get one more try. Resolves when none is left. */
    async stop() {
      stopping.abort();
      await Promise.all([...lanes.values()].map(({ end }) => end));
    },
  };
}
