// A turn as items of OpenAI's Responses API, with what is told as each of them grows: the same for one who watches and one who
// reads later. The agent's own calls are `mcp_call` items, which carry their result: nobody takes them for calls to run.
import * as z from "zod";
import type { CallKind, CallOutcome, EndKind, Entry, Input, InputKind, RecoveryKind } from "../../../core/session.ts";
import type { Message } from "../../../core/transcript.ts";
import { clientCallId, SERVER_LABEL } from "./client-tools.ts";
import { hexOf, type StartedTurn } from "./openai-turn.ts";

export type ItemEvent = { type: string; [field: string]: unknown };
type ItemFields = { type: string; [field: string]: unknown };
type OutputItem = ItemFields & { id: string };
type PlacedItem = { at: number; item: OutputItem };
export type TurnOutput = ReturnType<typeof createOutput>;

export function createOutput({ id: run, part = 0 }: Pick<StartedTurn, "id" | "part">) {
  const items: OutputItem[] = [];
  const proposed = new Map<string, { tool: string; args: unknown }>();
  const running = new Map<string, PlacedItem>();
  let speech: (PlacedItem & { text: string }) | null = null;
  let input: Input | null = null;

  function add(prefix: string, fields: ItemFields): PlacedItem & { added: ItemEvent } {
    const at = items.length;
    const item: OutputItem = { ...fields, id: `${prefix}_${idOfPart({ id: run, part })}_${at}` };
    items.push(item);
    return { at, item, added: { type: "response.output_item.added", output_index: at, item } };
  }

  /** The finished item is a new object: events that hold the old one must not change. */
  function finish({ at, item: before }: PlacedItem, fields: Partial<ItemFields>): ItemEvent {
    const item: OutputItem = { ...before, ...fields };
    items[at] = item;
    return { type: "response.output_item.done", output_index: at, item };
  }

  const within = ({ at, item }: PlacedItem) => ({ item_id: item.id, output_index: at });
  const inText = (place: PlacedItem) => ({ ...within(place), content_index: 0 });

  /** Live text. */
  function hear(delta: string): ItemEvent[] {
    const told: ItemEvent[] = [];
    if (!speech) {
      const { added, ...place } = add("msg", {
        type: "message",
        role: "assistant",
        status: "in_progress",
        content: [],
      });
      speech = { ...place, text: "" };
      told.push(added, { type: "response.content_part.added", ...inText(place), part: partOf("") });
    }
    speech.text += delta;
    return [...told, { type: "response.output_text.delta", ...inText(speech), delta, logprobs: [] }];
  }

  function say(text: string, status: string, phase: string): ItemEvent[] {
    const rest = text.slice(speech?.text.length ?? 0);
    const told = rest ? hear(rest) : [];
    if (!speech) return told;
    const place = speech;
    speech = null;
    const part = partOf(text);
    return [
      ...told,
      { type: "response.output_text.done", ...inText(place), text, logprobs: [] },
      { type: "response.content_part.done", ...inText(place), part },
      finish(place, { status, phase, content: [part] }),
    ];
  }

  function proposal(call: string): { name: string; args: string } {
    const { tool = "", args } = proposed.get(call) ?? {};
    return { name: tool, args: JSON.stringify(args ?? {}) };
  }

  function start(call: string): ItemEvent[] {
    const { name, args } = proposal(call);
    const shape = { type: "mcp_call", status: "in_progress", server_label: SERVER_LABEL, name, arguments: "" };
    const { at, item: empty, added } = add("mcp", { ...shape, output: null, error: null });
    const item = { ...empty, arguments: args };
    items[at] = item;
    running.set(call, { at, item });
    return [
      added,
      { type: "response.mcp_call.in_progress", ...within({ at, item }) },
      { type: "response.mcp_call_arguments.delta", ...within({ at, item }), delta: args },
      { type: "response.mcp_call_arguments.done", ...within({ at, item }), arguments: args },
    ];
  }

  /** What the client is to do: it has all of it at once. */
  function request(turn: string, call: string, kind: "client" | "approval"): ItemEvent[] {
    const { name, args } = proposal(call);
    if (kind === "approval") {
      const id = clientCallId(turn, call, "mcpr");
      const asked = { type: "mcp_approval_request", id, server_label: SERVER_LABEL, name, arguments: args };
      const at = items.push(asked) - 1;
      return [
        { type: "response.output_item.added", output_index: at, item: asked },
        { type: "response.output_item.done", output_index: at, item: asked },
      ];
    }
    const shape = { type: "function_call", status: "in_progress", call_id: clientCallId(turn, call), name };
    const { added, ...place } = add("fc", { ...shape, arguments: "" });
    return [
      added,
      { type: "response.function_call_arguments.delta", ...within(place), delta: args },
      { type: "response.function_call_arguments.done", ...within(place), name, arguments: args },
      finish(place, { status: "completed", arguments: args }),
    ];
  }

  function end(call: string, outcome: CallOutcome, output: string): ItemEvent[] {
    const place = running.get(call);
    if (!place) return []; // it never ran
    running.delete(call);
    const failed = outcome !== "ok";
    const status = outcome === "ok" ? "completed" : outcome === "error" ? "failed" : "incomplete";
    return [
      { type: failed ? "response.mcp_call.failed" : "response.mcp_call.completed", ...within(place) },
      finish(place, failed ? { status, error: output } : { status, output }),
    ];
  }

  function take(entry: Entry): ItemEvent[] {
    if (entry.kind === "accepted") ({ input } = entry);
    if (entry.kind === "thought") for (const call of entry.calls) proposed.set(call.id, call);
    if (entry.seq <= part) return []; // of an answer before this one
    switch (entry.kind) {
      case "thought":
        return say(entry.text, "completed", entry.calls.length ? "commentary" : "final_answer");
      case "cut":
        return say(entry.text, "incomplete", "final_answer");
      case "asked":
        if (entry.ask.kind === "client") return request(entry.turn, entry.call, "client");
        return entry.ask.kind === "approval" && input?.unattended === "client"
          ? request(entry.turn, entry.call, "approval")
          : [];
      case "started":
        return start(entry.call);
      case "acted":
        return end(entry.call, entry.outcome, entry.text);
      default:
        entry.kind satisfies InputKind | CallKind | RecoveryKind | EndKind | "forked" | "compacted";
    }
    return [];
  }

  /** `input`: what it answers. */
  return { items, hear, take, input: () => input };
}

