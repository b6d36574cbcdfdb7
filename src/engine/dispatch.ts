// The only writer, and the only place with concurrency: load → transition → commit → reconcile, one at a time
// for a session, side by side for different ones.
//
// E1  Nothing is answered, shown or started before the commit it follows from is durable.            (I2, I11)
// E2  Only the owner of the newest epoch writes; one that was replaced stops everything it has.      (I21)
// E3  An executor's only way to speak is one event; live text is a view that the entry replaces.     (I6, I20)
// E4  A result is never dropped because the store is in trouble; an input that cannot be stored is
//     refused by name, and nothing of it stays.                                                      (I1, I23)
import { Elsewhere, messageOf, Refusal, StoreFault } from "../core/errors.ts";
import type { Ambient, EffectContext, Perform } from "../core/ports.ts";
import { type Effect, type Entry, type Event, fresh, type Printed, type Rules, type Session } from "../core/session.ts";
import { ALONE, type Commit, type CommitVerdict, type Store } from "../core/store.ts";
import { emptyTranscript, extend, type Transcript } from "../core/transcript.ts";
import { hasWork, transition, unsaved, work } from "../core/turn.ts";
import { createGate } from "./gate.ts";
import { givenUp } from "./give-up.ts";
import { createInflight } from "./inflight.ts";
import { createLine, unavailable } from "./line.ts";
import { addReasoning, addText, dropPrinted, hold, notice, printedIn, release, showPrinted, wake } from "./live.ts";
import { wholeOf } from "./live-text.ts";
import { createSlots, type Slot } from "./slots.ts";

export type EngineLimits = {
  /** Turns that think or act at the same time, children not counted. */
  turns: number;
  /** Inputs that wait in one session. */
  inbox: number;
  /** Characters of one input. */
  text: number;
  /** How long aborted work may take to die. */
  graceMs: number;
  /** Turns of a dead process continue by themselves, if they are not older than this; 0: never. */
  resumeWithinMs: number;
  /** Idle sessions kept in memory. */
  warm: number;
};

export type Observe = (session: string, entries: readonly Entry[]) => void;
export type World = Ambient & {
  store: Omit<Store, "check" | "close">;
  perform: Perform;
  limits: EngineLimits;
  rules: Rules;
  /** Who is told, durably, when a turn of its own (not a child's) has ended. */
  announce?: readonly string[];
  /** They see what was committed, once it is. For counting only: a crash may lose a look. */
  observers?: Iterable<Observe>;
  /** Which of these inputs, left by a process that is gone, must not be worked on: who said them may not talk any more. */
  barred?(session: string, inputs: readonly string[]): Promise<readonly string[]>;
  /** Told when another process has taken over: nothing more can be done here. */
  fenced?(): void;
};

type StoredRow = NonNullable<Slot["row"]>;

/** Makes the event when the session's line has come to it; may throw a Refusal. `said` and `printed`: the live
 *  text by then. Null: only look. */
export type Make = (state: Session, said: string, printed: Printed) => Event | null;
export type ChangeOptions = {
  /** The store is in trouble: wait for it, instead of refusing. */
  insist: boolean;
  /** Change nothing, not even take up what a dead process left. */
  look?: boolean;
  /** Whatever the store says: this turn stops working now. */
  halt?: string;
  accepted?: { id: string; digest: string };
  parent?: string | undefined;
  title?: string;
};

const PAGE = 1_000;
const RETRY_MS = [10, 50, 200, 1_000, 5_000];
/** Tries at work that throws. */
const TRIES = 5;
/** Looks at an accept whose fate is unknown before its sender is told so. */
const LOOKS = 3;

const NEW: StoredRow = { owner: null, writer: "", version: 0, state: fresh, parent: null, updatedAt: 0 };
/** Work that takes one of the places for turns in flight. */
const HEAVY: Record<Effect["do"], boolean> = {
  think: true,
  compact: true,
  act: true,
  ask: false,
  deliver: false,
  remember: false,
};
const NO_PLACE = "Waiting for a place among the turns in flight.";

