// The events of one run, from any place on. An id is `<place in the session>-<tag of the run>`, and exactly what follows it
// is sent: also to a viewer that comes late, or again after the server was restarted (I20).
import { createHash } from "node:crypto";
import { endsTurn, followTurn } from "../../../conversation/follow-turn.ts";
import { placeOf } from "../../../core/cursor.ts";
import { Refusal } from "../../../core/errors.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Entry } from "../../../core/session.ts";
import { problem } from "../server/problem.ts";
import type { Api } from "../server/route.ts";
import { createReporter, type RunWireEvent } from "./events.ts";

export type WatchEvent = RunWireEvent & { run_id: string; timestamp: number };
/** `now`: in seconds. */
type Watching = { runtime: Runtime; run: string; session: string; showReasoning: boolean; now(): number };
export const watchingOf = ({ runtime, settings, clock }: Api, run: string, session: string): Watching => {
  return { runtime, run, session, showReasoning: settings.showReasoning, now: () => clock.now() / 1_000 };
};
/** Where a viewer is: behind this cursor, and behind so many events of the entry that comes next. */
type ViewedRun = { cursor: string; seq: number; chars: number; told: number };

export async function* watchRun(
  { runtime, run, session, showReasoning, now }: Watching,
  after: string,
  signal: AbortSignal,
): AsyncGenerator<{ id: string; event: WatchEvent }> {
  const tag = tagOf(run);
  const reporter = createReporter({ id: run, session, showReasoning }, (child) => runOf(runtime, child));
  const event = (told: RunWireEvent, timestamp: number): WatchEvent => ({ ...told, run_id: run, timestamp });
  let { cursor, told } = viewedOf(after, tag) ?? { cursor: "", told: 0 };
  let over = false;
  // What a steer joined is what it is, from its beginning.
  const past = (entry: Entry) => {
    reporter.skip(entry);
    over ||= endsTurn(entry);
  };

  for await (const update of followTurn(runtime, { session, id: run, cursor, past }, signal)) {
    if (!("entry" in update)) {
      cursor = update.cursor;
      const id = `${cursor}-${tag}`;
      const at = "at" in update && update.at !== undefined ? update.at / 1_000 : now();
      if ("delta" in update) yield { id, event: event({ event: "message.delta", delta: update.delta }, at) };
      if ("reset" in update) yield { id, event: event({ event: "message.reset" }, at) };
      if ("notice" in update) yield { id, event: event({ event: "run.notice", text: update.notice }, now()) };
      if ("reasoning" in update && showReasoning)
        yield { id, event: event({ event: "reasoning.delta", text: update.reasoning }, now()) };
      continue;
    }
    const { entry } = update;
    over = endsTurn(entry);
    const events = await reporter.tell(entry);
    for (const [index, one] of events.entries()) {
      if (index < told) continue;
      const last = index === events.length - 1;
      const id = last ? update.cursor : `${bare(cursor)}+e${index + 1}`;
      yield { id: `${id}-${tag}`, event: event(one, entry.at / 1_000) };
    }
    if (events.length) told = 0;
    ({ cursor } = update);
  }
  // Not its end: whoever watches must come back.
  if (!over && !signal.aborted) throw new Refusal("closed", "The server is leaving.");
}

/** Refuses an id that this run cannot have given: another run's, or one that has not happened yet. True: nothing follows it. */
export async function checkPlace(runtime: Runtime, run: string, session: string, after: string): Promise<boolean> {
  const gone = (why: string) =>
    problem(
      410,
      "event_id_unknown",
      `There is no event ${JSON.stringify(after.slice(0, 50))} ${why}; start without it.`,
    );
  const place = viewedOf(after, tagOf(run));
  if (place === undefined) throw gone("of this run");
  if (place === null) return false;
  const known = await runtime.turn(run);
  const { joined } = (await runtime.run(run)) ?? {};
  const over = [...known, ...(joined ? await runtime.turn(joined) : [])].find(endsTurn);
  const newest = over?.seq ?? (await runtime.summary(session))?.entries ?? 0;
  const begins = (known[0]?.seq ?? 1) - 1;
  const { chars } = place;
  if (place.seq < begins || place.seq > newest) throw gone("in this run yet");
  if (chars && chars > (await saidBehind(runtime, session, place.seq))) throw gone("in this run yet");
  return over !== undefined && place.seq >= over.seq;
}

/** How much was said in the model call that was under way at that entry. */
async function saidBehind(runtime: Runtime, session: string, seq: number): Promise<number> {
  const stored = async () => {
    for await (const page of pagesOf(runtime, session, seq))
      for (const entry of page) {
        if (entry.kind === "thought" || entry.kind === "cut") return entry.text.length;
        if (entry.kind === "restarted" || entry.kind === "retracted") return Number.POSITIVE_INFINITY; // taken back since
      }
    return null;
  };
  const before = await stored();
  if (before !== null) return before;
  const { said } = await runtime.status(session);
  return (await stored()) ?? said ?? Number.POSITIVE_INFINITY; // the call may have ended meanwhile, or another node has taken it over
}

const bare = (cursor: string) => cursor.split("+", 1)[0] ?? "";
const tagOf = (run: string) => createHash("sha256").update(run).digest("hex").slice(0, 8);

/** Null: from the beginning. Undefined: not an id of this run. */
function viewedOf(after: string, tag: string): ViewedRun | null | undefined {
  if (after === "") return null;
  const [, cursor = "", told = 0, of = tag] = /^(.*?)(?:\+e(\d{1,15}))?(?:-([0-9a-f]{8}))?$/.exec(after) ?? [];
  const place = placeOf(cursor);
  if (!place || of !== tag) return undefined;
  return { cursor, seq: place.seq, chars: place.chars, told: Number(told) };
}

/** The only run of a session that a run made. */
async function runOf(runtime: Runtime, session: string) {
  const [first] = await runtime.entries(session, 0, 1);
  return first ? runtime.run(first.turn) : null;
}
