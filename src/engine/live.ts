// The words of the model call in flight. They are a view: the entry that ends the call holds all of them (E3).

import { add, type Spoken, silence } from "./live-text.ts";
import type { Slot } from "./slots.ts";

/** `held`: said while the end of that call was being written. */
export type Live = {
  step: number;
  text: Spoken;
  reasoning: Spoken;
  held?: string;
  notice?: string;
  notices?: number;
};
type Speaker = Pick<Slot, "row" | "live" | "watchers">;

export function addText(slot: Speaker, step: number, text: string): void {
  if ((slot.row?.state.step ?? step) !== step || (slot.live?.step ?? step) !== step) return;
  slot.live ??= begun(step);
  if (slot.live.held === undefined) add(slot.live.text, text);
  else slot.live.held += text;
  wake(slot);
}

export function addReasoning(slot: Speaker, step: number, text: string): void {
  if (slot.row?.state.step !== step || slot.live?.held !== undefined) return;
  slot.live ??= begun(step);
  add(slot.live.reasoning, text);
  wake(slot);
}

export function notice(slot: Speaker, step: number, text: string): void {
  if (slot.row?.state.step !== step || (slot.live?.notice ?? "") === text) return;
  slot.live ??= begun(step);
  slot.live.notice = text;
  slot.live.notices = (slot.live.notices ?? 0) + 1;
  wake(slot);
}

/** Nothing is shown behind the end that is being written, also not the first word. */
export function hold(slot: Speaker, step: number): void {
  slot.live = { ...(slot.live ?? begun(step)), step, held: "" };
}

/** The change did not happen: what the model said meanwhile is shown after all. */
export function release(slot: Speaker): void {
  if (slot.live?.held === undefined) return;
  const { held, ...live } = slot.live;
  add(live.text, held);
  slot.live = live;
  wake(slot);
}

export function wake({ watchers }: Pick<Slot, "watchers">): void {
  for (const look of watchers) look();
}

const begun = (step: number): Live => ({ step, text: silence(), reasoning: silence() });
