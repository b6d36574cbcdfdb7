// The older part of a conversation becomes a summary. The journal keeps every entry; only what the model is shown
// changes. It is asked for as patiently as an answer. Where the model is out of reach, nothing is shortened; where it only
// does not manage to write one, a note of what was left out stands for it.
import type { EffectContext, FaultKind, Model, ModelResult } from "../core/ports.ts";
import type { Event } from "../core/session.ts";
import { CHARACTERS, type Message, type Transcript, tokensOf } from "../core/transcript.ts";
import type { Agent, EffectOf } from "./agent.ts";
import { attempt, modelsFor, nextOf } from "./attempts.ts";
import { fitted } from "./context.ts";
import { askAside } from "./side-call.ts";

/** What stays word for word: of the window, or of the conversation where that is less. The window is what we believe
 *  it to be; a provider that says "too long" knows better. */
const KEEP = 0.3;
/** What the summary is made from, at most. */
const QUOTE = { window: 0.6, conversation: 0.8 };
/** Of the window: what must be saved, or else it is not done for want of room. */
const WORTH_IT = 0.1;
/** Silence that ends a summary, and the longest that one may take. */
const SILENCE_MS = 90_000;
const SUMMARY_MS = 300_000;
const LONGEST_QUOTE = 4_000;
const LONGEST_SUMMARY = 12_000;

const INSTRUCTIONS = `You write the summary that replaces the older part of a conversation between a user and an agent.
Keep: what the user wants, in their words where it matters; decisions and constraints; files, commands, names, numbers and
results that may still be needed; what is done and what is left to do. Leave out pleasantries and dead ends. Plain text.`;

const ANSWERED: ModelResult = { end: "answer", calls: [], usage: { input: 0, output: 0 } };
/** Faults that are not about the summary: the answer would have failed with them too. */
const OUT_OF_REACH = new Set<FaultKind>(["network", "unavailable", "rate_limited", "auth", "quota"]);

export async function compact(agent: Agent, effect: EffectOf<"compact">, cx: EffectContext): Promise<Event | null> {
  const { step } = effect;
  const models = modelsFor(agent, effect.model);
  const first = nextOf(agent, models);
  const history = await cx.history();
  const cut = first ? cutOf(history, first) : null;
  if (!first || !cut) {
    if (effect.asked) return { type: "compacted", step, summary: "", upTo: 0 };
    const reason = "The conversation is too long for this model and cannot be made shorter.";
    return { type: "failed", step, reason, said: "" };
  }
  const older = history.messages.slice(0, cut.at);
  const { by, attended = false } = history.begun;
  const kept = (await agent.memory?.compressing?.(older, { session: cx.session, ...(by && { by }) })) ?? "";
  cx.notice(`Summarising ${older.length} earlier messages to make room.`);

  let written = "";
  const ask = async (model: Model): Promise<ModelResult> => {
    const room = Math.min(model.context * QUOTE.window, history.tokens * QUOTE.conversation);
    const { text, end } = await askAside(
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
    written = text?.trim() ?? "";
    if (end.end === "fault") return end;
    // A summary that goes on for minutes would do so again.
    const over = written !== "" || end.end === "aborted";
    return over ? ANSWERED : { end: "fault", kind: "incomplete", reason: "the summary was empty" };
  };
  const ended = await attempt({ agent, cx, models, attended, breaks: 0, ask, spoke: () => false });
  if (!ended) return null;
  const { result } = ended;
  if (!written) agent.log("warn", "summary.failed", { session: cx.session, end: result });
  if (result.end === "fault" && OUT_OF_REACH.has(result.kind))
    return { type: "failed", step, reason: result.reason, said: "" };
  const text = written || `(${older.length} earlier messages are left out here.)`;
  return { type: "compacted", step, summary: [text, kept].filter(Boolean).join("\n\n"), upTo: cut.upTo };
}

/** Whether a summary would save enough to be worth it. */
export function canShorten(history: Transcript, model: Model): boolean {
  const cut = cutOf(history, model);
  const older = history.messages.slice(0, cut?.at ?? 0);
  return older.reduce((sum, message) => sum + tokensOf(message), 0) > model.context * WORTH_IT;
}

/** Whether there is anything that a summary could stand for. */
export const hasOlderPart = (history: Transcript, model: Model): boolean => cutOf(history, model) !== null;

/** Where the conversation is cut, and the last entry that the summary will stand for. */
function cutOf(history: Transcript, model: Model): { at: number; upTo: number } | null {
  const { messages, tokens } = fitted(history, model.context);
  const at = boundary(messages, Math.min(model.context, tokens) * KEEP);
  const upTo = history.seqs[at - 1] ?? 0;
  return at === 0 || upTo <= history.summarised ? null : { at, upTo };
}

/** The first message that stays: the last one, and before it as many as fit; never between a call and its result. */
function boundary(messages: readonly Message[], tokens: number): number {
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
