// The interfaces that core owns. Everything outside implements one or is given one.
import type {
  About,
  Delivery,
  Effect,
  EndedBy,
  Entry,
  Event,
  Grant,
  ModelOptions,
  Outcome,
  Refused,
  Replay,
  Scope,
  Session,
  Unattended,
  Usage,
} from "./session.ts";
import type { Message, Transcript } from "./transcript.ts";

export type Clock = {
  /** Milliseconds of the wall clock. */
  now(): number;
  /** Resolves after `ms`, or at once when the signal aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
};

/** A number in [0, 1). */
export type Random = () => number;

export type Log = (level: "debug" | "info" | "warn" | "error", event: string, fields?: Record<string, unknown>) => void;

// ── Store: durable truth ──────────────────────────────────────────────────────────────────────────────

/** One change: state, entries and inputs together, or nothing of it. */
export type Commit = {
  session: string;
  /** The writer's claim. Older than the store's: "fenced", nothing is written (I21). */
  epoch: number;
  /** The version this change was made from; 0: the session is new. Not the stored one: "stale". */
  version: number;
  state: Session;
  /** Whether a process that starts must look at this session. */
  active: boolean;
  parent: string | null;
  at: number;
  entries: Entry[];
  /** Inputs accepted here. One whose id exists already: "duplicate", nothing is written (I3). */
  accepted: { id: string; digest: string }[];
  /** Inputs that this change gives to a turn, or (null) withdraws. */
  taken: { id: string; turn: string | null }[];
  /** What to call the session, if it has no name yet. */
  title?: string;
  /** Ends of turns that somebody outside wants to hear of. */
  announced?: { to: string; turn: string }[];
};
export type Verdict = "done" | "stale" | "duplicate" | "fenced";

export type SessionRow = {
  session: string;
  /** The claim under which it was last written. */
  epoch: number;
  version: number;
  state: Session;
  parent: string | null;
  createdAt: number;
  updatedAt: number;
};
export type InputRow = {
  id: string;
  session: string;
  digest: string;
  at: number;
  /** `taken`: `turn` is the turn it is in. */
  status: "waiting" | "taken" | "withdrawn";
  turn: string | null;
};
export type SessionSummary = {
  session: string;
  title: string;
  parent: string | null;
  active: boolean;
  entries: number;
  createdAt: number;
  updatedAt: number;
};

/** Where a list goes on: after this one. */
export type SessionPlace = { updatedAt: number; session: string };
export type SessionPage = {
  after?: SessionPlace;
  limit: number;
  /** Without those that another session made. */
  top?: boolean;
  /** Only those at work. */
  active?: boolean;
  /** Only those with this in their title. */
  titled?: string;
  /** Only those whose key begins like this. */
  prefix?: string;
};

/** The end of a turn that is still to be told to somebody. `dead`: given up, until somebody revives it. */
export type Announcement = {
  id: number;
  to: string;
  session: string;
  turn: string;
  at: number;
  attempts: number;
  due: number;
  error: string;
  dead: boolean;
};

/** Something small that a surface must not forget, under a name of its own (`pairing/telegram/123`). */
export type Note = { key: string; value: unknown; at: number };
export interface Notes {
  get(key: string): Promise<unknown>;
  /** Durable when it returns. Undefined: forgotten. */
  set(key: string, value: unknown): Promise<void>;
  /** Those whose key begins like this, in order of their keys. */
  list(prefix: string): Promise<Note[]>;
}

/** One entry; `text` is the part of it that fits. */
export type Found = { session: string; seq: number; turn: string; at: number; text: string };

/** Every method may throw a StoreFault; none throws anything else for trouble with the disk. */
export interface Store {
  /** Become the owner: returns a higher epoch than ever before; nobody with a lower one can commit again. */
  claim(): Promise<number>;
  /** The epoch of the newest claim. */
  epoch(): Promise<number>;
  load(session: string): Promise<SessionRow | null>;
  /** Returns when the change is durable: on the disk, not on its way there (I2). */
  commit(commit: Commit): Promise<Verdict>;
  /** In order of `seq`, those with `seq > after`, at most `limit`. */
  entries(session: string, after: number, limit: number): Promise<Entry[]>;
  /** All entries of one turn, in order: its `accepted` first. */
  turn(id: string): Promise<Entry[]>;
  input(id: string): Promise<InputRow | null>;
  /** Sessions that were committed with `active`, oldest change first. */
  active(): Promise<{ session: string; updatedAt: number }[]>;
  children(parent: string): Promise<string[]>;
  /** Newest change first. */
  sessions(page: SessionPage): Promise<SessionSummary[]>;
  /** Those in which a yes holds for the rest of the session. */
  granted(): Promise<string[]>;
  summary(session: string): Promise<SessionSummary | null>;
  /** False: there is no such session. */
  retitle(session: string, title: string): Promise<boolean>;
  /** Forgets it with everything in it, if this is still its version. */
  forget(which: Pick<Commit, "session" | "epoch" | "version">): Promise<Exclude<Verdict, "duplicate">>;
  /** The dead ones, or else the others, in the order in which they were made; those with `id > after`. */
  announcements(page: { dead: boolean; after: number; limit: number }): Promise<Announcement[]>;
  readonly notes: Notes;
  /** It was told (null: it is gone), or when and how to go on with it. */
  announced(id: number, next: Pick<Announcement, "attempts" | "due" | "error" | "dead"> | null): Promise<void>;
  /** What people and models said, best match first, of equal ones the newest: all words of the query, or else any.
   * `session` is a key or its first parts: `a:b` is `a:b` and `a:b:…`, never `a:bc`. */
  search(query: string, within: { session?: string; limit: number }): Promise<Found[]>;
  /** Forgets what has no work and was last changed before `before`, with everything in it, if its key starts with `prefix`. Returns how many. */
  prune(prefix: string, before: number): Promise<number>;
  /** What is wrong with the file; empty: nothing. */
  check(): Promise<string[]>;
  close(): Promise<void>;
}

// ── Model ─────────────────────────────────────────────────────────────────────────────────────────────

export type ModelRequest = {
  session: string;
  system: string;
  messages: readonly Message[];
  tools: readonly ToolSpec[];
  /** None of the tools may be called: this must be an answer. */
  final: boolean;
  options?: ModelOptions;
};
export type ToolSpec = { name: string; description: string; schema: Record<string, unknown> };
/** `bad`: why it must not run. */
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
/** What comes in while a call runs. `alive`: a sign of life that is nothing to show. */
export type Hear = { text(text: string): void; reasoning(text: string): void; alive(): void };
export interface Model {
  readonly name: string;
  /** Tokens of input and output together. */
  readonly context: number;
  /** On this machine or network: slower, and nobody else's to overload. */
  readonly local: boolean;
  call(request: ModelRequest, hear: Hear, signal: AbortSignal): Promise<ModelResult>;
}

// ── Tool ──────────────────────────────────────────────────────────────────────────────────────────────

export type ToolCall = {
  session: string;
  turn: string;
  call: string;
  signal: AbortSignal;
  /** What the gate said it is about. */
  about?: About;
  /** How far the yes goes that was said to it; not there: nobody was asked. */
  approved?: Scope;
  /** What is allowed for the rest of the session by now. */
  grants?: readonly Grant[];
  /** Nobody can be asked in its turn. What the call begins elsewhere (children, background work) inherits this. */
  unattended?: Unattended;
};
export type ToolResult = { ok: boolean; text: string };
export type Gate =
  | { gate: "run"; about?: About }
  | { gate: "ask"; kind: "approval" | "question"; text: string; choices: string[]; timeoutMs: number; about?: About }
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
  /** Who is told of every turn. */
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
  journal: Pick<Store, "entries" | "turn">;
  /** Adds to the live text of this model call. */
  emitText(text: string): void;
  /** Adds to its live reasoning. */
  emitReasoning(text: string): void;
  /** What a viewer should know now and nobody later: a wait, a retry. Empty takes it back. */
  notice(text: string): void;
  /** False once another process has taken over: asked before anything that cannot be taken back (I21). */
  owned(): Promise<boolean>;
};
/** Does one piece of work and says what came of it in one event; null when it was aborted. */
export type Perform = (effect: Effect, cx: EffectContext) => Promise<Event | null>;
