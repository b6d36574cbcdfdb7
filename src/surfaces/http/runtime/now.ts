// /api/now and /api/changes: what runs and waits in all sessions, and a stream that says where something has changed. For whoever shows
// many sessions at once.
import type { Clock } from "../../../core/ports.ts";
import type { Runtime } from "../../../core/runtime.ts";
import { onAbort } from "../../../core/wait.ts";
import { ok, type Route, routeTagged, streamed } from "../server/route.ts";
import { shown } from "../sessions/sessions.ts";

const route = routeTagged("sessions");

/** Sessions at work that are looked at; the newest ones. */
const MOST = 200;
/** SessionChanges of this time are told together. */
const PAUSE_MS = 200;
/** Beyond so many, "anything" is said instead. */
const MOST_CHANGED = 1_000;

export type SessionChanges = ReturnType<typeof createChanges>;

export function createChanges(clock: Clock) {
  const readers = new Set<(session: string) => void>();
  return {
    observe(session: string): void {
      for (const tell of readers) tell(session);
    },
    /** The sessions that have changed since the last time. Null: any may have. */
    async *follow(signal: AbortSignal): AsyncGenerator<string[] | null> {
      let changed = new Set<string>();
      let wake = Promise.withResolvers<void>();
      const tell = (session: string) => {
        if (changed.size <= MOST_CHANGED) changed.add(session);
        wake.resolve();
      };
      const release = onAbort(signal, () => wake.resolve());
      readers.add(tell);
      try {
        yield null; // what was before this reader came
        while (!signal.aborted) {
          await wake.promise;
          await clock.sleep(PAUSE_MS, signal);
          if (signal.aborted) return;
          const told = changed;
          changed = new Set();
          wake = Promise.withResolvers();
          yield told.size > MOST_CHANGED ? null : [...told];
        }
      } finally {
        readers.delete(tell);
        release();
      }
    },
  };
}

export const nowRoutes = (runtime: Runtime, changes: Pick<SessionChanges, "follow">): Route[] => [
  route("GET", "/api/now", {
    summary: "List the sessions in which something runs, waits or asks",
    answers: { 200: "The sessions, each with its status" },
    async handle() {
      const rows = await runtime.sessions({ active: true, limit: MOST });
      const data = await Promise.all(
        rows.map(async (row) => ({ ...shown(row), status: await runtime.status(row.session) })),
      );
      return ok({ object: "list", data, draining: runtime.draining() });
    },
  }),
  route("GET", "/api/changes", {
    summary: "Stream the ids of sessions that have changed; `null` means any session",
    answers: { 200: "Server-sent events" },
    gives: "text/event-stream",
    async handle({ stream }) {
      await stream(async function* (signal) {
        for await (const sessions of changes.follow(signal)) yield { data: { sessions } };
      });
      return streamed;
    },
  }),
];
