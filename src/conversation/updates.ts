// What happens in a session, told in order to whoever shows it: plain lines, a screen, or `hermes run`.
import { endedByText } from "../core/run.ts";
import type { Update } from "../core/runtime.ts";
import type { Ask, CallOutcome, Entry, Input, Outcome } from "../core/session.ts";

type ShownCall = { id: string; tool: string; args: unknown; at: number };
export type Acted = ShownCall & { outcome: CallOutcome; text: string; ms: number };

export type Pen = {
  /** What a person said, as a turn takes it up. */
  message(input: Pick<Input, "text" | "images" | "by">): void;
  /** The answer, in pieces as they come. */
  answer(text: string): void;
  /** Nothing is added to that answer any more: what follows is another. */
  settled(): void;
  /** What was said of this answer does not count: it starts over. */
  reset(): void;
  thinks(text: string): void;
  started(call: ShownCall): void;
  /** The end of what that call has printed so far. */
  printed(call: string, text: string): void;
  acted(call: Acted): void;
  asked(ask: Ask): void;
  decided(allow: boolean, text: string): void;
  /** A line about what is going on. */
  aside(line: string): void;
  /** The same, true only just now; empty when it is over. */
  notice(line: string): void;
  ended(outcome: Outcome, ms: number): void;
};

/** Follows one session. `inputs`: those that were accepted before what will be told of. */
export function createTeller(pen: Pen, inputs = new Map<string, Input>()) {
  const calls = new Map<string, ShownCall>();
  const denied = new Set<string>(); // the reason was shown with the decision
  const clients = new Set<string>();
  let since = 0;
  let usedUp = false; // said when the turn is over: calls that were not run come before it

  function entry(e: Entry): void {
    switch (e.kind) {
      case "accepted":
        inputs.set(e.input.id, e.input);
        break;
      case "withdrawn":
        inputs.delete(e.input);
        break;
      case "began":
      case "joined": {
        const input = inputs.get(e.input);
        inputs.delete(e.input);
        if (e.kind === "began") since = e.at;
        if (input && !input.task) pen.message(input);
        break;
      }
      case "thought":
        for (const { id, tool, args } of e.calls) calls.set(id, { id, tool, args, at: e.at });
        pen.settled();
        usedUp = e.endedBy === "iterations";
        if (e.endedBy && !usedUp) pen.aside(endedByText(e.endedBy));
        break;
      case "started": {
        const call = { ...callOf(e.call), at: e.at };
        calls.set(e.call, call);
        pen.started(call);
        break;
      }
      case "acted": {
        const call = callOf(e.call);
        calls.delete(e.call);
        const text = denied.delete(e.call) ? "" : e.text;
        pen.acted({ ...call, outcome: e.outcome, text, ms: e.at - (call.at || e.at) });
        break;
      }
      case "asked":
        if (e.ask.kind === "client") clients.add(e.call);
        else pen.asked(e.ask);
        break;
      case "decided":
        if (clients.delete(e.call)) break; // its result is shown as such
        if (!e.allow) denied.add(e.call);
        pen.decided(e.allow, e.text);
        break;
      case "cut":
        pen.settled();
        pen.aside("[cut off]");
        break;
      case "failed":
        pen.aside(`The turn failed: ${e.reason}`);
        break;
      case "stopping":
        pen.aside(e.outcome === "cancelled" ? "Stopping…" : "Interrupted by a newer message.");
        break;
      case "abandoned":
        pen.aside(`Gave up waiting for ${e.key} to end.`);
        break;
      case "restarted":
        pen.aside(`Taken up again after a restart (attempt ${e.attempt}).`);
        break;
      case "retracted":
        pen.aside(`${e.reason}. The answer is begun again.`);
        break;
      case "parked":
        pen.aside("Held after too many crashes: say something to go on.");
        break;
      case "forked":
        if (e.messages.length) pen.aside(`Goes on from ${e.messages.length} messages of another conversation.`);
        break;
      case "compacted":
        pen.aside(
          e.upTo ? "The conversation so far was summarised to make room." : "There is nothing to summarise yet.",
        );
        break;
      case "ended":
        pen.settled();
        if (usedUp) pen.aside(endedByText("iterations"));
        usedUp = false;
        pen.ended(e.outcome, since ? e.at - since : 0);
        break;
      case "moved":
      case "revoked":
      case "delivered":
        break;
      default:
        e satisfies never;
    }
  }

  const callOf = (id: string): ShownCall => calls.get(id) ?? { id, tool: "tool", args: {}, at: 0 };

  return (update: Update): void => {
    if ("delta" in update) pen.answer(update.delta);
    else if ("reset" in update) pen.reset();
    else if ("notice" in update) pen.notice(update.notice);
    else if ("reasoning" in update) pen.thinks(update.reasoning);
    else if ("printed" in update) pen.printed(update.call, update.printed);
    else entry(update.entry);
  };
}

export const MARK = { ok: "✓", error: "✗", denied: "✗", cancelled: "■", unknown: "?", skipped: "■" };

/** How long, for a person. */
export function lasting(ms: number): string {
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3_600), Math.floor(whole / 60) % 60];
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest} h` : `${minutes}:${rest} min`;
}
