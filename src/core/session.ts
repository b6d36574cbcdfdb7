// The types of a session: its state, the events that change it, the entries of its journal and the effects that it wants.
// The behaviour is in turn.ts.
//
// The state holds ids and numbers only. Texts, arguments and results go from the event into an entry of
// the journal, so a commit costs the same whether the talk is ten or ten thousand entries long.

import type { Message } from "./transcript.ts";

/** What an input does to a session whose turn runs. What people are told about them: conversation/modes.ts. */
export const MODES = ["interrupt", "queue", "steer"] as const;
export type Mode = (typeof MODES)[number];
/** `pull`: the answer waits to be read (terminal, HTTP). `push`: it must be delivered to a chat. */
export type Reply = "pull" | "push";
export type Outcome = "completed" | "failed" | "cancelled" | "interrupted";
/** What becomes of a call that needs an approval where nobody can be asked. `client`: the client that waits for the turn is asked,
 *  in its own protocol; a question is declined. */
export type Unattended = "deny" | "allow" | "client";

/** The source of an input that only looks whether something is to be done. */
export const HEARTBEAT_SOURCE = "heartbeat";

/** Something a person, a schedule or an API client said. The id is its idempotency key, and its turn's id. */
export type Input = {
  id: string;
  text: string;
  mode: Mode;
  reply: Reply;
  /** Where it came from: a platform, the API, a schedule. */
  source?: string;
  /** Who said it. */
  by?: string;
  /** Somebody waits for the answer: trouble with the model is not waited out for hours. */
  attended?: boolean;
  /** Nobody can be asked in the turn that this input begins. Not there: a person is asked. It says nothing about who waits:
   *  a client of OpenAI's protocol waits for the answer, and cannot be asked. An input that joins a turn changes nothing:
   *  the input that began the turn decides. */
  unattended?: Unattended;
  images?: Image[];
  /** Which model is to answer, if not the configured one. */
  model?: string;
  /** Not a message: only make the conversation shorter. */
  task?: Task;
  /** Instructions of the client, for the system prompt of this turn. */
  instructions?: string;
  /** What the model is shown of the past, instead of what the session holds. */
  history?: Message[];
  options?: ModelOptions;
  /** Tools that the client runs: a call of one of them waits for the client's result. */
  tools?: ClientTool[];
  /** Only a question to the model: without tools, memory and a prompt of ours. */
  bare?: boolean;
  /** Parts of the request that its client wants to read again. */
  wire?: Readonly<Record<string, unknown>>;
};
/** A tool as it is described to a model. `strict`: its arguments must fit the schema. */
export type ClientTool = { name: string; description: string; schema: Record<string, unknown>; strict?: boolean };
/** How much a model reasons before it answers. */
export const EFFORTS = ["minimal", "low", "medium", "high"] as const;
export type Effort = (typeof EFFORTS)[number];
/** What a client of the API may set for a model call. */
export type ModelOptions = {
  temperature?: number;
  topP?: number;
  maxTokens?: number;
  effort?: Effort;
  stop?: string[];
  seed?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  /** The answer must be JSON: of this schema, or any. */
  json?: { name?: string; description?: string; schema?: Record<string, unknown> };
  /** For the first model call of the turn. */
  toolChoice?: "required" | { tool: string };
  /** At most one call of the client's tools at a time. */
  oneCall?: boolean;
};
/** `data` is base64. */
export type Image = { mime: string; data: string };
export type Task = "compress";
/** What a waiting input needs to be found again; its text is in its `accepted` entry, at `seq`. */
export type Waiting = Pick<Input, "id" | "mode" | "reply" | "model" | "task" | "unattended"> & { seq: number };

/** What a call is about: what was judged, and approved where somebody was asked, is this and nothing else (I15). */
export type About = {
  command: string;
  cwd: string;
  /** Digest of whatever else decides what the command does: the sandbox, PATH, variables. */
  env: string;
  /** Hosts that it may reach. */
  hosts?: string[];
};
/** How long a yes holds: for this call, for the rest of the session, or for good (a rule in the user's file). */
export type Scope = "once" | "session" | "always";
/** A yes for the rest of the session; `call` is the call it was first said to. */
export type Grant = { call: string; about: About; by: string; at: number };
/** A rule, and the file in the home that an "always" writes it to. */
export type SavedRule = { file: "policy.yaml" | "hosts.allow"; rule: string };
export type Ask = {
  /** `client`: not for a person; the client that gave the tool is to run it. */
  kind: "approval" | "question" | "client";
  text: string;
  choices: string[];
  until: number;
  about?: About;
  /** What an "always" would save. */
  saves?: SavedRule[];
};
/** A call as the model proposed it and the gate judged it. `result` is there when it must not run at all. */
export type Proposal = { tool: string; args: unknown; repeatable: boolean; alone?: boolean } & (
  | { gate: "run"; about?: About }
  | { gate: "ask"; ask: Ask }
  | { gate: "refuse"; result: string }
);
/** The parts of an answer in order, each with the data that its provider wants to get back: signatures, encrypted reasoning,
 *  ids. They are sent to that provider only. */
