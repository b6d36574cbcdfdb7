// What Anthropic Messages is sent, judged by the rules of version 2023-06-01, which is what its `ai` provider speaks.
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { dotted, misfits, problem, repeated, type Step, said, schemaProblems, unpaired } from "./validation.ts";
import { type Checked, type Message, nothingRead, type Problem } from "./wire.ts";

const cache_control = z
  .strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).optional() })
  .nullable()
  .optional();
const textBlock = z.strictObject({ type: z.literal("text"), text: said, cache_control });
const imageBlock = z.strictObject({
  type: z.literal("image"),
  source: z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("base64"),
      media_type: z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]),
      data: z.base64().min(1),
    }),
    z.strictObject({ type: z.literal("url"), url: z.url() }),
  ]),
  cache_control,
});
const toolId = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, "String should match pattern '^[a-zA-Z0-9_-]+$'");
const name = z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/, "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'");
const resultBlock = z.strictObject({
  type: z.literal("tool_result"),
  tool_use_id: toolId,
  content: z.union([z.string(), z.array(z.discriminatedUnion("type", [textBlock, imageBlock]))]).optional(),
  is_error: z.boolean().optional(),
  cache_control,
});
const thinkingBlock = z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() });
const useBlock = z.strictObject({
  type: z.literal("tool_use"),
  id: toolId,
  name,
  input: z.record(z.string(), z.unknown()),
  cache_control,
});
const userBlock = z.discriminatedUnion("type", [textBlock, imageBlock, resultBlock]);
const modelBlock = z.discriminatedUnion("type", [
  textBlock,
  thinkingBlock,
  z.strictObject({ type: z.literal("redacted_thinking"), data: z.string() }),
  useBlock,
]);
const message = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("user"), content: z.union([said, z.array(userBlock).min(1)]) }),
  z.strictObject({ role: z.literal("assistant"), content: z.union([said, z.array(modelBlock).min(1)]) }),
]);
const tool = z.strictObject({
  name,
  description: z.string().optional(),
  input_schema: z.unknown(),
  type: z.literal("custom").nullable().optional(),
  strict: z.boolean().optional(),
  eager_input_streaming: z.boolean().nullable().optional(),
  cache_control,
});
const parallel = { disable_parallel_tool_use: z.boolean().optional() };
const request = z.strictObject({
  model: said,
  max_tokens: z.int().min(1),
  messages: z.array(message).min(1),
  system: z.union([said, z.array(textBlock).min(1)]).optional(),
  tools: z.array(tool).optional(),
  tool_choice: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.enum(["auto", "any"]), ...parallel }),
      z.strictObject({ type: z.literal("tool"), name, ...parallel }),
      z.strictObject({ type: z.literal("none") }),
    ])
    .optional(),
  thinking: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("enabled"), budget_tokens: z.int().min(1024), display: z.string().optional() }),
      z.strictObject({ type: z.literal("adaptive"), display: z.string().optional() }),
      z.strictObject({ type: z.literal("disabled") }),
    ])
    .optional(),
  output_config: z.strictObject({ effort: z.string().nullable().optional(), format: z.unknown() }).optional(),
  stream: z.boolean().optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_k: z.int().min(0).optional(),
  stop_sequences: z.array(said).optional(),
  metadata: z.strictObject({ user_id: z.string().max(256).nullable().optional() }).optional(),
  service_tier: z.enum(["auto", "standard_only"]).optional(),
  cache_control,
});
type Request = z.infer<typeof request>;
type Block = z.infer<typeof userBlock> | z.infer<typeof modelBlock>;
type Said = { role: "user" | "assistant"; blocks: Block[] };

/** The one of the library that we use, and that of Anthropic's own SDK since its version 1. */
const VERSIONS = new Set(["2023-06-01", "2026-10-21"]);

export function checkAnthropic(body: unknown, headers: IncomingHttpHeaders): Checked {
  const missing: Problem[] = [];
  if (!headers["x-api-key"] && !headers.authorization)
    missing.push({ message: "x-api-key header is required", failure: "auth" });
  if (!VERSIONS.has(String(headers["anthropic-version"])))
    missing.push(problem("anthropic-version: header is required"));
  const { success, data, error } = request.safeParse(body);
  if (success) return { problems: [...missing, ...order(data), ...rest(data)], read: read(data) };
  const shape = misfits(error).map(({ path, message, unknown }) =>
    problem(`${dotted(path)}: ${unknown ? "Extra inputs are not permitted" : message}`),
  );
  return { problems: [...missing, ...shape], read: nothingRead() };
}

