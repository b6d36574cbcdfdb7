// Anthropic, with a budget for thinking: a loop of calls must be led by a thinking block, else the whole request is refused.
// A loop that another model began, or whose thinking was refused, has none: it goes on without thinking.

type Block = { type?: unknown };
type SentMessage = { role?: unknown; content?: unknown };

/** As the body is sent: only the library knows whether a model thinks with a budget or as it sees fit. */
export function withoutUnledThinking(body: string): string {
  if (!body.includes('"thinking":{"type":"enabled"')) return body;
  const request: { thinking?: unknown; messages?: SentMessage[] } = JSON.parse(body);
  return leads(request.messages ?? []) ? body : JSON.stringify({ ...request, thinking: undefined });
}

/** The loop begins with the first answer behind the last message that is no result. */
function leads(messages: SentMessage[]): boolean {
  const blocks = ({ content }: SentMessage): Block[] => (Array.isArray(content) ? content : []);
  const isResult = (said: SentMessage) =>
    said.role === "user" && blocks(said).some(({ type }) => type === "tool_result");
  const last = messages.at(-1);
  if (!last || !isResult(last)) return true;
  const began = messages.findLastIndex((said) => said.role === "user" && !isResult(said));
  const [first] = blocks(messages[began + 1] ?? {});
  return first?.type === "thinking" || first?.type === "redacted_thinking";
}