export type Replay = {
  /** Endpoint and model. */
  maker: string;
  parts: ReplayPart[];
  /** Of the answer as a whole. */
  meta?: Meta;
};
/** `length`: so many of the next characters of the thought's reasoning, or of its text. A call is the next one, under the
 *  id that its maker gave it. */
export type ReplayPart =
  | { type: "reasoning" | "text"; length: number; meta?: Meta }
  | { type: "call"; id: string; meta?: Meta };
export type Meta = Readonly<Record<string, unknown>>;
/** What a maker refused to be sent, and answered without. */
export type Refused = { maker: string; what: ("pictures" | "reasoning")[] };
export type CallStatus = "asking" | "waiting" | "running" | "done";
export type Call = {
  id: string;
  tool: string;
  repeatable: boolean;
  /** Never beside another call. */
  alone: boolean;
  status: CallStatus;
  ask?: { kind: Ask["kind"]; until: number };
};
export type CallOutcome = "ok" | "error" | "denied" | "cancelled" | "unknown" | "skipped";

export type Phase =
  | { at: "thinking" } // one model call is in flight
  | { at: "compacting" } // the conversation is being made shorter, so that it can go on
  | { at: "acting"; calls: Call[] } // tools are in flight, or wait for a person's answer
  | { at: "replying"; outcome: Outcome; from: number } // the answer, entry `from`, is on its way to a chat
  | { at: "stopping"; outcome: Outcome; alive: string[] }; // keys that are aborted but not yet observed dead

export type Turn = Pick<Input, "id" | "reply" | "model" | "task" | "unattended"> & {
  phase: Phase;
  /** Model calls that have come back; at the budget the next one must be the last. */
  thoughts: number;
  /** The conversation was made shorter for the model call in flight: no use in trying that again. */
  tight: boolean;
  /** How often the answer in the making was begun again because its stream broke after words. */
  breaks?: number;
  /** Restarts since a tool last finished or an answer was there: progress forgives them, a crash loop makes none. */
  recoveries: number;
};

export type Session = {
  v: 3;
  /** Entries so far; the next one gets `seq + 1`. */
  seq: number;
  /** Rises whenever what is in flight becomes void (T2). */
  step: number;
  inbox: Waiting[];
  turn: Turn | null;
  /** The last `ended` entry, and for each that remembers turns the one it has been told up to. */
  ended: number;
  remembered: Readonly<Record<string, number>>;
  /** Held after too many crashes, until somebody says something new. */
  parked: boolean;
  /** Calls whose yes holds for the rest of the session: what they are about is in their `asked` entries. */
  grants: readonly string[];
};

/** By the id of a call. */
export type Printed = Readonly<Record<string, string>>;
export type Event =
  /** `said` and `printed`: what the model has said and what its calls have printed, where this cuts them off. */
  | { type: "arrived"; input: Input; said: string; printed?: Printed }
  | { type: "stopped"; turn: string; said: string; printed?: Printed }
  | { type: "withdrawn"; input: string }
  | { type: "moved"; input: string; to: number }
  | { type: "decided"; call: string; allow: boolean; text: string; by: string; scope: Scope }
  /** The approval of this call does not hold any longer. */
  | { type: "revoked"; call: string; by: string }
  | ({ type: "thought"; step: number; reasoning: string; calls: Proposal[] } & Thought)
  /** The conversation does not fit into the model's window. `retract`: why the words so far do not count. */
  | { type: "crowded"; step: number; retract?: string }
  /** The stream broke after words: they do not count, and the answer is begun again. */
  | { type: "broke"; step: number; reason: string }
  /** Up to that entry, the model is shown this instead. `upTo` 0: there was nothing to shorten. */
  | { type: "compacted"; step: number; summary: string; upTo: number }
  | { type: "acted"; step: number; call: string; outcome: CallOutcome; text: string; images?: Image[] }
  | { type: "failed"; step: number; reason: string; said: string; tries?: FailedTry[] }
  | { type: "delivered"; step: number; how: Delivery }
  | { type: "remembered"; by: string; after: number; upTo: number }
  | { type: "settled"; key: string; abandoned: boolean }
  /** A new session begins with what another one holds. */
  | { type: "forked"; from: string; upTo: number; messages: Message[] }
  /** A new process owns the session: whatever the old one had in flight is dead. `barred`: the turn and the inputs of those who may
   *  not talk any more. `planned`: the old one had let go of it in order, so this is no attempt at recovery. */
  | { type: "restarted"; resume: boolean; barred?: readonly string[]; planned?: boolean };

