// What an OpenAI-compatible server is sent, judged as strictly as the strictest of them does.
import { z } from "zod";
import { imageUrl, metadata, nullable, parameterProblems, shapeProblems, toolName } from "./openai.ts";
import { argumentsJson, misfits, parsed, problem, repeated, type Step, said, unpaired } from "./validation.ts";
import { type Checked, type Message, nothingRead, type Problem } from "./wire.ts";

const textPart = z.strictObject({ type: z.literal("text"), text: said });
const imagePart = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.strictObject({ url: imageUrl, detail: z.enum(["auto", "low", "high"]).optional() }),
});
const texts = z.union([said, z.array(textPart).min(1)]);
const thinkingPart = z.strictObject({
  type: z.literal("thinking"),
  thinking: z.array(z.strictObject({ type: z.literal("text"), text: said })).min(1),
  signature: nullable(z.string()),
  closed: z.boolean().optional(),
});
const callId = z.string().regex(/^[a-zA-Z0-9_.:-]{1,40}$/, "must have 1 to 40 letters, digits, '_' or '-'");

const message = z.discriminatedUnion("role", [
  z.strictObject({ role: z.enum(["system", "developer"]), content: texts, name: z.string().optional() }),
  z.strictObject({
    role: z.literal("user"),
    content: z.union([said, z.array(z.discriminatedUnion("type", [textPart, imagePart])).min(1)]),
    name: z.string().optional(),
  }),
  z.strictObject({
    role: z.literal("assistant"),
    // Some send "" beside calls, and all accept it.
    content: nullable(z.union([z.string(), z.array(z.discriminatedUnion("type", [textPart, thinkingPart]))])),
    // Of these each dialect knows some; `rules` refuses the others.
    reasoning_content: z.string().optional(),
    reasoning: z.string().optional(),
    reasoning_details: z.array(z.looseObject({ type: z.string() })).optional(),
    thinking_blocks: z
      .array(z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() }))
      .optional(),
    prefix: z.boolean().optional(),
    refusal: nullable(z.string()),
    name: z.string().optional(),
    tool_calls: z
      .array(
        z.strictObject({
          id: callId,
          type: z.literal("function"),
          function: z.strictObject({ name: toolName, arguments: argumentsJson }),
          index: z.int().min(0).optional(),
          extra_content: z.strictObject({ google: z.strictObject({ thought_signature: said }) }).optional(),
        }),
      )
      .min(1)
      .optional(),
  }),
  z.strictObject({
    role: z.literal("tool"),
    tool_call_id: callId,
    content: z.union([z.string(), z.array(textPart)]),
    name: z.string().optional(),
  }),
]);

const tool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: toolName,
    description: z.string().optional(),
    parameters: z.unknown(),
    strict: nullable(z.boolean()),
  }),
});

const tokens = nullable(z.int().min(1));
const penalty = nullable(z.number().min(-2).max(2));
const request = z.strictObject({
  model: said,
  messages: z.array(message).min(1),
  tools: z.array(tool).min(1).max(128).optional(),
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: toolName }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  stream: nullable(z.boolean()),
  stream_options: nullable(
    z.strictObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() }),
  ),
  max_tokens: tokens,
  max_completion_tokens: tokens,
  temperature: nullable(z.number().min(0).max(2)),
  top_p: nullable(z.number().min(0).max(1)),
  frequency_penalty: penalty,
  presence_penalty: penalty,
  n: nullable(z.literal(1)),
  seed: nullable(z.int()),
  stop: nullable(z.union([z.string(), z.array(z.string()).max(4)])),
  logit_bias: nullable(z.record(z.string(), z.number())),
  logprobs: nullable(z.boolean()),
  top_logprobs: nullable(z.int().min(0).max(20)),
  response_format: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.enum(["text", "json_object"]) }),
      z.strictObject({ type: z.literal("json_schema"), json_schema: z.looseObject({ name: toolName }) }),
    ])
    .optional(),
  reasoning_effort: nullable(z.enum(["none", "minimal", "low", "medium", "high", "xhigh"])),
  verbosity: nullable(z.enum(["low", "medium", "high"])),
  service_tier: nullable(z.string()),
  prompt_cache_key: nullable(z.string()),
  safety_identifier: nullable(z.string()),
  user: z.string().optional(),
  store: nullable(z.boolean()),
  metadata,
});
export type ChatRequest = z.infer<typeof request>;
type Request = ChatRequest;

/** `rules`: what this server wants beyond what all of them do. */
export function checkChat(body: unknown, rules: (data: ChatRequest) => Problem[]): Checked {
  const { success, data, error } = request.safeParse(body);
  if (success) return { problems: [...rules(data), ...order(data), ...toolProblems(data)], read: read(data) };
  const problems = shapeProblems(misfits(error), (path) => `Unrecognized request argument supplied: ${path}`);
  return { problems, read: nothingRead() };
}

