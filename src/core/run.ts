// A turn as its client sees it: a fold over its entries, so that status and events can never disagree (I20).
import type { EndedBy, Entry, Outcome, RecoveryKind, Usage } from "./session.ts";
import { usagePlus } from "./usage.ts";

export type RunStatus = "queued" | "running" | "waiting_for_approval" | "stopping" | Outcome;
export type Run = {
  id: string;
  status: RunStatus;
  /** The last text the model said; whole when completed. */
  output: string;
  error: string | null;
  usage: Usage;
  /** Why the last text ends early, if it does. */
  endedBy?: EndedBy;
  /** The model that answered last; before the first answer, the model that was asked for. */
  model: string | null;
  /** Its approvals are asked of the client that waits for it. */
  asksClient?: true;
  /** The turn that this one, as a steer, became a part of. */
  joined?: string;
  /** Calls that wait for a person, oldest first. */
  asking: string[];
  /** Calls without a result, and whether the client of the turn is to give it. */
  open: { turn: string; call: string; tool: string; args: unknown; client: boolean }[];
  createdAt: number;
  updatedAt: number;
};

const OVER = new Set<RunStatus>(["completed", "failed", "cancelled", "interrupted"]);
export const isOver = ({ status }: Pick<Run, "status">): boolean => OVER.has(status);

/** Whether the turn waits for its client: for the result of a tool, or for an approval. */
export const isPaused = ({ status, open }: Run): boolean =>
  (status === "running" || status === "waiting_for_approval") && open.length > 0 && open.every(({ client }) => client);

export function foldRun(entries: Entry[]): Run | null {
  const [first] = entries;
  if (!first) return null;
  const run = newRun({ id: first.turn, at: first.at });
  for (const entry of entries) takeEntry(run, entry);
  return run;
}

export const newRun = ({ id, at }: { id: string; at: number }): Run => ({
  id,
  status: "queued",
  output: "",
  error: null,
  usage: { input: 0, output: 0 },
  model: null,
  asking: [],
  open: [],
  createdAt: at,
  updatedAt: at,
});

/** What a person is told who asked for a shorter conversation. */
export const compactedText = (upTo: number): string =>
  upTo
    ? "The conversation so far is now a summary for the model; nothing was deleted."
    : "There was nothing to shorten.";

/** Shown to a person at the end of the answer. */
export const endedByText = (endedBy: EndedBy): string => ENDED_BY[endedBy];

const ENDED_BY: Record<EndedBy, string> = {
  length: "[cut off: the model reached its limit of output]",
  filter: "[cut off: the provider's filter stopped the answer here]",
  iterations: '[stopped: this turn has used all of its model calls (agent.max_iterations). Send "continue" to go on.]',
};

/** Changes `run` in place. */
export function takeEntry(run: Run, entry: Entry): void {
  run.updatedAt = entry.at;
  switch (entry.kind) {
    case "accepted":
      run.model = entry.input.model ?? null;
      if (entry.input.unattended === "client") run.asksClient = true;
      break;
    case "began":
      run.status = "running";
      break;
    case "thought":
      // A turn whose last model call only wanted more tools has said nothing.
      run.output = entry.text || (entry.endedBy === "iterations" ? endedByText(entry.endedBy) : "");
      run.model = entry.model;
      run.usage = usagePlus(run.usage, entry.usage);
      run.open = entry.calls.map(({ id, tool, args }) => ({ turn: entry.turn, call: id, tool, args, client: false }));
      if (entry.endedBy) run.endedBy = entry.endedBy;
      else delete run.endedBy;
      break;
    case "compacted":
      run.output = compactedText(entry.upTo);
      break;
    case "cut":
      run.output = entry.text;
      break;
    case "asked":
      if (entry.ask.kind === "client" || (run.asksClient && entry.ask.kind === "approval"))
        run.open = run.open.map((one) => (one.call === entry.call ? { ...one, client: true } : one));
      if (entry.ask.kind === "client") break;
      run.asking.push(entry.call);
      run.status = "waiting_for_approval";
      break;
    case "acted":
    case "decided":
      run.open = run.open.flatMap((one) =>
        one.call !== entry.call ? [one] : entry.kind === "acted" ? [] : [{ ...one, client: false }],
      );
      run.asking = run.asking.filter((call) => call !== entry.call);
      if (run.status === "waiting_for_approval" && !run.asking.length) run.status = "running";
      break;
    case "failed":
      run.error = entry.reason;
      break;
    case "stopping":
      run.status = "stopping";
      break;
    case "withdrawn":
      run.status = "cancelled";
      break;
    case "ended":
      run.status = entry.outcome;
      break;
    default:
      entry.kind satisfies RecoveryKind | "forked" | "moved" | "joined" | "revoked" | "started";
  }
}

const STOPPED = "Cancelled: the turn was stopped while this ran.";
const STOPPED_PRINTED = `${STOPPED} The end of what it had printed:\n`;

/** The result of a call that was stopped, for the model. */
export const stoppedText = (printed = ""): string => (printed ? STOPPED_PRINTED + printed : STOPPED);

/** What a call that was stopped had printed; empty where the result is another one. */
export const printedBefore = (result: string): string =>
  result.startsWith(STOPPED_PRINTED) ? result.slice(STOPPED_PRINTED.length) : "";
