// Background processes: they outlive the turn and a plain stop, and end with us.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Log, RunningProcesses } from "../../core/ports.ts";
import type { Unattended } from "../../core/session.ts";
import { readTail } from "../../platform/confined.ts";
import { logFailure } from "../../platform/log-failure.ts";
import type { LocalState } from "../local-state.ts";
import { type ExecOptions, endOwned, type Result, type RunningProcess, start } from "./exec.ts";

export type Background = {
  readonly id: string;
  readonly session: string;
  /** Nobody can be asked in the turn that started it. */
  readonly unattended?: Unattended;
  readonly command: string;
  readonly cwd: string;
  /** All that it prints. */
  readonly file: string;
  readonly startedAt: number;
  readonly running: RunningProcess;
  /** Null while it runs. */
  result: Result | null;
  /** After its end, when nothing of it is left to be done. */
  readonly left: Promise<unknown>;
};
export type Processes = ReturnType<typeof createProcesses>;
export type ProcessOptions = Pick<ExecOptions, "cwd" | "sandbox" | "env" | "limits"> & {
  outputs: string;
  notify: boolean;
  unattended?: Unattended | undefined;
  /** When it is over, or could not be started. */
  onEnd: () => Promise<unknown>;
};

const MOST_RUNNING = 20;
/** Finished ones, over all sessions: each holds up to 150 kB of its output. */
const MOST_REMEMBERED = 100;

export function createProcesses(options: {
  /** `ownerHere(home)` */
  owner: string;
  log: Log;
  /** Where it is noted that they run here. */
  notes: Pick<LocalState, "starts" | "ended">;
  onComplete: (process: Background, result: Result) => void;
}) {
  const { owner, log, notes, onComplete } = options;
  const all = new Map<string, Background>();
  const list = (session: string) => [...all.values()].filter((process) => process.session === session);
  let open = true;

  const whyNot = (others: Background[]): string | null => {
    if (!open) return "Not started: the program is shutting down.";
    if (others.filter(isRunning).length < MOST_RUNNING) return null;
    return `Not started: ${MOST_RUNNING} background processes are running. End one first (process, action kill).`;
  };

  /** A text: why not. */
  async function begin(session: string, command: string, how: ProcessOptions): Promise<Background | string> {
    const others = list(session);
    const no = whyNot(others);
    if (no) await how.onEnd();
    if (no) return no;
    const { outputs, notify, unattended, onEnd, ...rest } = how;
    const id = `bg_${randomBytes(4).toString("hex")}`;
    const file = join(outputs, `${id}.txt`);
    await notes.starts(session, { id, command });
    const running = await start(command, {
      ...rest,
      marker: `${id}-${randomBytes(8).toString("hex")}`,
      owner,
      stdin: "open",
      background: true,
      spool: { file, always: true },
    });
    const process: Background = {
      id,
      session,
      ...(unattended && { unattended }),
      command,
      cwd: rest.cwd,
      file,
      startedAt: Date.now(),
      running,
      result: null,
      left: running.done.then(onEnd),
    };
    all.set(id, process);
    running.done
      .then((result) => {
        process.result = result;
        const finished = [...all.values()].filter((other) => !isRunning(other));
        for (const old of finished.slice(0, -MOST_REMEMBERED)) all.delete(old.id);
        if (result.survivors > 0) log("warn", "process.survived", { session, id, survivors: result.survivors });
        // What ends because we leave was not to end: the next process says so.
        const unnoted = open ? notes.ended(session, id) : null;
        if (notify && open && !result.aborted) onComplete(process, result);
        return unnoted;
      })
      .catch(logFailure(log, "error", "process.unsettled", { session, id }));
    return process;
  }

  /** Those that run, of all sessions. */
  const running = () => [...all.values()].filter(isRunning);
  /** Those of one session (`/stop all`). */
  const endAll = async (session: string) => void (await Promise.all(list(session).map(end)));

  return {
    start: begin,
    list,
    running,
    get: (session: string, id: string) => list(session).find((process) => process.id === id) ?? null,
    endAll,
    /** Ends those of one session, and remembers none of them. */
    async forget(session: string) {
      await endAll(session);
      for (const { id } of list(session)) all.delete(id);
    },
    /** Ends everything that tools of this process have started. */
    close: async () => {
      open = false;
      await Promise.all(running().map(end));
      await Promise.all([...all.values()].map((process) => process.left));
      const { left } = await endOwned(owner);
      if (left > 0) log("warn", "process.survived", { survivors: left });
    },
  };
}

/** Says how many of its processes could not be ended. */
export async function end({ running }: Background): Promise<number> {
  const { left } = await running.stop();
  await running.done;
  return left;
}

/** Bytes of output that are shown of each. */
const SHOWN = 2_000;

/** For whoever looks after the whole machine. */
export const runningProcesses = (running: () => readonly Background[]): RunningProcesses => ({
  list: () =>
    Promise.all(
      running().map(async ({ id, session, command, cwd, startedAt, file }) => {
        const tail = await readTail(file, SHOWN).catch(() => Buffer.alloc(0)); // nothing printed yet
        return { id, session, command, cwd, startedAt, output: tail.toString().toWellFormed() };
      }),
    ),
  async end(id) {
    const process = running().find((one) => one.id === id);
    if (process) await end(process);
    return process !== undefined;
  },
});

export const isRunning = ({ result }: Background) => result === null;