function order({ messages }: Request): Problem[] {
  const wrong: Problem[] = [];
  const add = (at: number, text: string) => wrong.push(problem(text, `messages.[${at}].role`));
  const steps: Step[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool") {
      steps.push({ at, result: message.tool_call_id });
      continue;
    }
    steps.push({ at, other: true });
    if ((message.role === "system" || message.role === "developer") && at > 0)
      add(at, "System message must be at the beginning.");
    if (message.role !== "assistant") continue;
    steps.push(...(message.tool_calls ?? []).map(({ id }) => ({ at, call: id })));
    if (!message.tool_calls && !plain(message.content).trim())
      add(at, "Assistant message must have either content or tool_calls.");
  }
  const last = messages.at(-1);
  if (last?.role === "assistant") add(messages.length - 1, "Expected last role User or Tool but got assistant.");
  if (!messages.some(({ role }) => role === "user")) add(0, "There is no user message.");
  for (const { at, ids, why } of unpaired(steps)) add(at, PAIRING[why](ids.join(", ")));
  return wrong;
}

const PAIRING = {
  unanswered: (ids: string) =>
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
    `The following tool_call_ids did not have response messages: ${ids}`,
  orphan: (id: string) =>
    `Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls': ${id}`,
  "call twice": (id: string) => `Duplicate value for 'tool_call_id' of ${id}`,
  "result twice": (id: string) => `Duplicate tool message for 'tool_call_id' ${id}`,
};

function toolProblems({ tools = [], tool_choice, parallel_tool_calls, stream, stream_options }: Request): Problem[] {
  const wrong: Problem[] = [];
  const only = (field: string, needs: string) =>
    wrong.push(problem(`Invalid value for '${field}': '${field}' is only allowed when ${needs}.`, field));
  if (tools.length === 0 && tool_choice !== undefined) only("tool_choice", "'tools' are specified");
  if (tools.length === 0 && parallel_tool_calls !== undefined) only("parallel_tool_calls", "'tools' are specified");
  if (stream_options && !stream) only("stream_options", "'stream' is enabled");
  const names = tools.map(({ function: { name } }) => name);
  for (const name of repeated(names)) wrong.push(problem(`Duplicate function name '${name}'.`, "tools"));
  if (typeof tool_choice === "object" && !names.includes(tool_choice.function.name))
    wrong.push(problem(`Invalid value for 'tool_choice': no function '${tool_choice.function.name}'.`, "tool_choice"));
  for (const [i, { function: fn }] of tools.entries())
    if (fn.parameters !== undefined)
      wrong.push(...parameterProblems(fn.name, fn.parameters, fn.strict === true, `tools[${i}].function.parameters`));
  return wrong;
}

function read({ model, stream, stream_options, messages, tools = [] }: Request): Checked["read"] {
  return {
    model,
    stream: stream === true,
    usage: stream_options?.include_usage === true,
    system: messages
      .flatMap((m) => (m.role === "system" || m.role === "developer" ? [plain(m.content)] : []))
      .join("\n"),
    messages: messages.flatMap((m): Message[] => {
      if (m.role === "tool") return [{ role: "tool", call: m.tool_call_id, text: plain(m.content) }];
      if (m.role === "user") return [{ role: "user", text: plain(m.content), images: images(m.content) }];
      if (m.role !== "assistant") return [];
      const calls = (m.tool_calls ?? []).map(({ id, function: f }) => ({
        id,
        name: f.name,
        args: parsed(f.arguments),
      }));
      return [{ role: "assistant", text: plain(m.content), reasoning: reasoningOf(m), calls }];
    }),
    tools: tools.map(({ function: f }) => ({ name: f.name, description: f.description ?? "", schema: f.parameters })),
  };
}

type Assistant = Extract<Request["messages"][number], { role: "assistant" }>;
const reasoningOf = ({
  content,
  reasoning_content,
  reasoning,
  reasoning_details = [],
  thinking_blocks = [],
}: Assistant): string =>
  reasoning_content ??
  reasoning ??
  [
    ...reasoning_details.map(({ text }) => (typeof text === "string" ? text : "")),
    ...thinking_blocks.map(({ thinking }) => thinking),
    ...(Array.isArray(content) ? content : []).flatMap((p) =>
      p.type === "thinking" ? p.thinking.map(({ text }) => text) : [],
    ),
  ].join("");

type Content =
  | string
  | null
  | undefined
  | (z.infer<typeof textPart> | z.infer<typeof imagePart> | z.infer<typeof thinkingPart>)[];
const parts = (content: Content) => (Array.isArray(content) ? content : []);
const plain = (content: Content): string =>
  typeof content === "string"
    ? content
    : parts(content)
        .flatMap((p) => (p.type === "text" ? [p.text] : []))
        .join("");
const images = (content: Content) => parts(content).flatMap((p) => (p.type === "image_url" ? [p.image_url.url] : []));
