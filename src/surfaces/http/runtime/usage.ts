// /api/usage: tokens and cost of model calls by day, model and session, counted from the journal. What was counted of a session is kept, so
// that only its new entries are read the next time. A request counts for a moment and says how many entries are left: journals of
// months are counted by several requests.
import * as z from "zod";
import { costOf, type Prices } from "../../../conversation/cost.ts";
import { createBounded } from "../../../core/bounded.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { Clock } from "../../../core/ports.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { Usage } from "../../../core/session.ts";
import type { SessionPlace, SessionSummary } from "../../../core/store.ts";
import { usagePlus } from "../../../core/usage.ts";
import { parse } from "../server/body.ts";
import { ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

/** The usage of one model in one hour. */
type HourUsage = { hour: number; model: string; calls: number; usage: Usage };
type CountedSession = { seq: number; hours: Map<string, HourUsage> };

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PAGE = 200;
/** Sessions that are counted, the newest ones. */
const MOST_SESSIONS = 5_000;
const MOST_HOURS_KEPT = 100_000;
/** For which one request reads journals. */
const COUNTING_MS = 300;

const query = z.object({
  days: z.coerce.number().int().min(1).max(366).default(30),
  offset: z.coerce
    .number()
    .int()
    .min(-18 * 60)
    .max(18 * 60)
    .default(0),
});

export function usageRoutes(runtime: Runtime, { prices, clock }: { prices: Prices; clock: Clock }): Route[] {
  const kept = createBounded<CountedSession>(MOST_HOURS_KEPT);

  async function countedIn({ session, entries, createdAt }: SessionSummary, until: number): Promise<CountedSession> {
    const key = `${createdAt} ${session}`; // it may have been deleted and begun anew
    const counted = kept.get(key) ?? { seq: 0, hours: new Map() };
    if (counted.seq < entries && clock.monotonic() < until)
      for await (const page of pagesOf(runtime, session, counted.seq)) {
        for (const entry of page) {
          if (entry.seq <= counted.seq) continue; // another request has counted it meanwhile
          counted.seq = entry.seq;
          if (entry.kind !== "thought") continue;
          const hour = Math.floor(entry.at / HOUR_MS);
          const row = `${hour} ${entry.model}`;
          const { calls, usage } = counted.hours.get(row) ?? { calls: 0, usage: { input: 0, output: 0 } };
          counted.hours.set(row, { hour, model: entry.model, calls: calls + 1, usage: usagePlus(usage, entry.usage) });
        }
        if (clock.monotonic() >= until) break;
      }
    kept.set(key, counted, counted.hours.size + 1);
    return counted;
  }

  async function sessionsSince(since: number): Promise<SessionSummary[]> {
    const all: SessionSummary[] = [];
    let after: SessionPlace | null = null;
    while (all.length < MOST_SESSIONS) {
      const page: SessionSummary[] = await runtime.sessions({ limit: PAGE, ...(after && { after }) });
      const recent = page.filter(({ updatedAt }) => updatedAt >= since);
      all.push(...recent);
      after = recent.at(-1) ?? null;
      if (recent.length < PAGE) break;
    }
    return all;
  }

  return [
    route("GET", "/api/usage", {
      summary: "Tokens and cost of model calls, by day, model and session",
      query: { days: "1 to 366 (30)", offset: "Minutes that the reader's clock is ahead of UTC: where days begin" },
      answers: {
        200: "Rows: one for each day, model and session. `left`: journal entries that the next requests count",
      },
      async handle({ query: given }) {
        const { days, offset } = parse(query, Object.fromEntries(given));
        const dayOf = (hour: number) => new Date(hour * HOUR_MS + offset * 60_000).toISOString().slice(0, 10);
        const since = clock.now() - days * DAY_MS;
        const sessions = await sessionsSince(since);
        const until = clock.monotonic() + COUNTING_MS;
        const data = [];
        let left = 0;
        for (const summary of sessions) {
          const rows = new Map<string, { day: string; model: string; calls: number; usage: Usage }>();
          const { seq, hours } = await countedIn(summary, until);
          left += Math.max(0, summary.entries - seq);
          for (const { hour, model, calls, usage } of hours.values()) {
            if ((hour + 1) * HOUR_MS < since) continue;
            const day = dayOf(hour);
            const row = rows.get(`${day} ${model}`) ?? { day, model, calls: 0, usage: { input: 0, output: 0 } };
            rows.set(`${day} ${model}`, { day, model, calls: row.calls + calls, usage: usagePlus(row.usage, usage) });
          }
          for (const { day, model, calls, usage } of rows.values())
            data.push({
              day,
              model,
              session_id: summary.session,
              title: summary.title,
              calls,
              input_tokens: usage.input,
              output_tokens: usage.output,
              cached_tokens: usage.cached ?? 0,
              cost: costOf(prices, model, usage),
            });
        }
        return ok({ object: "list", data, left });
      },
    }),
  ];
}
