// What the routes that speak OpenAI's protocol share: a turn is watched to its end.
import type { ServerResponse } from "node:http";
import * as z from "zod";
import { followTurn } from "../../../conversation/follow-turn.ts";
import { messageOf } from "../../../core/errors.ts";
import { newRun, type Run, takeEntry } from "../../../core/run.ts";
import type { Receipt, Update } from "../../../core/runtime.ts";
import type { CallKind, CallOutcome, EndKind, Entry, Input, InputKind, RecoveryKind } from "../../../core/session.ts";
import { modelOptions, optionsOf } from "../runs/start.ts";
import { type Problem, problem } from "../server/problem.ts";
import { type Api, problemOf } from "../server/route.ts";

/** `cursor`: just before it was accepted. */
export type StartedTurn = Pick<Receipt, "id" | "session" | "cursor">;

/** What both protocols call by the same names. */
export const sampling = {
  temperature: modelOptions.shape.temperature.nullish(),
  top_p: modelOptions.shape.top_p.nullish(),
};
export const tokens = modelOptions.shape.max_tokens.nullish();
export const effort = z
  .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
  .nullish()
  .describe("How much the model reasons");
/** What our models have, nearest to what OpenAI's have. */
const EFFORTS = { none: "minimal", xhigh: "high", max: "high" } as const;

type SamplingOptions = z.output<z.ZodObject<typeof sampling & { tokens: typeof tokens; effort: typeof effort }>>;
export function wantedOf({ temperature, top_p, tokens: max_tokens, effort: given }: SamplingOptions) {
  const asked = given ?? undefined;
  const reasoning_effort = asked === "none" || asked === "xhigh" || asked === "max" ? EFFORTS[asked] : asked;
  return optionsOf({
    temperature: temperature ?? undefined,
    top_p: top_p ?? undefined,
    max_tokens: max_tokens ?? undefined,
    reasoning_effort,
  });
}

/** All of one turn from its beginning, each with the run as it is by then. Without an end: the signal aborted, or we left. */
export async function* watchTurn(
  { runtime }: Pick<Api, "runtime">,
  turn: StartedTurn,
  signal: AbortSignal,
): AsyncGenerator<{ update: Update; run: Run }> {
  let run: Run | null = null;
  for await (const update of followTurn(runtime, turn, signal)) {
    if ("entry" in update) {
      run ??= newRun({ id: turn.id, at: update.entry.at });
      takeEntry(run, update.entry);
    }
    if (run) yield { update, run };
  }
}

const OVER = new Set<Run["status"]>(["completed", "failed", "cancelled", "interrupted"]);
export const isOver = ({ status }: Run): boolean => OVER.has(status);

/** Runs `work` with a signal that aborts when whoever waits for the answer is gone. */
export async function whileWaiting<T>(response: ServerResponse, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const gone = new AbortController();
  const leave = () => gone.abort("gone");
  response.once("close", leave);
  if (response.destroyed) leave();
  try {
    return await work(gone.signal);
  } finally {
    response.off("close", leave);
  }
}

/** Counts those who wait for a turn: the same request may have come twice. */
export function createAudience() {
  const sizes = new Map<string, number>();
  return {
    join(run: string): void {
      sizes.set(run, (sizes.get(run) ?? 0) + 1);
    },
    /** True: nobody is left. */
    leave(run: string): boolean {
      const left = (sizes.get(run) ?? 1) - 1;
      if (left) sizes.set(run, left);
      else sizes.delete(run);
      return left === 0;
    },
  };
}

/** OpenAI's clients send again what was answered with 409 or 5xx, and that would be a second turn. */
export const NO_RETRY = { "X-Should-Retry": "false" };

/** Why a turn that is over has no answer. */
export function endProblem({ status, error }: Run): Problem {
  const no = (code: number, name: string, text: string) => problem(code, name, text, { headers: NO_RETRY });
  if (status === "failed") return no(502, "run_failed", error ?? "The run failed.");
  if (status === "cancelled") return no(409, "run_cancelled", "The run was stopped before it had an answer.");
  return no(409, "run_interrupted", "A newer message in this session took over before there was an answer.");
}

