// The words of the model call in flight. They are a view: the entry that ends the call holds all of them (E3).
import type { Slot } from "./slots.ts";

/** `held`: said while the end of that call was being written. */
export type Live = {
  step: number;
  text: string;
  /** The last of it: a slice of the whole would copy all of it for every word (10 MB: 20 s and 900 MB). */
  tail?: string;
  held?: string;
  notice?: string;
  notices?: number;
  reasoning?: string;
  reasoningTail?: string;
};
type Speaker = Pick<Slot, "row" | "live" | "watchers">;

/** Who follows a text is seldom so far behind. */
const LONGEST_TAIL = 65_536;

export function say(slot: Speaker, step: number, text: string): void {
  if ((slot.row?.state.step ?? step) !== step || (slot.live?.step ?? step) !== step) return;
  slot.live ??= { step, text: "" };
  if (slot.live.held === undefined) {
    slot.live.text += text;
    slot.live.tail = longer(slot.live.tail, text);
  } else slot.live.held += text;
  wake(slot);
}

export function muse(slot: Speaker, step: number, text: string): void {
  if (slot.row?.state.step !== step || slot.live?.held !== undefined) return;
  slot.live ??= { step, text: "" };
  slot.live.reasoning = (slot.live.reasoning ?? "") + text;
  slot.live.reasoningTail = longer(slot.live.reasoningTail, text);
  wake(slot);
}

export function notice(slot: Speaker, step: number, text: string): void {
  if (slot.row?.state.step !== step || (slot.live?.notice ?? "") === text) return;
  slot.live ??= { step, text: "" };
  slot.live.notice = text;
  slot.live.notices = (slot.live.notices ?? 0) + 1;
  wake(slot);
}

/** Nothing is shown behind the end that is being written, also not the first word. */
export function hold(slot: Speaker, step: number): void {
  slot.live = { ...slot.live, step, text: slot.live?.text ?? "", held: "" };
}

/** The change did not happen: what the model said meanwhile is shown after all. */
export function release(slot: Speaker): void {
  if (slot.live?.held === undefined) return;
  const { held, ...live } = slot.live;
  slot.live = { ...live, text: live.text + held, tail: "" };
  wake(slot);
}

export function wake({ watchers }: Pick<Slot, "watchers">): void {
  for (const look of watchers) look();
}

/** What follows the first `from` characters of a text that ends with `tail`. */
export function textFrom(text = "", tail = "", from: number): string {
  const start = text.length - tail.length;
  return from < start ? text.slice(from) : tail.slice(from - start);
}

const longer = (tail = "", text: string) => (tail.length < LONGEST_TAIL ? tail + text : text);
