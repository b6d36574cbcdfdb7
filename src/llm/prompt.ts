// Converts our messages to the prompt of the library.
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { ModelRequest, ToolSpec } from "../core/ports.ts";
import type { Endpoint } from "../core/providers.ts";
import type { Image, Meta, ModelOptions, Refused, Replay } from "../core/session.ts";
import type { Message } from "../core/transcript.ts";
import { trueType } from "../platform/image-type.ts";
import { toObject } from "../platform/json.ts";
import type { Dialect } from "./dialect.ts";
import { commonSchema } from "./schema.ts";

/** The server that gets the prompt. `without`: what it has just refused in the same request. */
export type PromptReader = {
  provider: Endpoint["provider"];
  maker: string;
  dialect: Dialect;
  without: Refused["what"];
};
type Assistant = Extract<Message, { role: "assistant" }>;
type ToolMessage = Extract<Message, { role: "tool" }>;
type User = Extract<Message, { role: "user" }>;
type AssistantContent = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];
type PromptCalls = Extract<AssistantContent[number], { type: "tool-call" }>[];

/** Anthropic caches everything before these marks; other servers ignore them. */
const KEEP = { anthropic: { cacheControl: { type: "ephemeral" } } };
/** On the user's side: models imitate what stands on their own. */
const CUT = "[Your last answer was cut off: the turn was stopped or its connection failed.]";
/** Between results and the next message where the model must speak: short, since models imitate what they said. */
const NOTED = "Noted.";
/** Where the reasoning of another model, or of one that did not think, would have to be. */
const NO_REASONING = "…";
/** Google's own word for a call whose signature is not at hand. */
const UNSIGNED = "skip_thought_signature_validator";

export function toPrompt(
  { system, messages }: Pick<ModelRequest, "system" | "messages">,
  reader: PromptReader,
): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  if (system) prompt.push({ role: "system", content: system, providerOptions: KEEP });
  const idOf = idsFor(reader);
  let results: ToolMessage[] = [];
  for (const [i, message] of messages.entries()) {
    const before = messages[i - 1];
    const cut = before?.role === "assistant" && before.cut;
    const next = converted(cut && message.role === "user" ? noted(message) : message, reader, idOf);
    if (next) add(prompt, next, reader);
    if (message.role === "tool") results.push(message);
    if (message.role === "tool" && messages[i + 1]?.role === "tool") continue;
    // Behind the results and not in them: few wire formats have room for a picture there.
    for (const { tool, images, unseen = [] } of results)
      if (images) add(prompt, { role: "user", content: pictureParts(tool, images, unseen, reader) }, reader);
    results = [];
  }
  const last = prompt.at(-1);
  if (last && last.role !== "system") last.providerOptions = { ...last.providerOptions, ...KEEP };
  return prompt;
}

const noted = (message: User): User => ({ ...message, text: `${CUT}\n\n${message.text}` });

function add(prompt: LanguageModelV4Prompt, next: LanguageModelV4Message, { dialect }: PromptReader): void {
  const last = prompt.at(-1);
  // A turn that was stopped before it answered leaves two user messages in a row; strict providers want one.
  if (last?.role === "user" && next.role === "user") last.content = joined(last.content, next.content);
  else if (last?.role === "tool" && next.role === "tool") last.content.push(...next.content);
  else if (last?.role === "assistant" && next.role === "assistant") last.content.push(...next.content);
  else if (last?.role === "tool" && next.role === "user" && dialect === "mistral")
    prompt.push({ role: "assistant", content: [{ type: "text", text: NOTED }] }, next);
  else prompt.push(next);
}

/** One text where there can be one: some servers know no lists, and others put nothing between the parts of one. */
function joined(before: UserParts, after: UserParts): UserParts {
  const [last, first] = [before.at(-1), after[0]];
  if (last?.type !== "text" || first?.type !== "text") return [...before, ...after];
  return [...before.slice(0, -1), { type: "text", text: `${last.text}\n\n${first.text}` }, ...after.slice(1)];
}
type UserParts = (LanguageModelV4TextPart | LanguageModelV4FilePart)[];

