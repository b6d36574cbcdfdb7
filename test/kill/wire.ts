// What the parent and the process that it kills say to each other, one JSON object on a line, and what they agree on.
import type { AcceptRequest, Receipt, Status, Stopped } from "../../src/core/runtime.ts";

export const INBOX = 6;
export const RECOVERIES = 2;
export const JOURNALS = { tools: "tools.jsonl", sent: "sent.jsonl", memory: "memory.jsonl" };

/** What a model does with a message, call by call: takes so long, then wants these tools. After the last, it answers. */
export type Round = { ms: number; calls: ToolName[] };
export type ToolName = "write" | "read" | "danger" | "hasty" | "solo";

/** The rounds are the last line of a message: whatever stands before it, the model finds them. */
export const textOf = (session: string, n: number, rounds: Round[]) =>
  `<${session}> message ${n}\n${JSON.stringify(rounds)}`;
export const roundsOf = (text: string): Round[] => JSON.parse(text.slice(text.lastIndexOf("\n") + 1));

export type Command =
  | { do: "accept"; request: AcceptRequest }
  | { do: "stop"; session: string; turn: string }
  | { do: "answer"; session: string; call: string; allow: boolean; by: string }
  | { do: "withdraw"; session: string; input: string }
  | { do: "move"; session: string; input: string; to: number }
  | { do: "status"; session: string };
export type AnswerTo = {
  accept: Receipt;
  stop: Stopped;
  answer: boolean;
  withdraw: boolean;
  move: boolean;
  status: Status;
};

/** `session`: what is known of it since its last commit. */
type Seen = { session: string; active: boolean; asking: string[] };
export type Line =
  | { ready: true }
  | { seen: Seen }
  | { thinking: string; round: number }
  | { id: number; value: unknown }
  | { id: number; refused: string }
  /** What must never happen. */
  | { trouble: string };

export type Ran = { id: string; turn: string; at: number };
export type Sent = { session: string; turn: string; text: string; again: boolean };
export type Remembered = { session: string; key: string; user: string };
