// What goes over the wire to whoever is told of a run's end, and what their answer means.
import { createHmac } from "node:crypto";
import type { Random } from "../../core/ports.ts";
import type { Run } from "../../core/run.ts";
import type { Announcement } from "../../core/store.ts";

type Letter = { headers: Record<string, string>; body: string };
/** "told", or what went wrong; `final`: trying again would not help. */
export type DeliveryVerdict = "told" | { error: string; final: boolean; retryAfter: string | null };

/** `now` is part of what is signed: a copy that somebody kept is known by its age. */
export function letterOf(
  { id, session }: Pick<Announcement, "id" | "session">,
  run: Run,
  { secret, now }: { secret: string; now: number },
): Letter {
  const event = `run.${run.status}`;
  const { input, output } = run.usage;
  const body = JSON.stringify({
    event,
    run_id: run.id,
    session_id: session,
    status: run.status,
    ...(run.status === "completed" && { output: run.output }),
    ...(run.status === "failed" && { error: run.error ?? "The run failed." }),
    usage: { input_tokens: input, output_tokens: output, total_tokens: input + output },
    created_at: run.createdAt / 1_000,
    updated_at: run.updatedAt / 1_000,
  });
  const timestamp = String(Math.floor(now / 1_000));
  const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
  return {
    headers: {
      "Content-Type": "application/json; charset=utf-8",
      "User-Agent": "hermes",
      "X-Hermes-Event": event,
      "X-Hermes-Delivery": String(id),
      "X-Hermes-Timestamp": timestamp,
      "X-Hermes-Signature": `sha256=${signature}`,
    },
    body,
  };
}

/** A 4xx says that the letter itself is wrong, except for these: come later. */
const COME_LATER = new Set([408, 409, 425, 429]);

export function verdictOf({ status, retryAfter }: { status: number; retryAfter: string | null }): DeliveryVerdict {
  if (status >= 200 && status < 300) return "told";
  const final = status >= 400 && status < 500 && !COME_LATER.has(status);
  const where = status >= 300 && status < 400 ? ", which points elsewhere and is not followed" : "";
  return { error: `answered ${status}${where}`, final, retryAfter };
}

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const BACKOFF = [SECOND, 5 * SECOND, 30 * SECOND, 120 * SECOND, 600 * SECOND, HOUR];

/** How long to wait after so many attempts; null: it is given up. */
export function backoff(
  attempts: number,
  { retryAfter, now, random }: { retryAfter: string | null; now: number; random: Random },
): number | null {
  const usual = BACKOFF[attempts - 1];
  if (usual === undefined) return null;
  // Jitter only makes it later: nobody is called sooner than they asked for.
  return Math.round(Math.max(usual, asked(retryAfter, now)) * (1 + random() / 4));
}

/** `Retry-After` in milliseconds, as seconds or as a date; at most an hour, 0 where it says nothing. */
function asked(retryAfter: string | null, now: number): number {
  if (retryAfter === null) return 0;
  const ms = /^\s*\d+\s*$/.test(retryAfter) ? Number(retryAfter) * SECOND : Date.parse(retryAfter) - now;
  return Number.isNaN(ms) ? 0 : Math.max(0, Math.min(ms, HOUR));
}
