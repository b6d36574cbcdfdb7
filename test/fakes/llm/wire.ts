// What a wire format is to the server: how it reads a request, how it words an answer, how it words a failure.
import type { IncomingHttpHeaders } from "node:http";
import type { Answer, Failure, Point } from "./reply.ts";

export type Format = "chat" | "responses" | "anthropic";

/** One server-sent event. `part` says what it carries, which is how faults and holds find their place. */
export type Frame = { part: Part; event?: string; data: string };
export type Part = "frame" | "reasoning" | "text" | "arguments" | "finish" | "done";

/** A request in words that all formats share. */
export type Read = {
  model: string;
  stream: boolean;
  /** Whether a stream may end with its usage. */
  usage: boolean;
  system: string;
  messages: Message[];
  tools: { name: string; description: string; schema: unknown }[];
};
export type Message =
  | { role: "user"; text: string; images: string[] }
  | { role: "assistant"; text: string; reasoning: string; calls: { id: string; name: string; args: unknown }[] }
  | { role: "tool"; call: string; text: string };

/** What a provider would complain about; as a bad request unless `failure` says otherwise. */
export type Problem = { message: string; param?: string; code?: string; type?: string; failure?: Failure };
export type Checked = { problems: Problem[]; read: Read };

/** `id` never gives the same twice. */
export type Wording = { read: Read; id(prefix: string): string };
export type Told = { status: number; headers: Record<string, string>; body: string };

export type Wire = {
  format: Format;
  path: string;
  callId: string;
  check(body: unknown, headers: IncomingHttpHeaders): Checked;
  frames(answer: Answer, wording: Wording): Frame[];
  /** The answer that is not streamed. */
  whole(answer: Answer, wording: Wording): string;
  failure(failure: Failure, wording: Pick<Wording, "id">, problem?: Problem): Told;
  /** `place`: how many frames came before it. */
  errorFrame(failure: Failure, wording: Wording, place: number, failed: boolean): Frame;
};

export const nothingRead = (): Read => ({
  model: "",
  stream: false,
  usage: false,
  system: "",
  messages: [],
  tools: [],
});

/** The JSON of a call's arguments, in three pieces, since a real model never sends it in one. */
export function pieces(args: string): string[] {
  const characters = Array.from(args); // whole ones: half a surrogate pair is no text
  const size = Math.max(1, Math.ceil(characters.length / 3));
  const cut: string[] = [];
  for (let from = 0; from < characters.length; from += size) cut.push(characters.slice(from, from + size).join(""));
  return cut;
}

/** One after the other, or one of each in turn. */
export function arrange<T>(lists: T[][], interleave: boolean): T[] {
  if (!interleave) return lists.flat();
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}

/** How many frames come before this point; undefined when the answer has no such point. */
export function placeOf(point: Point, frames: Frame[]): number | undefined {
  const parts = frames.map(({ part }) => part);
  const orEnd = (index: number) => (index < 0 ? parts.length : index);
  switch (point) {
    case "accepted":
    case "headers":
      return 0;
    case "reasoning":
    case "text":
      return parts.includes(point) ? parts.lastIndexOf(point) + 1 : undefined;
    case "arguments":
      return parts.includes("arguments") ? parts.indexOf("arguments") + 1 : undefined;
    case "finish":
      return orEnd(parts.findIndex((part) => part === "finish" || part === "done"));
    case "done":
      return orEnd(parts.indexOf("done"));
  }
}
