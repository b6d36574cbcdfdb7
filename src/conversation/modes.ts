// The busy modes: what a message does to a session whose turn runs. Their names are in core/session.ts, what they do is in
// core/turn.ts; everything that people are told about them is here. A new mode is a row in each of the three files.
import type { Receipt } from "../core/runtime.ts";
import { MODES, type Mode } from "../core/session.ts";

type ModeWords = {
  /** What the person is told whose message was taken like that. */
  taken: string;
  /** What such a message does: the choice beside the console's send button. */
  does: string;
  /** What the Enter key does then. */
  enter: string;
  /** What Alt+Enter does instead. */
  other: Mode;
  /** `/queue WORDS`: what is said of a command that sends one message in this mode. */
  command?: { description: string; asks: string };
};

export const MODE: Readonly<Record<Mode, ModeWords>> = {
  interrupt: {
    taken: "⚡ Interrupting current task. I'll respond to your message shortly.",
    does: "stops the turn; your message is next",
    enter: "interrupts",
    other: "queue",
  },
  queue: {
    taken: "⏳ Queued for the next turn. I'll respond once the current task finishes.",
    does: "waits for the end of the turn",
    enter: "queues",
    other: "interrupt",
    command: { description: "say something as the next turn", asks: "What shall I queue?" },
  },
  steer: {
    taken: "⏩ Steered into current run. Your message arrives after the next tool call.",
    does: "joins the turn after its next tool call",
    enter: "steers",
    other: "interrupt",
    command: { description: "say something into the running turn", asks: "What shall I steer with?" },
  },
};

/** Empty: it began a turn, which is seen by itself. */
export function takenText({ applied, paused }: Pick<Receipt, "applied" | "paused">): string {
  if (paused) return "⏸ Paused: your message is taken, and waits until somebody says /pause off.";
  return applied === "began" ? "" : MODE[applied].taken;
}

/** A message never cancels what is asked: where the mode would interrupt, the message joins the turn after the answer. */
export const modeWhileAsked = (mode: Mode): Mode => (mode === "interrupt" ? "steer" : mode);

export const modeNamed = (word: unknown): Mode | undefined => MODES.find((mode) => mode === word);
