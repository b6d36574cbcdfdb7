// What the routes that speak OpenAI's protocol share: a turn is watched to its end.
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { followTurn } from "../../../conversation/follow-turn.ts";
import { messageOf } from "../../../core/errors.ts";
import { isOver, isPaused, newRun, type Run, takeEntry } from "../../../core/run.ts";
import type { Receipt, Update } from "../../../core/runtime.ts";
import type { Entry } from "../../../core/session.ts";
import { forGood, isNamed } from "../runs/start.ts";
import { Problem, problem } from "../server/problem.ts";
import { type Api, problemOf } from "../server/route.ts";

/** `cursor`: just before it was accepted. `part`: it is taken up behind this entry, where it had waited for its client. */
export type StartedTurn = Pick<Receipt, "id" | "session" | "cursor"> & { part?: number };

/** The part of a turn that one request is answered with: to its end, or to where it waits for its client. */
export function createPart({ id, part = 0 }: Pick<StartedTurn, "id" | "part">) {
  let run: Run | null = null;
  let thought = false;
  return {
    run: () => run,
    take(entry: Entry): void {
      run ??= newRun({ id, at: entry.at });
      takeEntry(run, entry);
      if (entry.seq <= part) run.usage = { input: 0, output: 0 };
      else thought ||= entry.kind === "thought"; // before it, results come in one by one
    },
    rests: () => run !== null && (isOver(run) || (thought && isPaused(run))),
  };
}

/** All of a part of a turn, each with the run as it is by then. `rests`: it is the end. Without one: the signal aborted, or we left. */
export async function* watchTurn(
  { runtime }: Pick<Api, "runtime">,
  turn: StartedTurn,
  signal: AbortSignal,
): AsyncGenerator<{ update: Update; run: Run; rests: boolean }> {
  const part = createPart(turn);
  const past = (entry: Entry) => {
    if (turn.part !== undefined) part.take(entry);
  };
  for await (const update of followTurn(runtime, { ...turn, past }, signal)) {
    if ("entry" in update) part.take(update.entry);
    const run = part.run();
    if (run) yield { update, run, rests: part.rests() };
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
    isEmpty: (run: string): boolean => !sizes.has(run),
    /** True: nobody is left. */
    leave(run: string): boolean {
      const left = (sizes.get(run) ?? 1) - 1;
      if (left) sizes.set(run, left);
      else sizes.delete(run);
      return left === 0;
    },
  };
}

/** Why a turn that is over has no answer. */
export function endProblem({ status, error }: Run): Problem {
  if (status === "failed") return forGood("run_failed", error ?? "The run failed.");
  if (status === "cancelled") return forGood("run_cancelled", "The run was stopped before it had an answer.");
  return forGood("run_interrupted", "A newer message in this session took over before there was an answer.");
}

/** What went wrong after a turn began: who would begin a second one by sending the request again must not send it. */
export function begunProblem(api: Api, headers: IncomingHttpHeaders, turn: StartedTurn, error: unknown): Problem {
  const wrong = error instanceof Problem ? error : streamProblem(api, turn, error);
  if (wrong.status < 500 || isNamed(headers)) return wrong;
  const { "Retry-After": _, ...kept } = wrong.headers;
  return forGood(wrong.code ?? "internal_error", wrong.message, kept);
}

/** A stream that has begun says in its own way what went wrong. */
export function streamProblem({ log }: Api, { id }: StartedTurn, error: unknown): Problem {
  log("error", "http.stream", { turn: id, error: messageOf(error) });
  return problemOf(error) ?? problem(500, "internal_error", "Something went wrong here; the server's log says what.");
}

export const hexOf = (run: string): string => run.replace(/^run_/, "");
