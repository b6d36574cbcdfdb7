// The runtime that surfaces use, a few lines each over `change`.

import { hash } from "node:crypto";
import { createBounded } from "../core/bounded.ts";
import { Elsewhere, Refusal, StoreFault } from "../core/errors.ts";
import { pagesOf } from "../core/pages.ts";
import { foldRun, type Run } from "../core/run.ts";
import type {
  AcceptRequest,
  Load,
  Paused,
  Receipt,
  Runtime,
  Status,
  Stopped,
  Update,
  Whereabouts,
} from "../core/runtime.ts";
import { type Effect, type Entry, type Event, MODES, type Session } from "../core/session.ts";
import { RUN } from "../core/session-key.ts";
import { titleOf } from "../core/title.ts";
import { emptyTranscript, extend } from "../core/transcript.ts";
import { unsaved } from "../core/turn.ts";
import { within } from "../core/wait.ts";
import { createDispatch, type Make } from "./dispatch.ts";
import { unavailable } from "./line.ts";
import { lengthOf } from "./live-text.ts";
import { sharingReads } from "./shared-reads.ts";
import type { Slot } from "./slots.ts";
import { follow } from "./stream.ts";
import type { EngineLimits, World } from "./world.ts";

export interface Engine extends Runtime {
  /** Joins the store and takes up what a dead process left. Before anything else. Sessions that are not `mine` (a
   *  terminal cannot reply to a chat) wait for a process that serves them, or for somebody who talks to them. */
  start(mine?: (session: string) => boolean): Promise<void>;
  /** Starts no new turn, waits for the running ones up to `ms`, then lets go of everything. What is left looks
   *  to the next process like a crash, which is why recovery needs no second path. Returns what was left. */
  drain(ms: number, except?: string): Promise<{ left: string[] }>;
  /** The id of this process among those that share the store. It changes when its lease was lost. */
  node(): string;
  /** False: another node may have taken over what is at work here. */
  leased(): boolean;
}

/** Turns of which we know where they are. */
const HOMES = 10_000;
/** Entries read at once for somebody who watches, and may take long over them. */
const VIEWED = 64;
/** What memory gets at the end of a drain. */
const MEMORY_MS = 400;
/** What the store gets to note that this node has left. */
const LEAVE_MS = 1_000;

/** `begins`: told before the commit of an input that begins a turn at once, so that what its model call needs can be looked for
 *  meanwhile. */
type Begins = { begins?(turn: { session: string; turn: string; text: string; by?: string }): void };

