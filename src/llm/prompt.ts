// Our messages in the shape that the providers take.
import type { LanguageModelV4CallOptions, LanguageModelV4Message, LanguageModelV4Prompt } from "@ai-sdk/provider";
import type { ModelRequest } from "../core/ports.ts";
import type { Message } from "../core/transcript.ts";

/** Anthropic keeps what stands before these marks for the next call; others ignore them. */
const KEEP = { anthropic: { cacheControl: { type: "ephemeral" } } };

export function toPrompt({ system, messages }: Pick<ModelRequest, "system" | "messages">): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = [];
  if (system) prompt.push({ role: "system", content: system, providerOptions: KEEP });
  for (const message of messages) add(prompt, message);
  const last = prompt.at(-1);
  if (last && last.role !== "system") last.providerOptions = KEEP;
  return prompt;
}

function add(prompt: LanguageModelV4Prompt, message: Message) {
  const next = converted(message);
  const last = prompt.at(-1);
  // A turn that was stopped before it answered leaves two user messages in a row; strict providers want one.
  if (last?.role === "user" && next.role === "user") {
    const [before, after] = [last.content.at(-1), next.content[0]];
    // Some local servers join the parts of a message with nothing between them.
    if (before?.type === "text" && after?.type === "text") after.text = `\n\n${after.text}`;
    last.content.push(...next.content);
  } else if (last?.role === "tool" && next.role === "tool") last.content.push(...next.content);
  else if (last?.role === "assistant" && next.role === "assistant") last.content.push(...next.content);
  else prompt.push(next);
}

function converted(message: Message): LanguageModelV4Message {
  switch (message.role) {
    case "user": {
      const images = (message.images ?? []).map(({ mime, data }) => ({
        type: "file" as const,
        mediaType: mime,
        data: { type: "data" as const, data },
      }));
      return { role: "user", content: [{ type: "text", text: message.text }, ...images] };
    }
    case "assistant":
      return {
        role: "assistant",
        content: [
          ...(message.text ? [{ type: "text" as const, text: message.text }] : []),
          ...message.calls.map(({ id, tool, args }) => ({
            type: "tool-call" as const,
            toolCallId: id,
            toolName: named(tool),
            // What could not be read as arguments is told as none: the result says what was wrong.
            input: typeof args === "object" && args !== null && !Array.isArray(args) ? args : {},
          })),
        ],
      };
    case "tool": {
      const value = message.text || "(no output)";
      const output =
        message.outcome === "ok" ? { type: "text" as const, value } : { type: "error-text" as const, value };
      return {
        role: "tool",
        content: [{ type: "tool-result", toolCallId: message.call, toolName: named(message.tool), output }],
      };
    }
  }
}

/** Models make names up; one that providers do not take would fail this call and every later one. */
const named = (tool: string) => tool.replaceAll(/[^\w-]/g, "_").slice(0, LONGEST_NAME) || "unknown";
const LONGEST_NAME = 64;

/** A conversation that has calls in it must name tools, also where none may be called: Anthropic refuses it otherwise. */
export function toTools({
  tools,
  final,
  messages,
}: ModelRequest): Pick<LanguageModelV4CallOptions, "tools" | "toolChoice"> {
  const used = messages.flatMap((message) =>
    message.role === "assistant" ? message.calls.map((call) => named(call.tool)) : [],
  );
  const gone = [...new Set(used)].filter((name) => !tools.some((tool) => tool.name === name));
  const all = [
    ...tools,
    ...gone.map((name) => ({ name, description: "Not there any more.", schema: { type: "object" } })),
  ];
  if (!all.length) return {};
  return {
    tools: all.map(({ name, description, schema }) => ({ type: "function", name, description, inputSchema: schema })),
    ...((final || !tools.length) && { toolChoice: { type: "none" } }),
  };
}
