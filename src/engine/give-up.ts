// Ends work that throws at every try: because of a defect of ours, or a journal that does not fit its state. If it were tried for ever,
// its session would look busy and nobody would be told.
import { messageOf } from "../core/errors.ts";
import type { Effect, Event } from "../core/session.ts";

/** `said`: the text of the answer so far. `ended`: the last turn that a memory can be told of. */
export function givenUp(
  effect: Effect,
  { error, said, ended }: { error: unknown; said: string; ended: number },
): Event {
  const reason = `Internal error: ${messageOf(error)}`;
  switch (effect.do) {
    case "think":
    case "compact":
      return { type: "failed", step: effect.step, reason, said };
    case "act":
      return { type: "acted", step: effect.step, call: effect.call, outcome: "error", text: `Not run. ${reason}` };
    case "ask":
      return {
        type: "decided",
        call: effect.call,
        allow: false,
        text: `Not run. ${reason}`,
        by: "engine",
        scope: "once",
      };
    case "deliver":
      return { type: "delivered", step: effect.step, how: "undelivered" }; // the answer stays in the journal
    case "remember": // which of its turns cannot be told is not known: none of those until now
      return { type: "remembered", by: effect.by, after: effect.after, upTo: ended };
  }
}