export function createEngine({ begins, ...given }: World & Begins): Engine {
  const { journal, catalog } = sharingReads(given.store, () => !given.node?.address);
  const world: World = { ...given, store: { ...given.store, journal, catalog } };
  const { clock, log, limits } = world;
  const { notes, announcements, search } = world.store;
  const sessions = createDispatch(world);
  const { slots, slotOf, change, history, read, calm, member } = sessions;
  let draining = false;
  let isPaused = false;
  let pausing: Promise<unknown> = Promise.resolve();
  /** Where the turns are that were begun here, newest last. */
  const homes = createBounded<string>(HOMES);

  function settled(receipt: Receipt): Receipt {
    homes.set(receipt.id, receipt.session);
    return receipt;
  }

  async function accept(request: AcceptRequest): Promise<Receipt> {
    const id = turnId(request.source, request.key);
    const {
      session = id,
      reply,
      by,
      attended,
      unattended,
      into,
      images,
      model,
      task,
      instructions,
      history: past,
      options,
      tools,
      bare,
      wire,
    } = request;
    validate({ ...request, session }, limits);
    const text = request.text.toWellFormed(); // a provider refuses half a character, and would refuse it for ever
    const all = [session, text, request.mode, reply, into, images, model, task, instructions, past, options];
    const digest = sha256(request.same === undefined ? all : [request.same]);
    const make: Make = (state, said, printed) => {
      if (draining && !state.turn && !request.parent)
        throw new Refusal("draining", "Restarting: no new work is accepted right now.");
      // A parked session at rest takes one more: somebody must be able to wake it, and it begins with the first at once.
      if (state.inbox.length >= limits.inbox && (state.turn || !state.parked))
        throw new Refusal("inbox_full", `${limits.inbox} messages are waiting already; wait or withdraw one.`);
      request.admit?.();
      const at = state.turn?.phase.at;
      if (into && (state.turn?.id !== into || at === "replying" || at === "stopping"))
        throw new Refusal("run_not_accepting_steer", `The run ${into} is not running.`);
      // A drain and a pause let the running turn finish.
      const waits = draining || (isPaused && request.mode === "interrupt");
      const mode = waits ? "queue" : request.mode;
      const given = {
        source: request.source,
        ...(by && { by }),
        ...(attended && { attended }),
        ...(unattended && { unattended }),
        ...(images && { images }),
        ...(model && { model }),
        ...(task && { task }),
        ...(instructions && { instructions }),
        ...(past && { history: past }),
        ...(options && { options }),
        ...(tools && { tools }),
        ...(bare && { bare }),
        ...(wire && { wire }),
      };
      if (!state.turn && !state.inbox.length && !bare) begins?.({ session, turn: id, text, ...(by && { by }) });
      return { type: "arrived", input: { id, text, mode, reply, ...given }, said: said(), printed };
    };
    homes.set(id, session); // whoever watches for it asks as soon as it is committed
    let refusal: Refusal | null = null;
    try {
      const entries = await change(session, make, {
        insist: false,
        accepted: { id, digest },
        parent: request.parent,
        title: titleOf(text),
      });
      const [first] = entries === "duplicate" ? [] : entries;
      if (first?.kind === "accepted")
        return settled({
          id,
          session,
          applied: first.applied,
          replayed: false,
          ...(isPaused && !request.parent && { paused: true }),
          cursor: before(first),
        });
    } catch (error) {
      if (!(error instanceof Refusal) || error instanceof Elsewhere) throw error; // the session's node answers for it
      refusal = error;
    }
    // The second delivery of what was accepted is answered like the first, whatever holds now (I3).
    const replayed = await replay(id, digest).catch((error: unknown) => {
      throw error instanceof StoreFault ? unavailable(error) : error;
    });
    if (replayed) return replayed;
    throw refusal ?? new Refusal("store_unavailable", "Not accepted, try again.");
  }

  async function replay(id: string, digest: string): Promise<Receipt | null> {
    const input = await journal.input(id);
    if (!input) return null;
    if (input.digest !== digest)
      throw new Refusal("idempotency_key_conflict", "This key was used before for something else; use a new one.");
    const [first] = await journal.turn(id);
    const applied = first?.kind === "accepted" ? first.applied : "queue";
    return { id, session: input.session, applied, replayed: true, cursor: before(first) };
  }

  async function stop({ session, turn, scope = "turn" }: Parameters<Runtime["stop"]>[0]): Promise<Stopped> {
    let now: Session["turn"] = null;
    const make: Make = (state, said, printed) => {
      now = state.turn;
      return { type: "stopped", turn, said: said(), printed };
    };
    const entries = await changed(session, make, turn);
    if (entries.some((entry) => entry.kind === "withdrawn")) return "withdrawn";
    const found = now as Session["turn"];
    if (found?.id !== turn) return "over";
    if (scope === "tree") for (const child of await journal.children(session)) await stopAll(child);
    return found.phase.at === "replying" ? "ending" : "stopping";
  }

  /** A session that another one made: its turn, what waits in it, and whatever it made in its turn. */
  async function stopAll(session: string): Promise<void> {
    const found = await ours(status(session));
    if (!found) return;
    const { turn, inbox } = found;
    for (const { id } of inbox) await withdraw(session, id);
    if (turn) await stop({ session, turn: turn.id });
    for (const child of await journal.children(session)) await stopAll(child);
  }

  /** Null: it is at work on another node, where whoever asked reaches it. */
  async function ours<T>(asked: Promise<T>): Promise<T | null> {
    try {
      return await asked;
    } catch (error) {
      if (error instanceof Elsewhere) return null;
      throw error;
    }
  }

  async function changed(session: string, make: Make, halt?: string): Promise<Entry[]> {
    const entries = await change(session, make, { insist: true, ...(halt && { halt }) });
    return entries === "duplicate" ? [] : entries;
  }
  const happened = async (session: string, event: Event) => (await changed(session, () => event)).length > 0;

  const answer: Runtime["answer"] = ({ session, call, allow, text, by, scope = "once" }) =>
    happened(session, { type: "decided", call, allow, text, by, scope });
  const grants: Runtime["grants"] = async (session) => [...(await history(slotOf(session))).grants];
  const revoke: Runtime["revoke"] = (session, call, by) => happened(session, { type: "revoked", call, by });
  const withdraw: Runtime["withdraw"] = (session, input) => happened(session, { type: "withdrawn", input });
  const move: Runtime["move"] = (session, input, to) => happened(session, { type: "moved", input, to });

  async function status(session: string): Promise<Status> {
    const slot = slotOf(session);
    const row = await read(slot);
    const { turn, inbox, parked } = row.state;
    const { waiting } = inbox.length ? await history(slot) : emptyTranscript();
    const calls = turn?.phase.at === "acting" ? turn.phase.calls.filter((call) => call.status === "asking") : [];
    const entries = turn && calls.length ? await journal.turn(turn.id) : [];
    const asking = entries.flatMap((e) =>
      e.kind === "asked" && e.ask.kind !== "client" && calls.some(({ id }) => id === e.call)
        ? [{ call: e.call, ...e.ask }]
        : [],
    );
    return {
      session,
      turn: turn && { id: turn.id, phase: turn.phase.at, thoughts: turn.thoughts, recoveries: turn.recoveries },
      inbox: inbox.map(({ id, mode }) => ({ id, mode, text: waiting.get(id)?.text ?? "" })),
      asking,
      parked,
      said: sessions.isOrphan(row) ? null : slot.view.live ? lengthOf(slot.view.live.text) : 0,
      since: String(slot.since),
      held: sessions.waitsInLine(session),
      unsaved: unsaved(row.state, world.rules),
      background: [],
    };
  }

  async function whereabouts(id: string): Promise<Whereabouts | null> {
    const input = await journal.input(id);
    if (!input) return null;
    if (input.status !== "taken" || !input.turn) return { at: input.status === "withdrawn" ? "withdrawn" : "queued" };
    const ended = (await journal.turn(input.turn)).find((entry) => entry.kind === "ended");
    if (ended?.kind !== "ended") return { at: "taken", turn: input.turn };
    return { at: "answered", turn: input.turn, outcome: ended.outcome };
  }

  async function run(id: string): Promise<(Run & { session: string }) | null> {
    const found = here(id) ?? (await there(id));
    const own = found && foldRun(found.entries);
    if (!own) return null;
    const { session, joined: turn } = found;
    if (own.status !== "queued" || !turn) return { ...own, session };
    const joined = foldRun(await turnOf(turn)); // a steer: it is what the turn it joined is
    return joined && { ...joined, id, joined: turn, session };
  }

  /** What is known of a turn without asking the store, which is busy writing for others. */
  function here(id: string) {
    const session = homes.get(id) ?? "";
    const { row = null, view } = slots.get(session) ?? {};
    const recent = view?.recent;
    const entries = sessions.isOurs(row) ? recent?.turn(id) : null; // another node may have deleted what is not ours
    return entries ? { entries, session, joined: recent?.joined(id) ?? null } : null;
  }

  async function there(id: string) {
    const [entries, input] = await Promise.all([journal.turn(id), journal.input(id)]);
    return input && { entries, session: input.session, joined: input.turn };
  }

  const turnOf = async (id: string) => here(id)?.entries ?? journal.turn(id);

  async function create({ session, title, messages = [] }: Parameters<Runtime["create"]>[0]) {
    const ofNothing: Event = { type: "forked", from: "", upTo: 0, messages };
    const entries = await change(session, () => ofNothing, { insist: false, title });
    return entries.length ? "created" : "taken";
  }

  async function fork({ from, through, session, title }: Parameters<Runtime["fork"]>[0]) {
    const past = emptyTranscript();
    let whole = false;
    for await (const page of pagesOf(journal, from)) {
      const last = page.findIndex((entry) => entry.turn === through && entry.kind === "ended");
      for (const entry of last < 0 ? page : page.slice(0, last + 1)) extend(past, entry);
      whole = last >= 0;
      if (whole) break;
    }
    if (!past.seq || (through && !whole)) return "unknown";
    const event = { type: "forked", from, upTo: past.seq, messages: past.messages } as const;
    const entries = await change(session, () => event, { insist: false, title });
    return entries.length ? "forked" : "taken";
  }

  async function forget(session: string): Promise<"forgotten" | "busy" | "unknown"> {
    const became = await sessions.forget(session);
    if (became === "forgotten") for (const child of await journal.children(session)) await ours(forget(child));
    return became;
  }

  async function* watch(session: string, cursor: string, signal: AbortSignal): AsyncGenerator<Update> {
    const slot = slotOf(session);
    slot.view.viewers++;
    if (!sessions.isOurs(slot.row)) slot.row = null;
    try {
      yield* follow(
        {
          open: () => !sessions.closed(),
          ready: () => sessions.readCached(slot),
          seq: () => slot.row?.state.seq ?? 0,
          live: () => slot.view.live,
          prints: () => slot.view.prints,
          entries: async (after) =>
            slot.view.recent.after(after) ?? sessions.patiently(() => pageOf(slot, after), signal),
          watchers: slot.view.watchers,
        },
        cursor,
        signal,
      );
    } finally {
      slot.view.viewers--;
      if (!slot.view.viewers) slot.view.page = null;
    }
  }

  /** Of many who come late, the first one reads for all: 80 copies of an answer of 8 MB were most of 2 GB. */
  function pageOf(slot: Slot, after: number): Promise<Entry[]> {
    const { row } = slot;
    if (slot.view.page?.after === after && slot.view.page.row === row) return slot.view.page.entries;
    const page = { after, row, entries: journal.entries(slot.key, after, VIEWED) };
    slot.view.page = page;
    page.entries.catch(() => {
      if (slot.view.page === page) slot.view.page = null;
    });
    return page.entries;
  }

  async function load(): Promise<Load> {
    const busy = [...slots.values()].filter(({ row }) => row && (row.state.turn || row.state.inbox.length));
    const oldest = await Promise.all(
      busy.map(async ({ key, row }) => {
        const seq = Math.min(...(row?.state.inbox ?? []).map((waiting) => waiting.seq));
        const [entry] = Number.isFinite(seq) ? await journal.entries(key, seq - 1, 1) : [];
        return entry?.at ?? Number.POSITIVE_INFINITY;
      }),
    );
    const at = Math.min(...oldest);
    return {
      turns: busy.filter(({ row }) => row?.state.turn).length,
      held: busy.filter(({ key }) => sessions.waitsInLine(key)).length,
      waiting: busy.reduce((sum, { row }) => sum + (row?.state.inbox.length ?? 0), 0),
      oldestWaitingAt: Number.isFinite(at) ? at : null,
      inputs: busy.flatMap(({ row }) => [row?.state.turn?.id ?? [], row?.state.inbox.map(({ id }) => id) ?? []].flat()),
    };
  }

  async function start(mine: (session: string) => boolean = () => true): Promise<void> {
    await sessions.start(mine, async () => void (await inOrder(paused)));
    log("info", "engine.started", { node: member.id() });
  }

  /** Another process with the same store may have changed it. */
  /** Of a pause and a resume the later one stands, and no answer from before it. */
  function inOrder<T>(work: () => Promise<T>): Promise<T> {
    const done = pausing.then(work);
    pausing = done.catch(() => {});
    return done;
  }

  async function paused(): Promise<Paused | null> {
    const note = pausedNote(await notes.get(PAUSED));
    isPaused = note !== null;
    sessions.pause(isPaused);
    return note;
  }

  async function pause(by: string | null): Promise<void> {
    await notes.set(PAUSED, by === null ? undefined : { by, at: clock.now() });
    log("info", by === null ? "engine.resumed" : "engine.paused", { by });
    await paused();
  }

  async function drain(ms: number, except?: string): Promise<{ left: string[] }> {
    draining = true;
    sessions.admitNoMore();
    const turns = (slot: Slot) =>
      slot.row?.state.turn?.id !== except && flying(slot, (e) => e.do !== "remember" && e.do !== "ask");
    if (member.shared) {
      const handedOver = sessions.handOverAll(ms); // first: somebody waits for them
      void told(member.drain());
      await handedOver;
    } else {
      await calm((slot) => !turns(slot), ms);
      await calm((slot) => !flying(slot, (e) => e.do === "remember"), Math.min(ms, MEMORY_MS));
    }
    const left = [...slots.values()].flatMap((slot) => (slot.row?.state.turn ? [slot.row.state.turn.id] : []));
    sessions.close();
    await calm((slot) => slot.inflight.flights.size === 0, limits.graceMs);
    await within(clock, LEAVE_MS, told(member.leave()));
    return { left };
  }

  /** The store may be away: others find out by themselves, when the lease of this node is over. */
  const told = (telling: Promise<void>) =>
    telling.catch((error: unknown) => {
      if (!(error instanceof StoreFault)) throw error;
    });

  const flying = (slot: Slot, which: (effect: Effect) => boolean) =>
    slot.inflight.flights.values().some((flight) => which(flight.effect));

  return {
    accept,
    stop,
    answer,
    grants,
    granted: () => catalog.granted(),
    revoke,
    withdraw,
    move,
    status,
    idOf: turnId,
    whereabouts,
    run,
    turn: turnOf,
    follow: watch,
    sessions: (page) => catalog.sessions(page),
    summary: (session) => catalog.summary(session),
    search,
    entries: (session, after, limit) => journal.entries(session, after, limit),
    retitle: (session, title) => catalog.retitle(session, title),
    create,
    fork,
    restoreFiles: () =>
      Promise.resolve({ summary: "Files were not brought back: there are no tools that change any.", patch: "" }),
    fileChanges: () => Promise.resolve({ summary: "Not known: there are no tools that change files.", patch: "" }),
    forget,
    announcements,
    load,
    notes,
    start,
    drain,
    node: () => member.id(),
    leased: () => !member.shared || member.isValid(),
    draining: () => draining,
    paused: () => inOrder(paused),
    pause: (by) => inOrder(() => pause(by)),
    resume: () => inOrder(() => pause(null)),
  };
}

