// The only writer, and the only place with concurrency: load → transition → commit → reconcile, one at a time
// for a session, side by side for different ones.
//
// E1  Nothing is answered, shown or started before the commit it follows from is durable.            (I2, I11)
// E2  Only the node that owns a session writes it; one that was replaced stops everything it has.    (I21)
// E3  An executor's only way to speak is one event; live text is a view that the entry replaces.     (I6, I20)
// E4  A result is never dropped because the store is in trouble; an input that cannot be stored is
//     refused by name, and nothing of it stays.                                                      (I1, I23)
import { Elsewhere, messageOf, Refusal, StoreFault } from "../core/errors.ts";
import type { EffectContext } from "../core/ports.ts";
import { type Effect, type Entry, type Event, fresh, type Printed, type Session } from "../core/session.ts";
import { ALONE } from "../core/store.ts";
import { emptyTranscript, extend, type Transcript } from "../core/transcript.ts";
import { hasWork, transition, unsaved, work } from "../core/turn.ts";
import { createCommit } from "./commit.ts";
import { createGate } from "./gate.ts";
import { givenUp } from "./give-up.ts";
import { createInflight } from "./inflight.ts";
import { createLine, unavailable } from "./line.ts";
import { addReasoning, addText, dropPrinted, hold, notice, printedIn, release, showPrinted, wake } from "./live.ts";
import { wholeOf } from "./live-text.ts";
import { createMembership } from "./membership.ts";
import { createMoves } from "./moves.ts";
import { createPlaceWait } from "./place-wait.ts";
import { createSlots, type Slot, type StoredRow } from "./slots.ts";
import type { Observe, World } from "./world.ts";

/** Makes the event when the session's line has come to it; may throw a Refusal. `said` and `printed`: the live
 *  text by then. Null: only look. */
