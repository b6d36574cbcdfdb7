// A network namespace: its own loopback, and nothing of this machine. It lives as long as a descriptor of it is open.
// So no process must stay alive for it, and if we are killed the kernel removes it.
import { closeSync, openSync } from "node:fs";
import type { RunningProcess } from "../shell/exec.ts";

/** Open descriptors. `user`: without root, the namespace is entered through the user namespace that owns it. */
export type Netns = { net: number; user: number | null };

/** The numbers of the descriptors in a process that joins. */
const NET_FD = 4;
const USER_FD = 5;

export const netnsStdio = ({ net, user }: Netns): number[] => (user === null ? [net] : [net, user]);

/** Arguments for `nsenter`, before the program. It joins by descriptor: a process id could belong to another process
 *  by now. */
export const joinArgs = ({ user }: Netns): string[] => [
  `--net=/proc/self/fd/${NET_FD}`,
  ...(user === null ? [] : [`--user=/proc/self/fd/${USER_FD}`, "--preserve-credentials"]),
  "--",
];

/** In that user namespace one is root, and must become oneself again. */
export const asOneself = ({ user }: Netns): string[] =>
  user === null ? [] : ["--unshare-user", "--uid", String(process.getuid?.()), "--gid", String(process.getgid?.())];

/** Arguments for bubblewrap: a process that prints its id and waits. It provides the namespace, with loopback up. */
export const makerArgs = (): string[] => [
  "--unshare-net",
  ...(process.getuid?.() === 0 ? [] : ["--unshare-user", "--uid", "0", "--gid", "0"]),
  "--die-with-parent",
  ..."--ro-bind / / --dev-bind /dev /dev -- /bin/sh -c".split(" "),
  "echo $$; read -r over",
];

/** The namespace of a process that runs `makerArgs`; null if it failed. */
export async function netnsOf(maker: RunningProcess, said: Promise<string>): Promise<Netns | null> {
  const pid = await Promise.race([said, maker.done.then(() => "")]);
  try {
    return /^\d+\n$/.test(pid) ? openedOf(pid.trim()) : null;
  } catch {
    return null;
  } finally {
    maker.write("", true);
    await maker.done;
  }
}

function openedOf(pid: string): Netns {
  const net = openSync(`/proc/${pid}/ns/net`, "r");
  return { net, user: process.getuid?.() === 0 ? null : openSync(`/proc/${pid}/ns/user`, "r") };
}

export function closeNetns(netns: Netns): void {
  for (const fd of netnsStdio(netns)) closeSync(fd);
}
