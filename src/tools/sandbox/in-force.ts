// For `hermes doctor`: which protections of commands work on this machine, and how to get those that do not.
import { findProgram } from "../../platform/programs.ts";
import { canJoin, openNetns, run } from "../shell/exec.ts";
import { type ProcessLimits, USUAL_LIMITS } from "../shell/limits.ts";
import { closeNetns } from "./netns.ts";
import { linkedRepo } from "./repos.ts";
import type { Sandbox, SandboxChoice } from "./sandbox.ts";

/** `fix` is set if the protection is missing. */
export type InForce = { check: string; says: string; fix?: string };
type TerminalState = { network: "off" | "ask" | "on"; network_allow: readonly string[]; memory?: number | undefined };

export async function inForce(choice: SandboxChoice, terminal: TerminalState): Promise<InForce[]> {
  const limits = { ...USUAL_LIMITS, ...(terminal.memory && { memoryBytes: terminal.memory * 2 ** 20 }) };
  if (choice.sandbox === null) return [without(choice), limited(limits, false), NO_UNDO];
  const roots = choice.sandbox.writable.join(", ");
  return [
    { check: "sandbox", says: `commands can write to ${roots} and a private /tmp; home directories are hidden` },
    await network(terminal),
    limited(limits, true),
    { check: "git", says: "commands cannot change hooks and configuration of repositories" },
    await undo(choice.sandbox),
  ];
}

const NO_UNDO: InForce = {
  check: "undo",
  says: "/undo cannot restore files: snapshots of the workspace need the sandbox",
  fix: "fix the sandbox",
};

async function undo(sandbox: Sandbox): Promise<InForce> {
  const [workspace = "/"] = sandbox.writable;
  const check = "undo";
  const git = findProgram("git");
  if (!git) return { check, says: "/undo cannot restore files: git is not installed", fix: "apt install git" };
  const linked = await linkedRepo(workspace);
  const seeing = { ...sandbox, readable: [...(sandbox.readable ?? []), ...(linked ? [linked] : [])] };
  const how = { cwd: workspace, sandbox: seeing, marker: `probe-${process.pid}`, timeoutMs: 5_000 };
  const { code } = await run([git, "rev-parse", "--show-toplevel"], how);
  const ignored = code === 0 ? "that git does not ignore" : "that no .gitignore names";
  return { check, says: `/undo and /rollback restore the files of the workspace ${ignored}` };
}

function without({ why, refuse }: Extract<SandboxChoice, { sandbox: null }>): InForce {
  const so = refuse ? "no command runs" : "commands can do whatever you can, and all but harmless ones ask first";
  return { check: "sandbox", says: `none, so ${so}: ${why}`, fix: mend(why) };
}

const MENDS: [RegExp, string][] = [
  [/not installed/, "apt install bubblewrap (dnf, pacman, apk: the same name)"],
  [/Linux only/, "run hermes on Linux, or in a container"],
  [/is off/, "set terminal.sandbox to auto"],
  [/terminal\.cwd/, "start hermes in a separate directory, or set terminal.cwd"],
];
const NOT_ALLOWED =
  "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined";
const mend = (why: string): string => MENDS.find(([pattern]) => pattern.test(why))?.[1] ?? NOT_ALLOWED;

async function network({ network: mode, network_allow: allow }: TerminalState): Promise<InForce> {
  const check = "network";
  const netns = await openNetns("");
  const joined = netns !== null && (await canJoin(netns));
  if (netns) closeNetns(netns);
  if (!joined)
    return {
      check,
      says: "commands cannot reach any host: hermes cannot share a network between the commands of a session",
      fix: "apt install util-linux (for nsenter)",
    };
  const always = allow.length > 0 ? `, except for ${allow.join(", ")}` : "";
  const out = {
    off: "no host can be reached",
    ask: `each host asks first${always}`,
    on: "every public host can be reached",
  };
  return { check, says: `each session has its own network; ${out[mode]}` };
}

function limited({ memoryBytes, processes }: ProcessLimits, sandboxed: boolean): InForce {
  const check = "limits";
  const says = `a command may use ${Math.round(memoryBytes / 2 ** 20)} MB of memory and ${processes} processes`;
  if (process.platform !== "linux") return { check, says: "none: limits need /proc", fix: "run hermes on Linux" };
  const byKernel = sandboxed && process.getuid?.() !== 0;
  return { check, says: byKernel ? `${says}; the kernel counts processes too` : `${says}; checked twice a second` };
}
