// What a terminal always shows of a session: what runs, waits and is asked, and what it has cost so far.
import type { Status } from "../../core/runtime.ts";
import type { Entry, Mode, Usage } from "../../core/session.ts";
import { usagePlus } from "../../core/usage.ts";

export type Question = Status["asking"][number];
export type Facts = {
  session: string;
  title: string;
  /** What a message does while a turn runs. */
  mode: Mode;
  /** The turn at work, and since when. */
  turn: { id: string; at: number } | null;
  waiting: Status["inbox"];
  asking: Question[];
  /** Who answered last, or would. */
  model: string;
  /** Tokens of the conversation when it was last shown to the model. */
  context: number;
  spent: Spent[];
};
/** By model: what a token costs depends on it. */
export type Spent = Usage & { model: string; calls: number };

/** `facts` after one more entry. */
export function after(facts: Facts, entry: Entry): Facts {
  const { waiting, asking } = facts;
  switch (entry.kind) {
    case "accepted": {
      const { id, mode, text } = entry.input;
      return { ...facts, waiting: [...waiting, { id, mode, text }] };
    }
    case "moved": {
      const moved = waiting.find(({ id }) => id === entry.input);
      return moved ? { ...facts, waiting: without(waiting, entry.input).toSpliced(entry.to, 0, moved) } : facts;
    }
    case "withdrawn":
    case "joined":
      return { ...facts, waiting: without(waiting, entry.input) };
    case "began":
      return { ...facts, waiting: without(waiting, entry.input), turn: { id: entry.turn, at: entry.at } };
    case "thought":
      return {
        ...facts,
        model: entry.model,
        context: entry.usage.input + entry.usage.output,
        spent: added(facts.spent, entry.model, entry.usage),
      };
    case "asked":
      return { ...facts, asking: [...asking, { call: entry.call, ...entry.ask }] };
    case "decided":
    case "acted":
      return { ...facts, asking: asking.filter(({ call }) => call !== entry.call) };
    case "stopping":
      return { ...facts, asking: [] };
    case "ended":
      return { ...facts, asking: [], turn: null };
    case "forked":
    case "compacted":
    case "revoked":
    case "started":
    case "cut":
    case "failed":
    case "retracted":
    case "abandoned":
    case "restarted":
    case "parked":
    case "delivered":
      break;
    default:
      entry satisfies never;
  }
  return facts;
}

export function added(spent: readonly Spent[], model: string, usage: Usage): Spent[] {
  const before = spent.find((one) => one.model === model) ?? { model, calls: 0, input: 0, output: 0 };
  const now = { model, calls: before.calls + 1, ...usagePlus(before, usage) };
  return [...spent.filter((one) => one.model !== model), now];
}

const without = (waiting: Status["inbox"], input: string) => waiting.filter(({ id }) => id !== input);
