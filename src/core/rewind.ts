// A conversation without its last turn, in a session of its own: nothing is deleted.
import type { Runtime } from "./runtime.ts";
import type { Input } from "./session.ts";

type Sources = Pick<Runtime, "entries" | "summary" | "turn" | "fork">;

/** Entries that are looked through for a turn's beginning: more than the longest two turns have. */
const LAST = 10_000;

/** Into `next`, which is asked for only if there is a turn to leave out. Returns what began that turn, or null. */
export async function rewind(
  runtime: Sources,
  session: string,
  next: () => string | Promise<string>,
): Promise<{ undone: Input; session: string } | null> {
  const { entries = 0, title = "" } = (await runtime.summary(session)) ?? {};
  const turns = await lastTurns(runtime, session, entries);
  const last = turns.at(-1);
  const [accepted] = last ? await runtime.turn(last.turn) : [];
  if (accepted?.kind !== "accepted") return null;
  const into = await next();
  const before = turns.at(-2);
  if (before) await runtime.fork({ from: before.session, through: before.turn, session: into, title });
  return { undone: accepted.input, session: into };
}

/** At least two of them where there are, also from before it was forked. */
async function lastTurns(
  runtime: Sources,
  session: string,
  upTo: number,
): Promise<{ session: string; turn: string }[]> {
  const last = await runtime.entries(session, Math.max(0, upTo - LAST), LAST);
  const began = last.filter(({ kind, seq }) => kind === "began" && seq <= upTo);
  const mine = began.map(({ turn }) => ({ session, turn }));
  const [first] = last;
  if (mine.length > 1 || first?.kind !== "forked" || !first.from) return mine;
  return [...(await lastTurns(runtime, first.from, first.upTo)), ...mine];
}
