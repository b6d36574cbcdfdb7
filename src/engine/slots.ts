// What is known of sessions, in memory: those at work, and the idle ones that were used last.
import { createBounded } from "../core/bounded.ts";
import type { StoreFault } from "../core/errors.ts";
import type { Entry } from "../core/session.ts";
import type { SessionRow } from "../core/store.ts";
import { type Transcript, weightOf } from "../core/transcript.ts";
import type { Inflight } from "./inflight.ts";
import { createRecent, type JournalTail } from "./journal-tail.ts";
import type { Live, Prints } from "./live.ts";

export type StoredRow = Pick<
  SessionRow,
  "owner" | "writer" | "version" | "state" | "parent" | "createdAt" | "updatedAt"
>;
export type Slot = {
  key: string;
  /** Null until loaded, and again when what is known may not be what is stored. */
  row: StoredRow | null;
  /** The last entry when it was first loaded here. */
  since: number;
  /** Of the session that was created at `createdAt`: another node may have deleted it, and it may have begun anew. Null: to be read again
   *  when it is wanted. */
  transcript: Transcript | null;
  createdAt: number;
  line: Line;
  view: SlotView;
  inflight: Inflight;
  /** Work in flight that has given the turn's place back, by key: null while it waits by itself, then who is to be told when the
   *  turn has its place again. */
  withoutPlace: Map<string, (() => void) | null>;
};

/** Of the writer (dispatch.ts): one change at a time. */
type Line = {
  tail: Promise<unknown>;
  pending: number;
  /** Set while the first in line waits for the store: changes that do not insist are refused at once. */
  trouble: StoreFault | null;
  hasty: Set<(fault: StoreFault) => void>;
  /** A turn whose stop waits to be stored: it does no more work all the same. */
  halted: string | null;
};

/** Of those who watch (live.ts, stream.ts). */
type SlotView = {
  viewers: number;
  watchers: Set<() => void>;
  live: Live | null;
  prints: Prints;
  recent: JournalTail;
  /** What was last read for late viewers, of this row and no other; gone with the next entry, or the last of them. */
  page: { after: number; row: StoredRow | null; entries: Promise<Entry[]> } | null;
};

/** Slots that one call looks at: it is called for each new session and each piece of work that ends. */
const LOOKS = 16;
/** Characters that are kept of sessions at rest, their conversations and newest entries: 60 runs with a picture of 2 MB held 130 MB. With
 *  8 MB, 200 sessions that talk at once read their conversations again for each turn: 987 turns/s instead of 4,117. */
const MOST_TEXT = 32_000_000;

/** `warm`: how many are kept, besides those in use. */
export function createSlots(warm: number, inflightOf: (slot: () => Slot) => Inflight) {
  const slots = new Map<string, Slot>(); // the one not used for longest is first

  /** Sessions without a turn: their conversation and entries can be read from the store again. */
  const resting = createBounded<Slot>(MOST_TEXT, (slot) => {
    slot.transcript = null;
    slot.view.recent.clear();
  });

  function of(key: string): Slot {
    const slot = slots.get(key) ?? create(key);
    slots.delete(key);
    slots.set(key, slot);
    return slot;
  }

  function create(key: string): Slot {
    evict(warm - 1);
    const slot: Slot = {
      key,
      row: null,
      since: -1,
      transcript: null,
      createdAt: 0,
      line: { tail: Promise.resolve(), pending: 0, trouble: null, hasty: new Set(), halted: null },
      view: {
        viewers: 0,
        watchers: new Set(),
        live: null,
        prints: { count: 0, calls: new Map() },
        recent: createRecent(),
        page: null,
      },
      inflight: inflightOf(() => slot),
      withoutPlace: new Map(),
    };
    return slot;
  }

  /** A slot in use goes to the end: at the front it would be looked at again and again, and hide the idle ones behind it. */
  function evict(most = warm): void {
    for (let looks = LOOKS; looks > 0 && slots.size > most; looks--) {
      const [oldest] = slots;
      if (!oldest) return;
      const [key, slot] = oldest;
      slots.delete(key);
      if (inUse(slot)) slots.set(key, slot);
      else resting.delete(key);
    }
  }

  /** Called when its state or its transcript has changed. */
  function weigh(slot: Slot): void {
    const weight = (slot.transcript ? weightOf(slot.transcript) : 0) + slot.view.recent.weight();
    if (slot.row?.state.turn || weight === 0) resting.delete(slot.key);
    else resting.set(slot.key, slot, weight);
  }

  const all: ReadonlyMap<string, Slot> = slots;
  return { all, of, evict, weigh };
}

const inUse = ({ row, line, view, inflight }: Slot) =>
  Boolean(row?.state.turn) || line.pending > 0 || view.viewers > 0 || inflight.flights.size > 0;
