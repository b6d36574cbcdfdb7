// How much of a model's window a request takes. An estimate: four characters a token is right within a fifth for
// prose and code in most tokenizers, and it is only used to act in time, never to bill.
import type { ToolSpec } from "../core/ports.ts";
import type { Message } from "../core/transcript.ts";

export const CHARACTERS = 4;
const PER_MESSAGE = 4;
const PER_IMAGE = 1_500;
/** Of the window: from here on the conversation is made shorter before the next call. */
export const CROWDED = 0.75;

export function tokensOf(message: Message): number {
  switch (message.role) {
    case "user":
      return text(message.text) + (message.images?.length ?? 0) * PER_IMAGE;
    case "assistant":
      return message.calls.reduce((sum, { args }) => sum + text(JSON.stringify(args) ?? ""), text(message.text));
    case "tool":
      return text(message.text);
  }
}

export function requestTokens(system: string, messages: readonly Message[], tools: readonly ToolSpec[]): number {
  const fixed = tools.reduce(
    (sum, tool) => sum + text(tool.description) + text(JSON.stringify(tool.schema)),
    text(system),
  );
  return messages.reduce((sum, message) => sum + tokensOf(message), fixed);
}

const text = (s: string) => Math.ceil(s.length / CHARACTERS) + PER_MESSAGE;
