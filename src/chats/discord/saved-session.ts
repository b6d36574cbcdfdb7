// The gateway session for the next process, or the next node that listens: it resumes that session instead of beginning one, and Discord
// replays what happened meanwhile: edits and deletions too, which cannot be fetched.
import { createHash } from "node:crypto";
import type { SessionInfo } from "@discordjs/ws";
import { z } from "zod";
import type { Notes } from "../../core/store.ts";

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
