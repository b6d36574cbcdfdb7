// A turn that waits by itself gives its place back, and stands in line for it afterwards.
import type { Clock } from "../core/ports.ts";
import type { Effect } from "../core/session.ts";
import { onAbort } from "../core/wait.ts";
import type { TurnGate } from "./gate.ts";
import { notice } from "./live.ts";
import type { Slot } from "./slots.ts";

const NO_PLACE = "Waiting for a place among the turns in flight.";

export function createPlaceWait(clock: Clock, gate: TurnGate, reconcile: (slot: Slot) => void) {
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
    slot.withoutPlace.set(effect.key, resolve);
    const release = onAbort(signal, resolve);
    reconcile(slot);
    if (gate.holds(slot.key) && "step" in effect) notice(slot, effect.step, NO_PLACE);
    await promise;
    release();
  }

  return waitWithoutPlace;
}
