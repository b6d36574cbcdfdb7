// The queue of calls to one provider: one at a time, each with a time limit. A provider that keeps failing is suspended
// for a while, so that it delays nobody.
import { messageOf } from "../core/errors.ts";
import type { Ambient } from "../core/ports.ts";
import { backoff, onAbort, within } from "../core/wait.ts";
import type { MemoryProvider } from "./provider.ts";

type How = {
  signal?: AbortSignal;
  /** Goes before the waiting calls, because somebody waits for the answer. */
  first?: boolean;
  /** Need not be finished before we exit. */
  idly?: boolean;
  /** If the signal aborts a running call, still wait for its end. */
  patient?: boolean;
};

export type Lane = ReturnType<typeof createLane>;

type Options = Ambient & {
  name: string;
  redact(text: string): string;
  limitMs: number;
  /** Called when a call is over. */
  changed(): void;
};

type LaneJob = {
  /** Returns a function that passes the result to the caller. */
  run(): Promise<() => void>;
  refuse(error: unknown): void;
  /** Its signal. */
  abort: AbortController;
  /** Ends the wait for the time limit. */
  limit: AbortController;
  first: boolean;
  idly: boolean;
  /** The caller is gone. */
  forsaken: boolean;
};

const MOST_WAITING = 1_000;
const FAILURES = 5;
const SUSPENDED_MS = { first: 60_000, most: 1_800_000 };
const LONGEST_ERROR = 300;

export function createLane({ name, clock, log, redact, limitMs, changed }: Options) {
  const waiting: LaneJob[] = [];
  let running: LaneJob | null = null;
  let driving = false;
  let closed = false;
  /** In a row. */
  let failures = 0;
  let lastError = "";
  let suspendedUntil: number | null = null;
  /** In a row. */
  let suspensions = 0;

  const suspended = () => suspendedUntil !== null && clock.now() < suspendedUntil;
  const notAsked = (why: string) => new Error(`The memory "${name}" was not asked: ${why}.`);

  /** Rejects if the work rejects, at its time limit, if the signal aborts, and at once while the provider is suspended. */
  function call<T>(work: (signal: AbortSignal) => Promise<T>, how: How = {}): Promise<T> {
    return new Promise((resolve, reject) => {
      const { signal, first = false, idly = false, patient = false } = how;
      const full = waiting.length >= MOST_WAITING ? `${MOST_WAITING} calls wait already` : null;
      const why = signal?.aborted ? "nobody waits for it any more" : (barred() ?? full);
      if (why) return reject(notAsked(why));
      const abort = new AbortController();
      const forsake = () => {
        job.forsaken = true;
        abort.abort();
        if (running === job && patient) return;
        const at = waiting.indexOf(job);
        if (at >= 0) waiting.splice(at, 1);
        job.refuse(new Error(`The memory "${name}" was asked to stop.`));
        changed();
      };
      const job: LaneJob = {
        run: async () => {
          const value = await work(abort.signal);
          return () => {
            release();
            resolve(value);
          };
        },
        refuse: (error) => {
          release();
          reject(error);
        },
        abort,
        limit: new AbortController(),
        first,
        idly,
        forsaken: false,
      };
      const release = onAbort(signal, forsake);
      waiting.splice(first ? waiting.findLastIndex((other) => other.first) + 1 : waiting.length, 0, job);
      if (!driving) void drive();
    });
  }

  function barred(): string | null {
    if (closed) return "it is closed";
    if (suspendedUntil === null || !suspended()) return null;
    const until = new Date(suspendedUntil).toISOString();
    return `it failed ${failures} times and is left alone until ${until} (${lastError})`;
  }

  async function drive(): Promise<void> {
    driving = true;
    for (let job = next(false); job; job = next(job.first)) {
      running = job;
      await Promise.resolve(); // the caller continues first, however long the start takes
      const why = job.forsaken ? "nobody waits for it any more" : barred();
      if (why) job.refuse(notAsked(why));
      else await perform(job);
      running = null;
      changed();
    }
    driving = false;
  }

  /** After a call that went first, one of the waiting calls runs, so none waits for ever. */
  function next(wasFirst: boolean): LaneJob | undefined {
    const patient = wasFirst ? waiting.findIndex(({ first }) => !first) : 0;
    return waiting.splice(Math.max(0, patient), 1)[0];
  }

  async function perform(job: LaneJob): Promise<void> {
    try {
      const give = await within(clock, limitMs, job.run(), job.limit.signal);
      if (!give && !job.limit.signal.aborted) throw new Error(`no answer within ${limitMs / 1_000} s`);
      if (!closed) succeeded();
      give?.();
    } catch (error) {
      if (!job.forsaken && !closed) failed(error); // our own abort is not a failure of the provider (I12)
      job.refuse(error);
    } finally {
      job.limit.abort("ended");
      job.abort.abort("over"); // a late call may still listen; its result is ignored
    }
  }

  function succeeded() {
    if (suspendedUntil !== null) log("info", "memory.recovered", { provider: name, failures });
    failures = 0;
    suspendedUntil = null;
    suspensions = 0;
  }

  function failed(error: unknown) {
    failures++;
    lastError = redact(messageOf(error).slice(0, 4 * LONGEST_ERROR)).slice(0, LONGEST_ERROR);
    log("debug", "memory.call_failed", { provider: name, failures, error: lastError });
    if (failures < FAILURES) return;
    const suspendMs = backoff(suspensions++, SUSPENDED_MS);
    suspendedUntil = clock.now() + suspendMs;
    log("warn", "memory.suspended", { provider: name, failures, seconds: suspendMs / 1_000, error: lastError });
  }

  return {
    call,
    /** Whether no call is left that must be finished before we exit. */
    settled: () => ![running, ...waiting].some((job) => job && !job.idly && !job.forsaken),
    suspended,
    health: () => ({
      name,
      state: suspended() ? "suspended" : failures > 0 ? "failing" : "ok",
      failures,
      lastError,
      pending: waiting.length + (running ? 1 : 0),
      suspendedUntil: suspended() ? suspendedUntil : null,
    }),
    /** Refuses waiting calls. Aborts the running call without waiting for it. */
    close() {
      closed = true;
      const left = [...(running ? [running] : []), ...waiting.splice(0)];
      for (const job of left) {
        job.refuse(new Error(`The memory "${name}" was closed.`));
        job.abort.abort("closed");
        job.limit.abort("closed");
      }
      changed();
    },
  };
}

/** A provider with its queue of calls; initialised before the first call. */
export type Member = { provider: MemoryProvider; lane: Lane; call: Lane["call"] };

export function createMember(provider: MemoryProvider, lane: Lane): Member {
  let ready = false;
  const call: Lane["call"] = (work, how) =>
    lane.call(async (signal) => {
      if (!ready) await provider.initialize?.(signal);
      ready = true;
      return work(signal);
    }, how);
  // Initialise early, so that its tools are known early; nobody waits for it.
  if (provider.initialize) call(() => Promise.resolve(), { idly: true }).catch(() => {});
  return { provider, lane, call };
}
