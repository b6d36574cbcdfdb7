// The interfaces that core owns, but for the store's (store.ts). Everything outside implements one or is given one.
import type {
  About,
  Ask,
  Delivery,
  Effect,
  EndedBy,
  Event,
  Grant,
  Image,
  ModelOptions,
  Outcome,
  Refused,
  Replay,
  Scope,
  Unattended,
  Usage,
} from "./session.ts";
import type { Journal } from "./store.ts";
import type { Message, Transcript } from "./transcript.ts";

export type Clock = {
  /** Milliseconds of the wall clock. It can be set, forwards and back: for times that are stored or shown. */
  now(): number;
  /** Milliseconds that only go forward, since some moment of this process: for how long something takes. */
  monotonic(): number;
  /** Resolves after `ms`, or at once when the signal aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
};

/** A number in [0, 1). */
export type Random = () => number;

export type Log = (level: "debug" | "info" | "warn" | "error", event: string, fields?: Record<string, unknown>) => void;

/** What almost every part takes from the machine it runs on. */
export type Ambient = { clock: Clock; log: Log };

// ── Model ─────────────────────────────────────────────────────────────────────────────────────────────

export type ModelRequest = {
  session: string;
  system: string;
  messages: readonly Message[];
  tools: readonly ToolSpec[];
  /** The model may call no tool: it must answer now. */
  final: boolean;
  options?: ModelOptions;
};
export type ToolSpec = { name: string; description: string; schema: Record<string, unknown>; strict?: boolean };
/** `bad`: why the call must not run. */
export type ProposedCall = { tool: string; args: unknown; bad?: string };
/** How one call ended; its text is what was heard. Always one of these; a model port never throws. */
export type ModelResult =
  | { end: "answer"; calls: ProposedCall[]; usage: Usage; endedBy?: EndedBy; replay?: Replay; refused?: Refused }
  | Fault
  /** Ours: the signal fired. Never a fault, never retried (I12). */
  | { end: "aborted" };
/** `retryAfter`: milliseconds the provider asked for. `spent`: output tokens that were used up. */
export type Fault = { end: "fault"; kind: FaultKind; reason: string; retryAfter?: number; spent?: number };
export type FaultKind =
  | "network"
  | "unavailable"
  | "rate_limited"
  | "stalled"
  | "incomplete"
  /** Not even the beginning of an answer: what some servers do with a request that is too long. */
  | "empty"
  | "garbled"
  | "oversized"
  /** All of its output tokens went into reasoning. */
  | "exhausted"
  | "auth"
  | "quota"
  | "bad_request"
  | "too_long"
  | "filtered";
/** A model by the word of its server. The window is in tokens, the price in dollars for a million of them. */
export type Offer = {
  id: string;
  context?: number;
  price?: { input: number; output: number; cached?: number } | undefined;
};
/** Takes what arrives while a call runs. `alive`: a sign of life without anything to show. */
export type ModelSink = { text(text: string): void; reasoning(text: string): void; alive(): void };
export interface Model {
  readonly name: string;
  /** Tokens of input and output together. */
  readonly context: number;
  /** On this machine or network: slower, and nobody else's to overload. */
  readonly local: boolean;
  call(request: ModelRequest, hear: ModelSink, signal: AbortSignal): Promise<ModelResult>;
}

// ── Tool ──────────────────────────────────────────────────────────────────────────────────────────────

export type ToolCall = {
  session: string;
  turn: string;
  call: string;
  signal: AbortSignal;
  /** What the call is about, as its gate said. */
  about?: About;
  /** The scope of the approval that this call got; missing if nobody was asked. */
  approved?: Scope;
  /** What is allowed for the rest of the session by now. */
  grants?: readonly Grant[];
  /** Shows viewers what it prints while it runs. Nobody keeps it: the result has to hold what matters. */
  print?(text: string): void;
  /** Nobody can be asked in its turn. What the call begins elsewhere (children, background work) inherits this. */
  unattended?: Unattended;
};
/** `images`: shown to the model behind the results of this step. The tool bounds their number and size. */
export type ToolResult = { ok: boolean; text: string; images?: Image[] };
export type Gate =
  | { gate: "run"; about?: About }
  | ({ gate: "ask"; timeoutMs: number } & Omit<Ask, "until">)
  | { gate: "refuse"; result: string };
export interface Tool extends ToolSpec {
  /** Running it twice does no harm: a crash may run it again. */
  readonly repeatable: boolean;
  /** Never beside another call. */
  readonly alone?: boolean;
  /** Decides before anything runs; arguments that do not fit are refused here. */
  judge(args: unknown, session: string, grants?: readonly Grant[]): Promise<Gate> | Gate;
  /** Settles only when nothing it started is alive, also after an abort. */
  run(args: unknown, call: ToolCall): Promise<ToolResult>;
}

// ── Memory and channels ───────────────────────────────────────────────────────────────────────────────

/** `by`: whoever said it, where that is known. */
export type Remembered = {
  session: string;
  turn: string;
  by?: string;
  outcome: Outcome;
  user: string;
  assistant: string;
};
export interface Memory {
  /** The names of the memories that are told of every turn. */
  readonly writers: readonly string[];
  /** `key` is the same whenever the same turn is written again. */
  remember(writer: string, turn: Remembered, key: string, signal: AbortSignal): Promise<void>;
  /** What is known that bears on the message that began a turn: data for the model, bounded in size and time. Never
   *  rejects; the same for the same turn. */
  recall(about: { session: string; turn: string; by?: string; text: string }, signal: AbortSignal): Promise<string>;
  /** These messages are about to become a summary: what should stay of them. Never rejects. */
  compressing?(messages: readonly Message[], about: { session: string; by?: string }): Promise<string>;
}

export interface Channel {
  /** `key` is the same whenever the same reply is sent again; `again` is true then. */
  send(
    reply: { key: string; session: string; turn: string; text: string; again: boolean },
    signal: AbortSignal,
  ): Promise<Delivery>;
}

// ── Effects ───────────────────────────────────────────────────────────────────────────────────────────

/** What an executor gets. */
export type EffectContext = {
  session: string;
  signal: AbortSignal;
  history(): Promise<Transcript>;
  journal: Pick<Journal, "entries" | "turn">;
  /** Adds to the live text of this model call. */
  emitText(text: string): void;
  /** Adds to its live reasoning. */
  emitReasoning(text: string): void;
  /** Shows viewers something that only matters now, such as a wait or a retry. An empty text removes it. */
  notice(text: string): void;
  /** The end of what this tool call has printed so far, for viewers. */
  showPrinted(text: string): void;
  /** Waits so long and lets another turn run meanwhile (gate.ts). Returns when this turn may go on, or at once when it is
   *  aborted. */
  waitWithoutPlace(ms: number): Promise<void>;
  /** False once it is aborted or another process has taken over: asked before anything that cannot be taken back (I21). */
  owned(): Promise<boolean>;
};
/** Does one piece of work and says what came of it in one event; null when it was aborted. */
export type Perform = (effect: Effect, cx: EffectContext) => Promise<Event | null>;

/** What runs in the background of any session. `output`: the end of what it has printed. */
export type RunningProcesses = {
  list(): Promise<{ id: string; session: string; command: string; cwd: string; startedAt: number; output: string }[]>;
  /** Ends it with everything it started. False: it does not run. */
  end(id: string): Promise<boolean>;
};

/** The notes of long-term memory, by scope. */
export type MemoryNotes = {
  scopes(): Promise<string[]>;
  entries(scope: string): Promise<{ target: "memory" | "user"; text: string }[]>;
  /** Throws, in words, where the change does not fit. */
  change(
    scope: string,
    target: "memory" | "user",
    change:
      | { action: "add"; text: string }
      | { action: "replace"; find: string; text: string }
      | { action: "remove"; find: string },
  ): Promise<unknown>;
};
