// What is always shown of a session: what runs, waits and is asked, and what it has cost so far.

import type { Status } from "../core/runtime.ts";
import type { Entry, Mode, RecoveryKind } from "../core/session.ts";
import type { AskedQuestion } from "./commands/command.ts";
import { type Spent, spentPlus } from "./spent.ts";

export type Facts = {
  session: string;
  title: string;
  /** What a message does while a turn runs. */
  mode: Mode;
  /** The turn at work, and since when. */
  turn: { id: string; at: number } | null;
  waiting: Status["inbox"];
  asking: AskedQuestion[];
  /** Who answered last, or would. */
  model: string;
  /** Tokens of the conversation when it was last shown to the model. */
  context: number;
  spent: Spent[];
};
export const nothingIn = (session: string, title: string, mode: Mode, model: string): Facts => ({
  session,
  title,
  mode,
  turn: null,
  waiting: [],
  asking: [],
  model,
  context: 0,
  spent: [],
});

/** What is known from its status and its last entries; `empty`: of a session in which nothing happened. */
export function factsOf(empty: Facts, status: Status, recent: readonly Entry[], now: number): Facts {
  const told = new Set(
    recent.flatMap((e) => (e.kind === "accepted" ? [e.input.id] : e.kind === "asked" ? [e.call] : [])),
  );
  const waiting = status.inbox.filter(({ id }) => !told.has(id));
  const asking = status.asking.filter(({ call }) => !told.has(call));
  const facts = recent.reduce(after, { ...empty, waiting, asking });
  return status.turn && !facts.turn ? { ...facts, turn: { id: status.turn.id, at: now } } : facts;
}

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
        spent: spentPlus(facts.spent, entry.model, entry.usage),
      };
    case "asked":
      if (entry.ask.kind === "client") return facts;
      return { ...facts, asking: [...asking, { call: entry.call, ...entry.ask }] };
    case "decided":
    case "acted":
      return { ...facts, asking: asking.filter(({ call }) => call !== entry.call) };
    case "stopping":
      return { ...facts, asking: [] };
    case "ended":
      return { ...facts, asking: [], turn: null };
    default:
      entry.kind satisfies RecoveryKind | "forked" | "compacted" | "revoked" | "started" | "cut" | "failed";
  }
  return facts;
}

const without = (waiting: Status["inbox"], input: string) => waiting.filter(({ id }) => id !== input);
