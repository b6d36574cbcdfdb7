// What is said besides the answers: acknowledgements, notices, how a question was decided. Tried a few times, then let be;
// nothing waits for it but our own end, so that the last words before a restart still go out.
import type { Chat, OutboundMessage, Place } from "../../core/chat.ts";
import type { Clock, Log } from "../../core/ports.ts";
import { backoff, within } from "../../core/wait.ts";
import { faultOf } from "./outbox.ts";

export type Tell = ReturnType<typeof createTell>;

const TRIES = 3;
const WAIT_MS = { first: 1_000, most: 10_000 };

export function createTell({ clock, log }: { clock: Clock; log: Log }) {
  const pending = new Set<Promise<unknown>>();
  const never = new AbortController().signal;

  async function deliver(chat: Chat, call: () => Promise<unknown>, harmless: boolean): Promise<void> {
    for (let tries = 0; tries < TRIES; tries++) {
      try {
        await call();
        return;
      } catch (error) {
        const { landed, message, retryAfter } = faultOf(error);
        log("warn", "notice.failed", { platform: chat.platform, tries, landed, error: message });
        if (landed === "never" || (landed === "unknown" && !harmless)) return;
        await clock.sleep(Math.min(retryAfter ?? backoff(tries, WAIT_MS), WAIT_MS.most), never);
      }
    }
  }

  function keep(telling: Promise<void>): Promise<void> {
    pending.add(telling);
    return telling.finally(() => pending.delete(telling));
  }

  return {
    /** Resolves when it was said, or let be. Never rejects. */
    say: (chat: Chat, place: Place, said: OutboundMessage, key: string): Promise<void> =>
      keep(deliver(chat, () => chat.send(place, said, key, never), false)),
    edit: (chat: Chat, place: Place, message: string, said: OutboundMessage): Promise<void> =>
      keep(deliver(chat, () => chat.edit(place, message, said, never), true)),
    /** Resolves when all of it is said, at most after so long. */
    async settled(ms: number): Promise<void> {
      await within(clock, ms, Promise.all(pending));
    },
  };
}
