// Hosts that were allowed permanently, in a file that a person can read and change: one per line.
import { readFileSync } from "node:fs";
import { codeOf, messageOf } from "../../core/errors.ts";
import type { Log } from "../../core/ports.ts";
import { replaceFile } from "../../platform/home.ts";
import { hostPattern } from "./hosts.ts";

export type KeptHosts = { list(): string[]; keep(hosts: readonly string[]): void; forget(host: string): boolean };

const HEAD = "# Hosts that commands in the sandbox may reach without a question, one in a line.\n";

export function createKeptHosts(file: string, log: Log): KeptHosts {
  const read = () => {
    try {
      return readFileSync(file, "utf8");
    } catch (error) {
      const none = codeOf(error) === "ENOENT";
      if (!none) log("error", "hosts.unread", { file, error: messageOf(error) });
      return none ? HEAD : null;
    }
  };
  const hostIn = (line: string) => hostPattern(line.replace(/#.*/, "").trim());
  const list = () => (read() ?? "").split("\n").flatMap((line) => hostIn(line) ?? []);

  function keep(hosts: readonly string[]): void {
    const before = read();
    const fresh = hosts.filter((host) => !list().includes(host));
    if (before !== null && fresh.length > 0) write(`${before.trimEnd()}\n${fresh.join("\n")}\n`);
  }

  /** False if it was not allowed. */
  function forget(host: string): boolean {
    if (!list().includes(host)) return false;
    const rest = (read() ?? "").split("\n").filter((line) => hostIn(line) !== host);
    return write(rest.join("\n"));
  }

  function write(text: string): boolean {
    try {
      replaceFile(file, text);
      return true;
    } catch (error) {
      log("error", "hosts.unwritten", { file, error: messageOf(error) });
      return false;
    }
  }

  return { list, keep, forget };
}
