// What a conversation holds, in short: the last messages, and what fills the window of the model.
import { entriesOf, pagesOf } from "../../core/pages.ts";
import type { Runtime } from "../../core/runtime.ts";
import { type Entry, HEARTBEAT_SOURCE, type Input } from "../../core/session.ts";
import { emptyTranscript, extend, type Message, tokensOf } from "../../core/transcript.ts";
import type { CommandContext } from "./command.ts";

const HISTORY = { usual: 10, most: 50, entries: 2_000, chars: 200 };

export async function lastEntries(
  runtime: Pick<Runtime, "summary" | "entries">,
  session: string,
  count: number,
): Promise<Entry[]> {
  const { entries = 0 } = (await runtime.summary(session)) ?? {};
  return entriesOf(runtime, session, Math.max(0, entries - count));
}

/** `/history`, `/history 30` */
export async function history({ runtime, session, by: me }: CommandContext, rest: string): Promise<string> {
  const count = rest === "" ? HISTORY.usual : Number(rest);
  if (!Number.isInteger(count) || count < 1 || count > HISTORY.most)
    return `Say /history and a number from 1 to ${HISTORY.most}.`;
  const entries = await lastEntries(runtime, session, HISTORY.entries);
  const withdrawn = new Set(entries.flatMap((entry) => (entry.kind === "withdrawn" ? [entry.input] : [])));
  const lines = entries.flatMap((entry) => {
    if (entry.kind === "accepted" && !entry.input.task && !withdrawn.has(entry.input.id))
      return [`- **${whoSaid(entry.input, me)}** ${oneLine(entry.input.text, HISTORY.chars)}`];
    return entry.kind === "thought" && entry.text ? [`- **hermes** ${oneLine(entry.text, HISTORY.chars)}`] : [];
  });
  return lines.slice(-count).join("\n") || "Nothing was said yet.";
}

const whoSaid = ({ source, by }: Pick<Input, "source" | "by">, me: string): string => {
  if (source === "process") return "a process"; // one in the background has ended
  if (source === "schedule" || source === HEARTBEAT_SOURCE) return "a schedule";
  return !by || by === me ? "you" : by;
};

/** Messages are estimated. What else a request holds is the rest of what the provider counted for the last model call. */
export async function windowText({ runtime, session, window = 0 }: CommandContext): Promise<string> {
  const transcript = emptyTranscript();
  let rest = 0;
  for await (const page of pagesOf(runtime, session))
    for (const entry of page) {
      if (entry.kind === "thought" && entry.usage.input) rest = Math.max(0, entry.usage.input - transcript.tokens);
      extend(transcript, entry);
    }
  const { messages, summarised, tokens } = transcript;
  if (!messages.length) return "Nothing was said yet.";
  const summary = summarised ? messages.slice(0, 1) : [];
  const said = messages.slice(summary.length);
  const of = (role: Message["role"]) => said.filter((message) => message.role === role);
  const all = tokens + rest;
  const parts = [
    { name: "system prompt, tools and memory", tokens: rest },
    { name: "summary of what was said before", tokens: sum(summary) },
    { name: `messages to the model (${of("user").length})`, tokens: sum(of("user")) },
    { name: `its answers and calls (${of("assistant").length})`, tokens: sum(of("assistant")) },
    { name: `results of tools (${of("tool").length})`, tokens: sum(of("tool")) },
  ];
  const share = window ? ` of ${window.toLocaleString("en")} (${Math.round((100 * all) / window)} %)` : "";
  return [
    `The model is shown about ${all.toLocaleString("en")} tokens${share}. /compress makes it less.`,
    ...parts.filter((part) => part.tokens).map((part) => `- ${part.name}: ${part.tokens.toLocaleString("en")}`),
  ].join("\n");
}

const sum = (messages: readonly Message[]) => messages.reduce((total, message) => total + tokensOf(message), 0);

export const oneLine = (text: string, most: number) => text.slice(0, most).replaceAll(/\s+/g, " ");
