// The words of the model call in flight. They are a view: the entry that ends the call holds all of them (E3).

import type { Entry, Printed } from "../core/session.ts";
import { add, type LiveText, silence } from "./live-text.ts";
import type { Slot } from "./slots.ts";

/** `held`: text that arrived while the end of the call was being committed. */
export type Live = {
  step: number;
  text: LiveText;
  reasoning: LiveText;
  held?: string;
  notice?: string;
  notices?: number;
};
/** The last output of running tools, by call. `at` counts the outputs that this process has shown of the session. */
export type Prints = { count: number; calls: Map<string, { text: string; at: number }> };
type Speaker = Pick<Slot, "row" | "view">;

export function addText(slot: Speaker, step: number, text: string): void {
  if ((slot.row?.state.step ?? step) !== step || (slot.view.live?.step ?? step) !== step) return;
  slot.view.live ??= begun(step);
  if (slot.view.live.held === undefined) add(slot.view.live.text, text);
  else slot.view.live.held += text;
  wake(slot);
}

export function addReasoning(slot: Speaker, step: number, text: string): void {
  if (slot.row?.state.step !== step || slot.view.live?.held !== undefined) return;
  slot.view.live ??= begun(step);
  add(slot.view.live.reasoning, text);
  wake(slot);
}

export function notice(slot: Speaker, step: number, text: string): void {
  if (slot.row?.state.step !== step || (slot.view.live?.notice ?? "") === text) return;
  slot.view.live ??= begun(step);
  slot.view.live.notice = text;
  slot.view.live.notices = (slot.view.live.notices ?? 0) + 1;
  wake(slot);
}

export function showPrinted({ view }: Pick<Slot, "view">, call: string, text: string): void {
  view.prints.count += 1;
  view.prints.calls.set(call, { text, at: view.prints.count });
  wake({ view });
}

export const printedIn = ({ view }: Pick<Slot, "view">): Printed =>
  Object.fromEntries(Array.from(view.prints.calls, ([call, { text }]) => [call, text]));

/** The result of a call replaces what was shown of it. */
export function dropPrinted({ view }: Pick<Slot, "view">, entries: readonly Entry[]): void {
  for (const entry of entries) if (entry.kind === "acted") view.prints.calls.delete(entry.call);
}

/** While the end of a call is being committed, no more text of it is shown. */
export function hold(slot: Speaker, step: number): void {
  slot.view.live = { ...(slot.view.live ?? begun(step)), step, held: "" };
}

/** The commit did not happen: text that arrived meanwhile is shown after all. */
export function release(slot: Speaker): void {
  if (slot.view.live?.held === undefined) return;
  const { held, ...live } = slot.view.live;
  add(live.text, held);
  slot.view.live = live;
  wake(slot);
}

export function wake({ view }: Pick<Slot, "view">): void {
  for (const look of view.watchers) look();
}

const begun = (step: number): Live => ({ step, text: silence(), reasoning: silence() });
