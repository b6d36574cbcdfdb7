// What a client of a run is told: each entry of its turn as the events of the wire contract. Kept small, because every
// viewer has one: a thousand of them hold no texts.
import { newRun, type Run, takeEntry } from "../../../core/run.ts";
import type { Entry, InputKind, RecoveryKind, Scope } from "../../../core/session.ts";
import { childSession } from "../../../core/session-key.ts";

export type RunWireEvent = { event: string; [field: string]: unknown };
type ReportedCall = { tool: string; preview: string; command: string; goals: string[]; startedAt: number };
type Reporting = {
  /** The run as its client knows it. */
  id: string;
  session: string;
  showReasoning: boolean;
};
/** A child's end is read when it is told. */
export type ChildRun = (session: string) => Promise<Run | null>;

const CHILD = { goal: "The task", child_session_id: "The session of the child agent" };
/** The fields of each event, for the documentation. All have `event`, `run_id` and `timestamp` besides. */
export const RUN_EVENTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "run.started": { session_id: "The session" },
  "message.delta": { delta: "The next part of the answer" },
  "message.reset": {},
  "reasoning.delta": { text: "The next part of the reasoning" },
  "reasoning.available": { text: "The whole reasoning of a model call" },
  "tool.started": { tool: "The name of the tool", preview: "Its input on one line", call_id: "The id of the call" },
  "tool.completed": {
    tool: "The name of the tool",
    duration: "Seconds",
    error: "Whether it failed",
    call_id: "The id of the call",
  },
  "subagent.start": CHILD,
  "subagent.complete": {
    ...CHILD,
    status: "How it ended",
    summary: "Its answer",
    duration_seconds: "Seconds",
    tokens: "Tokens used",
  },
  "approval.request": {
    kind: "`approval` or `question`",
    tool: "The tool that asks",
    command: "The command",
    description: "The whole question, with its reasons",
    choices: "The possible answers",
    saves: "Each rule that the choice `always` would save: `file` and `rule`",
    request_id: "The id for the answer",
    expires_at: "Unix time after which the answer is no",
  },
  "approval.responded": { choice: "The answer", request_id: "The approval", resolved: "The number of approvals: 1" },
  "memory.recalled": { text: "What memory added to the message, and notes on what is lost" },
  "run.steered": {},
  "run.stopping": {},
  "run.notice": { text: "A wait or a retry; empty when it is over" },
  "run.completed": {
    output: "The answer",
    usage: "Tokens used",
    finish_reason: "Why the answer was cut short: `length`, `content_filter` or `max_iterations`",
  },
  "run.failed": { error: "What went wrong" },
  "run.cancelled": {},
  "run.interrupted": { by: "The run that took over" },
};

export function createReporter({ id, session, showReasoning }: Reporting, childRun: ChildRun) {
  const uses = new Map<string, ReportedCall>();
  const clients = new Set<string>(); // calls that the client of the turn runs
  let run: Run | null = null;
  let by = "";
  let recalled = "";

  function take(entry: Entry): void {
    run ??= newRun({ id, at: entry.at });
    takeEntry(run, entry);
    if (entry.kind === "stopping") ({ by } = entry);
    if (entry.kind === "thought") for (const call of entry.calls) uses.set(call.id, useOf(call));
    if (entry.kind === "asked" && entry.ask.kind === "client") clients.add(entry.call);
    const use = entry.kind === "started" ? uses.get(entry.call) : undefined;
    if (use) use.startedAt = entry.at;
  }

  /** Takes an entry in, without telling anybody. */
  function skip(entry: Entry): void {
    take(entry);
    recalledIn(entry);
  }

  const childrenOf = (turn: string, call: string, { goals }: ReportedCall) =>
    goals.map((goal, i) => ({ goal, child_session_id: childSession(session, turn, call, i) }));

  /** Each model call of a turn is given the same: it is told once. */
  function recalledIn(entry: Entry): RunWireEvent[] {
    const text = entry.kind === "thought" ? (entry.recalled ?? "") : "";
    const isNew = text !== "" && text !== recalled;
    if (isNew) recalled = text;
    return isNew ? [{ event: "memory.recalled", text }] : [];
  }

  async function tell(entry: Entry): Promise<RunWireEvent[]> {
    take(entry);
    switch (entry.kind) {
      case "began":
        return [{ event: "run.started", session_id: session }];
      case "joined":
        return [{ event: "run.steered", accepted: true }];
      case "thought":
        return [
          ...recalledIn(entry),
          ...(showReasoning && entry.reasoning ? [{ event: "reasoning.available", text: entry.reasoning }] : []),
        ];
      case "asked": {
        if (clients.has(entry.call)) return [];
        const { kind, text, choices, until, saves } = entry.ask;
        const use = uses.get(entry.call);
        const offered = { choices, ...(saves && { saves }) };
        const asked = { kind, tool: use?.tool ?? "", command: use?.command || text, description: text, ...offered };
        const scopes = { allow_permanent: choices.includes("always"), allow_session: choices.includes("session") };
        const patterns = { pattern_key: text, pattern_keys: [text] };
        const request = { ...asked, ...scopes, ...patterns, request_id: entry.call, expires_at: until / 1_000 };
        return [{ event: "approval.request", ...request }];
      }
      case "decided":
        if (clients.has(entry.call)) return [];
        return [{ event: "approval.responded", choice: choiceOf(entry), request_id: entry.call, resolved: 1 }];
      case "started": {
        const use = uses.get(entry.call);
        const { tool = "", preview = "" } = use ?? {};
        const children = use ? childrenOf(entry.turn, entry.call, use) : [];
        return [
          { event: "tool.started", tool, preview, call_id: entry.call },
          ...children.map((child) => ({ event: "subagent.start", ...child })),
        ];
      }
      case "acted": {
        const use = uses.get(entry.call);
        uses.delete(entry.call);
        if (!use?.startedAt) return []; // it never began: whoever said no has said so
        const duration = (entry.at - use.startedAt) / 1_000;
        const children = childrenOf(entry.turn, entry.call, use);
        return [
          ...(await Promise.all(children.map(async (child) => ended(child, await childRun(child.child_session_id))))),
          { event: "tool.completed", tool: use.tool, duration, error: entry.outcome !== "ok", call_id: entry.call },
        ];
      }
      case "stopping":
        return [{ event: "run.stopping" }];
      case "withdrawn":
        return [{ event: "run.cancelled" }];
      case "ended":
        return run ? [endOf(run, by)] : [];
      default:
        entry.kind satisfies InputKind | RecoveryKind | "forked" | "compacted" | "revoked" | "cut" | "failed";
    }
    return [];
  }

  return { skip, tell };
}

