// One turn out of a session's stream, from any place on: what an input waits for, what its turn says and does, how it ends.
// An input that joins another turn (a steer) is that turn from then on.
import { placeOf } from "../core/cursor.ts";
import type { Runtime, Update } from "../core/runtime.ts";
import type { Entry } from "../core/session.ts";

/** A receipt is one. */
export type FollowedTurn = {
  session: string;
  /** The input that the turn began with, or that joined it. */
  id: string;
  /** What follows this place in the session's stream is given. Empty: all of the turn. */
  cursor: string;
  /** Gets the entries of the turn before that place, and those from before a steer joined it. */
  past?(entry: Entry): void;
};

/** Ends with the turn, or when its input is withdrawn. Without such an entry as the last one: the turn had ended before the
 *  cursor, the signal aborted, or the runtime was closed. */
export async function* followTurn(
  runtime: Pick<Runtime, "follow" | "turn" | "whereabouts">,
  followed: FollowedTurn,
  signal: AbortSignal,
): AsyncGenerator<Update> {
  const { session, id, past } = followed;
  const start = await takeUp(runtime, followed);
  if (!start) return;
  let { turn, runs } = start;
  for await (const update of runtime.follow(session, start.cursor, signal)) {
    if (!("entry" in update)) {
      if (runs) yield update; // else these are the words of an earlier turn
      continue;
    }
    const { entry } = update;
    if (entry.kind === "joined" && entry.input === id) {
      ({ turn } = entry);
      runs = true;
      if (past) for (const before of await runtime.turn(turn)) if (before.seq < entry.seq) past(before);
    }
    if (entry.turn !== id && entry.turn !== turn) continue;
    // Amid another turn's text the place in that text is nobody's business.
    yield runs ? update : { cursor: String(entry.seq), entry };
    if (endsTurn(entry)) return;
    runs ||= entry.kind === "began";
  }
}

export const endsTurn = ({ kind }: Entry): boolean => kind === "ended" || kind === "withdrawn";

/** Where the turn is at the cursor: `runs`, under the id `turn`, or still waits. Null: it has ended, or is unknown. A function
 *  of its own: a viewer that is slow must not hold all that was read here. */
async function takeUp(
  runtime: Pick<Runtime, "turn" | "whereabouts">,
  { id, cursor, past }: FollowedTurn,
): Promise<{ cursor: string; turn: string; runs: boolean } | null> {
  const own = await runtime.turn(id);
  const [first] = own;
  if (!first) return null;
  const from = cursor || String(first.seq - 1);
  const seq = placeOf(from)?.seq ?? 0;
  const began = own.find(({ kind }) => kind === "began");
  const joined = !began && first.seq < seq ? await joinedBy(runtime, id, seq) : [];
  for (const entry of [...own, ...joined]) {
    if (entry.seq > seq) continue;
    past?.(entry);
    if (endsTurn(entry)) return null;
  }
  return { cursor: from, turn: joined[0]?.turn ?? id, runs: joined.length > 0 || (began?.seq ?? seq + 1) <= seq };
}

/** The entries of the turn that the input had joined by then. */
async function joinedBy(runtime: Pick<Runtime, "turn" | "whereabouts">, id: string, seq: number): Promise<Entry[]> {
  const now = await runtime.whereabouts(id);
  const entries = now && "turn" in now ? await runtime.turn(now.turn) : [];
  return entries.some((entry) => entry.kind === "joined" && entry.input === id && entry.seq <= seq) ? entries : [];
}
