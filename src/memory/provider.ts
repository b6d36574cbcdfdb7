// The interface of a long-term memory. Everything but the name and `isAvailable` is optional; most providers need two
// or three methods. No two methods of a provider run at the same time. Each call has a time limit, and gets a signal
// that fires when nobody waits for it any more. Text from a provider is data: it is cut, cleaned and fenced before a
// model gets it.
import type { ToolResult, ToolSpec } from "../core/ports.ts";
import type { Outcome } from "../core/session.ts";
import type { Message } from "../core/transcript.ts";

/** The scope and the conversation. Nothing of one scope may reach another (I25). */
export type Whose = { scope: string; session: string };

/** `key` is the same whenever the same turn is sent again: sent twice, it must be stored once (I17). */
export type RememberedTurn = { key: string; turn: string; outcome: Outcome; user: string; assistant: string };

/** The task of a child, and its report. */
type Delegated = { key: string; child: string; outcome: Outcome; task: string; result: string };

/** A change that a tool of another memory made. `before` is the text that it replaced or removed. */
export type MemoryWrite = {
  by: string;
  action: "add" | "replace" | "remove";
  target: string;
  text: string;
  before?: string;
};

/** `repeatable`: running the tool twice does no harm. */
export type MemoryTool = ToolSpec & { repeatable?: boolean };

/** `wrote`: the other memories are informed, and the system prompt is rebuilt. */
export type Handled = ToolResult & { wrote?: Omit<MemoryWrite, "by"> };

export interface MemoryProvider {
  readonly name: string;
  /** Whether the configuration is sufficient. Called once, before anything else; no I/O. */
  isAvailable(): boolean;
  /** Called once, before anything else; if it fails, again before the next call. */
  initialize?(signal: AbortSignal): Promise<void>;
  /** Text for the system prompt of every turn of this scope. */
  systemPromptBlock?(whose: Whose, signal: AbortSignal): Promise<string>;
  /** Text that is relevant to this message. A turn waits briefly; a later answer is used in the next turn. */
  prefetch?(query: string, whose: Whose, signal: AbortSignal): Promise<string>;
  /** A turn is over: prepare for the next one. */
  queuePrefetch?(query: string, whose: Whose, signal: AbortSignal): Promise<void>;
  /** One turn that is over, in turn order. Retried until it succeeds. A provider with this method is a writer. */
  syncTurn?(told: RememberedTurn, whose: Whose, signal: AbortSignal): Promise<void>;
  /** If the list changes later, it must be a new array. */
  toolSchemas?(): readonly MemoryTool[];
  handleToolCall?(tool: string, args: unknown, whose: Whose, signal: AbortSignal): Promise<Handled>;
  onSessionEnd?(whose: Whose, signal: AbortSignal): Promise<void>;
  /** The conversation continues in `whose.session`; it was in `from`. */
  onSessionSwitch?(from: string, whose: Whose, signal: AbortSignal): Promise<void>;
  /** These messages are about to be summarised. The summary should contain the returned text. */
  onPreCompress?(messages: readonly Message[], whose: Whose, signal: AbortSignal): Promise<string>;
  onMemoryWrite?(write: MemoryWrite, whose: Whose, signal: AbortSignal): Promise<void>;
  /** Called instead of `syncTurn` for turns of children, which are not a person's words. `whose.session` is the
   *  parent. */
  onDelegation?(delegated: Delegated, whose: Whose, signal: AbortSignal): Promise<void>;
  shutdown?(signal: AbortSignal): Promise<void>;
}