/** What a model call gave. */
type Thought = {
  text: string;
  usage: Usage;
  model: string;
  replay?: Replay;
  refused?: Refused;
  endedBy?: EndedBy;
  /** What memory had to say to the message that began the turn. */
  recalled?: string;
  timing?: ThoughtTiming;
};
/** How the model call went, in milliseconds since it was begun: when memory had answered, when the first word of the answer (or of its
 *  reasoning) was there, and the tries before it that came to nothing. */
export type ThoughtTiming = { recalled?: number; firstWord?: number; tries?: FailedTry[] };
/** `ms`: when it had failed. */
export type FailedTry = { model: string; reason: string; ms: number };
/** What ended an answer before its model did: the limit of output tokens, the provider's filter, or the limit of model calls in
 *  a turn (`Rules.iterations`): after it the model may only answer. */
export type EndedBy = "length" | "filter" | "iterations";
/** In tokens; `cached` ones are part of `input`, `reasoning` of `output`. `cost`: in dollars, where the price is known. */
export type Usage = { input: number; output: number; cached?: number; reasoning?: number; cost?: number };
export type Delivery = "sent" | "maybe" | "undelivered";

/** What an entry of the journal says. */
export type Fact =
  | { kind: "accepted"; input: Input; applied: Applied }
  /** `messages`: what the model was shown there, up to that entry. */
  | { kind: "forked"; from: string; upTo: number; messages: Message[] }
  | { kind: "withdrawn"; input: string }
  | { kind: "moved"; input: string; to: number }
  | { kind: "began"; input: string }
  | { kind: "joined"; input: string }
  /** `about`: of a call that nobody is asked for; of the others it is in `asked`. */
  | ({
      kind: "thought";
      reasoning?: string;
      calls: { id: string; tool: string; args: unknown; about?: About }[];
    } & Thought)
  | { kind: "compacted"; summary: string; upTo: number }
  | { kind: "asked"; call: string; ask: Ask }
  /** Without a scope it was written before there were any, and was for once. */
  | { kind: "decided"; call: string; allow: boolean; text: string; by: string; scope?: Scope }
  | { kind: "revoked"; call: string; by: string }
  | { kind: "started"; call: string }
  | { kind: "acted"; call: string; outcome: CallOutcome; text: string; images?: Image[] }
  /** What the model had said when its turn was stopped or its call failed. */
  | { kind: "cut"; text: string }
  | { kind: "failed"; reason: string; tries?: FailedTry[] }
  /** What the model had said of this answer was taken back: it is begun again. */
  | { kind: "retracted"; reason: string }
  | { kind: "stopping"; outcome: Outcome; by: string }
  | { kind: "abandoned"; key: string }
  | { kind: "restarted"; attempt: number }
  | { kind: "parked" }
  | { kind: "delivered"; how: Delivery }
  | { kind: "ended"; outcome: Outcome };
/** Kinds of entries that many folds leave out together. A fold names what it leaves out, `entry.kind satisfies CallKind | "ended"`, so a
 *  kind that nobody has decided about is a compile error in it. */
export type InputKind = "accepted" | "withdrawn" | "moved" | "began" | "joined";
export type CallKind = "asked" | "decided" | "revoked" | "started" | "acted";
export type EndKind = "failed" | "stopping" | "ended";
export type RecoveryKind = "retracted" | "abandoned" | "restarted" | "parked" | "delivered";
/** What really became of an input when it came. */
export type Applied = "began" | Mode;
export type Entry = { seq: number; turn: string; at: number } & Fact;
export type NewEntry = { seq: number; turn: string } & Fact;

export type Effect =
  | {
      key: string;
      do: "think";
      turn: string;
      step: number;
      final: boolean;
      tight: boolean;
      /** How often it was begun again already. */
      breaks: number;
      model?: string;
    }
  | { key: string; do: "compact"; turn: string; step: number; asked: boolean; model?: string }
  | { key: string; do: "act"; turn: string; step: number; call: string }
  | { key: string; do: "ask"; turn: string; call: string; until: number }
  | { key: string; do: "deliver"; turn: string; step: number; from: number; again: boolean }
  | { key: string; do: "remember"; by: string; after: number };

export type Rules = {
  /** Model calls in one turn before it must come to an end. */
  iterations: number;
  /** Recoveries without progress before a session is parked. */
  recoveries: number;
  /** Calls of one batch in flight together. */
  parallel: number;
  /** We are about to leave: no turn begins. */
  leaving?: boolean;
  /** Who wants to remember turns, by name. */
  memory: readonly string[];
};

export const fresh: Session = {
  v: 3,
  seq: 0,
  step: 0,
  inbox: [],
  turn: null,
  ended: 0,
  remembered: {},
  parked: false,
  grants: [],
};

/** What an older version wrote, as this one reads it. Version 1 knew one memory at most, and had none in use; version 2 had
 *  no grants in the journal. */
export const upgraded = (state: { v: number }): Session =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the versions differ in this only
  (state.v < 3 ? { ...state, ...(state.v === 1 && { remembered: {} }), grants: [], v: 3 } : state) as Session;
