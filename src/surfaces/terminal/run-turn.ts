// hermes run "prompt": one turn, its answer on stdout, everything else on stderr.
import { followTurn } from "../../conversation/follow-turn.ts";
import { createTeller } from "../../conversation/updates.ts";
import { Refusal } from "../../core/errors.ts";
import type { Runtime, Update } from "../../core/runtime.ts";
import type { Image, Unattended } from "../../core/session.ts";
import { onAbort } from "../../core/wait.ts";
import { clean, withoutControls } from "./clean.ts";
import { decidedLine, linePen } from "./plain.ts";

export type RunTurnOptions = {
  runtime: Runtime;
  session: string;
  /** Unique: the same one again is the same turn. */
  key: string;
  prompt: string;
  model?: string | undefined;
  images: Image[];
  json: boolean;
  quiet: boolean;
  unattended: Unattended;
  /** Neither gets to see a control sequence that a model or a tool wrote. `terminal`: what `out` writes to is one. */
  out(text: string): void;
  err(line: string): void;
  terminal: boolean;
  /** Aborts: the turn is stopped and seen to its end. */
  stop: AbortSignal;
};

export const RUN_SOURCE = "cli";
const EXIT = { completed: 0, failed: 1, interrupted: 1, cancelled: 130 };

/** Returns the exit code. */
export async function runOnce(options: RunTurnOptions): Promise<number> {
  const { runtime, session, json, quiet, terminal, stop } = options;
  const out = (text: string) => options.out(terminal ? clean(text) : withoutControls(text));
  const err = (line: string) => options.err(clean(line));
  const { key, prompt: text, model } = options;
  const receipt = await runtime.accept({
    session,
    source: RUN_SOURCE,
    key,
    text,
    mode: "queue",
    reply: "pull",
    unattended: options.unattended,
    ...(model && { model }),
    ...(options.images.length && { images: options.images }),
  });
  const turn = receipt.id;
  const abort = () => void runtime.stop({ session, turn, scope: "tree" }).catch((error: unknown) => err(String(error)));
  const release = onAbort(stop, abort);
  const show = json
    ? (update: Update) => options.out(`${jsonOf(eventOf(update, turn))}\n`)
    : createTeller(linePen(out, (line) => (quiet ? undefined : err(line))));
  const over = new AbortController();
  try {
    for await (const update of followTurn(runtime, receipt, over.signal)) {
      show(update);
      const entry = "entry" in update ? update.entry : null;
      // Also where nothing else is shown: what was wanted may not have been done.
      if (entry?.kind === "decided" && (json || quiet)) err(decidedLine(entry.allow, entry.text));
      if (entry?.kind === "withdrawn") return EXIT.cancelled;
      if (entry?.kind === "ended") return EXIT[entry.outcome];
    }
    throw new Refusal("closed", "The turn goes on without us.");
  } finally {
    over.abort();
    release();
  }
}

/** JSON escapes control characters, but not those of the second set (U+009B begins a sequence like ESC [). */
const jsonOf = (event: Record<string, unknown>): string =>
  JSON.stringify(event).replaceAll(/[\x7f-\x9f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);

/** A line for a program: entries as they are stored, text as it comes. */
function eventOf(update: Update, turn: string): Record<string, unknown> {
  if ("delta" in update) return { event: "message.delta", run_id: turn, delta: update.delta };
  if ("reset" in update) return { event: "message.reset", run_id: turn };
  if ("notice" in update) return { event: "notice", run_id: turn, text: update.notice };
  if ("reasoning" in update) return { event: "reasoning.delta", run_id: turn, text: update.reasoning };
  if ("printed" in update) return { event: "tool.output", run_id: turn, call: update.call, text: update.printed };
  const { kind, turn: run_id, at, ...rest } = update.entry;
  return { event: kind, run_id, timestamp: at / 1_000, ...rest };
}
