// A person's own command, typed into the terminal: their environment as it is, no sandbox, no questions, no time limit.
// It runs here, also when the turns run in a gateway.
import { randomUUID } from "node:crypto";

export type Shell = ReturnType<typeof createShell>;

/** It goes into a message, beside whatever else the person wants to say. */
const CAP_BYTES = 16 * 1024;

/** `home` is the directory whose next process ends what we leave behind when we are killed. */
export function createShell({ cwd, env, home }: { cwd: string; env: NodeJS.ProcessEnv; home: string }) {
  // Set, not passed: what is passed goes through the list of what tools may see.
  const all = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
  /** `text`: what a model may be shown, without control sequences, beginning and end where it is long. */
  return async (command: string, print: (text: string) => void, signal: AbortSignal) => {
    const { ownerHere, run } = await import("../tools/shell/exec.ts");
    let printed = false;
    const { code, output, stragglers, survivors } = await run(command, {
      cwd,
      env: all,
      signal,
      marker: randomUUID(),
      owner: ownerHere(home),
      capBytes: CAP_BYTES,
      onOutput: (text) => {
        printed = true;
        print(text);
      },
    });
    // Why it could not begin was printed by nobody.
    if (!printed && output) print(output);
    const ends = [
      stragglers > 0 ? `[${stragglers} process(es) it left running were ended]\n` : "",
      survivors > 0 ? `[${survivors} process(es) could not be ended]\n` : "",
    ].join("");
    const tail = ends && output && !output.endsWith("\n") ? `\n${ends}` : ends;
    if (tail) print(tail);
    return { code, text: output + tail };
  };
}
