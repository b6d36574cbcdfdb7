// Which processes belong to a call, and their end. A process group is not enough: children that leave it (setsid,
// double fork) outlived a group kill in 3 of 6 shapes. So a process is ours by its group, by the marker in its
// environment, or because its parent is ours; and we look again until nothing is left.
import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { attempt } from "../../platform/attempt.ts";
import { clock } from "../../platform/clock.ts";

export type ProcessRow = {
  pid: number;
  parent: number;
  group: number;
  dead: boolean;
  /** When it began, in the table's own unit: with the pid it names one process for ever. */
  start: number;
  /** Null: not ours to read, or gone. Empty: none, or in the middle of an exec. */
  environ(): string | null;
};
export type Table = () => ProcessRow[];

export type ProcessTree = {
  /** Whose process this is, by its environment. */
  mine(environ: string): boolean;
  /** Nothing that began before can be ours. */
  since?: number;
  /** The call's group, while its leader has not been reaped: afterwards the number may be somebody else's. */
  group?: () => number | null;
  /** Is not asked to end, only killed: the launcher of a sandbox takes everybody with it. */
  launcher?: (row: ProcessRow) => boolean;
  /** Never touched. */
  spare?: ReadonlySet<number>;
};
export type TreeEnd = { found: number; left: number };

const GRACE_MS = 200;
/** A process that cannot be killed waits for a device; whoever waits for us does not. */
const LIMIT_MS = 3000;
/** So many at once are a fork bomb: it would only grow in its grace. */
const CROWD = 100;

/** SIGTERM, the grace, then SIGKILL until none is left. Says how many there were and how many could not be ended. */
export async function endTree(table: Table, tree: ProcessTree): Promise<TreeEnd> {
  const known = new Map<number, ProcessRow>();
  const first = await members(table, tree, known);
  if (first.length > 0 && first.length <= CROWD) {
    const asked = first.filter((row) => !tree.launcher?.(row));
    send(asked, "SIGTERM");
    if (asked.length > 0) await allGone(table, asked);
  }
  const until = performance.now() + LIMIT_MS;
  for (let wait = 1; ; wait = Math.min(wait * 2, 50)) {
    const left = await members(table, tree, known);
    if (left.length === 0 || performance.now() > until) return { found: known.size, left: left.length };
    kill(table, tree, known);
    await clock.sleep(wait);
  }
}

/** All stand still before the first dies: a child whose parent is gone can no longer be known by its parent. */
function kill(table: Table, tree: ProcessTree, known: Map<number, ProcessRow>): void {
  const still = new Map<number, ProcessRow>();
  for (let round = 0; round < 20; round++) {
    const moving = look(table, tree, known).rows.filter((row) => !still.has(row.pid));
    if (moving.length === 0) break;
    send(moving, "SIGSTOP", tree.group?.());
    for (const row of moving) still.set(row.pid, row);
  }
  send([...still.values()], "SIGKILL", tree.group?.());
}

/** An exec is seen with an empty environment for microseconds; some processes have none for ever, so not for long. */
async function members(table: Table, tree: ProcessTree, known: Map<number, ProcessRow>): Promise<ProcessRow[]> {
  for (let tries = 1; ; tries++) {
    const { rows, unclear } = look(table, tree, known);
    if (rows.length > 0 || !(await clears(unclear, 4 - tries))) return rows;
  }
}

/** Whether one of them has an environment now. Only they are read again: the whole table takes some milliseconds. */
async function clears(unclear: readonly ProcessRow[], tries: number): Promise<boolean> {
  for (let left = unclear.length ? tries : 0; left > 0; left--) {
    await clock.sleep(1);
    if (unclear.some((row) => row.environ() !== "")) return true;
  }
  return false;
}

