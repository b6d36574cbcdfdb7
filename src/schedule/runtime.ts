// A runtime, and what the scheduler makes of a stop: the goal of the session is paused with it.
import type { Log } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import { logFailure } from "../platform/log-failure.ts";
import type { Scheduler } from "./scheduler.ts";

export function withGoals<R extends Runtime>(runtime: R, scheduler: Pick<Scheduler, "stopGoal">, log: Log): R {
  const stop: Runtime["stop"] = async (request) => {
    const { session } = request;
    // The turn is stopped whatever comes of the goal; a step that ended as stopped pauses the goal too.
    const paused = scheduler.stopGoal(session).catch(logFailure(log, "error", "goal.unpaused", { session }));
    const stopped = await runtime.stop(request);
    await paused;
    return stopped;
  };
  return { ...runtime, stop };
}
