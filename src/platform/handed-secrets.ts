// Secrets of our environment, handed over through a descriptor: what a process was started with stays readable for every process
// of its user (/proc/PID/environ), whatever it does later. `bin/hermes` takes them out of the environment that Node gets, and
// so does whoever starts us again. What comes in are lines, NAME=value.
import { closeSync, readFileSync } from "node:fs";

/** Also of variables that are not ours. */
export const isSecretVariable = (name: string): boolean =>
  /TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|_KEY$|COOKIE/i.test(name);

const NAME = "HERMES_SECRETS_FD";
/** Not one of the first: service managers and shells use those. */
export const SECRETS_FD = 9;

/** Puts what was handed to us where the rest of the program looks for it: only in our own memory. */
export function takeSecrets(env: NodeJS.ProcessEnv): void {
  const fd = Number(env[NAME]);
  delete env[NAME];
  if (!Number.isInteger(fd) || fd < 3) return;
  for (const line of contentOf(fd).split("\n")) {
    const [, name, value] = /^(\w+)=(.*)$/s.exec(line) ?? [];
    if (name !== undefined) env[name] = value;
  }
}

function contentOf(fd: number): string {
  try {
    const text = readFileSync(fd, "utf8");
    closeSync(fd);
    return text;
  } catch {
    return ""; // the variable came from somewhere else than from our launcher
  }
}

/** For a program that takes them: an environment without secrets, and what to write into its descriptor. */
export function handOver(env: NodeJS.ProcessEnv): { env: NodeJS.ProcessEnv; text: string } {
  const rest: NodeJS.ProcessEnv = { [NAME]: String(SECRETS_FD) };
  let text = "";
  // A line end would be the end of the value.
  for (const [name, value = ""] of Object.entries(env))
    if (isSecretVariable(name) && !value.includes("\n")) text += `${name}=${value}\n`;
    else rest[name] = value;
  return { env: rest, text };
}
