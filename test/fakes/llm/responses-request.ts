// What OpenAI Responses is sent. Nothing is stored here, so a request must bring its whole transcript.
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { imageUrl, metadata, nullable, parameterProblems, shapeProblems, toolName } from "./openai.ts";
import {
  argumentsJson,
  isRecord,
  misfits,
  parsed,
  problem,
  repeated,
  type Step,
  said,
  unpaired,
} from "./validation.ts";
import { type Checked, type Message, nothingRead, type Problem } from "./wire.ts";

const inputText = z.strictObject({ type: z.literal("input_text"), text: said });
const inputImage = z.strictObject({
  type: z.literal("input_image"),
  image_url: nullable(imageUrl),
  file_id: nullable(z.string()),
  detail: z.enum(["auto", "low", "high"]).optional(),
});
const outputText = z.strictObject({
  type: z.literal("output_text"),
  text: said,
  annotations: z.array(z.unknown()).optional(),
  logprobs: z.array(z.unknown()).optional(),
});
const refusal = z.strictObject({ type: z.literal("refusal"), refusal: z.string() });
const status = nullable(z.enum(["in_progress", "completed", "incomplete"]));
const callId = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, "must have 1 to 64 letters, digits, '_' or '-'");
const itemId = (prefix: string) =>
  z.string().max(64).startsWith(prefix, `Expected an ID that begins with '${prefix}'`).optional();

const message = z.discriminatedUnion("role", [
  z.strictObject({
    type: z.literal("message"),
    role: z.enum(["user", "system", "developer"]),
    content: z.union([said, z.array(z.discriminatedUnion("type", [inputText, inputImage])).min(1)]),
    id: itemId("msg"),
    status,
  }),
  z.strictObject({
    type: z.literal("message"),
    role: z.literal("assistant"),
    content: z.union([said, z.array(z.discriminatedUnion("type", [outputText, refusal])).min(1)]),
    id: itemId("msg"),
    status,
    phase: nullable(z.enum(["commentary", "final_answer"])),
  }),
]);
const item = z.discriminatedUnion("type", [
  message,
  z.strictObject({
    type: z.literal("function_call"),
    call_id: callId,
    name: toolName,
    arguments: argumentsJson,
    id: itemId("fc"),
    status,
  }),
  z.strictObject({
    type: z.literal("function_call_output"),
    call_id: callId,
    output: z.union([z.string(), z.array(z.discriminatedUnion("type", [inputText, inputImage]))]),
    id: nullable(z.string()),
    status,
  }),
  z.strictObject({
    type: z.literal("reasoning"),
    id: itemId("rs"),
    summary: z.array(z.strictObject({ type: z.literal("summary_text"), text: z.string() })),
    content: z.array(z.strictObject({ type: z.literal("reasoning_text"), text: z.string() })).optional(),
    encrypted_content: nullable(z.string()),
    status,
  }),
  z.strictObject({ type: z.literal("item_reference"), id: z.string() }),
]);
// A message may leave its type out.
const typed = z.preprocess((value) => (isRecord(value) ? { type: "message", ...value } : value), item);

const tool = z.strictObject({
  type: z.literal("function"),
  name: toolName,
  description: nullable(z.string()),
  parameters: z.unknown(),
  strict: nullable(z.boolean()),
});

const request = z.strictObject({
  model: said,
  input: z.union([said, z.array(typed).min(1)]),
  instructions: nullable(z.string()),
  tools: z.array(tool).max(128).optional(),
  tool_choice: z
    .union([z.enum(["none", "auto", "required"]), z.strictObject({ type: z.literal("function"), name: toolName })])
    .optional(),
  parallel_tool_calls: nullable(z.boolean()),
  max_tool_calls: nullable(z.int().min(1)),
  stream: nullable(z.boolean()),
  stream_options: nullable(z.strictObject({ include_obfuscation: z.boolean().optional() })),
  max_output_tokens: nullable(z.int().min(16)),
  temperature: nullable(z.number().min(0).max(2)),
  top_p: nullable(z.number().min(0).max(1)),
  top_logprobs: nullable(z.int().min(0).max(20)),
  reasoning: nullable(
    z.strictObject({
      effort: nullable(z.enum(["none", "minimal", "low", "medium", "high", "xhigh"])),
      summary: nullable(z.enum(["auto", "concise", "detailed"])),
    }),
  ),
  text: z
    .strictObject({ format: z.looseObject({ type: z.string() }).optional(), verbosity: nullable(z.string()) })
    .optional(),
  include: nullable(z.array(z.enum(["reasoning.encrypted_content", "message.output_text.logprobs"]))),
  truncation: nullable(z.enum(["auto", "disabled"])),
  previous_response_id: nullable(z.string()),
  background: nullable(z.literal(false)),
  service_tier: nullable(z.string()),
  prompt_cache_key: nullable(z.string()),
  safety_identifier: nullable(z.string()),
  user: z.string().optional(),
  store: nullable(z.boolean()),
  metadata,
});
type Request = z.infer<typeof request>;
type Item = z.infer<typeof item>;

export function checkResponses(body: unknown, { authorization }: IncomingHttpHeaders): Checked {
  const keyless = authorization?.startsWith("Bearer ")
    ? []
    : [{ message: "Missing bearer or basic authentication in header", failure: "auth" as const }];
  const { success, data, error } = request.safeParse(body);
  if (success) return { problems: [...keyless, ...order(data), ...toolProblems(data)], read: read(data) };
  const problems = shapeProblems(misfits(error), (path) => `Unknown parameter: '${path}'.`);
  return { problems: [...keyless, ...problems], read: nothingRead() };
}

