// How much of a model's window a request takes, and what is done so that it fits.
import type { ToolSpec } from "../core/ports.ts";
import { CHARACTERS, type Message, type Transcript, tokensIn, tokensOf } from "../core/transcript.ts";

/** Of the window: from here on the conversation is made shorter before the next call. */
export const CROWDED = 0.75;
/** Of the window: what one tool's result may take, whatever else there is. */
const LARGEST_RESULT = 0.4;
/** Tokens of a result below which cutting it helps nobody. */
const SMALLEST_RESULT = 200;

const described = new WeakMap<readonly ToolSpec[], number>();

/** What a request takes beside its messages. */
export function fixedTokens(system: string, tools: readonly ToolSpec[]): number {
  return tokensIn(system) + toolTokens(tools);
}

/** The messages as they are sent: a result that is larger than the window is cut to fit. The same ones come out for the
 *  same conversation, so that what a provider has kept of it still holds. */
export function fitted({ messages, tokens }: Transcript, window: number, share = LARGEST_RESULT) {
  const most = Math.max(SMALLEST_RESULT, Math.floor(window * share));
  // Nearly always: what follows was a fifth of a turn after 10,000 entries.
  if (!messages.some(({ role, text }) => role === "tool" && text.length > most * CHARACTERS))
    return { messages, tokens };
  const cut = messages.map((message) => cutResult(message, most));
  const saved = messages.reduce((sum, message, at) => {
    const after = cut[at];
    return after && after !== message ? sum + tokensOf(message) - tokensOf(after) : sum;
  }, 0);
  return { messages: cut, tokens: tokens - saved };
}

/** Only cut further where nothing else can be done: until it fits, or cutting helps no more. */
export function squeezed(transcript: Transcript, window: number, room: number) {
  for (let share = LARGEST_RESULT; ; share /= 2) {
    const fit = fitted(transcript, window, share);
    if (fit.tokens <= room || window * share <= SMALLEST_RESULT) return fit;
  }
}

function cutResult(message: Message, tokens: number): Message {
  const most = tokens * CHARACTERS;
  if (message.role !== "tool" || message.text.length <= most) return message;
  const half = Math.floor(most / 2);
  const { text } = message;
  const left = `\n[… ${text.length - 2 * half} characters left out: the result is too large for this model …]\n`;
  return { ...message, text: (text.slice(0, half) + left + text.slice(-half)).toWellFormed() };
}

/** Tools do not change while the process lives. */
function toolTokens(tools: readonly ToolSpec[]): number {
  const known = described.get(tools);
  if (known !== undefined) return known;
  const count = tools.reduce((sum, t) => sum + tokensIn(t.description) + tokensIn(JSON.stringify(t.schema)), 0);
  described.set(tools, count);
  return count;
}
