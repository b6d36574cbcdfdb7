// What the routes that speak OpenAI's protocol share: a turn is watched to its end, and its questions are decided without
// a person, since that protocol has no way to ask one.
import type { ServerResponse } from "node:http";
import * as z from "zod";
import { messageOf } from "../../core/errors.ts";
import { newRun, type Run, takeEntry } from "../../core/run.ts";
import type { Receipt, Update } from "../../core/runtime.ts";
import { type Problem, problem } from "./problem.ts";
import type { Api } from "./route.ts";
import { modelOptions, optionsOf } from "./start.ts";

/** `cursor`: just before it was accepted. */
export type Turn = Pick<Receipt, "id" | "session" | "cursor">;

/** What both protocols call by the same names. */
export const sampling = {
  temperature: modelOptions.shape.temperature.nullish(),
  top_p: modelOptions.shape.top_p.nullish(),
};
export const tokens = modelOptions.shape.max_tokens.nullish();
export const effort = z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]).nullish();
/** What our models have, nearest to what OpenAI's have. */
const EFFORTS = { none: "minimal", xhigh: "high", max: "high" } as const;

type Wanted = z.output<z.ZodObject<typeof sampling & { tokens: typeof tokens; effort: typeof effort }>>;
export function wantedOf({ temperature, top_p, tokens: max_tokens, effort: given }: Wanted) {
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
  { runtime }: Api,
  { id, session, cursor }: Turn,
  signal: AbortSignal,
): AsyncGenerator<{ update: Update; run: Run }> {
  let run: Run | null = null;
  let turn = id;
  let ours = false; // the session may still be busy with an earlier turn
  for await (const update of runtime.follow(session, cursor, signal)) {
    const entry = "entry" in update ? update.entry : null;
    if (entry?.kind === "began") ours = entry.turn === id;
    if (entry?.kind === "joined" && entry.input === id) {
      ({ turn } = entry);
      ours = true;
    }
    if (entry ? entry.turn !== id && entry.turn !== turn : !ours) continue;
    if (entry) run ??= newRun({ id, at: entry.at });
    if (!run) continue;
    if (entry) takeEntry(run, entry);
    yield { update, run };
    if (isOver(run)) return;
  }
}

const OVER = ["completed", "failed", "cancelled", "interrupted"];
export const isOver = ({ status }: Run): boolean => OVER.includes(status);

/** Decides at once what the turn asks, until it is over. What a turn asks that it only joined is for others to answer. */
export async function attend(api: Api, turn: Turn): Promise<void> {
  const { runtime, settings, log } = api;
  const { id, session } = turn;
  try {
    for await (const { update } of watchTurn(api, turn, new AbortController().signal)) {
      if (!("entry" in update) || update.entry.kind !== "asked" || update.entry.turn !== id) continue;
      const { call, ask } = update.entry;
      const allow = settings.unattended === "allow" && ask.kind === "approval";
      const text = allow ? "once" : "Denied: nobody is there to ask.";
      await runtime.answer({ session, call, allow, text, by: "unattended" });
    }
  } catch (error) {
    log("warn", "http.unattended", { session, turn: id, error: messageOf(error) });
  }
}

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

/** OpenAI's clients send again whatever ended with 409 or 5xx, which would be a second turn. */
export const NO_RETRY = { "X-Should-Retry": "false" };

/** Why a turn that is over has no answer. */
export function endProblem({ status, error }: Run): Problem {
  if (status === "failed") return problem(502, "run_failed", error ?? "The run failed.");
  if (status === "cancelled") return problem(409, "run_cancelled", "The run was stopped before it had an answer.");
  return problem(409, "run_interrupted", "A newer message in this session took over before there was an answer.");
}

export const connectionLost = (): Problem =>
  problem(502, "connection_lost", "The connection to the model was lost in the middle of the answer; ask again.");

export const unfinished = (): Problem =>
  problem(
    503,
    "gateway_draining",
    "The server restarts before this turn is done; it goes on afterwards. Ask again with the same Idempotency-Key.",
  );
