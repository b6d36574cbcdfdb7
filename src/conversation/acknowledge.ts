// What a person is told of a message that was accepted: what really became of it.
import type { Applied } from "../core/session.ts";

/** Empty: nothing needs to be said, the answer is on its way. */
export const ACKNOWLEDGEMENT: Readonly<Record<Applied, string>> = {
  began: "",
  interrupt: "⚡ Interrupting current task. I'll respond to your message shortly.",
  queue: "⏳ Queued for the next turn. I'll respond once the current task finishes.",
  steer: "⏩ Steered into current run. Your message arrives after the next tool call.",
};