const choiceOf = ({ allow, scope = "once" }: { allow: boolean; scope?: Scope }): string => (allow ? scope : "deny");

/** In OpenAI's words, which know no limit of model calls: that is "length" too. */
export const finishOf = ({ endedBy }: Run): "stop" | "length" | "content_filter" =>
  endedBy ? ({ length: "length", filter: "content_filter", iterations: "length" } as const)[endedBy] : "stop";

/** What cut a run short, in ours. */
export const cutShortBy = (run: Run): { finish_reason?: string } => {
  if (!run.endedBy) return {};
  return { finish_reason: run.endedBy === "iterations" ? "max_iterations" : finishOf(run) };
};

export const usageOf = ({ usage }: Run) => ({
  input_tokens: usage.input,
  output_tokens: usage.output,
  total_tokens: usage.input + usage.output,
});

/** Entries that are not told by their kind: not at all, or as what else is in them says. */
type Unnamed = RecoveryKind | "accepted" | "moved" | "forked" | "thought" | "compacted" | "revoked" | "acted" | "cut";
const NAMES: Record<Exclude<Entry["kind"], Unnamed | "failed" | "ended">, string> = {
  withdrawn: "run.cancelled",
  began: "run.started",
  joined: "run.steered",
  asked: "approval.request",
  decided: "approval.responded",
  started: "tool.started",
  stopping: "run.stopping",
};
const isNamed = (kind: string): kind is keyof typeof NAMES => Object.hasOwn(NAMES, kind);

/** The name of the last event that a viewer of these entries is told; null: none yet. */
export function lastEventOf(entries: readonly Entry[]): string | null {
  const started = new Set<string>();
  const clients = new Set<string>();
  let last: string | null = null;
  for (const entry of entries) {
    if (entry.kind === "asked" && entry.ask.kind === "client") clients.add(entry.call);
    if ((entry.kind === "asked" || entry.kind === "decided") && clients.has(entry.call)) continue;
    if (entry.kind === "started") started.add(entry.call);
    if (entry.kind === "ended") last = `run.${entry.outcome}`;
    else if (entry.kind === "acted") last = started.has(entry.call) ? "tool.completed" : last;
    else if (entry.kind === "thought" || entry.kind === "cut") last = entry.text ? "message.delta" : last;
    else if (isNamed(entry.kind)) last = NAMES[entry.kind];
  }
  return last;
}

function endOf(run: Run, by: string): RunWireEvent {
  const event = `run.${run.status}`;
  switch (run.status) {
    case "completed":
      return { event, output: run.output, usage: usageOf(run), ...cutShortBy(run) };
    case "failed":
      return { event, error: run.error ?? "The run failed." };
    case "interrupted":
      return { event, by };
    default:
      return { event };
  }
}

function ended(child: { goal: string; child_session_id: string }, run: Run | null): RunWireEvent {
  const duration_seconds = run ? (run.updatedAt - run.createdAt) / 1_000 : 0;
  const summary = run?.error ?? run?.output ?? "";
  const tokens = run ? usageOf(run).total_tokens : 0;
  return { event: "subagent.complete", ...child, status: run?.status ?? "unknown", summary, duration_seconds, tokens };
}

function useOf({ tool, args }: { tool: string; args: unknown }): ReportedCall {
  const given: Record<string, unknown> = typeof args === "object" && args !== null ? { ...args } : {};
  const first = Object.values(given).find((value) => typeof value === "string");
  const command = typeof given["command"] === "string" ? given["command"] : "";
  const tasks: unknown[] = tool === "delegate_task" && Array.isArray(given["tasks"]) ? given["tasks"] : [];
  const goals = tasks.map((task) =>
    typeof task === "object" && task !== null && "goal" in task ? String(task.goal) : "",
  );
  return { tool, preview: onLine(command || (first ?? goals.join("; "))), command, goals, startedAt: 0 };
}

const PREVIEW = 200;
function onLine(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > PREVIEW ? `${line.slice(0, PREVIEW - 1)}…` : line;
}
