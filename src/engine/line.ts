// One change at a time for a session. While the first in line waits for the store, whoever does not insist is refused.
import { Refusal, type StoreFault } from "../core/errors.ts";
import type { Slot } from "./slots.ts";

/** `changed`: what should be in flight may be something else now. */
export function createLine(changed: (slot: Slot) => void) {
  function inLine<T>(slot: Slot, insist: boolean, work: () => Promise<T>): Promise<T> {
    if (slot.line.trouble && !insist) return Promise.reject(unavailable(slot.line.trouble));
    slot.line.pending++;
    const refused = Promise.withResolvers<never>();
    let waits = true;
    const refuse = (fault: StoreFault) => {
      waits = false;
      refused.reject(unavailable(fault));
    };
    if (!insist) slot.line.hasty.add(refuse);
    const result = slot.line.tail.then(() => {
      slot.line.hasty.delete(refuse);
      return waits ? work() : refused.promise;
    });
    const over = () => {
      slot.line.pending--;
      slot.line.trouble = null; // it was this one's: whoever comes next finds out for itself (I26)
      if (slot.line.halted === null) return;
      slot.line.halted = null;
      changed(slot);
    };
    slot.line.tail = result.then(over, over);
    return insist ? result : Promise.race([result, refused.promise]);
  }

  function trouble(slot: Slot, fault: StoreFault, halt: string | undefined) {
    slot.line.trouble = fault;
    for (const refuse of slot.line.hasty) refuse(fault);
    slot.line.hasty.clear();
    if (!halt) return;
    slot.line.halted = halt;
    changed(slot);
  }

  return { inLine, trouble };
}

export const unavailable = (cause: StoreFault) =>
  new Refusal("store_unavailable", `Not accepted, try again: ${cause.message}`);
