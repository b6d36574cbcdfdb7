// What a tool process gets to see of our environment: an allow list, and two markers by which it can be found again.
import { createHash } from "node:crypto";
import { readlinkSync, realpathSync, statSync } from "node:fs";
import { attempt } from "../../platform/attempt.ts";
import { pathWithout } from "../../platform/programs.ts";

const ALLOWED = /^(?:PATH|HOME|LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|SHELL|TMPDIR)$/;

/** `roots`: where the agent may write; no program is looked up there. */
export function childEnv(from: NodeJS.ProcessEnv, roots: readonly string[] = []): Record<string, string> {
  const passed = Object.fromEntries(
    Object.entries(from).flatMap(([name, value]) => (value !== undefined && ALLOWED.test(name) ? [[name, value]] : [])),
  );
  const PATH = pathWithout(roots, from.PATH ?? "");
  return { ...passed, ...(PATH && { PATH }), TERM: "dumb", ...gitSettings() };
}

/** A repository is data, and `git status` must not run what its author wrote. A bare one that lies somewhere in a clone is
 *  not used unless it is named (its `core.fsmonitor` would be run), nor is any other's; `log` checks no signatures by a program of the
 *  repository's choice; `ext::` addresses are commands. What is said with `git -c` still comes first. Hooks are left alone: they run
 *  for what writes, in the sandbox or after a question. */
const SAFE_GIT = {
  "safe.bareRepository": "explicit",
  "core.fsmonitor": "false",
  "log.showSignature": "false",
  "protocol.ext.allow": "never",
};

/** `more`: besides the safe ones, since variables replace each other as a whole. */
export function gitSettings(more: Record<string, string> = {}): Record<string, string> {
  const pairs = Object.entries({ ...SAFE_GIT, ...more }).flatMap(([key, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, key],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  // Without a terminal nobody answers when git asks for a password, and it would wait for the whole time limit.
  return { GIT_CONFIG_COUNT: String(pairs.length / 2), ...Object.fromEntries(pairs), GIT_TERMINAL_PROMPT: "0" };
}

const CALL = "HERMES_CALL";
const OWNER = "HERMES_OWNER";
// Its last character makes that no mark is the beginning of another.
export const marks = (call: string, owner: string) => ({ [CALL]: `${call};`, [OWNER]: `${owner};` });
export const isOfCall = (call: string) => (environ: string) => environ.includes(`${CALL}=${call};`);

const OWNER_MARK = new RegExp(`(?:^|[\\0 ])${OWNER}=([0-9a-f]{16}):(\\d+):(\\d+);`);

/** Who started it: a home, and the process that serves it. */
export type Owner = { home: string; pid: number; start: number };
export const ownerMark = ({ home, pid, start }: Owner) => `${home}:${pid}:${start}`;
export function ownerOf(environ: string): Owner | null {
  const found = OWNER_MARK.exec(environ);
  return found ? { home: found[1] ?? "", pid: Number(found[2]), start: Number(found[3]) } : null;
}

/** By inode and PID namespace too: a container with another home at the same path is somebody else. */
export function homeMark(dir: string): string {
  const path = realpathSync(dir);
  const { dev, ino } = statSync(path);
  const pids = attempt(() => readlinkSync("/proc/self/ns/pid")) ?? "";
  return createHash("sha256").update([path, dev, ino, pids].join("\0")).digest("hex").slice(0, 16);
}
