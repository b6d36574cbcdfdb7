// The older part of a conversation becomes a summary. The journal keeps every entry; only what the model is shown
// changes. Bounded: a summary that does not come in time is replaced by a note of what was left out.
import type { Performing } from "../core/ports.ts";
import type { Event } from "../core/session.ts";
import { CHARACTERS, type Message, type Transcript, tokensOf } from "../core/transcript.ts";
import type { Agent, EffectOf } from "./agent.ts";
import { askAside } from "./aside.ts";
import { modelsFor } from "./think.ts";

/** What stays word for word: of the window, or of the conversation where that is less. The window is what we believe
 *  it to be; a provider that says "too long" knows better. */
const KEEP = 0.3;
/** What the summary is made from, at most. */
const QUOTE = { window: 0.6, conversation: 0.8 };
/** Silence that ends a summary, and the longest that one may take. */
const SILENCE_MS = 90_000;
const SUMMARY_MS = 300_000;
const LONGEST_QUOTE = 4_000;
const LONGEST_SUMMARY = 12_000;

const INSTRUCTIONS = `You write the summary that replaces the older part of a conversation between a user and an agent.
Keep: what the user wants, in their words where it matters; decisions and constraints; files, commands, names, numbers and
results that may still be needed; what is done and what is left to do. Leave out pleasantries and dead ends. Plain text.`;

export async function compact(agent: Agent, effect: EffectOf<"compact">, cx: Performing): Promise<Event | null> {
  const { step } = effect;
  const [model] = modelsFor(agent, effect.model);
  const history = await cx.history();
  const cut = model ? boundary(history, Math.min(model.context, history.tokens) * KEEP) : 0;
  const upTo = history.seqs[cut - 1] ?? 0;
  if (!model || cut === 0 || upTo <= history.summarised) {
    if (effect.asked) return { type: "compacted", step, summary: "", upTo: 0 };
    const reason = "The conversation is too long for this model and cannot be made shorter.";
    return { type: "failed", step, reason, said: "" };
  }
  const older = history.messages.slice(0, cut);
  const { by } = history.begun;
  const kept = (await agent.memory?.compressing?.(older, { session: cx.session, ...(by && { by }) })) ?? "";
  cx.notice(`Summarising ${older.length} earlier messages to make room.`);
  if (!(await cx.owned()) || cx.signal.aborted) return null;
  const room = Math.min(model.context * QUOTE.window, history.tokens * QUOTE.conversation);
  const { text: summary, end } = await askAside(
    {
      clock: agent.clock,
      model,
      session: cx.session,
      system: INSTRUCTIONS,
      text: quote(older, room * CHARACTERS),
      longest: LONGEST_SUMMARY,
      staleMs: Math.min(SILENCE_MS, agent.staleMs ?? SILENCE_MS),
      withinMs: SUMMARY_MS,
    },
    cx.signal,
  );
  if (cx.signal.aborted) return null;
  const written = summary?.trim();
  if (!written) agent.log("warn", "summary.failed", { session: cx.session, end });
  const text = written || `(${older.length} earlier messages are left out here.)`;
  return { type: "compacted", step, summary: [text, kept].filter(Boolean).join("\n\n"), upTo };
}

/** The first message that stays: the last one, and before it as many as fit; never between a call and its result. */
function boundary({ messages }: Transcript, tokens: number): number {
  let room = tokens;
  let at = messages.length;
  for (const message of messages.toReversed()) {
    room -= tokensOf(message);
    if (room < 0 && at < messages.length) break;
    at--;
  }
  while (at < messages.length && messages[at]?.role === "tool") at++;
  return at >= messages.length ? lastSafe(messages) : at;
}

/** Even the last exchange is too long: all but the last message that can stand alone. */
function lastSafe(messages: readonly Message[]): number {
  const at = messages.findLastIndex((message) => message.role !== "tool");
  return at > 0 ? at : 0;
}

function quote(messages: readonly Message[], characters: number): string {
  const lines = messages.map((message) => {
    const calls =
      message.role === "assistant" ? message.calls.map((c) => `\n[calls ${c.tool} ${JSON.stringify(c.args)}]`) : [];
    const who = message.role === "tool" ? `result of ${message.tool}` : message.role;
    return `${who}: ${middleOut(message.text + calls.join(""), LONGEST_QUOTE)}`;
  });
  return middleOut(lines.join("\n\n"), characters);
}

function middleOut(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${text.slice(0, half)}\n[…]\n${text.slice(-half)}`;
}
