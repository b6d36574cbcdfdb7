// The interface to the engine: all that a surface may use.

import type { Run } from "./run.ts";
import type { Applied, Ask, Entry, Grant, Input, Mode, Outcome, Phase, Scope } from "./session.ts";
import type { Announcements, Notes, Search, SessionPage, SessionSummary } from "./store.ts";
import type { Message } from "./transcript.ts";

export type AcceptRequest = Omit<Input, "id" | "source"> & {
  /** If not given, a new session, whose key is the id of the turn. */
  session?: string;
  /** Where the input came from, and its id there. If it is delivered twice, it is the same input (I3). */
  source: string;
  key: string;
  /** A steer that may only join this turn. */
  into?: string;
  /** The session that made this one. */
  parent?: string;
  /** What two requests under one key must have in common to be the same input; if not given, everything. */
  same?: unknown;
  /** Called just before the input would be accepted; may throw a Refusal. An input that was accepted before is not refused (I3). */
  admit?(): void;
};

/** The answer to an accepted input, once the input is durable (I2). `applied` says what the input did. */
export type Receipt = {
  id: string;
  session: string;
  applied: Applied;
  replayed: boolean;
  /** Nothing begins just now: it waits until somebody resumes. */
  paused?: true;
  /** Just before it was accepted: following from here misses nothing of its turn. */
  cursor: string;
};

/** Where an accepted input is now. */
export type Whereabouts =
  | { at: "queued" }
  | { at: "withdrawn" }
  | { at: "taken"; turn: string }
  | { at: "answered"; turn: string; outcome: Outcome };

export type Status = {
  session: string;
  turn: { id: string; phase: Phase["at"]; thoughts: number; recoveries: number } | null;
  inbox: { id: string; mode: Mode; text: string }[];
  asking: (Ask & { call: string })[];
  parked: boolean;
  /** Characters that the model has said in the call that is under way. Null: the process that made the call is gone, and knew it alone. */
  said: number | null;
  /** Where the stream was when this process first looked: what came since may not have been seen by anybody. */
  since: string;
  /** The turn has begun but waits for room among the turns in flight. */
  held: boolean;
  /** Memories that have not been told of all turns yet. */
  unsaved: string[];
  /** Processes that go on beside the turns. */
  background: { id: string; command: string }[];
};

/** `cursor` names this place in the stream: following from it gives exactly the rest. */
export type Update = { cursor: string } & (
  | { entry: Entry }
  /** `at`: when it was written down; not there while it is live. */
  | { delta: string; at?: number }
  | { reset: true; at?: number }
  /** Not part of the record: what is going on just now, such as a wait. Empty: it is over. */
  | { notice: string }
  /** Not part of the record either: what the model thinks before it answers. */
  | { reasoning: string }
  /** Not part of the record either: the end of what a tool has printed so far. It replaces the last one of that call. */
  | { printed: string; call: string }
);

/** Over all sessions. Times in milliseconds of the clock. */
export type Load = {
  turns: number;
  held: number;
  waiting: number;
  oldestWaitingAt: number | null;
  /** The inputs that run or wait. */
  inputs: string[];
};

/** Who has said that nothing begins, and when. */
export type Paused = { by: string; at: number };

export type Stopped = "stopping" | "withdrawn" | "ending" | "over";

/** `text`: the answer to a question, or for the model the reason of a no. */
export type Answer = { allow: boolean; text: string; scope?: Scope };

/** `summary`: for people, which files and how many lines, or why that is not known. `patch`: how; empty where there is none. */
export type FileChanges = { summary: string; patch: string };

export interface Runtime {
  accept(request: AcceptRequest): Promise<Receipt>;
  /** `tree`: also every session that this one made, and what waits in them. */
  stop(stop: { session: string; turn: string; scope?: "turn" | "tree" }): Promise<Stopped>;
  /** The first answer wins: false when there is no such question any more. Without a scope a yes is for once. */
  answer(answer: Answer & { session: string; call: string; by: string }): Promise<boolean>;
  /** What is allowed for the rest of the session. */
  grants(session: string): Promise<Grant[]>;
  /** The sessions in which something is allowed. */
  granted(): Promise<string[]>;
  /** Takes back an approval, by the call that got it. False: the approval does not hold any more. */
  revoke(session: string, call: string, by: string): Promise<boolean>;
  /** False: the input does not wait any more. */
  withdraw(session: string, input: string): Promise<boolean>;
  move(session: string, input: string, to: number): Promise<boolean>;
  status(session: string): Promise<Status>;
  /** The id of an input from this source under this key, whether it was accepted or not. */
  idOf(source: string, key: string): string;
  whereabouts(input: string): Promise<Whereabouts | null>;
  run(turn: string): Promise<(Run & { session: string }) | null>;
  /** All entries of one turn, in order. */
  turn(id: string): Promise<Entry[]>;
  /** Entries and live text after `cursor` ("" is the beginning), until the signal aborts. */
  follow(session: string, cursor: string, signal: AbortSignal): AsyncGenerator<Update>;

  sessions(page: SessionPage): Promise<SessionSummary[]>;
  summary(session: string): Promise<SessionSummary | null>;
  search: Search;
  /** Those with `seq > after`, in order: `limit` of them, or fewer where they are long. None: there are no more (see pages.ts). */
  entries(session: string, after: number, limit: number): Promise<Entry[]>;
  retitle(session: string, title: string): Promise<boolean>;
  /** Begins `session`, a new one, with these messages or with nothing in it. */
  create(begun: { session: string; title: string; messages?: Message[] }): Promise<"created" | "taken">;
  /** Begins `session`, a new one, with what `from` holds up to and with the turn `through` (or all of it). */
  fork(fork: {
    from: string;
    through?: string;
    session: string;
    title: string;
  }): Promise<"forked" | "unknown" | "taken">;
  /** Brings the files of the workspace back to before these turns, the newest of them first, or (without any) to before the last time
   *  that this was done in the session; those that were changed since are left alone. What came of it, for people; with `preview`
   *  only what would, and the difference. */
  restoreFiles(what: {
    session: string;
    turns?: readonly string[] | undefined;
    preview?: boolean | undefined;
  }): Promise<FileChanges>;
  /** What that turn, or the last one that changed files of the workspace, did to them; `all`: what is different since before the first
   *  one. */
  fileChanges(what: { session: string; turn?: string | undefined; all?: boolean | undefined }): Promise<FileChanges>;
  /** Forgets it with everything in it, unless it is at work. */
  forget(session: string): Promise<"forgotten" | "busy" | "unknown">;
  readonly announcements: Announcements;
  readonly notes: Notes;
  draining(): boolean;
  /** Null: turns begin as they come. */
  paused(): Promise<Paused | null>;
  /** No turn begins until somebody resumes, also after a restart. Those that run go on to their end, with their children; whatever else is
   *  said is accepted, and waits. */
  pause(by: string): Promise<void>;
  resume(): Promise<void>;
  load(): Promise<Load>;
}

/** What nodes that share a store ask each other for, beside `follow`: all that needs a session's owner. */
export const PEER_CALLS = [
  "accept",
  "stop",
  "answer",
  "grants",
  "revoke",
  "withdraw",
  "move",
  "status",
  "create",
  "fork",
  "restoreFiles",
  "fileChanges",
  "forget",
] as const;
export type Peer = Pick<Runtime, (typeof PEER_CALLS)[number] | "follow">;
