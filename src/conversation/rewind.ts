// A conversation without its last turn, in a session of its own: nothing is deleted.

import { messageOf } from "../core/errors.ts";
import { entriesOf } from "../core/pages.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Input } from "../core/session.ts";

type RewindSources = Pick<Runtime, "entries" | "summary" | "turn" | "fork">;

/** `acted`: the turn used tools. */
type Rewound = { undone: Input; turn: string; acted: boolean; session: string };

/** Entries that are looked through for a turn's beginning: more than the longest two turns have. */
const LAST = 10_000;

/** Into `next`, which is asked for only if there is a turn to leave out. Returns what began that turn, or null. */
export async function rewind(
  runtime: RewindSources,
  session: string,
  next: () => string | Promise<string>,
): Promise<Rewound | null> {
  const { entries = 0, title = "" } = (await runtime.summary(session)) ?? {};
  const turns = await lastTurns(runtime, session, entries);
  const last = turns.at(-1);
  const undoing = last ? await runtime.turn(last.turn) : [];
  const [accepted] = undoing;
  if (!last || accepted?.kind !== "accepted") return null;
  const into = await next();
  const before = turns.at(-2);
  if (before) await runtime.fork({ from: before.session, through: before.turn, session: into, title });
  const acted = undoing.some(({ kind }) => kind === "started");
  return { undone: accepted.input, turn: last.turn, acted, session: into };
}

/** The same, and what the turn did to files. `files`: what came of that, for people; empty where it used no tools. */
export async function undo(
  runtime: RewindSources & Pick<Runtime, "restoreFiles">,
  session: string,
  next: () => string | Promise<string>,
): Promise<(Rewound & { files: string }) | null> {
  const back = await rewind(runtime, session, next);
  if (!back?.acted) return back && { ...back, files: "" };
  const files = await runtime
    .restoreFiles({ session: back.session, turn: back.turn })
    .catch((error: unknown) => `Files were not brought back: ${messageOf(error)}`);
  return { ...back, files };
}

/** At least two of them where there are, also from before it was forked. */
async function lastTurns(
  runtime: RewindSources,
  session: string,
  upTo: number,
): Promise<{ session: string; turn: string }[]> {
  const last = await entriesOf(runtime, session, Math.max(0, upTo - LAST), upTo);
  const began = last.filter(({ kind, seq }) => kind === "began" && seq <= upTo);
  const mine = began.map(({ turn }) => ({ session, turn }));
  const [first] = last;
  if (mine.length > 1 || first?.kind !== "forked" || !first.from) return mine;
  return [...(await lastTurns(runtime, first.from, first.upTo)), ...mine];
}
