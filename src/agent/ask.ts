// Waits for the answer to a question. If none comes in time, the answer is no.
import type { EffectContext } from "../core/ports.ts";
import type { Event } from "../core/session.ts";
import type { Agent, EffectOf } from "./agent.ts";

export async function ask({ clock }: Agent, effect: EffectOf<"ask">, cx: EffectContext): Promise<Event | null> {
  // In a loop: the wall clock may have been set back meanwhile.
  while (clock.now() < effect.until && !cx.signal.aborted) await clock.sleep(effect.until - clock.now(), cx.signal);
  if (cx.signal.aborted) return null;
  const text = "Not run: nobody answered in time.";
  return { type: "decided", call: effect.call, allow: false, text, by: "timeout", scope: "once" };
}
