// The durable truth, as small ports: each has a contract suite of its own (test/contract), so that another implementation can
// take them one by one. Every method may throw a StoreFault; none throws anything else for trouble with the disk.
import type { Entry, Session } from "./session.ts";

export type Store = {
  readonly journal: Journal;
  readonly catalog: Catalog;
  readonly notes: Notes;
  readonly announcements: Announcements;
  readonly search: Search;
  readonly nodes: Nodes;
  /** What is wrong with what is stored; empty: nothing. */
  check(): Promise<string[]>;
  close(): Promise<void>;
};

// ── Journal: what happened in sessions, and the state it left them in ─────────────────────────────────

/** One change: state, entries and inputs together, or nothing of it. */
export type Commit = {
  session: string;
  /** The writer. Not a member of this store any more: "fenced", nothing is written (I21). Another one owns the session: "elsewhere".
   *  The commit that leaves the session active makes its writer the owner, the one that leaves it at rest frees it. */
  node: string;
  /** The version this change was made from; 0: the session is new. Not the stored one: "stale". */
  version: number;
  state: Session;
  /** Whether somebody must look at this session, also if its writer dies. */
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
export type CommitVerdict = "done" | "stale" | "duplicate" | "fenced" | "elsewhere";

/** `writer`: the node that wrote this version; empty: whoever owned the session has handed it over since. */
export type SessionRow = Pick<Commit, "session" | "version" | "state" | "parent"> & {
  owner: string | null;
  writer: string;
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

/** Characters of JSON in one page of entries: 1,000 entries of 10 MB each would not fit into memory. */
export const PAGE_CHARS = 4_000_000;

export interface Journal {
  load(session: string): Promise<SessionRow | null>;
  /** Returns when the change is durable: on the disk, not on its way there (I2). */
  commit(commit: Commit): Promise<CommitVerdict>;
  /** In order of `seq`, those with `seq > after`, at most `limit` and at most PAGE_CHARS, but never none while there are any:
   *  a short page is not the last one, an empty page is behind the end. */
  entries(session: string, after: number, limit: number): Promise<Entry[]>;
  /** All entries of one turn, in order: its `accepted` first. */
  turn(id: string): Promise<Entry[]>;
  input(id: string): Promise<InputRow | null>;
  /** All that were ever accepted in a session, in no order. */
  inputs(session: string): Promise<InputRow[]>;
  children(parent: string): Promise<string[]>;
}

// ── Catalog: the list of sessions ─────────────────────────────────────────────────────────────────────

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

export interface Catalog {
  /** Newest change first. */
  sessions(page: SessionPage): Promise<SessionSummary[]>;
  summary(session: string): Promise<SessionSummary | null>;
  /** False: there is no such session. */
  retitle(session: string, title: string): Promise<boolean>;
  /** Those in which a yes holds for the rest of the session. */
  granted(): Promise<string[]>;
  /** Forgets it with everything in it, if this is still its version. */
  forget(which: Pick<Commit, "session" | "node" | "version">): Promise<Exclude<CommitVerdict, "duplicate">>;
  /** Forgets what has no work and was last changed before `before`, with everything in it, if its key starts with `prefix`. Returns how many. */
  prune(prefix: string, before: number): Promise<number>;
}

// ── Notes ─────────────────────────────────────────────────────────────────────────────────────────────

/** Something small that a surface must not forget, under a name of its own (`pairing/telegram/123`). */
export type Note = { key: string; value: unknown; at: number };
export interface Notes {
  get(key: string): Promise<unknown>;
  /** Durable when it returns. Undefined: forgotten. */
  set(key: string, value: unknown): Promise<void>;
  /** As `set`, if the value is still `from` (undefined: if there is none). False: it is not, and nothing is written. */
  swap(key: string, from: unknown, to: unknown): Promise<boolean>;
  /** Those whose key begins like this, in order of their keys. */
  list(prefix: string): Promise<Note[]>;
}

// ── Announcements: made by a commit, kept until their receiver has them ───────────────────────────────

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
export type AnnouncementPage = { dead: boolean; after: number; limit: number };
/** When and how to go on with an announcement. */
export type NextAttempt = Pick<Announcement, "attempts" | "due" | "error" | "dead">;

export interface Announcements {
  /** The dead ones, or else the others, in the order in which they were made; those with `id > after`. */
  list(page: AnnouncementPage): Promise<Announcement[]>;
  /** Null: it was told, and is removed. */
  update(id: number, next: NextAttempt | null): Promise<void>;
}

// ── Nodes: the processes that share a store ───────────────────────────────────────────────────────────

export type NodeRow = {
  id: string;
  /** Where its peers reach it; empty: it has none. */
  address: string;
  version: string;
  /** It takes up nothing more. */
  leaving: boolean;
  /** Milliseconds of the store's clock. */
  leaseUntil: number;
  /** How many it owns. */
  sessions: number;
};
/** A process that shares the store with nobody. */
export const ALONE = { address: "", version: "" };
export interface Nodes {
  /** Becomes a writer of this store, under a new random id. In a store for one process whoever was one before is fenced. */
  join(about: { address: string; version: string }): Promise<string>;
  /** Extends the lease. `gone`: it was reaped, nothing it commits is taken. `leaving`: somebody asked it to drain. */
  beat(id: string): Promise<"ok" | "leaving" | "gone">;
  /** Marks a node as leaving. False: no such node. */
  drain(id: string): Promise<boolean>;
  /** Removes the row; what it owned is free. */
  leave(id: string): Promise<void>;
  /** Removes members that are dead and frees their sessions. Returns their ids. */
  reap(): Promise<string[]>;
  /** Makes `id` the owner of sessions that have work and no owner, oldest change first. Returns their keys; behind them those that it was
   *  given before and has not written yet, because the answer may have been lost. None for a node that is leaving or gone. */
  claim(id: string, most: number): Promise<string[]>;
  /** Gives up sessions that `id` owns, whatever they have to do: somebody else may claim them. */
  handOver(id: string, sessions: readonly string[]): Promise<void>;
  list(): Promise<NodeRow[]>;
  ownerOf(session: string): Promise<{ node: string; address: string } | null>;
  /** For what only one node may do: true while `id` holds it (takes it if it is free, or its holder is gone). */
  lease(name: string, id: string): Promise<boolean>;
  release(name: string, id: string): Promise<void>;
  /** Hints, never the truth: something about nodes or owners may have changed. Returns how to stop. */
  onHint(listener: () => void): () => void;
}

// ── Search ────────────────────────────────────────────────────────────────────────────────────────────

/** One entry; `text` is the part of it that fits. */
export type Found = { session: string; seq: number; turn: string; at: number; text: string };
/** What people and models said, best match first, of equal ones the newest: all words of the query, or else any. Of very many matches, only
 *  the newest may be compared. `session` is a key or its first parts: `a:b` is `a:b` and `a:b:…`, never `a:bc`. `soon`: a turn waits, so
 *  what was said a moment ago may be missing. */
export type Search = (query: string, within: { session?: string; limit: number; soon?: boolean }) => Promise<Found[]>;
