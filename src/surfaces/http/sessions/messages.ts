// What was said in a session, read from its journal: for clients that show a conversation. Entries that are for the machine
// (a call began, a turn was restarted) are left out.
import { pagesOf } from "../../../core/pages.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { CallKind, EndKind, Entry, Image, Input, InputKind, RecoveryKind } from "../../../core/session.ts";
import type { Message } from "../../../core/transcript.ts";
import { messageRow } from "./hermes.ts";

type MessageQuery = { after: number; limit: number; full: boolean };
type MessageItem = { role: string; content: string; [field: string]: unknown };
/** `id` is the number of its entry; messages that came many to an entry, as a fork's, have fractions below it. */
type Shown = MessageItem & { id: number; created_at: number; run_id: string | null };
type JournalReader = Pick<Runtime, "entries" | "turn">;

/** Characters of a tool's result, unless all of it is asked for. */
const CUT = 10_000;

/** The messages behind `after`. `more`: there are others behind these. */
export async function readSaid(
  runtime: JournalReader,
  session: string,
  { after, limit, full }: MessageQuery,
): Promise<{ data: Shown[]; more: boolean }> {
  const read = createReader(runtime, full);
  const data: Shown[] = [];
  for await (const entries of pagesOf(runtime, session, Math.floor(after)))
    for (const entry of entries) {
      const said = await read(entry);
      for (const [index, one] of said.entries()) {
        const id = placeOf(entry, index, said.length);
        if (id <= after) continue;
        if (data.length === limit) return { data, more: true };
        data.push({ id, ...one, created_at: entry.at / 1_000, run_id: entry.turn || null });
      }
    }
  return { data, more: false };
}

/** What one turn said, in the words of Hermes. */
export async function turnSaid(runtime: JournalReader, session: string, turn: string): Promise<unknown[]> {
  const read = createReader(runtime, false);
  const rows: Record<string, unknown>[] = [];
  for (const entry of await runtime.turn(turn))
    for (const one of await read(entry))
      if (one.role !== "user") rows.push(messageRow(session, { ...one, created_at: entry.at / 1_000 }));
  return rows;
}

const placeOf = ({ kind, seq }: Entry, index: number, length: number) =>
  kind === "forked" ? seq - 1 + (index + 1) / (length + 1) : seq;

/** Remembers what later entries only name: inputs and calls. What was before the page is looked up. */
function createReader(runtime: JournalReader, full: boolean): (entry: Entry) => Promise<MessageItem[]> {
  const inputs = new Map<string, Input>();
  const tools = new Map<string, string>();
  const note = (entry: Entry) => {
    if (entry.kind === "accepted") inputs.set(entry.input.id, entry.input);
    if (entry.kind === "thought") for (const { id, tool } of entry.calls) tools.set(id, tool);
  };
  const inputNamed = async (id: string) => {
    if (!inputs.has(id)) for (const entry of await runtime.turn(id)) note(entry);
    return inputs.get(id);
  };
  const toolOf = async (call: string, turn: string) => {
    if (!tools.has(call)) for (const entry of await runtime.turn(turn)) note(entry);
    return tools.get(call) ?? "";
  };

  return async (entry) => {
    note(entry);
    switch (entry.kind) {
      case "began":
      case "joined": {
        const input = await inputNamed(entry.input);
        if (!input || input.task) return [];
        const { text, images, by } = input;
        return [{ ...userSaid(text, images), input_id: input.id, ...(by && { by }) }];
      }
      case "thought": {
        const { text, calls, model } = entry;
        return text || calls.length ? [{ ...assistantSaid(text, calls), model }] : [];
      }
      case "cut":
        return [{ ...assistantSaid(entry.text, []), cut: true }];
      case "acted": {
        const { call, outcome, text } = entry;
        return [toolSaid({ call, tool: await toolOf(call, entry.turn), outcome, text }, full)];
      }
      case "compacted":
        return entry.upTo ? [{ role: "summary", content: entry.summary, up_to: entry.upTo }] : [];
      case "forked":
        return entry.messages.map((message) => copied(message, full));
      default:
        entry.kind satisfies InputKind | CallKind | RecoveryKind | EndKind;
    }
    return [];
  };
}

type Of<Role extends Message["role"]> = Extract<Message, { role: Role }>;

const userSaid = (text: string, images: readonly Image[] = []): MessageItem => ({
  role: "user",
  content: text,
  ...(images.length && { images: images.length }),
});

const assistantSaid = (text: string, calls: Of<"assistant">["calls"]): MessageItem => ({
  role: "assistant",
  content: text,
  ...(calls.length && { tool_calls: calls }),
});

const toolSaid = ({ call, tool, outcome, text }: Omit<Of<"tool">, "role">, full: boolean): MessageItem => {
  const whole = full || text.length <= CUT;
  const content = whole ? text : text.slice(0, CUT).toWellFormed();
  return { role: "tool", content, call_id: call, tool, outcome, ...(!whole && { truncated: true }) };
};

function copied(message: Message, full: boolean): MessageItem {
  switch (message.role) {
    case "user":
      return userSaid(message.text, message.images);
    case "assistant":
      return assistantSaid(message.text, message.calls);
    case "tool":
      return toolSaid(message, full);
  }
}
