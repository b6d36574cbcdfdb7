// What a client of /v1/responses sends, as what we keep.
import * as z from "zod";
import { type begin, modelOf, sessionId } from "../runs/start.ts";
import { problem, wrongField } from "../server/problem.ts";
import type { Api } from "../server/route.ts";
import { choiceOf, responseTools, toolChoice, toolsOf } from "./client-tools.ts";
import { createOutput } from "./items.ts";
import { type Conversation, message, readConversation, type WireMessage } from "./messages.ts";
import { effort, sampling, textOptions, tokens, unsupported, wantedOf } from "./options.ts";

/** What a client sends back of an earlier answer is told to the model in words. */
const item = z.union(
  [
    message.transform((one): WireMessage[] => [one]),
    z
      .looseObject({ type: z.literal("function_call"), name: z.string(), arguments: z.string() })
      .transform(({ name, arguments: args }): WireMessage[] => [
        { role: "assistant", tool_calls: [{ name, arguments: args }] },
      ]),
    z
      .looseObject({
        type: z.literal("function_call_output"),
        call_id: z.string().max(200).optional(),
        output: z.union([z.string(), z.array(z.unknown())]),
      })
      .transform(({ call_id, output }): WireMessage[] => [
        { role: "tool", content: typeof output === "string" ? output : textOf(output), tool_call_id: call_id },
      ]),
    z
      .looseObject({
        type: z.literal("mcp_approval_response"),
        approval_request_id: z.string().max(200),
        approve: z.boolean(),
        reason: z.string().max(10_000).nullish(),
      })
      .transform(({ approval_request_id, approve, reason }): WireMessage[] => [
        {
          role: "tool",
          content: approve ? "once" : reason ? `The user said no: ${reason}` : "The user said no.",
          tool_call_id: approval_request_id,
          approve,
        },
      ]),
    z
      .looseObject({ type: z.literal("item_reference"), id: z.string().max(200) })
      .transform(({ id }): WireMessage[] => [{ role: "assistant", reference: id }]),
    // The agent knows what it did itself.
    z
      .looseObject({ type: z.enum(["reasoning", "mcp_call", "mcp_list_tools", "mcp_approval_request"]) })
      .transform((): WireMessage[] => []),
  ],
  "must be a message, a function_call, a function_call_output, an mcp_approval_response, an item_reference or a reasoning item",
);

/** Parts of a result: their texts, and what is no text as it is. */
const textOf = (parts: readonly unknown[]) =>
  parts
    .map((part) =>
      typeof part === "object" && part !== null && "text" in part && typeof part.text === "string"
        ? part.text
        : JSON.stringify(part),
    )
    .join("\n");

const conversationId = sessionId.max(400, "must have at most 400 characters");
const MOST_METADATA = 16;
export const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((given) => Object.keys(given).length <= MOST_METADATA, `must have at most ${MOST_METADATA} pairs`)
  .nullish()
  .describe("Your own data, returned with the answer");
export const items = z.array(item).max(10_000);
export const responseBody = z.looseObject({
  input: z
    .union(
      [z.string().regex(/\S/, "must not be empty"), items.min(1, "must not be empty")],
      "must be text, or a list of items",
    )
    .describe("A text, or a list of items"),
  instructions: z.string().max(1_000_000).nullish().describe("Text for the system prompt of this response"),
  model: z.string().max(200).nullish().describe("The model to use; `hermes-agent` is the configured one"),
  stream: z.boolean().nullish().describe("Stream the response as server-sent events"),
  store: z.boolean().nullish().describe("`false`: the response cannot be read later"),
  background: z.boolean().nullish().describe("Answer at once and run in the background"),
  previous_response_id: z.string().min(1).max(100).nullish().describe("The response to continue from"),
  conversation: z
    .union([conversationId, z.looseObject({ id: conversationId })])
    .nullish()
    .describe("The name of the session to use"),
  ...sampling,
  max_output_tokens: tokens,
  reasoning: z.looseObject({ effort }).nullish().describe("`effort`: how much the model reasons"),
  metadata,
  text: textOptions,
  tools: responseTools,
  tool_choice: toolChoice,
  include: z.array(z.string().max(100)).nullish().describe("More fields for the response"),
  truncation: z
    .enum(["auto", "disabled"])
    .nullish()
    .describe("Returned with the response; a long conversation is summarised in any case"),
  prompt: unsupported,
});
type ResponseBody = z.output<typeof responseBody>;
/** What a response repeats of its request. The turn's input has it, under the names of the protocol. */
const REPEATED = [
  "metadata",
  "previous_response_id",
  "background",
  "store",
  "text",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "truncation",
] as const satisfies (keyof ResponseBody)[];
export type ResponseExtras = Readonly<Record<string, unknown>>;
export const repeatedOf = (body: ResponseBody): ResponseExtras =>
  Object.fromEntries(
    REPEATED.flatMap((name) => (body[name] === undefined || body[name] === null ? [] : [[name, body[name]]])),
  );

