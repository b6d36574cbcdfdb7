// Anthropic Messages: the answers.
import { checkAnthropic, signatureOf } from "./anthropic-request.ts";
import type { Answer, Failure, Finish } from "./reply.ts";
import { isRecord, parsed } from "./validation.ts";
import { arrange, type Frame, type Part, type Problem, pieces, type Told, type Wire, type Wording } from "./wire.ts";

export const anthropic: Wire = {
  format: "anthropic",
  path: "/v1/messages",
  callId: "toolu_",
  check: checkAnthropic,
  frames,
  whole,
  failure,
  errorFrame: (failure, { id }) => event("frame", "error", { ...complaint(failure), request_id: id("req_") }),
};

const FINISH = { stop: "end_turn", length: "max_tokens", calls: "tool_use", filter: "refusal" };
const reason = (finish: Finish | null) =>
  finish && typeof finish === "object" ? finish.raw : finish && FINISH[finish];

const inputUsage = ({ usage: { input, cached } }: Answer) => ({
  input_tokens: input - cached,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cached,
});

const head = ({ read, id }: Wording) => ({ id: id("msg_"), type: "message", role: "assistant", model: read.model });

const event = (part: Part, type: string, fields: object): Frame => ({
  part,
  event: type,
  data: JSON.stringify({ type, ...fields }),
});

function frames(answer: Answer, wording: Wording): Frame[] {
  let blocks = 0;
  const block = (content_block: object, deltas: { part: Part; delta: object }[]): Frame[] => {
    const index = blocks++;
    return [
      event("frame", "content_block_start", { index, content_block }),
      ...(index === 0 ? [event("frame", "ping", {})] : []),
      ...deltas.map(({ part, delta }) => event(part, "content_block_delta", { index, delta })),
      event("frame", "content_block_stop", { index }),
    ];
  };
  const thought = (pieces: string[]) => {
    if (!pieces.length) return [];
    const signed = { type: "signature_delta", signature: signatureOf(pieces.join("")) };
    return block({ type: "thinking", thinking: "", signature: "" }, [
      ...pieces.map((thinking) => ({ part: "reasoning" as const, delta: { type: "thinking_delta", thinking } })),
      { part: "frame", delta: signed },
    ]);
  };
  const texts = answer.text.map((text) => ({ part: "text" as const, delta: { type: "text_delta", text } }));
  const json = (part: Part, partial_json: string) => ({ part, delta: { type: "input_json_delta", partial_json } });

  const message = { ...head(wording), content: [], stop_reason: null, stop_sequence: null };
  const delta = { stop_reason: reason(answer.finish), stop_sequence: null };
  return [
    event("frame", "message_start", {
      message: { ...message, usage: { ...inputUsage(answer), output_tokens: 1, service_tier: "standard" } },
    }),
    ...(answer.redacted ? block({ type: "redacted_thinking", data: answer.redacted }, []) : []),
    ...thought(answer.reasoning),
    ...(texts.length > 0 ? block({ type: "text", text: "" }, texts) : []),
    ...thought(answer.afterthought),
    ...arrange(
      answer.calls.map(({ id, name, args }) =>
        block({ type: "tool_use", id, name, input: {} }, [
          json("frame", ""),
          ...pieces(args).map((piece) => json("arguments", piece)),
        ]),
      ),
      answer.interleave,
    ),
    event("finish", "message_delta", { delta, usage: { ...inputUsage(answer), output_tokens: answer.usage.output } }),
    event("done", "message_stop", {}),
  ];
}

function whole(answer: Answer, wording: Wording): string {
  const thinking = answer.reasoning.join("");
  const calls = answer.calls.map(({ id, name, args }) => {
    const input = parsed(args);
    // Here the arguments are no text: what is not an object cannot be said.
    if (!isRecord(input)) throw new Error(`Anthropic cannot answer unstreamed with the arguments ${args}`);
    return { type: "tool_use", id, name, input };
  });
  return JSON.stringify({
    ...head(wording),
    content: [
      ...(thinking ? [{ type: "thinking", thinking, signature: signatureOf(thinking) }] : []),
      ...(answer.text.length > 0 ? [{ type: "text", text: answer.text.join("") }] : []),
      ...calls,
    ],
    stop_reason: reason(answer.finish),
    stop_sequence: null,
    usage: { ...inputUsage(answer), output_tokens: answer.usage.output, service_tier: "standard" },
  });
}

const FAILURES: Record<Failure, [status: number, type: string, message: string]> = {
  "bad-request": [400, "invalid_request_error", "Bad request."],
  "context-overflow": [400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"],
  auth: [401, "authentication_error", "invalid x-api-key"],
  forbidden: [403, "permission_error", "Your API key does not have permission to use the specified resource."],
  "not-found": [404, "not_found_error", "Not found"],
  "rate-limit": [
    429,
    "rate_limit_error",
    "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
  ],
  quota: [
    400,
    "invalid_request_error",
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
  ],
  server: [500, "api_error", "Internal server error"],
  overloaded: [529, "overloaded_error", "Overloaded"],
};

function complaint(failure: Failure, problem?: Problem) {
  const [, type, message] = FAILURES[failure];
  return { type: "error", error: { type, message: problem?.message ?? message } };
}

function failure(failure: Failure, { id }: Pick<Wording, "id">, problem?: Problem): Told {
  const request_id = id("req_");
  const body = JSON.stringify({ ...complaint(failure, problem), request_id });
  return { status: FAILURES[failure][0], headers: { "request-id": request_id }, body };
}