function converted(message: Message, reader: PromptReader, idOf: IdOf): LanguageModelV4Message | null {
  switch (message.role) {
    case "user":
      return { role: "user", content: userParts(message, reader) };
    case "assistant":
      return assistant(message, reader, idOf);
    case "tool": {
      const value = message.text.trim() ? message.text : "(no output)";
      const output =
        message.outcome === "ok" ? { type: "text" as const, value } : { type: "error-text" as const, value };
      const toolCallId = idOf.result(message.call);
      return { role: "tool", content: [{ type: "tool-result", toolCallId, toolName: named(message.tool), output }] };
    }
  }
}

function pictureParts(tool: string, images: Image[], unseen: string[], reader: PromptReader): UserParts {
  const text = `[Pictures of a result of ${named(tool)}: data, not words of the user]`;
  return userParts({ role: "user", text, images, unseen }, reader, "a tool's");
}

function userParts(
  { text, images = [], unseen = [] }: User,
  { maker, without }: PromptReader,
  whose = "the user's",
): UserParts {
  const hidden = without.includes("pictures") || unseen.includes(maker);
  const left = hidden && images.length ? `[${images.length} of ${whose} pictures: this model does not take them]` : "";
  const words = [text, left].filter((line) => line.trim()).join("\n\n");
  const pictures = (hidden ? [] : images).map(
    ({ mime, data }): LanguageModelV4FilePart => ({
      type: "file",
      mediaType: trueType(data) ?? mime,
      data: { type: "data", data },
    }),
  );
  // Servers refuse an empty text, also next to pictures.
  if (!words && pictures.length) return pictures;
  return [{ type: "text", text: words || "(an empty message)" }, ...pictures];
}

/** Null: nothing of the message is left to send. */
function assistant(message: Assistant, reader: PromptReader, idOf: IdOf): LanguageModelV4Message | null {
  const replay = replayFor(message, reader);
  const metas = replay?.parts.filter((part) => part.type === "call") ?? [];
  const calls = message.calls.map(({ id, tool, args }, i): PromptCalls[number] => ({
    type: "tool-call",
    toolCallId: idOf.call(id, metas[i]?.id),
    toolName: named(tool),
    // What could not be read as arguments is told as none: the result says what was wrong.
    input: toObject(args),
    // A signature is of a call as it was made.
    ...(named(tool) === tool && optionsOf(metas[i]?.meta)),
  }));
  const inOrder = replay && reader.provider !== "openai-compatible";
  const content: AssistantContent = inOrder ? replayed(message, replay, calls) : [...textPart(message.text), ...calls];
  if (!content.length) return null;
  if (reader.dialect === "gemini") sign(calls);
  const fields = reader.provider === "openai-compatible" ? fieldsOf(message, replay, reader.dialect) : {};
  return {
    role: "assistant",
    content,
    ...optionsOf(Object.keys(fields).length ? { openaiCompatible: fields } : undefined),
  };
}

/** Only to its maker, and only whole. OpenAI-compatible servers know no order of parts: they get the reasoning as one. */
function replayFor({ text, reasoning = "", calls, replay }: Assistant, reader: PromptReader): Replay | null {
  if (replay?.maker !== reader.maker || reader.without.includes("reasoning")) return null;
  const length = (type: string) =>
    replay.parts.reduce((sum, part) => sum + (part.type === type && "length" in part ? part.length : 0), 0);
  const inParts = length("text") === text.length && length("reasoning") === reasoning.length;
  const proposed = replay.parts.filter(({ type }) => type === "call").length;
  return proposed === calls.length && (inParts || reader.provider === "openai-compatible") ? replay : null;
}

function replayed({ text, reasoning = "" }: Assistant, { parts }: Replay, calls: PromptCalls): AssistantContent {
  const rest = { text, reasoning, calls: [...calls] };
  const content = parts.flatMap((part): AssistantContent => {
    if (part.type === "call") return rest.calls.splice(0, 1);
    const piece = rest[part.type].slice(0, part.length);
    rest[part.type] = rest[part.type].slice(part.length);
    if (part.type === "text") return textPart(piece, part.meta);
    return [{ type: "reasoning", text: piece, ...optionsOf(part.meta) }];
  });
  // A thought that led to nothing may not stand last.
  return content.slice(0, content.findLastIndex(({ type }) => type !== "reasoning") + 1);
}

