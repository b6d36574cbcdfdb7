// What a long-term memory can do. Everything but the name and `isAvailable` may be left out: most need two or three
// of these.
//
// No method may be called beside another of the same provider, each has a limit in time, and each gets a signal that
// fires when nobody waits for it any more. What a provider says is data: it is cut, cleaned and fenced before a
// model sees it.
import type { ToolResult, ToolSpec } from "../core/ports.ts";
import type { Outcome } from "../core/session.ts";
import type { Message } from "../core/transcript.ts";

/** Whose memory, and in which conversation. Nothing of one scope may reach another (I25). */
export type Whose = { scope: string; session: string };

/** `key` is the same whenever the same turn is written again: written twice, it must be there once (I17). */
export type Told = { key: string; turn: string; outcome: Outcome; user: string; assistant: string };

/** What a child was asked to do, and what it reported. */
type Delegated = { key: string; child: string; outcome: Outcome; task: string; result: string };

/** A change that was made by a tool of another memory. `before` is what it replaced or removed. */
export type MemoryWrite = {
  by: string;
  action: "add" | "replace" | "remove";
  target: string;
  text: string;
  before?: string;
};

/** `repeatable`: running it twice does no harm. */
export type MemoryTool = ToolSpec & { repeatable?: boolean };

/** `wrote`: other memories are told, and the system prompt is made anew. */
export type Handled = ToolResult & { wrote?: Omit<MemoryWrite, "by"> };

export interface MemoryProvider {
  readonly name: string;
  /** Whether it is configured well enough to be used. Asked once, before anything else; no I/O. */
  isAvailable(): boolean;
  /** Once, before anything else; if it fails, again before the next call. */
  initialize?(signal: AbortSignal): Promise<void>;
  /** What the model is to know in every turn of this scope. */
  systemPromptBlock?(whose: Whose, signal: AbortSignal): Promise<string>;
  /** What bears on this message. Waited for briefly: what comes later is used in the next turn. */
  prefetch?(query: string, whose: Whose, signal: AbortSignal): Promise<string>;
  /** A turn is over: get ready for the next. */
  queuePrefetch?(query: string, whose: Whose, signal: AbortSignal): Promise<void>;
  /** One turn that is over, in turn order. Tried until it is written. With this a provider is a writer. */
  syncTurn?(told: Told, whose: Whose, signal: AbortSignal): Promise<void>;
  /** May become another list later; then it is another array. */
  toolSchemas?(): readonly MemoryTool[];
  handleToolCall?(tool: string, args: unknown, whose: Whose, signal: AbortSignal): Promise<Handled>;
  onSessionEnd?(whose: Whose, signal: AbortSignal): Promise<void>;
  /** The conversation goes on in `whose.session`; it was in `from`. */
  onSessionSwitch?(from: string, whose: Whose, signal: AbortSignal): Promise<void>;
  /** These messages are about to become a summary. What is returned should be kept in it. */
  onPreCompress?(messages: readonly Message[], whose: Whose, signal: AbortSignal): Promise<string>;
  onMemoryWrite?(write: MemoryWrite, whose: Whose, signal: AbortSignal): Promise<void>;
  /** Instead of `syncTurn`, for turns of children: they are not a person's words. `whose.session` is the parent. */
  onDelegation?(delegated: Delegated, whose: Whose, signal: AbortSignal): Promise<void>;
  shutdown?(signal: AbortSignal): Promise<void>;
}
