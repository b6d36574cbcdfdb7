// OpenAI-compatible chat completions: the answers.
import { checkChat } from "./chat-request.ts";
import type { Dialect } from "./dialects.ts";
import { complaint, told } from "./openai.ts";
import type { Answer, Failure, Finish } from "./reply.ts";
import { arrange, type Frame, type Part, pieces, type Wire, type Wording } from "./wire.ts";

export const chatOf = (dialect: Dialect): Wire => ({
  format: "chat",
  path: "/v1/chat/completions",
  callId: dialect.callId,
  check: (body) => checkChat(body, dialect.rules),
  frames: (answer, wording) => frames(answer, wording, dialect),
  whole,
  failure: (failure, wording, problem) => {
    const ours = problem ? dialect.refusal?.(problem) : failed(failure, dialect);
    if (!ours) return told("chat")(failure, wording, problem);
    return { status: ours.status, headers: {}, body: JSON.stringify(ours.body) };
  },
  errorFrame: (failure) => ({ part: "frame", data: JSON.stringify({ error: complaint("chat", failure).error }) }),
});

function failed(failure: Failure, dialect: Dialect): { status: number; body: unknown } | undefined {
  const { status, error } = complaint("chat", failure);
  return dialect.failure && { status, body: dialect.failure(status, error.message) };
}

const FINISH = { stop: "stop", length: "length", calls: "tool_calls", filter: "content_filter" };
const reason = (finish: Finish | null) =>
  finish && typeof finish === "object" ? finish.raw : finish && FINISH[finish];

const usageOf = ({ usage: { input, output, cached, reasoning } }: Answer) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0 },
});

const head = (object: string, { read, id }: Wording) => ({
  id: id("chatcmpl-"),
  object,
  created: Math.floor(Date.now() / 1000),
  model: read.model,
  service_tier: "default",
  system_fingerprint: "fp_fake",
});

function frames(answer: Answer, wording: Wording, dialect: Dialect): Frame[] {
  const common = head("chat.completion.chunk", wording);
  const usage = wording.read.usage ? { usage: null } : {};
  const frame = (part: Part, delta: object, finish_reason: string | null = null): Frame => ({
    part,
    data: JSON.stringify({ ...common, choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...usage }),
  });
  const call = (index: number, of: object) => ({ tool_calls: [{ index, ...of }] });
  const calls = answer.calls.map(({ id, name, args }, index) => {
    const begun = (json: string) => ({
      id,
      type: "function",
      function: { name, arguments: json },
      ...dialect.call?.({ name, args }, index),
    });
    if (dialect.wholeCalls) return [frame("arguments", call(index, begun(args)))];
    return [
      frame("frame", call(index, begun(""))),
      ...pieces(args).map((piece) => frame("arguments", call(index, { function: { arguments: piece } }))),
    ];
  });
  const thought = (pieces: string[], nth: number) =>
    (pieces.length ? dialect.reasoning(pieces, nth) : []).map((delta) => frame("reasoning", delta));
  const last = { ...common, choices: [], usage: usageOf(answer) };
  return [
    frame("frame", { role: "assistant", content: "", refusal: null }),
    ...thought(answer.reasoning, 0),
    ...answer.text.map((content) => frame("text", { content })),
    ...thought(answer.afterthought, 1),
    ...arrange(calls, answer.interleave),
    ...(answer.finish ? [frame("finish", {}, reason(answer.finish))] : []),
    ...(wording.read.usage || dialect.usage ? [{ part: "finish" as const, data: JSON.stringify(last) }] : []),
    { part: "done", data: "[DONE]" },
  ];
}

function whole(answer: Answer, wording: Wording): string {
  const calls = answer.calls.map(({ id, name, args }) => ({
    id,
    type: "function",
    function: { name, arguments: args },
  }));
  const message = {
    role: "assistant",
    content: answer.text.join("") || null,
    ...(answer.reasoning.length > 0 ? { reasoning_content: answer.reasoning.join("") } : {}),
    refusal: null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  return JSON.stringify({
    ...head("chat.completion", wording),
    choices: [{ index: 0, message, logprobs: null, finish_reason: reason(answer.finish) }],
    usage: usageOf(answer),
  });
}
