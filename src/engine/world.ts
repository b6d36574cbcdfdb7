// What an engine is given.
import type { Ambient, Perform } from "../core/ports.ts";
import type { Entry, Rules } from "../core/session.ts";
import type { Store } from "../core/store.ts";
import type { NodeInfo } from "./membership.ts";

export type EngineLimits = {
  /** Turns that think or act at the same time, children not counted. */
  turns: number;
  /** Inputs that wait in one session. */
  inbox: number;
  /** Characters of one input. */
  text: number;
  /** How long aborted work may take to die. */
  graceMs: number;
  /** Turns of a dead process continue by themselves, if they are not older than this; 0: never. */
  resumeWithinMs: number;
  /** Idle sessions kept in memory. */
  warm: number;
};

export type Observe = (session: string, entries: readonly Entry[]) => void;
export type World = Ambient & {
  store: Omit<Store, "check" | "close">;
  perform: Perform;
  limits: EngineLimits;
  rules: Rules;
  /** Who is told, durably, when a turn of its own (not a child's) has ended. */
  announce?: readonly string[];
  /** They see what was committed, once it is. For counting only: a crash may lose a look. */
  observers?: Iterable<Observe>;
  /** Which of these inputs, left by a process that is gone, must not be worked on: who said them may not talk any more. */
  barred?(session: string, inputs: readonly string[]): Promise<readonly string[]>;
  /** Told when another process has taken over: nothing more can be done here. */
  fenced?(): void;
  /** This process among those that share the store. Not given, or without an address: it has the store to itself. */
  node?: NodeInfo;
  /** Another node that has what a session at rest needs, such as its files: calls for it go there. */
  nodeOf?(session: string): Promise<{ node: string; address: string } | null>;
  /** Told when somebody wants this node to leave. */
  leaving?(): void;
};