const PAUSED = "paused";
const pausedNote = (note: unknown): Paused | null =>
  typeof note === "object" && note !== null && "by" in note && "at" in note
    ? { by: String(note.by), at: Number(note.at) }
    : null;

const before = (entry: Entry | undefined) => String((entry?.seq ?? 1) - 1);
const sha256 = (parts: unknown[]) => hash("sha256", JSON.stringify(parts));

/** Made from where the input came from: delivered twice, it is the same turn by construction (I3). */
export const turnId = (source: string, key: string): string => `${RUN}${sha256([source, key]).slice(0, 32)}`;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;

function validate(request: AcceptRequest & { session: string }, limits: EngineLimits): void {
  const { session, source, key, text, mode } = request;
  const names = { session, source, key };
  for (const [what, value] of Object.entries(names)) {
    if (typeof value === "string" && value && value.length <= 512 && !CONTROL.test(value)) continue;
    const code = what === "session" ? "invalid_session" : "invalid_key";
    throw new Refusal(code, `The ${what} must be 1 to 512 characters without control characters.`);
  }
  if (typeof text !== "string" || !text.trim()) throw new Refusal("empty_text", "There is no text in this message.");
  if (text.length > limits.text)
    throw new Refusal("text_too_long", `This message has ${text.length} characters; at most ${limits.text} fit.`);
  if (!MODES.includes(mode))
    throw new Refusal("invalid_mode", `The mode must be one of ${MODES.join(", ")}, not ${JSON.stringify(mode)}.`);
}
