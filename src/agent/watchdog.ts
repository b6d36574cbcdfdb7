// One model call that cannot hang: no sign of life for too long ends it as a fault of the provider's. Our own abort is
// told apart by whose signal it was, never by the error it causes (I12).
import type { Clock, Model, ModelRequest, ModelResult, ModelSink } from "../core/ports.ts";
import { linked } from "../core/wait.ts";

/** Looks in the time after which silence is too long. */
const LOOKS = 8;
/** How long a call that was aborted for its silence may take to end. */
const DEAF_MS = 2_000;

export async function watchedCall(
  { clock, model, request, staleMs }: { clock: Clock; model: Model; request: ModelRequest; staleMs: number },
  hear: ModelSink,
  signal: AbortSignal,
): Promise<ModelResult> {
  if (signal.aborted) return { end: "aborted" };
  const call = linked([signal]);
  const over = new AbortController();
  let silent = 0;
  const alive = () => {
    silent = -1; // the look that is under way does not count
  };
  const ears: ModelSink = {
    alive,
    text: (text) => {
      alive();
      if (!call.signal.aborted) hear.text(text);
    },
    reasoning: (text) => {
      alive();
      if (!call.signal.aborted) hear.reasoning(text);
    },
  };

  async function watch(): Promise<ModelResult> {
    // Counted, not measured: the wall clock may be set, and a laptop may sleep.
    for (silent = 0; silent < LOOKS; silent++) {
      await clock.sleep(staleMs / LOOKS, over.signal);
      if (over.signal.aborted) return { end: "aborted" };
    }
    call.abort();
    await clock.sleep(DEAF_MS, over.signal);
    return stalled;
  }
  const stalled: ModelResult = {
    end: "fault",
    kind: "stalled",
    reason: `${model.name} sent nothing for ${Math.round(staleMs / 1_000)} s`,
  };

  try {
    const result = await Promise.race([model.call(request, ears, call.signal), watch()]);
    // Whatever it ended with: aborted by us it was us, aborted by the watchdog it was the silence.
    return signal.aborted ? { end: "aborted" } : call.signal.aborted ? stalled : result;
  } finally {
    call.release();
    over.abort("over");
  }
}

/** Long inputs take their time, local models more. */
export function staleMs(tokens: number, local: boolean): number {
  if (local) return 900_000;
  if (tokens > 100_000) return 300_000;
  return tokens > 50_000 ? 240_000 : 180_000;
}
