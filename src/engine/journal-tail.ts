// The last entries of a session's journal, in memory, so that viewers of a turn do not wait behind the commits of other sessions. Bounded;
// older entries are read from the store.
import type { Entry, InputKind, RecoveryKind } from "../core/session.ts";

export type JournalTail = {
  /** Adds committed entries, in order. */
  add(entries: readonly Entry[]): void;
  clear(): void;
  /** Characters that it holds. */
  weight(): number;
  /** All entries behind this one; null: none are known here. Never empty: a viewer who knows of more would ask again at once, for ever. */
  after(seq: number): Entry[] | null;
  /** All entries of a turn; null: not known here. */
  turn(id: string): Entry[] | null;
  /** The turn that an input joined. */
  joined(input: string): string | null;
};

const MOST_ENTRIES = 64;
/** Characters. Those of all sessions at rest together are bounded too (slots.ts). */
const MOST_TEXT = 64_000;

export function createRecent(): JournalTail {
  let entries: Entry[] = [];
  let text = 0;
  return {
    add(more) {
      for (const entry of more) {
        if (entries.length && entry.seq !== (entries.at(-1)?.seq ?? 0) + 1) [entries, text] = [[], 0];
        entries.push(entry);
        text += weightOf(entry);
      }
      while (entries.length > MOST_ENTRIES || text > MOST_TEXT) {
        const [gone] = entries.splice(0, 1);
        if (gone) text -= weightOf(gone);
      }
    },
    clear() {
      entries = [];
      text = 0;
    },
    weight: () => text,
    after(seq) {
      const [first] = entries;
      const behind = first && first.seq <= seq + 1 ? entries.slice(seq + 1 - first.seq) : [];
      return behind.length ? behind : null;
    },
    turn: (id) =>
      entries.some((entry) => entry.kind === "accepted" && entry.turn === id)
        ? entries.filter((entry) => entry.turn === id)
        : null,
    joined: (input) => entries.find((entry) => entry.kind === "joined" && entry.input === input)?.turn ?? null,
  };
}

function weightOf(entry: Entry): number {
  switch (entry.kind) {
    case "accepted":
    case "forked":
      return JSON.stringify(entry).length;
    case "thought":
      return entry.text.length + (entry.calls.length ? JSON.stringify(entry.calls).length : 0);
    case "acted":
    case "cut":
    case "decided":
      return entry.text.length;
    case "compacted":
      return entry.summary.length;
    case "asked":
      return entry.ask.text.length;
    case "failed":
    case "retracted":
      return entry.reason.length;
    default:
      entry.kind satisfies InputKind | RecoveryKind | "revoked" | "started" | "stopping" | "ended";
  }
  return 0;
}