function order({ input, previous_response_id: previous, store }: Request): Problem[] {
  const wrong: Problem[] = [];
  const items = typeof input === "string" ? [] : input;
  const add = (text: string, at: number, code?: string) => wrong.push(problem(text, `input[${at}]`, code));
  if (previous)
    wrong.push(
      problem(
        `Previous response with id '${previous}' not found.`,
        "previous_response_id",
        "previous_response_not_found",
      ),
    );
  const steps: Step[] = [];
  for (const [at, item] of items.entries()) {
    if (item.type === "function_call") steps.push({ at, call: item.call_id });
    else if (item.type === "function_call_output") steps.push({ at, result: item.call_id });
    else steps.push({ at, other: true });
    if (item.type === "item_reference")
      add(
        store === false
          ? `Item with id '${item.id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`
          : `Item with id '${item.id}' not found.`,
        at,
      );
    if (
      item.type === "reasoning" &&
      item.encrypted_content !== encrypted(item.summary.map(({ text }) => text).join(""))
    )
      add(
        `The encrypted content for item ${item.id} could not be verified. Reason: Encrypted content could not be decrypted or parsed.`,
        at,
        "invalid_encrypted_content",
      );
    if (item.type === "reasoning" && !spokenByModel(items[at + 1]))
      add(`Item '${item.id ?? at}' of type 'reasoning' was provided without its required following item.`, at);
    if (item.type === "message" && item.role !== "user" && item.role !== "assistant" && at > 0)
      add("System and developer messages must be at the beginning.", at);
  }
  const ids = items.flatMap((item) => ("id" in item && item.id ? [item.id] : []));
  for (const id of repeated(ids)) wrong.push(problem(`Duplicate item found with id ${id}.`, "input"));
  for (const { at, ids, why } of unpaired(steps)) add(PAIRING[why](ids.join(", ")), at);
  if (items.length > 0 && spokenByModel(items.at(-1)))
    add("The input must not end with what the model said.", items.length - 1);
  if (items.length > 0 && !items.some((item) => item.type === "message" && item.role === "user"))
    add("There is no user message.", 0);
  return wrong;
}

/** Bound to the summary, so that an item that comes back changed is found out. */
export const encrypted = (summary: string): string => createHash("sha256").update(summary).digest("base64");

const spokenByModel = (item: Item | undefined) =>
  item?.type === "reasoning" ||
  item?.type === "function_call" ||
  (item?.type === "message" && item.role === "assistant");

const PAIRING = {
  unanswered: (ids: string) => `No tool output found for function call ${ids}.`,
  orphan: (id: string) => `No tool call found for function call output with call_id ${id}.`,
  "call twice": (id: string) => `Duplicate function call with call_id ${id}.`,
  "result twice": (id: string) => `Duplicate function call output with call_id ${id}.`,
};

function toolProblems({ tools = [], tool_choice }: Request): Problem[] {
  const names = tools.map(({ name }) => name);
  const wrong = repeated(names).map((name) => problem(`Duplicate function name '${name}'.`, "tools"));
  const chosen = typeof tool_choice === "object" ? [tool_choice.name] : [];
  for (const name of chosen)
    if (!names.includes(name))
      wrong.push(problem(`Tool choice '${name}' not found in 'tools' parameter.`, "tool_choice"));
  if (tool_choice === "required" && tools.length === 0)
    wrong.push(problem("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice"));
  for (const [i, { name, parameters, strict }] of tools.entries())
    if (parameters !== undefined && parameters !== null)
      wrong.push(...parameterProblems(name, parameters, strict === true, `tools[${i}].parameters`));
  return wrong;
}

function read({ model, stream, instructions, input, tools = [] }: Request): Checked["read"] {
  const items =
    typeof input === "string" ? [{ type: "message" as const, role: "user" as const, content: input }] : input;
  const system = items.flatMap((item) =>
    item.type === "message" && item.role !== "user" && item.role !== "assistant" ? [plain(item.content)] : [],
  );
  return {
    model,
    stream: stream === true,
    usage: true,
    system: [...(instructions ? [instructions] : []), ...system].join("\n"),
    messages: conversation(items),
    tools: tools.map((t) => ({ name: t.name, description: t.description ?? "", schema: t.parameters })),
  };
}

/** What the model said in a row is one message of it. */
function conversation(items: Item[]): Message[] {
  const messages: Message[] = [];
  const spoken = () => {
    const last = messages.at(-1);
    if (last?.role === "assistant") return last;
    const fresh = { role: "assistant" as const, text: "", reasoning: "", calls: [] };
    messages.push(fresh);
    return fresh as Extract<Message, { role: "assistant" }>;
  };
  for (const item of items) {
    if (item.type === "function_call")
      spoken().calls.push({ id: item.call_id, name: item.name, args: parsed(item.arguments) });
    else if (item.type === "function_call_output")
      messages.push({ role: "tool", call: item.call_id, text: plain(item.output) });
    else if (item.type === "reasoning") spoken().reasoning += item.summary.map(({ text }) => text).join("");
    else if (item.type === "message" && item.role === "assistant") spoken().text += plain(item.content);
    else if (item.type === "message" && item.role === "user")
      messages.push({ role: "user", text: plain(item.content), images: images(item.content) });
  }
  return messages;
}

type Content = string | z.infer<typeof inputText | typeof inputImage | typeof outputText | typeof refusal>[];
const parts = (content: Content) => (Array.isArray(content) ? content : []);
const plain = (content: Content): string =>
  typeof content === "string"
    ? content
    : parts(content)
        .flatMap((p) => ("text" in p ? [p.text] : []))
        .join("");
const images = (content: Content) =>
  parts(content).flatMap((p) => (p.type === "input_image" && p.image_url ? [p.image_url] : []));
