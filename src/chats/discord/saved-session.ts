// The gateway session for the next process, or the next node that listens: it resumes that session instead of beginning one, and Discord
// replays what happened meanwhile: edits and deletions too, which cannot be fetched.
import { createHash } from "node:crypto";
import type { SessionInfo } from "@discordjs/ws";
import { z } from "zod";
import type { Ambient } from "../../core/ports.ts";
import type { Notes } from "../../core/store.ts";
import { logFailure } from "../../platform/log-failure.ts";

/** `bot`: what is said when a session begins, and not again when it is resumed. */
export type SavedSession = { session: SessionInfo; bot: { id: string; roles: string[] } };
export type SessionStore = ReturnType<typeof sessionIn>;

const noteShape = z.object({
  session: z.object({
    sessionId: z.string(),
    sequence: z.number(),
    shardId: z.number(),
    shardCount: z.number(),
    resumeURL: z.url({ protocol: /^wss?$/ }),
  }),
  bot: z.object({ id: z.string(), roles: z.array(z.string()) }),
});

/** With another token it would be somebody else's. */
export function sessionIn(notes: Pick<Notes, "get" | "set">, token: string) {
  const note = `session/discord/${createHash("sha256").update(token).digest("hex").slice(0, 16)}`;
  return {
    load: async (): Promise<SavedSession | null> => noteShape.safeParse(await notes.get(note)).data ?? null,
    save: (saved: SavedSession | null) => notes.set(note, saved ?? undefined),
  };
}

/** A busy server does not cost a write for each event. After a crash Discord repeats what came since the last write; a message that comes
 *  twice is taken once. */
const EVERY_MS = 1_000;

export function openSaver(store: SessionStore | undefined, { clock, log }: Ambient) {
  const stopping = new AbortController();
  let unwritten: (() => SavedSession | null) | null = null;
  let writing: Promise<void> | null = null;

  async function write(to: SessionStore): Promise<void> {
    for (let next = unwritten; next; next = unwritten) {
      unwritten = null;
      await to.save(next()).catch(logFailure(log, "warn", "chat.unsaved", { platform: "discord" }));
      await clock.sleep(EVERY_MS, stopping.signal);
    }
    writing = null;
  }

  return {
    save(saved: () => SavedSession | null): void {
      if (!store) return;
      unwritten = saved;
      writing ??= write(store);
    },
    /** Resolves when the last one is written. */
    async stop(): Promise<void> {
      stopping.abort();
      await writing;
    },
  };
}