export function createDispatch(world: World) {
  const { clock, log, limits, rules } = world;
  const { journal, catalog, nodes } = world.store;
  const {
    all: slots,
    of: slotOf,
    evict,
    weigh,
  } = createSlots(limits.warm, (slot) =>
    createInflight({
      clock,
      graceMs: limits.graceMs,
      run: (effect, signal) => run(slot(), effect, signal),
      threw: (effect, error, tries) => threw(slot(), effect, error, tries),
      report: (event) => report(slot(), event),
      dead: (effectKey, abandoned) => settle(slot(), effectKey, abandoned),
      landed: () => {
        reconcile(slot());
        evict();
        for (const check of quiet) check();
      },
    }),
  );
  const gate = createGate(limits.turns, (key) => {
    const slot = slots.get(key);
    if (slot) reconcile(slot);
  });
  const { inLine, trouble } = createLine(reconcile);
  const quiet = new Set<() => void>();
  let node = "";
  let leaving = false;
  let closed: Refusal | null = null;

  // ── One change ──────────────────────────────────────────────────────────────────────────────────────

  function change(key: string, make: Make, options: ChangeOptions): Promise<Entry[] | "duplicate"> {
    const slot = slotOf(key);
    return inLine(slot, options.insist, () => dispatch(slot, make, options));
  }

  async function dispatch(slot: Slot, make: Make, options: ChangeOptions): Promise<Entry[] | "duplicate"> {
    for (let attempt = 0; ; attempt++) {
      if (closed) throw closed;
      try {
        const row = slot.row ?? (await load(slot));
        const orphan = isOrphan(row) && !options.look;
        const said = slot.view.live ? wholeOf(slot.view.live.text) : "";
        const event = orphan ? await takenUp(slot.key, row) : make(row.state, said, printedIn(slot));
        if (!event) return [];
        const [state, facts] = transition(row.state, event, { ...rules, leaving });
        if (state === row.state) return [];
        if (state.step !== row.state.step) hold(slot, row.state.step);
        const at = clock.now();
        const entries = facts.map((fact): Entry => ({ ...fact, at }));
        const parent = row.parent ?? options.parent ?? null;
        const verdict = await commit(slot, row.version, { state, entries, parent, at }, orphan ? {} : options);
        if (verdict === "fenced") throw fenced();
        if (verdict === "elsewhere") throw await elsewhere(slot);
        if (verdict === "duplicate") return "duplicate";
        if (verdict === "done") {
          const owner = isActive(state) ? node : null;
          adopt(slot, { owner, writer: node, version: row.version + 1, state, parent, updatedAt: at }, entries);
          if (!orphan) return entries;
        } else slot.row = null; // stale
      } catch (error) {
        if (!(error instanceof StoreFault)) throw error;
        log("warn", "store.fault", { session: slot.key, landed: error.landed, error: error.message });
        if (!options.insist) throw unavailable(error);
        trouble(slot, error, options.halt);
        await pause(attempt);
      } finally {
        release(slot);
      }
    }
  }

  async function load(slot: Slot): Promise<StoredRow> {
    const row = (await journal.load(slot.key)) ?? NEW;
    know(slot, row);
    return row;
  }

  /** This is what is stored, whatever was known before. */
  function know(slot: Slot, row: StoredRow) {
    if (row === NEW) slot.transcript = emptyTranscript(); // nothing to read: saves a question to the store's thread
    if (slot.since < 0 || row === NEW) slot.since = row.state.seq;
    slot.view.recent.clear();
    if (row.writer === node || row === NEW) adopt(slot, row, []);
    slot.row = row;
  }

  /** What it has to do was left by a process that is gone; nothing of it may run before that is counted (T9). */
  const isOrphan = (row: StoredRow) => row.writer !== node && hasWork(row.state);
  const isActive = (state: Session) => hasWork(state) || unsaved(state, rules).length > 0;

  async function takenUp(session: string, { state, updatedAt }: StoredRow): Promise<Event> {
    const { resumeWithinMs: window } = limits;
    const resume = window > 0 && clock.now() - updatedAt < window;
    const inputs = [...(state.turn ? [state.turn.id] : []), ...state.inbox.map(({ id }) => id)];
    const barred = (await world.barred?.(session, inputs)) ?? [];
    return { type: "restarted", resume, ...(barred.length && { barred }) };
  }

  async function commit(
    slot: Slot,
    version: number,
    made: Pick<Commit, "state" | "entries" | "parent" | "at">,
    { accepted, title = "" }: Pick<ChangeOptions, "accepted" | "title">,
  ): Promise<CommitVerdict> {
    const taken = made.entries.flatMap((entry): Commit["taken"] => {
      if (entry.kind === "began" || entry.kind === "joined") return [{ id: entry.input, turn: entry.turn }];
      return entry.kind === "withdrawn" ? [{ id: entry.input, turn: null }] : [];
    });
    const announced = (made.parent === null && world.announce ? world.announce : []).flatMap((to) =>
      made.entries.flatMap((e) => (e.kind === "ended" || e.kind === "withdrawn" ? [{ to, turn: e.turn }] : [])),
    );
    const session = slot.key;
    try {
      return await journal.commit({
        session,
        node,
        version,
        active: isActive(made.state),
        ...made,
        accepted: accepted ? [accepted] : [],
        taken,
        title,
        announced,
      });
    } catch (error) {
      if (!(error instanceof StoreFault) || error.landed === "no") throw error;
      return await look(slot, version, error);
    }
  }

  /** A commit that may have landed: if the next version is ours, it is this one. */
  async function look(slot: Slot, version: number, fault: StoreFault): Promise<CommitVerdict> {
    for (let attempt = 0; attempt < LOOKS; attempt++) {
      try {
        const row = await journal.load(slot.key);
        if (row?.version === version + 1 && row.writer === node) return "done";
        if ((row?.version ?? 0) === version) throw new StoreFault("no", fault.message, { cause: fault });
        return "stale";
      } catch (error) {
        if (!(error instanceof StoreFault)) throw error;
        if (error.cause === fault) throw error;
        await pause(attempt);
      }
    }
    slot.row = null;
    void report(slot, null); // if it landed, it has consequences as soon as the store can be read again
    throw fault;
  }

  const pause = (attempt: number, signal?: AbortSignal) =>
    clock.sleep(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 0, signal);

  function adopt(slot: Slot, row: StoredRow, entries: Entry[]) {
    if (slot.view.live && slot.view.live.step !== row.state.step) slot.view.live = null;
    slot.row = row;
    slot.view.page = null;
    dropPrinted(slot, entries);
    slot.view.recent.add(entries);
    if (slot.transcript) for (const entry of entries) extend(slot.transcript, entry);
    weigh(slot);
    reconcile(slot);
    wake(slot);
    if (entries.length) for (const observe of world.observers ?? []) shown(observe, slot, entries);
  }

  /** What is committed stands, whatever an observer makes of it. */
  function shown(observe: Observe, slot: Slot, entries: Entry[]) {
    try {
      observe(slot.key, entries);
    } catch (error) {
      log("error", "observer.threw", { session: slot.key, error: messageOf(error) });
    }
  }

  // ── What follows from a state ───────────────────────────────────────────────────────────────────────

  function reconcile(slot: Slot) {
    // One that is not in memory any more may have a late death to tell of; it does not speak for the one that is.
    if (closed || slots.get(slot.key) !== slot || !slot.row || isOrphan(slot.row)) return;
    const { state, parent } = slot.row;
    const wanted = work(state, rules).filter((effect) => !("turn" in effect) || effect.turn !== slot.line.halted);
    const { withoutPlace } = slot;
    const heavy = wanted.some((effect) => HEAVY[effect.do] && withoutPlace.get(effect.key) !== null);
    const admitted = parent !== null || gate.admit(slot.key, state.turn?.id ?? null, heavy);
    slot.inflight.reconcile(wanted.filter((e) => admitted || !HEAVY[e.do] || withoutPlace.has(e.key)));
    if (admitted) for (const goOn of withoutPlace.values()) goOn?.();
    // What was stopped before it could start has nothing to wait for.
    if (state.turn?.phase.at === "stopping")
      for (const key of state.turn.phase.alive) if (!slot.inflight.flights.has(key)) settle(slot, key, false);
  }

  function settle(slot: Slot, key: string, abandoned: boolean) {
    if (abandoned) log("warn", "effect.abandoned", { session: slot.key, key, graceMs: limits.graceMs });
    void report(slot, { type: "settled", key, abandoned });
  }

  async function report(slot: Slot, event: Event | null) {
    try {
      await change(slot.key, () => event, { insist: true });
    } catch (error) {
      if (!closed) log("error", "event.lost", { session: slot.key, event: event?.type, error: messageOf(error) });
    }
  }

  function run(slot: Slot, effect: Effect, signal: AbortSignal): Promise<Event | null> {
    const cx: EffectContext = {
      session: slot.key,
      signal,
      history: () => history(slot, signal),
      journal: {
        entries: (session, after, limit) => patiently(() => journal.entries(session, after, limit), signal),
        turn: (id) => patiently(() => journal.turn(id), signal),
      },
      waitWithoutPlace: (ms) => waitWithoutPlace(slot, effect, ms, signal),
      owned: () => owned(signal),
      emitText: (text) => {
        if (!signal.aborted && "step" in effect) addText(slot, effect.step, text);
      },
      emitReasoning: (text) => {
        if (!signal.aborted && "step" in effect) addReasoning(slot, effect.step, text);
      },
      notice: (text) => {
        if (!signal.aborted && "step" in effect) notice(slot, effect.step, text);
      },
      showPrinted: (text) => {
        if (!signal.aborted && effect.do === "act") showPrinted(slot, effect.call, text);
      },
    };
    return world.perform(effect, cx);
  }

  /** A night without network costs the turns that wait for it the night, and nobody else a place. */
  async function waitWithoutPlace(slot: Slot, effect: Effect, ms: number, signal: AbortSignal): Promise<void> {
    slot.withoutPlace.set(effect.key, null);
    reconcile(slot);
    await clock.sleep(ms, signal);
    if (!signal.aborted) await placeAgain(slot, effect, signal);
    slot.withoutPlace.delete(effect.key);
  }

  async function placeAgain(slot: Slot, effect: Effect, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const goOn = () => resolve();
    slot.withoutPlace.set(effect.key, goOn);
    signal.addEventListener("abort", goOn);
    reconcile(slot);
    if (gate.holds(slot.key) && "step" in effect) notice(slot, effect.step, NO_PLACE);
    await promise;
    signal.removeEventListener("abort", goOn);
  }

  /** Null: it is worth another try. Behind words that somebody has seen nothing starts over. */
  function threw(slot: Slot, effect: Effect, error: unknown, tries: number): Event | null {
    const said = "step" in effect && slot.view.live?.step === effect.step ? wholeOf(slot.view.live.text) : "";
    const last = tries >= TRIES || said !== "";
    const fields = { session: slot.key, key: effect.key, tries, error: messageOf(error) };
    log("error", last ? "effect.given_up" : "effect.threw", fields);
    return last ? givenUp(effect, { error, said, ended: slot.row?.state.ended ?? 0 }) : null;
  }

  /** `signal`: waits for the store, until that aborts. */
  async function history(slot: Slot, signal?: AbortSignal): Promise<Transcript> {
    slot.transcript ??= emptyTranscript();
    const { transcript } = slot;
    for (;;) {
      const { state } = await read(slot, signal !== undefined);
      if (transcript.seq >= state.seq) return transcript;
      const next = () => journal.entries(slot.key, transcript.seq, PAGE);
      const page = await (signal ? patiently(next, signal) : next());
      if (!page.length) throw new Error(`The journal of ${slot.key} ends at ${transcript.seq}, not at its state.`);
      for (const entry of page) if (entry.seq <= state.seq) extend(transcript, entry);
      weigh(slot);
    }
  }

  async function read(slot: Slot, insist = false): Promise<StoredRow> {
    if (slot.row) return slot.row;
    await change(slot.key, () => null, { insist, look: true });
    return slots.get(slot.key)?.row ?? NEW;
  }

  /** In its line, so that nothing that was accepted is forgotten with it. What a memory was not told yet is no reason to
   *  keep it: the memory may be gone for good (I26). */
  function forget(key: string): Promise<"forgotten" | "busy" | "unknown"> {
    const slot = slotOf(key);
    return inLine(slot, false, async () => {
      try {
        for (;;) {
          if (closed) throw closed;
          const { version, state } = slot.row ?? (await load(slot));
          if (version === 0) return "unknown";
          if (hasWork(state)) return "busy";
          const verdict = await catalog.forget({ session: key, node, version });
          if (verdict === "fenced") throw fenced();
          if (verdict === "elsewhere") throw await elsewhere(slot);
          if (verdict === "done") {
            know(slot, NEW);
            return "forgotten";
          }
          slot.row = null; // stale
        }
      } catch (error) {
        if (!(error instanceof StoreFault)) throw error;
        slot.row = null; // it may be gone
        void report(slot, null);
        throw unavailable(error);
      }
    });
  }

  async function elsewhere(slot: Slot): Promise<Refusal> {
    slot.row = null;
    const owner = await nodes.ownerOf(slot.key);
    return owner
      ? new Elsewhere(owner)
      : new Refusal("store_unavailable", "Not accepted, try again: it is changing its node.");
  }

  async function owned(signal: AbortSignal): Promise<boolean> {
    if (closed) return false;
    // Patiently: one who has sent something must not lose count because the store could not be read.
    const still = await patiently(() => nodes.beat(node), signal);
    if (still === "gone" && !signal.aborted) fenced();
    return !closed && !signal.aborted;
  }

  /** Reads until the store can be read, or nobody waits for it any more. */
  async function patiently<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await read();
      } catch (error) {
        if (!(error instanceof StoreFault) || signal.aborted || closed) throw error;
        await pause(attempt, signal);
      }
    }
  }

  function letGo(slot: Slot) {
    slot.inflight.abortAll();
    wake(slot);
  }

  function fenced(): Refusal {
    closed = new Refusal("not_owner", "Another process has taken over this store; this one has stopped working.");
    log("error", "engine.fenced", { node });
    for (const slot of slots.values()) letGo(slot);
    world.fenced?.();
    return closed;
  }

  return {
    slots,
    slotOf,
    change,
    reconcile,
    history,
    patiently,
    read,
    forget,
    /** Called whenever some piece of work is over. */
    quiet,
    waitsInLine: gate.holds,
    /** Turns that have not worked yet do not begin to. */
    admitNoMore(): void {
      leaving = true;
      gate.close();
    },
    /** Returns what a dead process has left. */
    async join(): Promise<string[]> {
      node = await nodes.join(ALONE);
      return nodes.claim(node, Number.POSITIVE_INFINITY);
    },
    /** Nothing is written any more, and whatever still runs is let go of. */
    close(): void {
      closed ??= new Refusal("closed", "Shut down: nothing is accepted any more.");
      for (const slot of slots.values()) letGo(slot);
    },
    closed: () => closed !== null,
  };
}