export function requestOf(api: Api, body: ResponseBody, list: readonly WireMessage[]): Parameters<typeof begin>[2] {
  const { previous_response_id: previous, conversation } = body;
  if (previous && conversation)
    throw wrongField("previous_response_id", "cannot be used together with conversation; leave one of them out");
  if (body.background && body.store === false)
    throw wrongField("background", "needs store to be true, or nobody could read the response");
  const said: Conversation =
    typeof body.input === "string"
      ? { text: body.input, images: [], history: [], instructions: "" }
      : readConversation(list, "input");
  const { text, images, history } = previous || conversation ? inOne(said) : said;
  const instructions = [body.instructions, said.instructions].filter(Boolean).join("\n\n");
  const model = modelOf(api, body.model);
  const own = (body.tools ?? []).find((tool) => tool.type === "mcp");
  const tools = toolsOf((body.tools ?? []).filter(isFunction), body.tool_choice);
  const options = {
    ...wantedOf(api, model, {
      ...body,
      tokens: body.max_output_tokens,
      effort: body.reasoning?.effort,
      json: body.text?.format,
      jsonParam: "text.format",
    }),
    ...choiceOf(body.tool_choice, tools),
  };
  const name = typeof conversation === "string" ? conversation : conversation?.id;
  return {
    ...(!body.background && { attended: true }), // on the line
    // A client that names the agent as a tool that needs approval is asked.
    unattended: own?.["require_approval"] === "always" ? "client" : api.settings.unattended,
    ...(name && { session: `${CONVERSATION}${name}` }),
    ...(previous && { previous, apart: body.store === false }),
    text,
    mode: api.settings.busyMode,
    ...(images.length && { images }),
    ...(history.length && { history }),
    ...(instructions && { instructions }),
    ...(model && { model }),
    ...(Object.keys(options).length && { options }),
    ...(tools.length && { tools }),
    wire: repeatedOf(body),
  };
}

type DeclaredTool = NonNullable<ResponseBody["tools"]>[number];
const isFunction = (tool: DeclaredTool): tool is Extract<DeclaredTool, { type: "function" }> =>
  tool.type === "function";

export const CONVERSATION = "conversation:";

/** A history would replace what the session holds: where it goes on, all that is new is one message. */
function inOne({ history, ...said }: Conversation): Conversation {
  const before = history.map(({ role, text }) => (role === "assistant" ? `[the assistant said]\n${text}` : text));
  const images = history.flatMap((one) => (one.role === "user" ? (one.images ?? []) : []));
  const text = [...before, said.text].join("\n\n");
  return { ...said, text, images: [...images, ...said.images], history: [] };
}

/** What a client refers to of an earlier response, as it was said there. */
export async function resolved({ runtime }: Api, list: readonly WireMessage[]): Promise<WireMessage[]> {
  const all = list.map(async (one): Promise<WireMessage[]> => {
    const reference = one["reference"];
    if (typeof reference !== "string") return [one];
    const [, , hex = "", part, at] = /^(msg|fc|mcp)_([0-9a-f]{32})(?:_(\d{1,15}))?_(\d{1,9})$/.exec(reference) ?? [];
    const output = createOutput({ id: `run_${hex}`, part: Number(part ?? 0) });
    if (hex) for (const entry of await runtime.turn(`run_${hex}`)) output.take(entry);
    const item = output.items[Number(at ?? -1)];
    if (!item) {
      const text = `input: there is no item ${JSON.stringify(reference.slice(0, 60))}; it may have been deleted`;
      throw problem(404, "item_not_found", text, { param: "input" });
    }
    if (item.type === "message") return [message.parse(item)];
    return item.type === "function_call" ? [{ role: "assistant", tool_calls: [item] }] : [];
  });
  return (await Promise.all(all)).flat();
}
