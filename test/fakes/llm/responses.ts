// OpenAI Responses: the answers.
import { complaint, told } from "./openai.ts";
import type { Answer, Failure, Finish } from "./reply.ts";
import { checkResponses, encrypted } from "./responses-request.ts";
import { arrange, type Frame, type Part, pieces, type Wire, type Wording } from "./wire.ts";

export const responses: Wire = {
  format: "responses",
  path: "/v1/responses",
  callId: "call_",
  check: checkResponses,
  frames,
  whole,
  failure: told("responses"),
  errorFrame,
};

const INCOMPLETE: Record<string, string> = { length: "max_output_tokens", filter: "content_filter" };
const incomplete = (finish: Finish | null) =>
  finish && typeof finish === "object" ? finish.raw : finish && INCOMPLETE[finish];

const usageOf = ({ usage: { input, output, cached, reasoning } }: Answer) => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
});

const response = ({ read, id }: Wording, rest: object) => ({
  id: id("resp_"),
  object: "response",
  created_at: Math.floor(Date.now() / 1000),
  status: "in_progress",
  background: false,
  error: null,
  incomplete_details: null,
  instructions: read.system || null,
  max_output_tokens: null,
  model: read.model,
  output: [],
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  service_tier: "default",
  store: false,
  temperature: 1,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_p: 1,
  truncation: "disabled",
  usage: null,
  user: null,
  metadata: {},
  ...rest,
});

/** What the answer is made of, as it is when it is done. */
function outputOf({ reasoning, text, afterthought, calls }: Answer, { id }: Wording) {
  const thought = (pieces: string[]) =>
    pieces.length
      ? [
          {
            id: id("rs_"),
            type: "reasoning" as const,
            summary: [summary(pieces.join(""))],
            encrypted_content: encrypted(pieces.join("")),
          },
        ]
      : [];
  const message = { id: id("msg_"), type: "message" as const, status: "completed", role: "assistant" };
  return [
    ...thought(reasoning),
    ...(text.length > 0 ? [{ ...message, content: [said(text.join(""))] }] : []),
    ...thought(afterthought),
    ...calls.map((call) => ({
      id: id("fc_"),
      type: "function_call" as const,
      status: "completed",
      arguments: call.args,
      call_id: call.id,
      name: call.name,
    })),
  ];
}
type Item = ReturnType<typeof outputOf>[number];
const summary = (text: string) => ({ type: "summary_text", text });
const said = (text: string) => ({ type: "output_text", annotations: [], logprobs: [], text });

type Unnumbered = { part: Part; type: string; fields: object };
const frame = (part: Part, type: string, fields: object): Unnumbered => ({ part, type: `response.${type}`, fields });

function frames(answer: Answer, wording: Wording): Frame[] {
  const base = response(wording, {});
  const output = outputOf(answer, wording);
  const spoken = output.map((item, index) => ({ item, frames: itemFrames(item, index, answer) }));
  const [calls = [], rest = []] = [true, false].map((isCall) =>
    spoken.filter(({ item }) => (item.type === "function_call") === isCall).map(({ frames }) => frames),
  );
  const end = ended(answer);
  return [
    frame("frame", "created", { response: base }),
    frame("frame", "in_progress", { response: base }),
    ...rest.flat(),
    ...arrange(calls, answer.interleave),
    ...(answer.finish ? [frame("finish", end.status, { response: { ...base, ...end, output } })] : []),
  ].map(({ part, type, fields }, sequence_number) => event(part, type, { sequence_number, ...fields }));
}

function itemFrames(item: Item, output_index: number, answer: Answer): Unnumbered[] {
  const at = { item_id: item.id, output_index };
  const between = (begun: object, frames: Unnumbered[]) => [
    frame("frame", "output_item.added", { output_index, item: { ...item, ...begun } }),
    ...frames,
    frame("frame", "output_item.done", { output_index, item }),
  ];
  switch (item.type) {
    case "reasoning": {
      const text = item.summary.map((part) => part.text).join("");
      const pieces = [answer.reasoning, answer.afterthought].find((one) => one.join("") === text) ?? [text];
      const here = { ...at, summary_index: 0 };
      return between({ summary: [] }, [
        frame("frame", "reasoning_summary_part.added", { ...here, part: summary("") }),
        ...pieces.map((delta) => frame("reasoning", "reasoning_summary_text.delta", { ...here, delta })),
        frame("frame", "reasoning_summary_text.done", { ...here, text }),
        frame("frame", "reasoning_summary_part.done", { ...here, part: summary(text) }),
      ]);
    }
    case "message": {
      const text = answer.text.join("");
      const here = { ...at, content_index: 0 };
      return between({ status: "in_progress", content: [] }, [
        frame("frame", "content_part.added", { ...here, part: said("") }),
        ...answer.text.map((delta) => frame("text", "output_text.delta", { ...here, delta, logprobs: [] })),
        frame("frame", "output_text.done", { ...here, text, logprobs: [] }),
        frame("frame", "content_part.done", { ...here, part: said(text) }),
      ]);
    }
    case "function_call":
      return between({ status: "in_progress", arguments: "" }, [
        ...pieces(item.arguments).map((delta) => frame("arguments", "function_call_arguments.delta", { ...at, delta })),
        frame("frame", "function_call_arguments.done", { ...at, name: item.name, arguments: item.arguments }),
      ]);
  }
}

const event = (part: Part, type: string, fields: object): Frame => ({
  part,
  event: type,
  data: JSON.stringify({ type, ...fields }),
});

function ended(answer: Answer) {
  const reason = incomplete(answer.finish);
  const status = reason ? "incomplete" : "completed";
  return { status, incomplete_details: reason ? { reason } : null, usage: usageOf(answer) };
}

function whole(answer: Answer, wording: Wording): string {
  // Without a finish reason it stays as it began.
  const end = answer.finish ? ended(answer) : {};
  return JSON.stringify(response(wording, { ...end, output: outputOf(answer, wording) }));
}

/** In `error` events the real service nests what its documentation has on the top level. */
function errorFrame(failure: Failure, wording: Wording, sequence_number: number, failed: boolean): Frame {
  const { error } = complaint("responses", failure);
  if (!failed) return event("frame", "error", { sequence_number, error });
  const { code, message } = error;
  return event("frame", "response.failed", {
    sequence_number,
    response: response(wording, { status: "failed", error: { code: code ?? "server_error", message } }),
  });
}