function look(table: Table, tree: ProcessTree, known: Map<number, ProcessRow>) {
  const { since = 0, spare } = tree;
  const group = tree.group?.() ?? null;
  const rows: ProcessRow[] = [];
  const children = new Map<number, ProcessRow[]>();
  const found = new Set<ProcessRow>();
  const unclear: ProcessRow[] = [];
  for (const row of table()) {
    if (row.dead || row.start < since || row.pid === process.pid || spare?.has(row.pid)) continue;
    rows.push(row);
    children.set(row.parent, [...(children.get(row.parent) ?? []), row]);
    const environ = known.get(row.pid)?.start === row.start || row.group === group ? undefined : row.environ();
    if (environ === "") unclear.push(row);
    if (environ === undefined || (environ && tree.mine(environ))) found.add(row);
  }
  // A set that grows while it is walked: children of children.
  for (const row of found) for (const child of children.get(row.pid) ?? []) found.add(child);
  for (const row of found) known.set(row.pid, row);
  return { rows: [...found], unclear };
}

async function allGone(table: Table, rows: ProcessRow[]): Promise<void> {
  const until = performance.now() + GRACE_MS;
  for (let wait = 1; performance.now() < until; wait = Math.min(wait * 2, 10)) {
    await clock.sleep(wait);
    const alive = new Map(table().map((row) => [row.pid, row]));
    if (!rows.some(({ pid, start }) => alive.get(pid)?.start === start && !alive.get(pid)?.dead)) return;
  }
}

/** The whole group in one step where there is one: the kernel lets nobody fork out of that. */
function send(rows: ProcessRow[], signal: "SIGTERM" | "SIGSTOP" | "SIGKILL", group: number | null = null): void {
  const pids = [...(group === null ? [] : [-group]), ...rows.map((row) => row.pid)];
  // It may have gone by itself, or be another user's (a set-uid program): the next look tells.
  for (const pid of pids) attempt(() => process.kill(pid, signal));
}

// ── The process table ─────────────────────────────────────────────────────────────────────────────────

/** Linux: about 10 µs a process. Only what began late enough has its environment read. */
export const procTable: Table = () =>
  readdirSync("/proc").flatMap((name) => {
    const first = name.charCodeAt(0);
    return first >= 0x30 && first <= 0x39 ? (procRow(Number(name)) ?? []) : [];
  });

/** In the flags of a thread of the kernel (PF_KTHREAD). It has no environment, so it would be looked at again and again. */
const OF_KERNEL = 0x200000;

/** One process, or null when it is gone, or the kernel's. Fields: proc_pid_stat(5); its name may hold spaces and brackets. */
export function procRow(pid: number): ProcessRow | null {
  const text = readProc(`/proc/${pid}/stat`);
  if (text === null) return null;
  const field = text.slice(text.lastIndexOf(")") + 2).split(" ", 20);
  if (Number(field[6]) & OF_KERNEL) return null;
  return {
    pid,
    parent: Number(field[1]),
    group: Number(field[2]),
    dead: field[0] === "Z" || field[0] === "X",
    start: Number(field[19]),
    environ: () => readProc(`/proc/${pid}/environ`),
  };
}

let buffer = Buffer.allocUnsafe(8_192);
/** One read for most files: `readFileSync` asks for the size first, and these files do not say it. */
function readProc(path: string): string | null {
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    for (let size = 0; ; buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)])) {
      size += readSync(file, buffer, size, buffer.length - size, null);
      if (size < buffer.length) return buffer.toString("latin1", 0, size);
    }
  } catch {
    return null;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Elsewhere (macOS): what `ps axeww -o pid=,ppid=,pgid=,stat=,lstart=,command=` prints, the environment after the command. */
export const psRows = (printed: string): ProcessRow[] =>
  printed.split("\n").flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\w+\s+\w+\s+\d+\s+[\d:]+\s+\d+)\s(.*)$/.exec(line);
    if (!match) return [];
    const [, pid, parent, group, state = "", began = "", command = ""] = match;
    return {
      pid: Number(pid),
      parent: Number(parent),
      group: Number(group),
      dead: state.startsWith("Z"),
      start: Date.parse(began),
      environ: () => command,
    };
  });
