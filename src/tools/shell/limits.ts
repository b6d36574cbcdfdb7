// How much of the machine one command may take with everything it has started. Kernels bound a single process or a user; a
// tree can be bounded by cgroups, which most users cannot write. So we look, twice a second, and end what is over.
import { existsSync, readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { attempt } from "../../platform/attempt.ts";
import { type ProcessRow, procTable } from "./tree.ts";

export type ProcessLimits = { memoryBytes: number; processes: number };
export type LimitBreach = "memory" | "processes";

/** Half of what there is, so that we and the user's own programs go on. */
export const USUAL_LIMITS: ProcessLimits = {
  memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / 2,
  processes: 4096,
};

const LOOK_MS = 500;
/** When memory runs out all the same, the kernel takes these first. No right is needed to be a volunteer. */
const OOM_SCORE = 800;

/** The beginning of a command's shell. The kernel counts processes for each user namespace, so for this command alone, and
 *  not at all for root. */
export const limitsInShell = ({ processes }: ProcessLimits): string =>
  `{ ulimit -u ${processes}; echo ${OOM_SCORE} > /proc/self/oom_score_adj; } 2>/dev/null; `;

type WatchedTree = { limits: ProcessLimits; onOver: (over: LimitBreach) => void };
const watched = new Map<number, WatchedTree>();
let timer: NodeJS.Timeout | undefined;

/** Returns how to stop watching. One look serves all. */
export function watchTree(pid: number, limits: ProcessLimits, onOver: WatchedTree["onOver"]): () => void {
  if (!existsSync("/proc/self/stat")) return () => {};
  watched.set(pid, { limits, onOver });
  timer ??= setInterval(look, LOOK_MS).unref();
  return () => {
    watched.delete(pid);
    if (watched.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function look(): void {
  const alive = procTable().filter(({ dead }) => !dead);
  const children = Map.groupBy(alive, ({ parent }) => parent);
  for (const [pid, { limits, onOver }] of watched) {
    const over = isOver(treeOf(pid, children), limits);
    if (over) onOver(over);
  }
}

function treeOf(pid: number, children: Map<number, ProcessRow[]>): number[] {
  const tree = [pid];
  // A list that grows while it is walked: children of children.
  for (const member of tree) for (const child of children.get(member) ?? []) tree.push(child.pid);
  return tree;
}

function isOver(tree: number[], { memoryBytes, processes }: ProcessLimits): LimitBreach | null {
  if (tree.length > processes) return "processes";
  // Pages that processes share are counted for each: only when that is too much is it worth the exact sum.
  if (sum(tree, resident) <= memoryBytes) return null;
  return sum(tree, proportional) > memoryBytes ? "memory" : null;
}

const sum = (tree: number[], of: (pid: number) => number) => tree.reduce((total, pid) => total + of(pid), 0);
const resident = (pid: number) => Number(/^VmRSS:\s*(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024;

/** Without files that are mapped, which the kernel drops when it needs the memory. */
function proportional(pid: number): number {
  const sizes = read(`/proc/${pid}/smaps_rollup`).matchAll(/^Pss_(?:Anon|Shmem):\s*(\d+) kB/gm);
  return [...sizes].reduce((total, [, size]) => total + Number(size) * 1024, 0);
}

const read = (path: string): string => attempt(() => readFileSync(path, "latin1")) ?? "";
