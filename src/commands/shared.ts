// What the commands share: environment, output and exit codes.
import { InvalidArgumentError } from "commander";
import { isTerminal } from "../platform/logline.ts";

/** Exit codes, by sysexits.h where it has one (docs/cli.md). */
export const EXIT = { ok: 0, failed: 1, usage: 2, config: 78 };

export const { env } = process;
export const colour = isTerminal(process.stdout, env);
export const print = (text: string) => new Promise<void>((resolve) => process.stdout.write(text, () => resolve()));
export const complain = (line: string) => console.error(`hermes: ${line}`);

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}
