// Some servers leave the reasoning of a model at the beginning of its text, between <think> and </think>.
import type { ModelSink } from "../core/ports.ts";

const OPEN = "<think>";
const CLOSE = "</think>";

/** Takes the text as it comes, in pieces of any size, and tells the two apart. Nothing of it is lost; `end` lets go of
 *  what was held back. */
export function splitThinking({ text: say, reasoning: muse }: Pick<ModelSink, "text" | "reasoning">) {
  let at: "start" | "inside" | "behind" | "text" = "start";
  let held = "";

  function text(delta: string): void {
    held += delta;
    if (at === "start") {
      const begins = held.trimStart();
      if (OPEN.startsWith(begins)) return; // nothing yet, or not all of it
      at = begins.startsWith(OPEN) ? "inside" : "text";
      if (at === "inside") held = begins.slice(OPEN.length);
    }
    if (at === "inside") {
      const close = held.indexOf(CLOSE);
      const sure = close >= 0 ? close : held.length - overlap(held);
      if (sure > 0) muse(held.slice(0, sure));
      held = held.slice(sure);
      if (close < 0) return;
      held = held.slice(CLOSE.length);
      at = "behind";
    }
    if (at === "behind") {
      held = held.trimStart();
      if (!held) return;
      at = "text";
    }
    const whole = held;
    held = "";
    if (whole) say(whole);
  }

  function end(): void {
    if (held) (at === "inside" ? muse : say)(held);
    held = "";
  }

  return { text, end };
}

/** How much of the end of this may be the beginning of the closing mark. */
function overlap(text: string): number {
  for (let length = Math.min(text.length, CLOSE.length - 1); length > 0; length--)
    if (CLOSE.startsWith(text.slice(-length))) return length;
  return 0;
}
