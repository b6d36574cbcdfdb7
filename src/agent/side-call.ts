// A model call beside the turns: it may only answer, in so many characters and within so long. Whatever is heard beyond
// that is not waited for.
import type { Clock, Model, ModelRequest, ModelResult } from "../core/ports.ts";
import { linked } from "../core/wait.ts";
import { watchedCall } from "./watchdog.ts";

type SideCall = {
  clock: Clock;
  model: Model;
  session: string;
  system: string;
  text: string;
  longest: number;
  /** Silence that ends it, and the longest that it may take. */
  staleMs: number;
  withinMs: number;
};

/** `text` is null when it did not come to an end by itself or by its length. */
export async function askAside(
  asked: SideCall,
  signal: AbortSignal,
): Promise<{ text: string | null; end: ModelResult }> {
  const { clock, model, session, system, longest, staleMs, withinMs } = asked;
  const messages = [{ role: "user" as const, text: asked.text }];
  const request: ModelRequest = { session, system, messages, tools: [], final: true };
  let heard = "";
  const enough = linked([signal], { clock, ms: withinMs });
  const hear = {
    alive: () => {},
    reasoning: () => {},
    text: (text: string) => {
      heard += text;
      if (heard.length >= longest) enough.abort();
    },
  };
  const end = await watchedCall({ clock, model, request, staleMs }, hear, enough.signal);
  enough.release();
  const whole = end.end === "answer" || heard.length >= longest;
  return { text: whole ? heard.slice(0, longest) : null, end };
}
