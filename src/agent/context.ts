// How much of a model's window a request takes.
import type { ToolSpec } from "../core/ports.ts";
import { type Transcript, tokensIn } from "../core/transcript.ts";

/** Of the window: from here on the conversation is made shorter before the next call. */
export const CROWDED = 0.75;

const described = new WeakMap<readonly ToolSpec[], number>();

export function requestTokens(system: string, { tokens }: Transcript, tools: readonly ToolSpec[]): number {
  return tokensIn(system) + tokens + toolTokens(tools);
}

/** They do not change while the process lives. */
function toolTokens(tools: readonly ToolSpec[]): number {
  const known = described.get(tools);
  if (known !== undefined) return known;
  const count = tools.reduce((sum, t) => sum + tokensIn(t.description) + tokensIn(JSON.stringify(t.schema)), 0);
  described.set(tools, count);
  return count;
}
