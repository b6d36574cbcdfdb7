// One ended turn into memory: off the turn's path, in turn order, tried until it is written.
import { messageOf } from "../core/errors.ts";
import type { EffectContext, Remembered } from "../core/ports.ts";
import type { CallKind, EndKind, Entry, Event, InputKind, RecoveryKind } from "../core/session.ts";
import type { Agent, EffectOf } from "./agent.ts";

const PAGE = 200;
const WAITS_MS = [1_000, 5_000, 30_000, 120_000];

export async function remember(agent: Agent, effect: EffectOf<"remember">, cx: EffectContext): Promise<Event | null> {
  const ended = await nextEnded(effect.after, cx);
  const written: Event = { type: "remembered", by: effect.by, after: effect.after, upTo: ended.seq };
  if (!agent.memory) return written;
  const turn = await recall(ended, cx);
  for (let attempt = 0; ; attempt++) {
    if (!(await cx.owned()) || cx.signal.aborted) return null;
    try {
      await agent.memory.remember(effect.by, turn, ended.turn, cx.signal);
      return written; // also when it was aborted meanwhile: it is written
    } catch (error) {
      if (cx.signal.aborted) return null;
      const { by } = effect;
      agent.log("warn", "memory.failed", { by, session: cx.session, turn: ended.turn, error: messageOf(error) });
      await agent.clock.sleep(WAITS_MS[Math.min(attempt, WAITS_MS.length - 1)] ?? 0, cx.signal);
    }
  }
}

type EndedEntry = Extract<Entry, { kind: "ended" }>;

async function nextEnded(after: number, cx: EffectContext): Promise<EndedEntry> {
  for (let seq = after; ; ) {
    const page = await cx.journal.entries(cx.session, seq, PAGE);
    const ended = page.find((entry) => entry.kind === "ended");
    if (ended?.kind === "ended") return ended;
    const last = page.at(-1);
    if (!last) throw new Error(`No turn of ${cx.session} ended after entry ${after}.`);
    seq = last.seq;
  }
}

async function recall(ended: EndedEntry, cx: EffectContext): Promise<Remembered> {
  const entries = await cx.journal.turn(ended.turn);
  const user: string[] = [];
  let assistant = "";
  let by: string | undefined;
  for (const entry of entries)
    switch (entry.kind) {
      case "accepted":
        user.push(entry.input.text);
        ({ by } = entry.input);
        break;
      case "joined": {
        const [steer] = await cx.journal.turn(entry.input);
        if (steer?.kind === "accepted") user.push(steer.input.text);
        break;
      }
      case "thought":
      case "cut":
        if (entry.text) assistant = entry.text;
        break;
      default:
        entry.kind satisfies InputKind | CallKind | RecoveryKind | EndKind | "forked" | "compacted";
    }
  const { turn, outcome } = ended;
  return { session: cx.session, turn, ...(by && { by }), outcome, user: user.join("\n"), assistant };
}
