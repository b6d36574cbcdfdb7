// For `hermes doctor`: what holds a command here, what does not, and the one thing that mends it.
import { findProgram } from "../../platform/programs.ts";
import { canJoin, openNetns, run } from "../shell/exec.ts";
import { type Limits, USUAL_LIMITS } from "../shell/limits.ts";
import { closeNetns } from "./netns.ts";
import { linkedRepo } from "./repos.ts";
import type { Choice, Sandbox } from "./sandbox.ts";

/** `fix` is there where something is missing. */
export type InForce = { check: string; says: string; fix?: string };
type Terminal = { network: "off" | "ask" | "on"; network_allow: readonly string[]; memory?: number | undefined };

export async function inForce(choice: Choice, terminal: Terminal): Promise<InForce[]> {
  const limits = { ...USUAL_LIMITS, ...(terminal.memory && { memoryBytes: terminal.memory * 2 ** 20 }) };
  if (choice.sandbox === null) return [without(choice), limited(limits, false), NO_UNDO];
  const roots = choice.sandbox.writable.join(", ");
  return [
    { check: "sandbox", says: `commands write to ${roots} and a /tmp of their own; home directories are hidden` },
    await network(terminal),
    limited(limits, true),
    { check: "git", says: "hooks and configuration of repositories are read-only inside" },
    await undo(choice.sandbox),
  ];
}

const NO_UNDO: InForce = {
  check: "undo",
  says: "/undo does not bring files back: snapshots of the workspace are taken in the sandbox only",
  fix: "mend the sandbox",
};

async function undo(sandbox: Sandbox): Promise<InForce> {
  const [workspace = "/"] = sandbox.writable;
  const check = "undo";
  const git = findProgram("git");
  if (!git) return { check, says: "/undo does not bring files back: git is not installed", fix: "apt install git" };
  const linked = await linkedRepo(workspace);
  const seeing = { ...sandbox, readable: [...(sandbox.readable ?? []), ...(linked ? [linked] : [])] };
  const how = { cwd: workspace, sandbox: seeing, marker: `probe-${process.pid}`, timeoutMs: 5_000 };
  const { code } = await run([git, "rev-parse", "--show-toplevel"], how);
  if (code === 0) return { check, says: "/undo brings back files of the workspace that git does not ignore" };
  return {
    check,
    says: `/undo does not bring files back: ${workspace} is in no git repository that commands can see`,
    fix: "git init, or name the repository that it is in in terminal.readable",
  };
}

function without({ why, refuse }: Extract<Choice, { sandbox: null }>): InForce {
  const so = refuse
    ? "no command runs"
    : "commands can read, change and send whatever you can, and all but harmless ones ask first";
  return { check: "sandbox", says: `there is none, so ${so}: ${why}`, fix: mend(why) };
}

const MENDS: [RegExp, string][] = [
  [/not installed/, "apt install bubblewrap (dnf, pacman, apk: the same name)"],
  [/Linux only/, "run hermes on Linux, or in a container"],
  [/is off/, "set terminal.sandbox to auto"],
  [/terminal\.cwd/, "start hermes in a directory of its own, or set terminal.cwd"],
];
const NOT_ALLOWED =
  "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined";
const mend = (why: string): string => MENDS.find(([pattern]) => pattern.test(why))?.[1] ?? NOT_ALLOWED;

async function network({ network: mode, network_allow: allow }: Terminal): Promise<InForce> {
  const check = "network";
  const netns = await openNetns("");
  const joined = netns !== null && (await canJoin(netns));
  if (netns) closeNetns(netns);
  if (!joined)
    return {
      check,
      says: "every command has a network of its own and no way out: a session's cannot be shared",
      fix: "apt install util-linux (for nsenter)",
    };
  const always = allow.length > 0 ? `, ${allow.join(", ")} without a question` : "";
  const out = { off: "no host is reached", ask: `hosts are asked for${always}`, on: "every public host is reached" };
  return { check, says: `not this machine's, one for each session; ${out[mode]}` };
}

function limited({ memoryBytes, processes }: Limits, sandboxed: boolean): InForce {
  const check = "limits";
  const says = `a command is ended over ${Math.round(memoryBytes / 2 ** 20)} MB of memory or ${processes} processes`;
  if (process.platform !== "linux") return { check, says: "none: they need /proc", fix: "run hermes on Linux" };
  const byKernel = sandboxed && process.getuid?.() !== 0;
  return { check, says: byKernel ? `${says}, which the kernel counts too` : `${says}, looked at twice a second` };
}
