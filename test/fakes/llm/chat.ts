// OpenAI-compatible chat completions: the answers.
import { checkChat } from "./chat-request.ts";
import { complaint, told } from "./openai.ts";
import type { Answer, Finish } from "./reply.ts";
import { arrange, type Frame, type Part, pieces, type Wire, type Wording } from "./wire.ts";

export const chat: Wire = {
  format: "chat",
  path: "/v1/chat/completions",
  callId: "call_",
  check: checkChat,
  frames,
  whole,
  failure: told("chat"),
  errorFrame: (failure) => ({ part: "frame", data: JSON.stringify({ error: complaint("chat", failure).error }) }),
};

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

function frames(answer: Answer, wording: Wording): Frame[] {
  const common = head("chat.completion.chunk", wording);
  const usage = wording.read.usage ? { usage: null } : {};
  const frame = (part: Part, delta: object, finish_reason: string | null = null): Frame => ({
    part,
    data: JSON.stringify({ ...common, choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...usage }),
  });
  const call = (index: number, of: object) => ({ tool_calls: [{ index, ...of }] });
  const calls = answer.calls.map(({ id, name, args }, index) => [
    frame("frame", call(index, { id, type: "function", function: { name, arguments: "" } })),
    ...pieces(args).map((piece) => frame("arguments", call(index, { function: { arguments: piece } }))),
  ]);
  const last = { ...common, choices: [], usage: usageOf(answer) };
  return [
    frame("frame", { role: "assistant", content: "", refusal: null }),
    ...answer.reasoning.map((piece) => frame("reasoning", { content: null, reasoning_content: piece })),
    ...answer.text.map((content) => frame("text", { content })),
    ...arrange(calls, answer.interleave),
    ...(answer.finish ? [frame("finish", {}, reason(answer.finish))] : []),
    ...(wording.read.usage ? [{ part: "finish" as const, data: JSON.stringify(last) }] : []),
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
