// What is worth counting in the journal, as it is written. It looks at entries that are durable and may never throw: the
// engine waits for it.
import { createBounded } from "../../../core/bounded.ts";
import type { Entry, RecoveryKind } from "../../../core/session.ts";

export type Sample =
  | { counter: Counted; labels?: Record<string, string>; by?: number }
  | { histogram: Timed; seconds: number };
export type Counted = "inputs" | "turns" | "tool_calls" | "model_calls" | "tokens" | "restarts" | "approvals";
export type Timed = "queue_wait" | "turn" | "stop" | "tool";

/** What one entry is measured against. Gone with the turn's end. */
type TurnSample = {
  accepted?: number;
  began?: number;
  stopping?: number;
  parked?: true;
  calls: Map<string, { tool: string; started?: number; question?: true }>;
};

/** Inputs that wait and turns that run, over all sessions; of more than that, the oldest are not timed. */
const MOST_TURNS = 10_000;
/** A model may name any tool, and each name is a series for good. */
const MOST_TOOLS = 100;
const OTHER = "other";

export function createTally(give: (sample: Sample) => void): (entry: Entry) => void {
  const turns = createBounded<TurnSample>(MOST_TURNS);
  const tools = new Set<string>();

  const count = (counter: Counted, labels: Record<string, string> = {}, by = 1) => {
    if (Number.isFinite(by) && by > 0) give({ counter, labels, by });
  };
  const time = (histogram: Timed, from: number | undefined, to: number) => {
    if (from !== undefined) give({ histogram, seconds: Math.max(0, to - from) / 1_000 });
  };

  function turnOf(id: string): TurnSample {
    const turn = turns.get(id) ?? { calls: new Map() };
    turns.set(id, turn);
    return turn;
  }

  /** Counts the tool under its own name: a call of it was judged, so the tool exists. */
  function admit(tool = OTHER) {
    if (tools.size < MOST_TOOLS && tool.length <= 64) tools.add(tool);
  }

  return (entry) => {
    const { turn: id, at } = entry;
    switch (entry.kind) {
      case "accepted":
        turnOf(id).accepted = at;
        return count("inputs", { applied: entry.applied });
      case "joined":
        return turns.delete(entry.input);
      case "withdrawn":
        return turns.delete(id);
      case "began":
        time("queue_wait", turns.get(id)?.accepted, at);
        turnOf(id).began = at;
        return;
      case "thought": {
        count("model_calls");
        count("tokens", { direction: "input" }, entry.usage.input);
        count("tokens", { direction: "output" }, entry.usage.output);
        count("tokens", { direction: "cached" }, entry.usage.cached ?? 0);
        const { calls } = turnOf(id);
        for (const call of entry.calls) calls.set(call.id, { tool: call.tool });
        return;
      }
      case "compacted":
        if (entry.upTo > 0) count("model_calls");
        return;
      case "failed":
        if (!turns.get(id)?.parked) count("model_calls");
        return;
      case "asked": {
        const call = turns.get(id)?.calls.get(entry.call);
        admit(call?.tool);
        if (call && entry.ask.kind !== "approval") call.question = true;
        return;
      }
      case "decided":
        if (!turns.get(id)?.calls.get(entry.call)?.question) count("approvals", { decision: decisionOf(entry) });
        return;
      case "started": {
        const call = turns.get(id)?.calls.get(entry.call);
        admit(call?.tool);
        if (call) call.started = at;
        return;
      }
      case "acted": {
        const calls = turns.get(id)?.calls;
        const { tool = "", started } = calls?.get(entry.call) ?? {};
        calls?.delete(entry.call);
        count("tool_calls", { tool: tools.has(tool) ? tool : OTHER, outcome: entry.outcome });
        return time("tool", started, at);
      }
      case "restarted":
        return count("restarts");
      case "parked":
        turnOf(id).parked = true;
        return;
      case "stopping":
        turnOf(id).stopping = at;
        return;
      case "ended": {
        const turn = turns.get(id);
        turns.delete(id);
        count("turns", { outcome: entry.outcome });
        time("turn", turn?.began, at);
        return time("stop", turn?.stopping, at);
      }
      default:
        entry.kind satisfies RecoveryKind | "forked" | "moved" | "revoked" | "cut";
    }
  };
}

function decisionOf({ allow, scope = "once", by }: Extract<Entry, { kind: "decided" }>): string {
  if (!allow) return by === "timeout" ? "timeout" : "deny";
  return scope;
}
