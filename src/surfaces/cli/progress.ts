// What a turn does, as lines for a person: the answer goes one way, everything about it another.

import type { Update } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";

export type Pen = {
  /** The answer itself, in pieces as they come. */
  answer(text: string): void;
  /** A line about what is going on. */
  aside(line: string): void;
};

/** Follows one session; what it has to remember is which calls run and whether a line of the answer is open. */
export function createProgress(pen: Pen) {
  const calls = new Map<string, { tool: string; preview: string; at: number }>();
  let open = false;
  const answer = (text: string) => {
    open = !text.endsWith("\n");
    pen.answer(text);
  };
  const aside = (line: string) => {
    if (open) answer("\n");
    pen.aside(line);
  };

  function entry(e: Entry): void {
    switch (e.kind) {
      case "thought":
        for (const call of e.calls) calls.set(call.id, { tool: call.tool, preview: preview(call.args), at: e.at });
        if (open) answer("\n");
        break;
      case "started": {
        const call = calls.get(e.call);
        if (call) calls.set(e.call, { ...call, at: e.at });
        aside(`→ ${call?.tool ?? "tool"} ${call?.preview ?? ""}`.trimEnd());
        break;
      }
      case "acted": {
        const call = calls.get(e.call);
        calls.delete(e.call);
        const took = call ? ` (${((e.at - call.at) / 1_000).toFixed(1)} s)` : "";
        aside(`${MARK[e.outcome]} ${call?.tool ?? "tool"} ${e.outcome}${took}`);
        break;
      }
      case "cut":
        aside("[cut off]");
        break;
      case "failed":
        aside(`The turn failed: ${e.reason}`);
        break;
      case "stopping":
        aside(e.outcome === "cancelled" ? "Stopping…" : "Interrupted by a newer message.");
        break;
      case "abandoned":
        aside(`Gave up waiting for ${e.key} to end.`);
        break;
      case "restarted":
        aside(`Taken up again after a restart (attempt ${e.attempt}).`);
        break;
      case "compacted":
        aside(e.upTo ? "The conversation so far was summarised to make room." : "There is nothing to summarise yet.");
        break;
      case "ended":
        if (open) answer("\n");
        break;
      default:
        break;
    }
  }

  return (update: Update): void => {
    if ("delta" in update) answer(update.delta);
    else if ("reset" in update) aside("[the answer starts over]");
    else if ("notice" in update) {
      if (update.notice) aside(update.notice);
    } else if ("entry" in update) entry(update.entry);
  };
}

const MARK = { ok: "✓", error: "✗", denied: "✗", cancelled: "■", unknown: "?", skipped: "■" };

/** The argument that says most about a call, on one line. */
function preview(args: unknown): string {
  const values: unknown[] = typeof args === "object" && args !== null ? Object.values(args) : [];
  const first = values.find((value) => typeof value === "string") ?? "";
  const line = first.replaceAll(/\s+/g, " ");
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
}