/** Neighbours of one role are one message. */
function merged(messages: Request["messages"]): Said[] {
  const list: Said[] = [];
  for (const { role, content } of messages) {
    const blocks: Block[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const last = list.at(-1);
    if (last?.role === role) last.blocks.push(...blocks);
    else list.push({ role, blocks: [...blocks] });
  }
  return list;
}

function order({ messages, thinking }: Request): Problem[] {
  const wrong: Problem[] = [];
  const list = merged(messages);
  if (list[0]?.role !== "user") wrong.push(problem('messages: first message must use the "user" role'));
  if (list.at(-1)?.role !== "user")
    wrong.push(
      problem("This model does not support assistant message prefill. The conversation must end with a user message."),
    );

  const steps: Step[] = [];
  for (const [at, { role, blocks }] of list.entries()) {
    // What follows a call inside its own message is no answer, but does not stand between it and one either.
    if (role === "assistant") steps.push({ at, other: true });
    for (const block of blocks) {
      if (block.type === "tool_use") steps.push({ at, call: block.id });
      else if (block.type === "tool_result") steps.push({ at, result: block.tool_use_id });
      else if (role === "user") steps.push({ at, other: true });
      if (block.type === "thinking" && block.signature !== signatureOf(block.thinking))
        wrong.push(problem(`messages.${at}.content: Invalid \`signature\` in \`thinking\` block`));
    }
  }
  for (const { at, ids, why } of unpaired(steps)) wrong.push(problem(PAIRING[why](at, ids.join(", "))));

  // A loop is all that the model did since the user last spoke; with a budget for thinking it begins with a thought.
  const results = (said: Said | undefined) =>
    said?.role === "user" && said.blocks.some((b) => b.type === "tool_result");
  const began = list.findLastIndex((said) => said.role === "user" && !results(said)) + 1;
  const first = list[began]?.blocks[0]?.type;
  if (thinking?.type === "enabled" && results(list.at(-1)) && first !== "thinking" && first !== "redacted_thinking")
    wrong.push(
      problem(
        `messages.${began}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${first}\`. ` +
          "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost " +
          "set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid " +
          "this requirement, disable `thinking`.",
      ),
    );
  return wrong;
}

const PAIRING = {
  unanswered: (at: number, ids: string) =>
    `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}. ` +
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
  orphan: (at: number, id: string) =>
    `messages.${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. ` +
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
  "call twice": (at: number, id: string) => `messages.${at}: \`tool_use\` ids must be unique: ${id}`,
  "result twice": (at: number, id: string) =>
    `messages.${at}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
};

function rest(data: Request): Problem[] {
  const { messages, tools = [], tool_choice, thinking, max_tokens, temperature, system } = data;
  const wrong: Problem[] = [];
  const names = tools.map(({ name }) => name);
  if (repeated(names).length > 0) wrong.push(problem("tools: Tool names must be unique."));
  for (const [i, { input_schema }] of tools.entries())
    wrong.push(...schemaProblems(input_schema, `tools.${i}.custom.input_schema`).map((why) => problem(why)));
  if (tool_choice?.type === "tool" && !names.includes(tool_choice.name))
    wrong.push(problem(`Tool '${tool_choice.name}' not found in provided tools`));
  if (tool_choice && tools.length === 0)
    wrong.push(problem("tool_choice may only be specified while providing tools."));
  const blocks = merged(messages).flatMap((message) => message.blocks);
  if (tools.length === 0 && blocks.some(({ type }) => type === "tool_use" || type === "tool_result"))
    wrong.push(problem("Requests which include `tool_use` or `tool_result` blocks must define tools."));
  if (thinking?.type === "enabled" && thinking.budget_tokens >= max_tokens)
    wrong.push(problem("`max_tokens` must be greater than `thinking.budget_tokens`."));
  if (thinking?.type === "enabled" && temperature !== undefined && temperature !== 1)
    wrong.push(problem("`temperature` may only be set to 1 when thinking is enabled."));
  const cached = [...tools, ...(typeof system === "object" ? system : []), ...blocks].filter(
    (block) => "cache_control" in block && block.cache_control,
  );
  if (cached.length > 4)
    wrong.push(problem(`A maximum of 4 blocks with cache_control may be provided. Found ${cached.length}.`));
  return wrong;
}

function read({ model, stream, system, messages, tools = [] }: Request): Checked["read"] {
  return {
    model,
    stream: stream === true,
    usage: true,
    system: typeof system === "string" ? system : (system ?? []).map(({ text }) => text).join("\n"),
    messages: merged(messages).flatMap(({ role, blocks }): Message[] => {
      const text = blocks.flatMap((b) => (b.type === "text" ? [b.text] : [])).join("");
      if (role === "assistant") {
        const reasoning = blocks.flatMap((b) => (b.type === "thinking" ? [b.thinking] : [])).join("");
        const calls = blocks.flatMap((b) => (b.type === "tool_use" ? [{ id: b.id, name: b.name, args: b.input }] : []));
        return [{ role, text, reasoning, calls }];
      }
      const results = blocks.flatMap((b) => (b.type === "tool_result" ? [resultOf(b)] : []));
      const images = blocks.flatMap((b) => (b.type === "image" ? [imageOf(b)] : []));
      return text || images.length > 0 ? [...results, { role, text, images }] : results;
    }),
    tools: tools.map((t) => ({ name: t.name, description: t.description ?? "", schema: t.input_schema })),
  };
}

function resultOf({ tool_use_id, content = "" }: z.infer<typeof resultBlock>): Message {
  const parts = typeof content === "string" ? [content] : content.flatMap((b) => (b.type === "text" ? [b.text] : []));
  return { role: "tool", call: tool_use_id, text: parts.join("") };
}
const imageOf = ({ source }: z.infer<typeof imageBlock>): string =>
  source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`;

/** Bound to the text, so that a thinking block that comes back changed is found out. */
export const signatureOf = (thinking: string): string => createHash("sha256").update(thinking).digest("base64");
