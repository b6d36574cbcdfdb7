// Where the answers of a job or a background task go: one note for each of their sessions, with the session of a chat.
import { BACKGROUND } from "./session-key.ts";
import type { Notes } from "./store.ts";

const noteOf = (session: string) => `route/${session}`;
/** What the names of the notes of background tasks begin with. */
export const BACKGROUND_ROUTES = noteOf(BACKGROUND);

export async function replyRoute(notes: Pick<Notes, "get">, session: string): Promise<string | null> {
  const note = await notes.get(noteOf(session));
  return typeof note === "object" && note !== null && "to" in note && typeof note.to === "string" ? note.to : null;
}

/** Null: there is none any more. */
export const setReplyRoute = (notes: Pick<Notes, "set">, session: string, to: string | null): Promise<void> =>
  notes.set(noteOf(session), to === null ? undefined : { to });