export type Make = (state: Session, said: () => string, printed: Printed) => Event | null;
export type ChangeOptions = {
  /** The store is in trouble: wait for it, instead of refusing. */
  insist: boolean;
  /** Change nothing, not even take up what a dead process left. `cached`: what another node has done meanwhile may be missing. */
  look?: "cached" | "newest";
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

const NEW: StoredRow = { owner: null, writer: "", version: 0, state: fresh, parent: null, createdAt: 0, updatedAt: 0 };
/** Work that takes one of the places for turns in flight. */
const HEAVY: Record<Effect["do"], boolean> = {
  think: true,
  compact: true,
  act: true,
  ask: false,
  deliver: false,
  remember: false,
};

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
      report: (event) => report(slot(), () => event),
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
  const waitWithoutPlace = createPlaceWait(clock, gate, reconcile);
  const commit = createCommit(world, pause, unknown);
  const quiet = new Set<() => void>();
  const member = createMembership({
    clock,
    log,
    nodes,
    about: world.node ?? ALONE,
    room: () => Math.max(1, gate.free()),
    takeUp: (sessions) => takeUp(sessions.filter(mine)),
    letGo: () => dropAll(),
    looked: () => {
      for (const slot of slots.values()) if (slot.view.viewers > 0 && !isOurs(slot.row)) forgetRow(slot);
    },
    leaving: () => world.leaving?.(),
  });
  let leaving = false;
  let closed: Refusal | null = null;
  let mine: (session: string) => boolean = () => true;

  const { elsewhere, ensureHere, forgetRow, dropAll, takeUp, handOverAll, calm } = createMoves(world, {
    nodes,
    member: () => member,
    slots,
    slotOf,
    weigh,
    gate,
    isOurs,
    isClosed: () => closed !== null,
    inLine,
    open: (session) => change(session, () => null, { insist: true }),
    reconcile,
    quiet,
  });

  // ── One change ──────────────────────────────────────────────────────────────────────────────────────

  function change(key: string, make: Make, options: ChangeOptions): Promise<Entry[] | "duplicate"> {
    const slot = slotOf(key);
    return inLine(slot, options.insist, () => dispatch(slot, make, options));
  }

  async function dispatch(slot: Slot, make: Make, options: ChangeOptions): Promise<Entry[] | "duplicate"> {
    for (let attempt = 0; ; attempt++) {
      if (closed) throw closed;
      try {
        const node = await member.joined(options.insist);
        // Another node may have changed a session that is at rest here: a refusal is decided by the stored row, not by this copy.
        const certain = !slot.row || isOurs(slot.row) || options.look === "cached";
        const row = await ensureHere(node, slot, slot.row ?? (await load(slot)), options.look);
        const orphan = isOrphan(row) && !options.look;
        if (orphan && leaving && member.shared)
          throw new Refusal("draining", "Restarting: another node goes on with it.");
        const said = () => (slot.view.live ? wholeOf(slot.view.live.text) : ""); // a copy: only where it is wanted
        const event = orphan ? await takenUp(slot.key, row) : madeBy(make, certain, row.state, said, printedIn(slot));
        const [state, facts] = event ? transition(row.state, event, { ...rules, leaving }) : [row.state, []];
        if (state === row.state) {
          if (certain) return [];
          slot.row = null;
          continue;
        }
        if (state.step !== row.state.step) hold(slot, row.state.step);
        const at = clock.now();
        const entries = facts.map((fact): Entry => ({ ...fact, at }));
        const parent = row.parent ?? options.parent ?? null;
        const active = isActive(state);
        const made = { session: slot.key, node, version: row.version, state, active, entries, parent, at };
        const verdict = await commit(made, orphan ? {} : options);
        if (verdict === "fenced" && member.shared) {
          if (node === member.id()) void member.lose();
          continue;
        }
        if (verdict === "fenced") throw fenced();
        if (verdict === "elsewhere") throw await elsewhere(slot);
        if (verdict === "duplicate") return "duplicate";
        if (verdict === "done") {
          const owner = active ? node : null;
          // Written under a lease that is lost by now: the commit stands, and whoever takes the session up acts on it.
          if (node !== member.id()) slot.row = null;
          else {
            slot.createdAt = row.version > 0 ? row.createdAt : at;
            const stored = { owner, writer: node, version: row.version + 1, createdAt: slot.createdAt, updatedAt: at };
            adopt(slot, { ...stored, state, parent }, entries);
          }
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

  /** Null: nothing is to be done; also where a refusal is not certain. */
  function madeBy(make: Make, certain: boolean, ...now: Parameters<Make>): Event | null {
    try {
      return make(...now);
    } catch (error) {
      if (certain || !(error instanceof Refusal)) throw error;
      return null;
    }
  }

  async function load(slot: Slot): Promise<StoredRow> {
    const row = (await journal.load(slot.key)) ?? NEW;
    know(slot, row);
    return row;
  }

  /** This is what is stored, whatever was known before. */
  function know(slot: Slot, row: StoredRow) {
    const isAnother = row.createdAt !== slot.createdAt; // what was known here has been deleted
    if (isAnother) slot.transcript = null;
    if (row === NEW) slot.transcript = emptyTranscript(); // nothing to read: saves a question to the store's thread
    if (slot.since < 0 || isAnother) slot.since = row.state.seq;
    slot.createdAt = row.createdAt;
    slot.view.recent.clear();
    if (row.writer === member.id() || row === NEW) adopt(slot, row, []);
    slot.row = row;
  }

  /** What it has to do was left by a process that is gone; nothing of it may run before that is counted (T9). */
  const isOrphan = (row: StoredRow) => row.writer !== member.id() && hasWork(row.state);
  /** Nobody else can change it. */
  function isOurs(row: StoredRow | null): boolean {
    return !member.shared || (row !== null && row.owner === member.id());
  }

  const isActive = (state: Session) => hasWork(state) || unsaved(state, rules).length > 0;

  async function takenUp(session: string, { state, updatedAt, writer }: StoredRow): Promise<Event> {
    const { resumeWithinMs: window } = limits;
    const planned = writer === ""; // it was handed over
    const resume = planned || (window > 0 && clock.now() - updatedAt < window);
    const inputs = [...(state.turn ? [state.turn.id] : []), ...state.inbox.map(({ id }) => id)];
    const barred = (await world.barred?.(session, inputs)) ?? [];
    return { type: "restarted", resume, ...(barred.length && { barred }), ...(planned && { planned }) };
  }

  /** A commit that may have landed has consequences as soon as the store can be read again. */
  function unknown(key: string) {
    const slot = slotOf(key);
    slot.row = null;
    void report(slot, () => null);
  }

  function pause(attempt: number, signal?: AbortSignal): Promise<void> {
    return clock.sleep(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 0, signal);
  }

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
    // A slot that was evicted may still report a death. Only the slot in memory decides what runs.
    if (closed || slots.get(slot.key) !== slot || !slot.row || isOrphan(slot.row)) return;
    const { state, parent } = slot.row;
    const { withoutPlace, inflight } = slot;
    const wanted = work(state, rules).filter(
      (effect) =>
        isOurs(slot.row) &&
        (!("turn" in effect) || effect.turn !== slot.line.halted) &&
        (!leaving || !member.shared || inflight.flights.has(effect.key)), // the node that it is handed to begins it
    );
    const heavy = wanted.some((effect) => HEAVY[effect.do] && withoutPlace.get(effect.key) !== null);
    const admitted = parent !== null || gate.admit(slot.key, state.turn?.id ?? null, heavy);
    slot.inflight.reconcile(wanted.filter((e) => admitted || !HEAVY[e.do] || withoutPlace.has(e.key)));
    if (admitted) for (const goOn of withoutPlace.values()) goOn?.();
    // What was stopped before it could start has nothing to wait for.
    if (state.turn?.phase.at === "stopping" && isOurs(slot.row))
      for (const key of state.turn.phase.alive) if (!slot.inflight.flights.has(key)) settle(slot, key, false);
  }

  function settle(slot: Slot, key: string, abandoned: boolean) {
    if (abandoned) log("warn", "effect.abandoned", { session: slot.key, key, graceMs: limits.graceMs });
    // A node that lost its place may have begun the same work again before this comes to its turn.
    const flies = () => slots.get(slot.key)?.inflight.flights.has(key);
    void report(slot, () => (flies() ? null : { type: "settled", key, abandoned }));
  }

  async function report(slot: Slot, make: () => Event | null) {
    try {
      await change(slot.key, make, { insist: true });
    } catch (error) {
      if (!closed && !(error instanceof Elsewhere))
        log("error", "event.lost", { session: slot.key, event: make()?.type, error: messageOf(error) });
    }
  }

  function run(slot: Slot, effect: Effect, signal: AbortSignal): Promise<Event | null> {
    const cx: EffectContext = {
      session: slot.key,
      signal,
      history: () => history(slot, signal),
      journal: {
        entries: async (session, after, limit) =>
          (session === slot.key && slot.view.recent.after(after)?.slice(0, limit)) ||
          patiently(() => journal.entries(session, after, limit), signal),
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

  /** Null: try again. An answer of which somebody has seen words is not started over. */
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
    if (slot.row && isOurs(slot.row)) return slot.row;
    await change(slot.key, () => null, { insist, look: "newest" });
    return slots.get(slot.key)?.row ?? NEW;
  }

  /** For those who watch: they are told to look again when it may have changed. */
  async function readCached(slot: Slot): Promise<void> {
    if (!slot.row) await change(slot.key, () => null, { insist: true, look: "cached" });
  }

  /** In the session's line, so that no input that was accepted meanwhile is forgotten with it. Entries that a memory was not told
   *  yet do not keep the session: that memory may be gone for good (I26). */
  function forget(key: string): Promise<"forgotten" | "busy" | "unknown"> {
    const slot = slotOf(key);
    return inLine(slot, false, async () => {
      try {
        for (;;) {
          if (closed) throw closed;
          const node = await member.joined(false);
          const known = slot.row && isOurs(slot.row) ? slot.row : await load(slot);
          const { version, state } = await ensureHere(node, slot, known);
          if (version === 0) return "unknown";
          if (hasWork(state)) return "busy";
          const verdict = await catalog.forget({ session: key, node, version });
          if (verdict === "fenced" && member.shared) void member.lose();
          else if (verdict === "fenced") throw fenced();
          if (verdict === "elsewhere") throw await elsewhere(slot);
          if (verdict === "done") {
            know(slot, NEW);
            return "forgotten";
          }
          slot.row = null; // stale
        }
      } catch (error) {
        if (!(error instanceof StoreFault)) throw error;
        unknown(key); // it may be gone
        throw unavailable(error);
      }
    });
  }

  /** Waits where the store cannot be read, or a lease is over until the next beat or its loss: an executor that has sent something
   *  must not lose count. */
  async function owned(signal: AbortSignal): Promise<boolean> {
    const isOver = () => closed !== null || signal.aborted;
    for (let attempt = 0; member.shared && !member.isValid() && !isOver(); attempt++) await pause(attempt, signal);
    if (isOver() || member.shared) return !isOver();
    const still = await patiently(() => nodes.beat(member.id()), signal);
    if (still === "gone" && !signal.aborted) fenced();
    return !isOver();
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
    log("error", "engine.fenced", { node: member.id() });
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
    readCached,
    isOrphan,
    isOurs,
    calm,
    handOverAll,
    member,
    waitsInLine: gate.holds,
    pause: gate.pause,
    /** Turns that have not worked yet do not begin to. */
    admitNoMore(): void {
      leaving = true;
      gate.close();
    },
    /** Takes up what a dead process has left, if it is `mine`. */
    start(which: (session: string) => boolean, refresh: () => Promise<void>): Promise<void> {
      mine = which;
      return member.start(refresh);
    },
    /** Nothing is written any more, and whatever still runs is let go of. */
    close(): void {
      closed ??= new Refusal("closed", "Shut down: nothing is accepted any more.");
      for (const slot of slots.values()) letGo(slot);
    },
    closed: () => closed !== null,
  };
}