/** A stream that has begun says in its own way what went wrong. */
export function streamProblem({ log }: Api, { id }: StartedTurn, error: unknown): Problem {
  log("error", "http.stream", { turn: id, error: messageOf(error) });
  return problemOf(error) ?? problem(500, "internal_error", "Something went wrong here; the server's log says what.");
}

export const hexOf = (run: string): string => run.replace(/^run_/, "");

// ── What a turn gives, as items ───────────────────────────────────────────────────────────────────────

export type ItemEvent = { type: string; [field: string]: unknown };
type ItemFields = { type: string; status: string; [field: string]: unknown };
type OutputItem = ItemFields & { id: string };
type PlacedItem = { at: number; item: OutputItem };
export type TurnOutput = {
  items: readonly OutputItem[];
  /** Live text. */
  hear(delta: string): ItemEvent[];
  take(entry: Entry): ItemEvent[];
  /** What it answers. */
  input(): Input | null;
};

/** A turn item by item, with what is told as each of them grows: the same for one who watches and one who reads later. */
export function createOutput(run: string): TurnOutput {
  const items: OutputItem[] = [];
  const proposed = new Map<string, { tool: string; args: unknown }>();
  const running = new Map<string, PlacedItem>();
  let speech: (PlacedItem & { text: string }) | null = null;
  let input: Input | null = null;

  function add(prefix: string, fields: ItemFields): PlacedItem & { added: ItemEvent } {
    const at = items.length;
    const item: OutputItem = { ...fields, id: `${prefix}_${hexOf(run)}_${at}` };
    items.push(item);
    return { at, item, added: { type: "response.output_item.added", output_index: at, item } };
  }

  /** It becomes another object: what was told of the old one stays as it was. */
  function finish({ at, item: before }: PlacedItem, fields: Partial<ItemFields>): ItemEvent {
    const item: OutputItem = { ...before, ...fields };
    items[at] = item;
    return { type: "response.output_item.done", output_index: at, item };
  }

  const within = ({ at, item }: PlacedItem) => ({ item_id: item.id, output_index: at });
  const inText = (place: PlacedItem) => ({ ...within(place), content_index: 0 });

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

  function start(call: string): ItemEvent[] {
    const { tool: name, args: given } = proposed.get(call) ?? { tool: "", args: {} };
    const args = JSON.stringify(given ?? {});
    const shape = { type: "function_call", status: "in_progress", call_id: call, name, arguments: "" };
    const { at, item: empty, added } = add("fc", shape);
    const item = { ...empty, arguments: args };
    items[at] = item;
    running.set(call, { at, item });
    return [
      added,
      { type: "response.function_call_arguments.delta", ...within({ at, item }), delta: args },
      { type: "response.function_call_arguments.done", ...within({ at, item }), arguments: args },
    ];
  }

  function end(call: string, outcome: CallOutcome, output: string): ItemEvent[] {
    const place = running.get(call);
    if (!place) return []; // it never ran
    running.delete(call);
    const status = outcome === "ok" || outcome === "error" ? "completed" : "incomplete";
    const done = finish(place, { status });
    const result = add("fco", { type: "function_call_output", status, call_id: call, output });
    return [done, result.added, finish(result, {})];
  }

  function take(entry: Entry): ItemEvent[] {
    switch (entry.kind) {
      case "accepted":
        ({ input } = entry);
        return [];
      case "thought":
        for (const call of entry.calls) proposed.set(call.id, call);
        return say(entry.text, "completed", entry.calls.length ? "commentary" : "final_answer");
      case "cut":
        return say(entry.text, "incomplete", "final_answer");
      case "started":
        return start(entry.call);
      case "acted":
        return end(entry.call, entry.outcome, entry.text);
      default:
        entry.kind satisfies InputKind | CallKind | RecoveryKind | EndKind | "forked" | "compacted";
    }
    return [];
  }

  return { items, hear, take, input: () => input };
}

const partOf = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });
