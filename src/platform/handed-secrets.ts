// Secrets from the environment, passed through a file descriptor. Every process of a user can read the environment with
// which another one was started (/proc/PID/environ), whatever that process does later. So `bin/hermes`, and our own
// restart, remove secrets from the environment of Node and pass them as lines NAME=value.
import { closeSync, readFileSync } from "node:fs";
import { attempt } from "./attempt.ts";

/** Also true for variables of other programs. */
export const isSecretVariable = (name: string): boolean =>
  /TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|_KEY$|COOKIE|STORE_URL/i.test(name);

const NAME = "HERMES_SECRETS_FD";
/** Not a low number: service managers and shells use those. */
export const SECRETS_FD = 9;

/** Puts the secrets where the program expects them: into process.env, which is only in our own memory. */
export function takeSecrets(env: NodeJS.ProcessEnv): void {
  const fd = Number(env[NAME]);
  delete env[NAME];
  if (!Number.isInteger(fd) || fd < 3) return;
  for (const line of contentOf(fd).split("\n")) {
    const [, name, value] = /^(\w+)=(.*)$/s.exec(line) ?? [];
    if (name !== undefined) env[name] = value;
  }
}

/** Empty: the variable was not set by our launcher. */
const contentOf = (fd: number): string =>
  attempt(() => {
    const text = readFileSync(fd, "utf8");
    closeSync(fd);
    return text;
  }) ?? "";

/** For a program that reads secrets in this way: an environment without secrets, and the text to write to its
 *  descriptor. */
export function handOver(env: NodeJS.ProcessEnv): { env: NodeJS.ProcessEnv; text: string } {
  const rest: NodeJS.ProcessEnv = { [NAME]: String(SECRETS_FD) };
  let text = "";
  // A line break would end the value.
  for (const [name, value = ""] of Object.entries(env))
    if (isSecretVariable(name) && !value.includes("\n")) text += `${name}=${value}\n`;
    else rest[name] = value;
  return { env: rest, text };
}
