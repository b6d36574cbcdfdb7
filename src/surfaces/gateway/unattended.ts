// Turns that nobody watches: their questions are answered at once, as configured.
import { messageOf } from "../../core/errors.ts";
import type { Log } from "../../core/ports.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Entry } from "../../core/session.ts";

export function answerUnattended(
  runtime: Pick<Runtime, "answer">,
  isUnattended: (session: string) => boolean,
  policy: "deny" | "allow",
  log: Log,
): (session: string, entries: readonly Entry[]) => void {
  return (session, entries) => {
    if (!isUnattended(session)) return;
    for (const entry of entries) {
      if (entry.kind !== "asked") continue;
      const allow = policy === "allow" && entry.ask.kind === "approval";
      const text = allow ? "Allowed: nobody is there, and that is configured." : "Denied: nobody is there to ask.";
      void runtime
        .answer({ session, call: entry.call, allow, text, by: "unattended" })
        .catch((error: unknown) => log("warn", "unattended.failed", { session, error: messageOf(error) }));
    }
  };
}
