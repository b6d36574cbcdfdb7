// OpenAI's SDKs send a request again when its answer is lost, with `X-Stainless-Retry-Count` and no name for the request. The
// key of such a request is made of what it says, the hour, and a number: the retry finds the number of the first attempt, also
// in a process that was started in between.
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { createBounded } from "../../../core/bounded.ts";
import type { Clock } from "../../../core/ports.ts";
import { isOver } from "../../../core/run.ts";
import type { Runtime } from "../../../core/runtime.ts";

/** Requests whose numbers are at hand; of others they are found in the store. */
const MOST_REQUESTS = 10_000;
const HOUR_MS = 3_600_000;
/** So long after its end a turn is what a retry asks for. The SDKs wait 8 s at most before they send again. */
const RECENT_MS = 60_000;

/** So long the retry of an attempt that began nothing is waited for. */
const REFUSED_MS = 15_000;

/** `next`: how many turns this request has begun. `refused`: when attempts began none; the retry of each begins one. */
type Attempts = { next: number; refused: number[] };
export type Retries = ReturnType<typeof createRetries>;

export function createRetries(runtime: Pick<Runtime, "idOf" | "run" | "whereabouts">, clock: Clock) {
  const known = createBounded<Promise<Attempts>>(MOST_REQUESTS);
  const idOf = (key: string) => runtime.idOf("api", key);

  async function counted(series: string, attempts: Attempts): Promise<Attempts> {
    while (await runtime.whereabouts(idOf(`${series}:${attempts.next}`))) attempts.next++;
    return attempts;
  }

  function attemptsOf(series: string): Promise<Attempts> {
    const attempts = known.get(series) ?? counted(series, { next: 0, refused: [] });
    known.set(series, attempts);
    attempts.catch(() => known.delete(series));
    return attempts;
  }

  async function latestOf(series: string): Promise<string | null> {
    const { next } = await counted(series, await attemptsOf(series)); // another node may have begun one since
    const key = `${series}:${next - 1}`;
    const run = next > 0 ? await runtime.run(idOf(key)) : null;
    return run && (!isOver(run) || clock.now() - run.updatedAt < RECENT_MS) ? key : null;
  }

  return {
    /** The key of this attempt. `again`: it is not the first one. */
    async keyOf(request: string, again: boolean): Promise<string> {
      const hour = Math.floor(clock.now() / HOUR_MS);
      const series = `retry:${request}:${hour}`;
      const attempts = await attemptsOf(series);
      attempts.refused = attempts.refused.filter((at) => clock.now() - at < REFUSED_MS);
      if (again && !attempts.refused.shift()) {
        const latest = (await latestOf(series)) ?? (await latestOf(`retry:${request}:${hour - 1}`));
        if (latest) return latest;
      }
      return `${series}:${attempts.next++}`;
    },
    /** The attempt with this key began nothing. */
    refused(key: string): void {
      const [, series = "", number] = /^(.*):(\d+)$/.exec(key) ?? [];
      void known.get(series)?.then((attempts) => {
        attempts.refused.push(clock.now());
        if (attempts.next === Number(number) + 1) attempts.next--; // else the store would have a gap
      });
    },
  };
}

/** Null: whoever sends this does not say which attempt it is. */
export function attemptOf(headers: IncomingHttpHeaders): number | null {
  const count = headers["x-stainless-retry-count"];
  return typeof count === "string" && /^\d{1,3}$/.test(count) ? Number(count) : null;
}

export const digestOf = (request: unknown): string =>
  createHash("sha256").update(JSON.stringify(request)).digest("hex").slice(0, 32);
