// Turns that leave nothing behind: responses that are not to be stored, and questions beside a conversation.
import { messageOf } from "../../../core/errors.ts";
import { pagesOf } from "../../../core/pages.ts";
import { isOver } from "../../../core/run.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Api } from "../server/route.ts";
import { type StartedTurn, watchTurn } from "./openai-turn.ts";

/** No other turn is in its session. */
export async function isAlone(runtime: Runtime, { id, session }: { id: string; session: string }): Promise<boolean> {
  for await (const page of pagesOf(runtime, session))
    if (page.some((entry) => entry.kind === "accepted" && entry.input.id !== id)) return false;
  return true;
}

/** While its memory is being written a session cannot be forgotten yet. */
const FORGET_MS = [0, 1_000, 10_000, 60_000];

/** For a turn that was not to be stored. One in a session with others is part of what they go on from, and stays. Asked
 *  for again under its idempotency key it begins anew: what would tell us is forgotten too. */
export async function forget(api: Api, turn: StartedTurn): Promise<void> {
  const { runtime, clock, log, leaving } = api;
  const { session } = turn;
  try {
    for await (const { run } of watchTurn(api, turn, leaving)) if (isOver(run)) break;
    for (const ms of FORGET_MS) {
      await clock.sleep(ms, leaving);
      if (leaving.aborted || !(await isAlone(runtime, turn))) return;
      // A memory may still be told of it, but one that is down does not keep it.
      const { unsaved } = await runtime.status(session);
      if (unsaved.length && ms !== FORGET_MS.at(-1)) continue;
      if ((await runtime.forget(session)) !== "busy") return;
    }
    log("warn", "http.unforgotten", { session });
  } catch (error) {
    log("warn", "http.unforgotten", { session, error: messageOf(error) });
  }
}
