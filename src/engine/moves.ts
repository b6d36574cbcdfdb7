// Sessions that come to this node, and those that leave it.
import { createBounded } from "../core/bounded.ts";
import { Elsewhere, messageOf, StoreFault } from "../core/errors.ts";
import type { Effect } from "../core/session.ts";
import type { Nodes } from "../core/store.ts";
import { hasWork } from "../core/turn.ts";
import type { TurnGate } from "./gate.ts";
import { wake } from "./live.ts";
import type { Membership } from "./membership.ts";
import type { Slot, StoredRow } from "./slots.ts";
import type { World } from "./world.ts";

const ADDRESSES = 1_000;

export function createMoves(
  { clock, log, limits, nodeOf }: World,
  engine: {
    nodes: Nodes;
    member(): Membership;
    slots: ReadonlyMap<string, Slot>;
    slotOf(key: string): Slot;
    weigh(slot: Slot): void;
    gate: TurnGate;
    isOurs(row: Slot["row"]): boolean;
    isClosed(): boolean;
    inLine(slot: Slot, insist: true, work: () => Promise<void>): Promise<void>;
    /** Loads it, and takes up what it has to do. */
    open(session: string): Promise<unknown>;
    reconcile(slot: Slot): void;
    /** Called whenever some piece of work is over. */
    quiet: Set<() => void>;
  },
) {
  const { nodes, member, slots, slotOf, weigh, gate, isOurs, isClosed, inLine, open, reconcile, quiet } = engine;
  /** Sessions that cannot be taken up: they are left alone. */
  const unrecoverable = new Set<string>();
  /** Of other nodes, by id. One that listens somewhere else has another id. */
  const addresses = createBounded<string>(ADDRESSES);
  /** Sessions that are being handed over. */
  const moving = new Set<string>();
  /** Those of them that are let go of in this moment: told together. */
  let parcel: { sessions: string[]; sent: Promise<void> } | null = null;

  /** Another node has it: nothing of it runs here. `owner`: its id, as it was just read. */
  async function elsewhere(slot: Slot, owner = ""): Promise<Error> {
    drop(slot);
    const address = addresses.get(owner);
    if (address !== undefined) return new Elsewhere({ node: owner, address });
    const found = await nodes.ownerOf(slot.key);
    if (!found) return new StoreFault("no", "the session is changing its node");
    addresses.set(found.node, found.address);
    return new Elsewhere(found);
  }

  /** The row; refuses where another node has the session, or has what it needs while it is at rest. */
  async function ensureHere(node: string, slot: Slot, row: StoredRow, look?: "cached" | "newest"): Promise<StoredRow> {
    if (!member().shared || row.owner === node) return row;
    if (row.owner !== null) throw await elsewhere(slot, row.owner);
    const isKnownHere = row.version === 0 || row.writer === node || hasWork(row.state) || look === "cached";
    const there = isKnownHere ? null : await nodeOf?.(slot.key);
    if (there) throw new Elsewhere(there);
    return row;
  }

  function forgetRow(slot: Slot) {
    slot.row = null;
    slot.view.recent.clear();
    slot.view.page = null;
    wake(slot);
  }

  /** Nothing that is known of it may be used again, and nothing of it may run. */
  function drop(slot: Slot) {
    slot.transcript = null;
    slot.view.live = null;
    slot.view.prints.calls.clear();
    gate.admit(slot.key, null, false);
    slot.inflight.reconcile([]);
    weigh(slot);
    forgetRow(slot);
  }

  async function dropAll(): Promise<void> {
    for (const slot of slots.values()) drop(slot);
    await calm((slot) => slot.inflight.flights.size === 0, limits.graceMs);
  }

  /** What `claim` gave us. */
  async function takeUp(sessions: string[]): Promise<void> {
    await Promise.all(
      sessions.map(async (session) => {
        const slot = slotOf(session);
        if (unrecoverable.has(session)) return;
        try {
          if (!isOurs(slot.row)) forgetRow(slot); // viewers look again now: from here on no look around tells them to
          await open(session);
          reconcile(slotOf(session));
        } catch (error) {
          if (error instanceof Elsewhere || isClosed()) return;
          unrecoverable.add(session);
          log("error", "session.unrecoverable", { session, error: messageOf(error) }); // the others go on
        }
      }),
    );
  }

  /** Gives a session up where nothing of it is lost: not while a tool that cannot be repeated runs, or a reply is on its way. */
  async function handOver(slot: Slot): Promise<void> {
    const mayMove = () =>
      isOurs(slot.row) && !slot.inflight.flights.values().some(({ effect }) => isOnce(slot, effect));
    if (moving.has(slot.key) || !mayMove()) return;
    moving.add(slot.key);
    await inLine(slot, true, async () => {
      if (isClosed() || !mayMove()) return;
      drop(slot);
      await sendAway(slot.key);
    }).catch((error: unknown) => {
      if (!(error instanceof StoreFault)) throw error; // it is free when this node has left
    });
    moving.delete(slot.key);
    for (const check of quiet) check();
  }

  function sendAway(session: string): Promise<void> {
    const sessions: string[] = [];
    const send = () => {
      parcel = null;
      return nodes.handOver(member().id(), sessions);
    };
    parcel ??= { sessions, sent: Promise.resolve().then(send) };
    parcel.sessions.push(session);
    return parcel.sent;
  }

  function isOnce({ row }: Slot, effect: Effect): boolean {
    if (effect.do !== "act") return effect.do === "deliver";
    const phase = row?.state.turn?.phase;
    return phase?.at !== "acting" || phase.calls.some(({ id, repeatable }) => id === effect.call && !repeatable);
  }

  /** Waits until it holds for every session, at most so long. */
  async function calm(holds: (slot: Slot) => boolean, ms: number): Promise<void> {
    const over = new AbortController();
    const check = () => {
      if (slots.values().every(holds)) over.abort();
    };
    quiet.add(check);
    check();
    if (!over.signal.aborted) await clock.sleep(ms, over.signal);
    quiet.delete(check);
  }

  /** Others go on with what is at work here, each as soon as it can be moved; waits for that, at most so long. */
  async function handOverAll(ms: number): Promise<void> {
    const move = () => {
      for (const slot of slots.values()) if (slot.row?.owner === member().id()) void handOver(slot);
    };
    quiet.add(move);
    move();
    await calm(({ key, row }) => !moving.has(key) && row?.owner !== member().id(), ms);
    quiet.delete(move);
  }

  return { elsewhere, ensureHere, forgetRow, dropAll, takeUp, handOverAll, calm };
}
