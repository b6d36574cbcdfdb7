// What a test says the model answers: data, the same for every wire format.

/** A string is one chunk. */
type Chunks = string | string[];
/** `args` is sent as JSON; a string is sent as it is, so that it can be broken. */
type Call = { name: string; args: unknown; id?: string };
/** `input` includes `cached`, `output` includes `reasoning`. */
type Usage = { input: number; output: number; cached: number; reasoning: number };
/** `raw` is sent as it is. */
export type Finish = "stop" | "length" | "calls" | "filter" | { raw: string };

/**
 * A place in an answer. `accepted`: the request is read, nothing is sent. `headers`: only they are sent. `reasoning`,
 * `text`: after the last of it. `arguments`: inside those of the first call. `finish`: before the finish reason.
 * `done`: before what closes the stream (`[DONE]`, `message_stop`; Responses has nothing after its finish).
 * An answer that is not streamed is cut in its middle for all but the first two.
 */
export type Point = "accepted" | "headers" | "reasoning" | "text" | "arguments" | "finish" | "done";

export type Failure =
  | "bad-request"
  | "context-overflow"
  | "auth"
  | "forbidden"
  | "not-found"
  | "rate-limit"
  | "quota"
  | "server"
  | "overloaded";

export type Fault =
  /** The connection ends: by TCP reset (the default), by FIN inside the body, or by a body that ends well too early. */
  | { cut: Point; by?: "reset" | "close" | "end" }
  /** Nothing more comes; the connection stays open until the client closes it. */
  | { silence: Point }
  /** One byte in each HTTP chunk, with so many milliseconds between them. */
  | { byteEvery: number }
  /** The text is one chunk of so many bytes, in one line; Infinity never ends. */
  | { longLine: number }
  /** 502 comes with the HTML of a gateway; `body` replaces what the provider would say. */
  | { status: number; retryAfter?: number | string | Date; headers?: Record<string, string>; body?: string }
  | { redirect: string; status?: 301 | 302 | 303 | 307 | 308 }
  /** 200, then an error inside the stream, by default after the text. `failed`: Responses says `response.failed`. */
  | { errorEvent: Failure; at?: "headers" | "text" | "arguments"; failed?: boolean }
  /** 400, as each provider says it. */
  | "context-overflow"
  | "html"
  | "crlf"
  | "bom"
  | "comments"
  | "split-utf8"
  | "no-last-blank-line"
  | "no-done"
  | "done-twice";

export type Reply = {
  /** Reasoning that nobody may read, before all else. Only Anthropic has it. */
  redacted?: string;
  reasoning?: Chunks;
  text?: Chunks;
  /** More reasoning, between the text and the calls. */
  afterthought?: Chunks;
  calls?: Call[];
  /** The arguments of all calls take turns, a piece each. */
  interleave?: boolean;
  usage?: Partial<Usage>;
  /** null: none is sent. */
  finish?: Finish | null;
  /** Before the headers. */
  delayMs?: number;
  /** Before every event. */
  chunkDelayMs?: number;
  /** The answer waits at `holdAt` (else after its text, or before its finish) for this, or for the client to close. */
  hold?: Promise<unknown>;
  holdAt?: Point;
  fault?: Fault | Fault[];
};

/** A reply with nothing left to decide: what a wire format puts into its own words. */
export type Answer = {
  redacted: string;
  reasoning: string[];
  text: string[];
  afterthought: string[];
  calls: { id: string; name: string; args: string }[];
  interleave: boolean;
  usage: Usage;
  finish: Finish | null;
};

export const LONG_LINE = "<long line>";

export function answerOf(reply: Reply, callId: () => string): Answer {
  const calls = (reply.calls ?? []).map(({ id, name, args }) => ({
    id: id ?? callId(),
    name,
    args: typeof args === "string" ? args : JSON.stringify(args),
  }));
  return {
    redacted: reply.redacted ?? "",
    reasoning: chunksOf(reply.reasoning),
    afterthought: chunksOf(reply.afterthought),
    text: faultOf(reply, "longLine") ? [LONG_LINE] : chunksOf(reply.text),
    calls,
    interleave: reply.interleave ?? false,
    usage: { input: 100, output: 20, cached: 0, reasoning: 0, ...reply.usage },
    finish: reply.finish === undefined ? (calls.length > 0 ? "calls" : "stop") : reply.finish,
  };
}

type Flag = Extract<Fault, string>;
type Detailed = Exclude<Fault, string>;
type KeyOf<T> = T extends unknown ? keyof T : never;
/** The fault that has this key. */
export function faultOf<K extends KeyOf<Detailed>>(
  reply: Reply,
  key: K,
): Extract<Detailed, Record<K, unknown>> | undefined {
  const has = (fault: Fault): fault is Extract<Detailed, Record<K, unknown>> =>
    typeof fault !== "string" && key in fault;
  return faults(reply).find(has);
}
export const hasFlag = (reply: Reply, flag: Flag): boolean => faults(reply).includes(flag);

const faults = ({ fault }: Reply): Fault[] => (fault === undefined ? [] : Array.isArray(fault) ? fault : [fault]);
const chunksOf = (chunks: Chunks = []): string[] => (typeof chunks === "string" ? [chunks] : chunks).filter(Boolean);
