// What the commands share: environment, output and exit codes.
import { InvalidArgumentError } from "commander";
import { isTerminal } from "../platform/logline.ts";

/** Exit codes, by sysexits.h where it has one. */
export const EXIT = { ok: 0, failed: 1, usage: 2, config: 78 };
/** For docs/cli.md and the man page. */
export const EXIT_CODES: Readonly<Record<number, string>> = {
  0: "done, or stopped on request",
  1: "failed; the message says why, and an error of the program is also in the log",
  2: "the command line was not understood, or something is missing on it",
  3: "gateway status: the gateway is not running",
  75: "the gateway asks the service manager for a restart",
  78: "cannot start, and starting again will not help: wrong configuration, a HERMES_HOME that cannot be used, or no Node 24",
  129: "chat: the terminal is gone",
  130: "left or stopped with Ctrl+C",
  143: "chat: ended by SIGTERM",
};

export const { env } = process;
export const colour = isTerminal(process.stdout, env);
export const print = (text: string) => new Promise<void>((resolve) => process.stdout.write(text, () => resolve()));
export const complain = (line: string) => console.error(`hermes: ${line}`);

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}
