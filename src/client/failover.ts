// A runtime in a process that may leave. When it is lost, another one is found and used in its place: streams go on where
// they were, and what was asked for is asked for again.
import type { Runtime, Update } from "../core/runtime.ts";
import { unlessAborted, within } from "../core/wait.ts";
import { clock } from "../platform/clock.ts";
import { ServerLost } from "./remote.ts";

/** How long a request waits for the next one; a person who types is told after that. */
const PATIENCE_MS = 10_000;
const LOST = "The connection to the server is broken; trying again.";

/** `next` tries until it has one. */
export function createFailover(first: Runtime, next: () => Promise<Runtime>): Runtime {
  let current = first;
  let moving: Promise<void> | null = null;

  function replace(lost: Runtime): Promise<void> {
    if (current !== lost) return Promise.resolve();
    moving ??= next().then((found) => {
      current = found;
      moving = null;
    });
    return moving;
  }

  async function call<T>(use: (runtime: Runtime) => Promise<T>): Promise<T> {
    for (;;) {
      const asked = current;
      try {
        return await use(asked);
      } catch (error) {
        if (!(error instanceof ServerLost)) throw error;
        await within(clock, PATIENCE_MS, replace(asked));
        if (current === asked) throw error;
      }
    }
  }

  async function* follow(session: string, cursor: string, signal: AbortSignal): AsyncGenerator<Update> {
    for (let at = cursor; ; ) {
      const asked = current;
      try {
        for await (const update of asked.follow(session, at, signal)) {
          at = update.cursor;
          yield update;
        }
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ServerLost)) throw error;
      }
      yield { cursor: at, notice: LOST };
      await unlessAborted(replace(asked), signal).catch(() => {});
      if (signal.aborted) return;
      yield { cursor: at, notice: "" };
    }
  }

  const again =
    (method: string) =>
    (...args: unknown[]): Promise<unknown> =>
      call((runtime) => Reflect.apply(Reflect.get(runtime, method), runtime, args));
  const calls: unknown = Object.fromEntries(Object.keys(first).map((method) => [method, again(method)]));
  return {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each method of the first, with its arguments and its result
    ...(calls as Runtime),
    follow,
    idOf: (...name) => current.idOf(...name),
    draining: () => current.draining(),
    announcements: first.announcements,
    notes: first.notes,
  };
}

/** A runtime that goes on for a server. It names inputs as that did (`POST /api/sessions/:id/messages`), so that one which the
 *  server had taken just before it was lost is not taken twice (I3). */
export const successorOf = (runtime: Runtime): Runtime => ({
  ...runtime,
  accept: (request) => runtime.accept({ ...request, source: "api", key: `${request.source}:${request.key}` }),
});
