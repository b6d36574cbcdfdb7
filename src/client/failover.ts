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

  return {
    accept: (request) => call((runtime) => runtime.accept(request)),
    stop: (stop) => call((runtime) => runtime.stop(stop)),
    answer: (answer) => call((runtime) => runtime.answer(answer)),
    grants: (session) => call((runtime) => runtime.grants(session)),
    granted: () => call((runtime) => runtime.granted()),
    revoke: (...grant) => call((runtime) => runtime.revoke(...grant)),
    withdraw: (...input) => call((runtime) => runtime.withdraw(...input)),
    move: (...input) => call((runtime) => runtime.move(...input)),
    status: (session) => call((runtime) => runtime.status(session)),
    idOf: (...name) => current.idOf(...name),
    whereabouts: (input) => call((runtime) => runtime.whereabouts(input)),
    run: (turn) => call((runtime) => runtime.run(turn)),
    turn: (id) => call((runtime) => runtime.turn(id)),
    follow,
    sessions: (page) => call((runtime) => runtime.sessions(page)),
    summary: (session) => call((runtime) => runtime.summary(session)),
    search: (...query) => call((runtime) => runtime.search(...query)),
    entries: (...page) => call((runtime) => runtime.entries(...page)),
    retitle: (...title) => call((runtime) => runtime.retitle(...title)),
    create: (begun) => call((runtime) => runtime.create(begun)),
    fork: (fork) => call((runtime) => runtime.fork(fork)),
    restoreFiles: (what) => call((runtime) => runtime.restoreFiles(what)),
    fileChanges: (what) => call((runtime) => runtime.fileChanges(what)),
    forget: (session) => call((runtime) => runtime.forget(session)),
    announcements: first.announcements,
    notes: first.notes,
    draining: () => current.draining(),
    paused: () => call((runtime) => runtime.paused()),
    pause: (by) => call((runtime) => runtime.pause(by)),
    resume: () => call((runtime) => runtime.resume()),
    load: () => call((runtime) => runtime.load()),
  };
}

/** A runtime that goes on for a server. It names inputs as that did (`POST /api/sessions/:id/messages`), so that one which the
 *  server had taken just before it was lost is not taken twice (I3). */
export const successorOf = (runtime: Runtime): Runtime => ({
  ...runtime,
  accept: (request) => runtime.accept({ ...request, source: "api", key: `${request.source}:${request.key}` }),
});