/** Beside a call, or around reasoning, a text of nothing is refused. */
const textPart = (text: string, meta?: Meta): LanguageModelV4TextPart[] =>
  text.trim() ? [{ type: "text", text, ...optionsOf(meta) }] : [];

const optionsOf = (meta: Meta | undefined): { providerOptions?: SharedV4ProviderOptions } =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the library gave is what it takes
  meta ? { providerOptions: meta as SharedV4ProviderOptions } : {};

function sign(calls: PromptCalls): void {
  const [first] = calls;
  if (first && !JSON.stringify(first.providerOptions ?? {}).includes("thoughtSignature"))
    first.providerOptions = { google: { thoughtSignature: UNSIGNED } };
}

/** Reasoning in the field that it came in: OpenAI-compatible servers have no common one. */
function fieldsOf({ text, reasoning, calls }: Assistant, replay: Replay | null, dialect: Dialect): Meta {
  const { field, signature, blocks } = replay?.meta ?? {};
  if (dialect === "groq") return {};
  if (typeof blocks === "object") return { ...blocks };
  if (reasoning && field === "content") {
    const thinking = [{ type: "text", text: reasoning }];
    return {
      content: [{ type: "thinking", thinking, ...(signature !== undefined && { signature }) }, ...textPart(text)],
    };
  }
  if (reasoning && typeof field === "string") return { [field]: reasoning };
  const wanted = calls.length && (dialect === "deepseek" || dialect === "kimi");
  return wanted ? { reasoning_content: NO_REASONING } : {};
}

type IdOf = { call(id: string, own: string | undefined): string; result(id: string): string };

/** Ids are made here, by place, so that the same conversation always has the same ones and no two are alike, whatever was
 *  forked or given to us. A maker gets its own ids back: some hide signatures in them. */
function idsFor({ dialect }: PromptReader): IdOf {
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  let made = 0;
  const make = () => `call${(made++).toString(36).padStart(5, "0")}`;
  return {
    call(id, own) {
      let next = make();
      if (own && dialect !== "mistral" && !taken.has(own)) next = own;
      while (taken.has(next)) next = make();
      taken.add(next);
      ids.set(id, next);
      return next;
    },
    result: (id) => ids.get(id) ?? make(),
  };
}

/** Models make names up; one that providers do not take would fail this call and every later one. */
const named = (tool: string) => tool.replaceAll(/[^\w-]/g, "_").slice(0, LONGEST_NAME) || "unknown";
const LONGEST_NAME = 64;

/** What may be called. A conversation with calls in it must name tools even if there are none: Anthropic refuses it
 *  otherwise. */
export function toTools({
  tools,
  final,
  messages,
  options: { toolChoice } = {},
}: ModelRequest): Pick<LanguageModelV4CallOptions, "tools" | "toolChoice"> {
  const used = messages.flatMap((message) => (message.role === "assistant" ? message.calls : []));
  if (!tools.length && !used.length) return {};
  const names = [...new Set(used.map((call) => named(call.tool)))];
  const gone = names.map((name) => ({ name, description: "Not there any more.", schema: {} }));
  return {
    tools: tools.length ? describedOnce(tools) : described(gone),
    ...(toolChoice && { toolChoice: chosen(toolChoice) }),
    ...((final || !tools.length) && { toolChoice: { type: "none" } }),
  };
}

const once = new WeakMap<readonly ToolSpec[], PromptTools>();
type PromptTools = NonNullable<LanguageModelV4CallOptions["tools"]>;

/** A set of tools is a new list where one of them changes: the same list has the same description. */
function describedOnce(tools: readonly ToolSpec[]): PromptTools {
  const before = once.get(tools) ?? described(tools);
  once.set(tools, before);
  return before;
}

const described = (tools: readonly ToolSpec[]): PromptTools =>
  tools.map(({ name, description, schema, strict }) => ({
    type: "function",
    name,
    description,
    // A strict one is written for its provider, and must stay closed (additionalProperties: false).
    inputSchema: strict ? schema : commonSchema(schema),
    ...(strict !== undefined && { strict }),
  }));

const chosen = (choice: NonNullable<ModelOptions["toolChoice"]>) =>
  choice === "required" ? ({ type: "required" } as const) : ({ type: "tool", toolName: choice.tool } as const);
