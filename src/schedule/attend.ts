// Scheduled turns have nobody to ask: what they ask is answered at once, as their job says.

import { messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Ask, Entry } from "../core/session.ts";
import { jobSession } from "../core/session-key.ts";
import type { KeptJobs } from "./jobs.ts";

type Options = { runtime: Pick<Runtime, "answer" | "status">; jobs: Pick<KeptJobs, "get">; log: Log };

export function createAttend({ runtime, jobs, log }: Options) {
  async function answer(id: string, call: string, kind: Ask["kind"]): Promise<void> {
    const allow = kind === "approval" && (await jobs.get(id))?.unattended === "allow";
    const text = allow ? "Allowed: nobody is there, and the job allows it." : "Denied: nobody is there to ask.";
    await runtime.answer({ session: jobSession(id), call, allow, text, by: "unattended" });
  }

  return {
    observe(id: string, entries: readonly Entry[]): void {
      for (const entry of entries)
        if (entry.kind === "asked")
          answer(id, entry.call, entry.ask.kind)
            // In time, silence is a no as well.
            .catch((error: unknown) => log("warn", "schedule.unanswered", { job: id, error: messageOf(error) }));
    },
    /** What was asked before anybody looked on. */
    async catchUp(id: string): Promise<void> {
      const { asking } = await runtime.status(jobSession(id));
      for (const { call, kind } of asking) await answer(id, call, kind);
    },
  };
}
