// A network namespace: its loopback, and nothing of this machine. It lives as long as a descriptor of it is open, so no
// process has to stay for it, and when we are killed the kernel takes it away.
import { closeSync, openSync } from "node:fs";
import type { Running } from "../shell/exec.ts";

/** Open descriptors. `user`: who is not root gets at it through the user namespace that owns it. */
export type Netns = { net: number; user: number | null };

/** The descriptors as a process that joins gets them. */
const NET_FD = 4;
const USER_FD = 5;

export const netnsStdio = ({ net, user }: Netns): number[] => (user === null ? [net] : [net, user]);

/** `nsenter` with these, then the program. By descriptor: a process id could be another's by now. */
export const joinArgs = ({ user }: Netns): string[] => [
  `--net=/proc/self/fd/${NET_FD}`,
  ...(user === null ? [] : [`--user=/proc/self/fd/${USER_FD}`, "--preserve-credentials"]),
  "--",
];

/** In that user namespace one is its root, and has to become oneself again. */
export const asOneself = ({ user }: Netns): string[] =>
  user === null ? [] : ["--unshare-user", "--uid", String(process.getuid?.()), "--gid", String(process.getgid?.())];

/** bubblewrap's arguments for a process that says its id and waits: what it leaves is the namespace, with loopback up. */
export const makerArgs = (): string[] => [
  "--unshare-net",
  ...(process.getuid?.() === 0 ? [] : ["--unshare-user", "--uid", "0", "--gid", "0"]),
  "--die-with-parent",
  ..."--ro-bind / / --dev-bind /dev /dev -- /bin/sh -c".split(" "),
  "echo $$; read -r over",
];

/** Of a process that runs `makerArgs`. Null: it could not. */
export async function netnsOf(maker: Running, said: Promise<string>): Promise<Netns | null> {
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
