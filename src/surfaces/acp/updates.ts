// What happens in a session, as the updates that an editor shows. All of it comes from the journal and the live text, so a
// conversation that is loaded again looks the same.
import type { SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk";
import { recordOf } from "../../conversation/calls.ts";
import { compactedText } from "../../core/run.ts";
import type { Update } from "../../core/runtime.ts";
import type { CallKind, CallOutcome, EndKind, Entry, Input, RecoveryKind } from "../../core/session.ts";
import type { Message } from "../../core/transcript.ts";
import { describeCall, outputOf, type ProposedTool } from "./calls.ts";

type ActedEntry = Extract<Entry, { kind: "acted" }>;
type UpdatesOptions = {
  /** Where relative paths of tool calls start. */
  workspace: string;
  /** Tokens that fit into the model's window; 0: unknown. */
  window: number;
  /** The editor sent this input itself, and shows it. */
  isMine(input: string): boolean;
};

const PLAN_STATUS = { pending: "pending", in_progress: "in_progress", done: "completed" } as const;

export function createUpdates({ workspace, window, isMine }: UpdatesOptions) {
  const inputs = new Map<string, Input>();
  const calls = new Map<string, ProposedTool>();
  /** Reasoning of this model call was shown as it came. */
  let shownReasoning = false;

  function entry(e: Entry): SessionUpdate[] {
    switch (e.kind) {
      case "accepted":
        inputs.set(e.input.id, e.input);
        return [];
      case "withdrawn":
        inputs.delete(e.input);
        return [];
      case "began":
      case "joined": {
        const input = inputs.get(e.input);
        inputs.delete(e.input);
        return input && !input.task && !isMine(e.input) ? userSaid(input) : [];
      }
      case "thought": {
        shownReasoning = false;
        for (const call of e.calls) calls.set(call.id, call);
        return [...e.calls.map(proposed), ...(window ? [usage(e.usage.input + e.usage.output)] : [])];
      }
      case "started":
        return [{ sessionUpdate: "tool_call_update", toolCallId: e.call, status: "in_progress" }];
      case "acted": {
        const call = calls.get(e.call);
        calls.delete(e.call);
        return [acted(e, call), ...planIn(call, e.outcome)];
      }
      case "compacted":
        return [said(compactedText(e.upTo))];
      case "failed":
        return isMine(e.turn) ? [] : [said(`The turn failed: ${e.reason}`)]; // else it is the answer to the prompt
      case "parked":
        return [said("Held after too many crashes: say something to go on.")];
      case "forked":
        return e.messages.flatMap(saidBefore);
      default:
        e.kind satisfies CallKind | EndKind | RecoveryKind | "moved" | "cut";
        return [];
    }
  }

  const usage = (used: number): SessionUpdate => ({ sessionUpdate: "usage_update", used, size: window });

  const proposed = (call: ProposedTool): SessionUpdate => ({
    sessionUpdate: "tool_call",
    toolCallId: call.id,
    name: call.tool,
    status: "pending",
    ...describeCall(call, workspace),
  });

  function acted({ call: id, outcome, text, images = [] }: ActedEntry, call: ProposedTool | undefined): SessionUpdate {
    const { content = [] } = call ? describeCall(call, workspace) : {};
    const isChange = outcome === "ok" && content.length > 0;
    const pictures = images.map(({ mime, data }): ToolCallContent => {
      return { type: "content", content: { type: "image", mimeType: mime, data } };
    });
    return {
      sessionUpdate: "tool_call_update",
      toolCallId: id,
      status: outcome === "ok" ? "completed" : "failed",
      ...(!isChange && { content: [...content, ...outputOf(text), ...pictures] }),
    };
  }

  return {
    /** The updates of an entry that was written before the editor opened the session. */
    past(e: Entry): SessionUpdate[] {
      const reasoning = e.kind === "thought" && e.reasoning ? [thought(e.reasoning)] : [];
      const text = e.kind === "thought" || e.kind === "cut" ? e.text : "";
      return [...reasoning, ...(text ? [said(text)] : []), ...entry(e)];
    },
    live(update: Update): SessionUpdate[] {
      if ("delta" in update) return [said(update.delta)];
      if ("reset" in update) return [said("\n\n[The answer is begun again.]\n\n")]; // an editor cannot take text back
      if ("notice" in update) return update.notice ? [thought(`\n${update.notice}\n`)] : [];
      if ("reasoning" in update) {
        shownReasoning = true;
        return [thought(update.reasoning)];
      }
      if ("printed" in update)
        return [{ sessionUpdate: "tool_call_update", toolCallId: update.call, content: outputOf(update.printed) }];
      const { entry: e } = update;
      const late = e.kind === "thought" && e.reasoning && !shownReasoning ? [thought(e.reasoning)] : [];
      return [...late, ...entry(e)];
    },
    /** A call that has no result yet. */
    callOf: (id: string): ProposedTool => calls.get(id) ?? { id, tool: "tool", args: {} },
  };
}

export const said = (text: string): SessionUpdate => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text },
});
const thought = (text: string): SessionUpdate => ({
  sessionUpdate: "agent_thought_chunk",
  content: { type: "text", text },
});
const userSaid = ({ text, images = [] }: Pick<Input, "text" | "images">): SessionUpdate[] => [
  { sessionUpdate: "user_message_chunk", content: { type: "text", text } },
  ...images.map(({ mime, data }): SessionUpdate => {
    return { sessionUpdate: "user_message_chunk", content: { type: "image", mimeType: mime, data } };
  }),
];

/** A message of the conversation that this one was forked from. */
function saidBefore(message: Message): SessionUpdate[] {
  if (message.role === "user") return userSaid(message);
  return message.role === "assistant" && message.text ? [said(message.text)] : [];
}

/** The agent's list of what is to be done, whenever it has written it. */
function planIn(call: ProposedTool | undefined, outcome: CallOutcome): SessionUpdate[] {
  const { items } = recordOf(call?.args);
  if (call?.tool !== "todo" || outcome !== "ok" || !Array.isArray(items)) return [];
  const entries = items.flatMap((item) => {
    const { text, status } = recordOf(item);
    const known = status === "pending" || status === "in_progress" || status === "done" ? PLAN_STATUS[status] : null;
    return typeof text === "string" && known ? [{ content: text, priority: "medium" as const, status: known }] : [];
  });
  return [{ sessionUpdate: "plan", entries }];
}
