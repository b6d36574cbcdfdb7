// The background processes of all sessions, for whoever looks after the whole machine.
import type { RunningProcesses } from "../../core/ports.ts";
import { readTail } from "../../platform/confined.ts";
import { type Background, end } from "./processes.ts";

/** Bytes of output that are shown of each. */
const SHOWN = 2_000;

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
