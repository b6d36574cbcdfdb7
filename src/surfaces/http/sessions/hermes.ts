// Sessions in the words of Hermes, beside ours: its clients run unchanged, and so do those that were written for us.
import * as z from "zod";
import { pagesOf } from "../../../core/pages.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Entry, Usage } from "../../../core/session.ts";
import { parseKey } from "../../../core/session-key.ts";
import type { SessionSummary } from "../../../core/store.ts";
import { usagePlus } from "../../../core/usage.ts";
import type { WatchEvent } from "../runs/watch.ts";
import type { SseFrame } from "../server/sse.ts";

/** The fields of a session that every route shows. */
export const aSession = z.looseObject({
  id: z.string(),
  object: z.literal("hermes.session"),
  title: z.string(),
  parent_id: z.string().nullable(),
  created_at: z.number(),
  updated_at: z.number(),
  active: z.boolean(),
  entries: z.int(),
});

/** What its clients set on a session, and we only keep. */
export type SessionMarks = Partial<Record<"pinned" | "archived" | "hidden" | "unread", boolean>> & {
  end_reason?: string | null;
  ended_at?: number | null;
  model?: string;
};
const MARKS = "session-marks/";

export const marksOf = async ({ notes }: Runtime, session: string): Promise<SessionMarks> =>
  Object({ ...Object(await notes.get(MARKS + session)) });

export async function setMarks(runtime: Runtime, session: string, marks: SessionMarks | undefined): Promise<void> {
  const before = await runtime.notes.get(MARKS + session);
  if (marks === undefined && before === undefined) return;
  await runtime.notes.set(MARKS + session, marks && { ...Object(before), ...marks });
}

/** Entries of a session that are counted; of a longer one, the first of them. */
const MOST_COUNTED = 5_000;

const nothingCounted = () => ({
  user: null as string | null,
  model: null as string | null,
  messages: 0,
  calls: 0,
  thoughts: 0,
  usage: { input: 0, output: 0 } as Usage,
  first: "",
});
type SessionCounts = ReturnType<typeof nothingCounted>;

async function countsOf(runtime: Runtime, session: string): Promise<SessionCounts> {
  const counts = nothingCounted();
  const tasks = new Set<string>();
  let seen = 0;
  for await (const page of pagesOf(runtime, session, 0)) {
    for (const entry of page) take(counts, tasks, entry);
    seen += page.length;
    if (seen >= MOST_COUNTED) break;
  }
  return counts;
}

function take(counts: SessionCounts, tasks: Set<string>, entry: Entry): void {
  switch (entry.kind) {
    case "accepted":
      if (entry.input.task) tasks.add(entry.input.id);
      else counts.first ||= entry.input.text;
      counts.user ??= entry.input.by?.split(":").at(-1) ?? null;
      return;
    case "began":
    case "joined":
      if (!tasks.has(entry.input)) counts.messages += 1;
      return;
    case "thought":
      counts.messages += 1;
      counts.calls += entry.calls.length;
      counts.thoughts += 1;
      counts.usage = usagePlus(counts.usage, entry.usage);
      counts.model = entry.model;
      return;
    case "acted":
      counts.messages += 1;
      return;
    case "forked":
      counts.messages += entry.messages.length;
      return;
    default:
  }
}

/** As Hermes has it. */
export async function sessionRecord(runtime: Runtime, summary: SessionSummary): Promise<Record<string, unknown>> {
  const { session, title, parent, createdAt, updatedAt } = summary;
  const [counts, marks] = await Promise.all([countsOf(runtime, session), marksOf(runtime, session)]);
  const { usage } = counts;
  return {
    id: session,
    source: sourceOf(session),
    user_id: counts.user,
    model: marks.model ?? counts.model,
    title: title || null,
    started_at: createdAt / 1_000,
    ended_at: marks.ended_at ?? null,
    end_reason: marks.end_reason ?? null,
    message_count: counts.messages,
    tool_call_count: counts.calls,
    input_tokens: usage.input,
    output_tokens: usage.output,
    cache_read_tokens: usage.cached ?? 0,
    cache_write_tokens: 0,
    reasoning_tokens: usage.reasoning ?? 0,
    estimated_cost_usd: usage.cost ?? null,
    actual_cost_usd: null,
    api_call_count: counts.thoughts,
    parent_session_id: parent,
    pinned: marks.pinned ?? false,
    archived: marks.archived ?? false,
    hidden: marks.hidden ?? false,
    has_system_prompt: false,
    has_model_config: marks.model !== undefined,
    last_active: updatedAt / 1_000,
    preview: counts.first,
  };
}

