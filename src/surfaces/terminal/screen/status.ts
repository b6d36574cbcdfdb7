// The lines that are always there: the status bar and the queue.
import { truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import { bareName } from "../../../conversation/cost.ts";
import type { Facts } from "../../../conversation/facts.ts";
import { lasting } from "../../../conversation/updates.ts";
import type { Usage } from "../../../core/session.ts";
import { shortName } from "../../../core/session-key.ts";
import { oneLine } from "../clean.ts";
import type { Theme } from "./theme.ts";

type Bar = {
  facts: Facts;
  now: number;
  /** Tokens that the model takes in. */
  window: number;
  costOf(model: string, usage: Usage): number | null;
  /** Where the agent works, and on which branch. */
  where: string;
  theme: Theme;
};

const QUEUE_LINES = 5;
const APART = " · ";

/** What matters most comes first; what does not fit is left out, not cut in half. */
export function statusBar({ facts, now, window, costOf, where, theme }: Bar, width: number): string {
  const { turn, waiting, asking, mode, model, title, session, context, spent } = facts;
  const tokens = spent.reduce((sum, { input, output }) => sum + input + output, 0);
  const costs = spent.map((one) => costOf(one.model, one));
  const cost = costs.length > 0 && costs.every((one) => one !== null) ? costs.reduce((sum, one) => sum + one, 0) : null;
  const parts = [
    turn ? (asking.length ? "waiting for you" : `working ${lasting(Math.max(0, now - turn.at))}`) : "",
    waiting.length ? `${waiting.length} waiting` : "",
    oneLine(bareName(model)),
    turn ? "" : `${mode} mode`,
    context && window ? `${Math.round((100 * context) / window)}% of context` : "",
    tokens ? `${short(tokens)} tokens` : "",
    cost === null ? "" : `$${cost.toFixed(cost < 1 ? 3 : 2)}`,
    oneLine(where),
    oneLine(title || shortName(session)),
  ].filter(Boolean);
  let line = "";
  for (const part of parts) {
    const longer = line ? line + APART + part : part;
    if (visibleWidth(longer) <= width) line = longer;
  }
  return theme.faint(line || truncateToWidth(parts[0] ?? "", width, "…"));
}

/** `~/src/app (main)` */
export function whereOf(dir: string, home: string | undefined, branch: string): string {
  const isHome = home && (dir === home || dir.startsWith(`${home}/`));
  return `${isHome ? `~${dir.slice(home.length)}` : dir}${branch && ` (${branch})`}`;
}

/** What waits, next one first; the last of them comes back with Alt+Up. */
export function queueLines({ waiting }: Facts, afterStop: "run" | "edit", theme: Theme, width: number): string[] {
  const shown = waiting.slice(0, QUEUE_LINES).map(({ text, mode }, i) => {
    const line = `${i + 1}. [${mode}] ${oneLine(text)}`;
    return theme.dim(truncateToWidth(line, width, "…"));
  });
  const more = waiting.length - shown.length;
  const hint = `${more > 0 ? `… and ${more} more · ` : ""}Alt+Up takes the last one back · after Esc ${afterStop === "run" ? "the next one runs" : "they return to the editor"}`;
  return shown.length ? [...shown, theme.faint(truncateToWidth(hint, width, "…"))] : [];
}

const short = (count: number) => {
  if (count < 1_000) return String(count);
  return count < 1_000_000 ? `${(count / 1_000).toFixed(1)}k` : `${(count / 1_000_000).toFixed(1)}M`;
};