/** What the ids of an answer and its items have of it. */
export const idOfPart = ({ id, part }: Pick<StartedTurn, "id" | "part">): string =>
  part ? `${hexOf(id)}_${part}` : hexOf(id);

const partOf = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });

// ── What it was asked, and lists ──────────────────────────────────────────────────────────────────────

export type ListedItem = { id: string; type: string; [field: string]: unknown };

export const inputItems = ({ id, text, images = [], history = [] }: Input): ListedItem[] =>
  historyItems(id, [...history, { role: "user", text, images }]);

/** `of`: the turn or the session that they belong to. */
export const historyItems = (of: string, messages: readonly Message[]): ListedItem[] =>
  messages.map((one, at) => ({
    id: `msg_${hexOf(of)}_in_${at}`,
    type: "message",
    role: one.role === "assistant" ? "assistant" : "user",
    status: "completed",
    content: contentOf(one),
  }));

function contentOf(one: Message): Record<string, unknown>[] {
  if (one.role === "assistant") return [{ type: "output_text", text: one.text, annotations: [] }];
  const images = one.role === "user" ? (one.images ?? []) : [];
  return [
    { type: "input_text", text: one.text },
    ...images.map(({ mime, data }) => ({
      type: "input_image",
      detail: "auto",
      image_url: `data:${mime};base64,${data}`,
    })),
  ];
}

export const PAGE_QUERY = {
  order: "`asc` or `desc` (the default: newest first)",
  after: "Only items after this id",
  limit: "The number of items, 1 to 100 (20)",
};

export const itemPage = z.looseObject({
  object: z.literal("list"),
  data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

export function pageOf(all: readonly ListedItem[], query: URLSearchParams) {
  const items = query.get("order") === "asc" ? all : all.toReversed();
  const limit = Math.max(1, Math.min(100, Math.trunc(Number(query.get("limit") ?? 20)) || 20));
  const from = items.findIndex((one) => one.id === query.get("after")) + 1;
  const data = items.slice(from, from + limit);
  const has_more = from + limit < items.length;
  return { object: "list", data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more };
}