export function sourceOf(session: string): string {
  const key = parseKey(session);
  return key.of === "chat" ? key.platform : (SOURCES[key.of] ?? "api_server");
}
const SOURCES: Readonly<Record<string, string>> = { terminal: "cli", job: "cron", child: "subagent" };

// ── Messages ──────────────────────────────────────────────────────────────────────────────────────────

type ShownMessage = Record<string, unknown> & { role: string; content: string };

/** A message with the fields of both. */
export function messageRow(session: string, message: ShownMessage): Record<string, unknown> {
  const { tool_calls: calls, call_id: call, tool, created_at: at } = message;
  return {
    ...message,
    session_id: session,
    tool_call_id: call ?? null,
    tool_calls: Array.isArray(calls) ? calls.map(callRow) : null,
    tool_name: tool ?? null,
    timestamp: at,
    token_count: null,
    finish_reason: message.role === "assistant" ? (calls ? "tool_calls" : "stop") : null,
    reasoning: null,
    reasoning_content: null,
    display_kind: null,
  };
}

function callRow(call: { id: string; tool: string; args: unknown }): Record<string, unknown> {
  const { id, tool, args } = call;
  return {
    ...call,
    call_id: id,
    response_item_id: id,
    type: "function",
    function: { name: tool, arguments: JSON.stringify(args) ?? "{}" },
  };
}

// ── A run as a stream with names ──────────────────────────────────────────────────────────────────────

export type SessionTurn = { session: string; run: string; text: string; runtime: Record<string, unknown> };

/** Frames that both read: the name and some fields are those of Hermes; `event` in the data, and the rest, are ours. */
export function namedFrames(
  { session, run, text, runtime }: SessionTurn,
  end: () => Promise<{ content: string; usage: unknown; messages: unknown[]; model: string | null }>,
) {
  const message_id = `msg_${run.replace(/^run_/, "")}`;
  let seq = 0;
  const frame = (name: string, data: Record<string, unknown>, id?: string, ours?: WatchEvent): SseFrame => {
    seq += 1;
    const place = { session_id: session, run_id: run, seq, ts: ours?.timestamp ?? 0 };
    return { event: name, ...(id !== undefined && { id }), data: { ...ours, ...place, ...data } };
  };
  return {
    started: (first: WatchEvent): SseFrame =>
      frame("run.started", { user_message: { role: "user", content: text }, runtime }, undefined, first),
    async of(event: WatchEvent, id: string): Promise<SseFrame[]> {
      const tool = { message_id, tool_name: event["tool"], preview: event["preview"] ?? null };
      switch (event.event) {
        case "run.started":
          return [frame("message.started", { message: { id: message_id, role: "assistant" } }, id, event)];
        case "message.delta":
          return [frame("assistant.delta", { message_id }, id, event)];
        case "tool.started":
          return [frame("tool.started", { ...tool, args: event["args"] ?? null }, id, event)];
        case "tool.completed":
          return [frame("tool.completed", { ...tool, args: null }, id, event)];
        case "reasoning.delta":
          return [frame("tool.progress", { message_id, tool_name: "_thinking", delta: event["text"] }, id, event)];
        case "run.completed":
        case "run.interrupted":
        case "run.cancelled":
        case "run.failed": {
          const completed = event.event === "run.completed";
          const { content, usage, messages, model } = await end();
          const used = { ...runtime, model: model ?? runtime["model"] };
          const done = {
            message_id,
            content,
            completed,
            partial: !completed,
            interrupted: event.event === "run.interrupted" || event.event === "run.cancelled",
          };
          return [
            frame("assistant.completed", { ...done, runtime: used }),
            frame(
              event.event === "run.interrupted" ? "run.cancelled" : event.event,
              { message_id, completed, messages, usage, runtime: used },
              id,
              event,
            ),
            frame("done", {}),
          ];
        }
        default:
          return [frame(event.event, {}, id, event)];
      }
    },
  };
}
