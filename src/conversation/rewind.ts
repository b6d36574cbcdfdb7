// A conversation as it was before one of its turns, in a session of its own: nothing is deleted.

import { messageOf } from "../core/errors.ts";
import { pagesOf } from "../core/pages.ts";
import type { FileChanges, Runtime } from "../core/runtime.ts";
import type { Entry, Input } from "../core/session.ts";

type RewindSources = Pick<Runtime, "entries" | "summary" | "turn" | "fork">;
type FileSources = RewindSources & Pick<Runtime, "restoreFiles">;

/** `changed`: it used a tool that can change files. */
export type PastTurn = { session: string; turn: string; input: Input; at: number; changed: boolean };
/** The session to go on in, asked for only if there is such a turn. */
type NextSession = () => string | Promise<string>;
/** `turns`: what was left out, the newest first. */
type Rewound = { undone: Input; turns: PastTurn[]; session: string };

/** The tools that can change files of the workspace. */
export const CHANGE_FILES: ReadonlySet<string> = new Set(["terminal", "write_file", "patch", "delegate_task"]);
/** Entries that are looked through at once for the beginnings of turns. */
const LOOKED = 10_000;

/** To before the `count`-th turn from the end. */
export async function rewind(runtime: RewindSources, session: string, count: number, next: NextSession) {
  const turns = await pastTurns(runtime, session, count + 1);
  const first = turns[count - 1];
  if (!first) return null;
  const { title = "" } = (await runtime.summary(session)) ?? {};
  const into = await next();
  const last = turns[count];
  if (last) await runtime.fork({ from: last.session, through: last.turn, session: into, title });
  return { undone: first.input, turns: turns.slice(0, count), session: into } satisfies Rewound;
}

/** The same, and what the turns did to files. `files`: what came of that, for people; empty where none of them could have changed any. */
export async function rollback(runtime: FileSources, session: string, count: number, next: NextSession) {
  const back = await rewind(runtime, session, count, next);
  return back && { ...back, files: (await restored(runtime, back.session, back.turns)).summary };
}

/** What the files would become. Nothing is changed. */
export const previewFiles = (runtime: FileSources, session: string, turns: readonly PastTurn[]) =>
  restored(runtime, session, turns, true);

async function restored(runtime: FileSources, session: string, past: readonly PastTurn[], preview = false) {
  const turns = past.filter(({ changed }) => changed).map(({ turn }) => turn);
  const nothing: FileChanges = { summary: "", patch: "" };
  if (!turns.length) return nothing;
  return runtime
    .restoreFiles({ session, turns, preview })
    .catch((error: unknown) => ({ summary: `Files were not brought back: ${messageOf(error)}`, patch: "" }));
}

/** Up to so many, the newest first, also from before the conversation was forked. */
export async function pastTurns(runtime: RewindSources, session: string, count: number): Promise<PastTurn[]> {
  const { entries = 0 } = (await runtime.summary(session)) ?? {};
  const turns: PastTurn[] = [];
  for (const place of await lastTurns(runtime, session, entries, count)) {
    const all = await runtime.turn(place.turn);
    const [accepted] = all;
    if (accepted?.kind !== "accepted") break;
    turns.push({ ...place, input: accepted.input, at: accepted.at, changed: usedFileTools(all) });
  }
  return turns;
}

function usedFileTools(entries: readonly Entry[]): boolean {
  const calls = new Set(
    entries.flatMap((entry) =>
      entry.kind === "thought" ? entry.calls.flatMap(({ id, tool }) => (CHANGE_FILES.has(tool) ? [id] : [])) : [],
    ),
  );
  return entries.some((entry) => entry.kind === "started" && calls.has(entry.call));
}

async function lastTurns(
  runtime: RewindSources,
  session: string,
  upTo: number,
  count: number,
): Promise<{ session: string; turn: string }[]> {
  const found: { session: string; turn: string }[] = [];
  let forked: Entry | undefined;
  for (let end = upTo; end > 0 && found.length < count; end -= LOOKED) {
    const began: string[] = [];
    for await (const page of pagesOf(runtime, session, Math.max(0, end - LOOKED), end)) {
      began.push(...page.flatMap(({ kind, turn }) => (kind === "began" ? [turn] : [])));
      if (page[0]?.seq === 1) forked = page[0];
    }
    found.push(...began.toReversed().map((turn) => ({ session, turn })));
  }
  if (found.length < count && forked?.kind === "forked" && forked.from)
    found.push(...(await lastTurns(runtime, forked.from, forked.upTo, count - found.length)));
  return found.slice(0, count);
}
