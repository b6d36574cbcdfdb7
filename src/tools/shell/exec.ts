// The one door for processes of tools. A run settles when its process has exited (never on `close`: a grandchild may
// hold the pipe for ever) and nothing it started is alive.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, statSync } from "node:fs";
import { constants as os } from "node:os";
import { Readable } from "node:stream";
import { messageOf } from "../../core/errors.ts";
import { onAbort, within } from "../../core/wait.ts";
import { attempt } from "../../platform/attempt.ts";
import { clock } from "../../platform/clock.ts";
import { findProgram } from "../../platform/programs.ts";
import { joinArgs, makerArgs, type Netns, netnsOf, netnsStdio } from "../sandbox/netns.ts";
import { bwrapArgs, outside, type Sandbox } from "../sandbox/sandbox.ts";
import { childEnv, homeMark, isOfCall, marks, type Owner, ownerMark, ownerOf } from "./env.ts";
import { type LimitBreach, limitsInShell, type ProcessLimits, watchTree } from "./limits.ts";
import { type Captured, createOutput, type Spool } from "./output.ts";
import { createPipes, type Pipe, readerOf } from "./pipes.ts";
import { endTree, type ProcessRow, procRow, procTable, psRows, type Table, type TreeEnd } from "./tree.ts";

/** Text for the shell, or a program and its arguments. */
export type ExecCommand = string | readonly string[];
export type ExecOptions = {
  cwd: string;
  /** Variables to set besides the allow list. */
  env?: Readonly<Record<string, string>> | undefined;
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Unique; every process of the call carries it. */
  marker: string;
  /** `ownerHere(home)`: by it the next process of this home finds what we leave behind when killed. */
  owner?: string | undefined;
  sandbox?: Sandbox | null | undefined;
  limits?: ProcessLimits | undefined;
  capBytes?: number | undefined;
  spool?: Spool | undefined;
  onOutput?: ((text: string) => void) | undefined;
  /** Given to it whole, or "open": `write` does. Otherwise there is nothing to read. */
  stdin?: { text: string } | "open" | undefined;
  /** What it leaves running when it exits is left alone. */
  background?: boolean | undefined;
  /** Wants to know in which directory the shell ended. */
  reportCwd?: boolean | undefined;
};
export type Result = Captured & {
  /** Its own; 128 + n killed by signal n; 124 the time limit; 137 another limit; 130 aborted; 126, 127 it could not be started. */
  code: number;
  signal: NodeJS.Signals | null;
  timedOut: boolean;
  aborted: boolean;
  /** The limit that ended it. */
  over?: LimitBreach;
  durationMs: number;
  /** Processes that it had left running and that were ended. */
  stragglers: number;
  /** Processes that could not be ended. */
  survivors: number;
  cwd?: string;
};
export type RunningProcess = {
  done: Promise<Result>;
  /** Ends it with everything it started, also after its exit. */
  stop(): Promise<TreeEnd>;
  /** False: it does not read any more. */
  write(text: string, end?: boolean): boolean;
  /** What it has printed since this was last asked. */
  fresh(): string;
};

const TIME_LIMIT = 124;
const OTHER_LIMIT = 137;
const ABORTED = 130;
const NOT_STARTED = 126;
const NOT_FOUND = 127;
/** What is in the pipe when all are dead is read in no time, except on a machine with ten others at work: with 300 ms, output was lost there.
 *  A foreign process that holds the pipe is not waited for. */
const DRAIN_MS = 2_000;
/** The kernel's limit for one argument (MAX_ARG_STRLEN). */
const LONGEST_COMMAND = 128 * 1024 - 1;
/** What a process may leave unread in its input. */
const MOST_UNREAD = 1_000_000;
/** setTimeout fires at once for anything longer. */
const LONGEST_TIMEOUT = 2 ** 31 - 1;

export const run = async (command: ExecCommand, options: ExecOptions): Promise<Result> =>
  (await start(command, options)).done;

export async function start(command: ExecCommand, options: ExecOptions): Promise<RunningProcess> {
  let out: Pipe | null = null;
  try {
    const problem = problemWith(command, options);
    if (problem) return failed(NOT_STARTED, problem);
    out = await newPipe().catch(() => null);
    if (options.signal?.aborted) return failed(ABORTED, "");
    const running = follow(launch(command, options, out), options, out);
    out = out && { ...out, read: null };
    return running;
  } catch (error) {
    return failed(NOT_STARTED, messageOf(error));
  } finally {
    // The child has its own copy of the one, and our reader has the other.
    for (const end of [out?.write, out?.read]) if (typeof end === "number") closeSync(end);
  }
}

function problemWith(command: ExecCommand, { cwd, sandbox }: ExecOptions): string | null {
  const place = sandbox ? outside(sandbox, cwd) : cwd;
  if (place === null || !statSync(place, { throwIfNoEntry: false })?.isDirectory())
    return `There is no directory ${cwd}${sandbox ? " in the sandbox" : ""}.`;
  const longest = Math.max(...[command].flat().map((part) => Buffer.byteLength(part)));
  if (longest > LONGEST_COMMAND) return `The command has ${longest} bytes, more than ${LONGEST_COMMAND}.`;
  return null;
}

function launch(command: ExecCommand, options: ExecOptions, out: Pipe | null): ChildProcess {
  const { cwd, sandbox, stdin, reportCwd, limits } = options;
  const netns = sandbox?.netns ?? null;
  const [program = "", ...args] = [
    ...(netns ? [nsenter(), ...joinArgs(netns)] : []),
    ...(sandbox ? [bubblewrap() ?? "bwrap", ...bwrapArgs(sandbox, cwd)] : []),
    ...(typeof command === "string" ? shellCommand(command, reportCwd, sandbox && limits) : command),
  ];
  return spawn(program, args, {
    cwd: sandbox ? "/" : cwd,
    env: {
      ...childEnv(process.env),
      // Home is read-only in there, and so is what caches are kept in.
      ...(sandbox && { TMPDIR: "/tmp", XDG_CACHE_HOME: "/tmp/.cache", npm_config_cache: "/tmp/.npm" }),
      ...options.env,
      ...marks(options.marker, options.owner ?? ""),
    },
    detached: true, // a group of its own, and no terminal: Ctrl+C is ours to interpret
    stdio: [
      stdin ? "pipe" : "ignore",
      out?.write ?? "pipe",
      out?.write ?? "pipe",
      reportCwd ? "pipe" : "ignore",
      ...(netns ? netnsStdio(netns) : []),
    ],
  });
}

/** `eval` keeps the text whole: nothing in it can end our part early. It does not see our descriptors. */
function shellCommand(command: string, reportCwd = false, limits?: ProcessLimits | null): string[] {
  const report = reportCwd ? `trap '{ pwd -P >&3; } 2>/dev/null' EXIT; ` : "";
  const limited = limits ? limitsInShell(limits) : "";
  return [...shell(), "-c", `c=$1; shift; ${limited}${report}eval "$c" 3>&- 4>&- 5>&-`, "sh", command];
}

function follow(child: ChildProcess, options: ExecOptions, out: Pipe | null): RunningProcess {
  const began = performance.now();
  const { signal, timeoutMs, marker, background = false, sandbox } = options;
  const output = createOutput(options);
  const streams =
    typeof out?.read === "number"
      ? [readerOf(out.read, output.write)]
      : [child.stdout, child.stderr].flatMap((stream) => (stream ? [pumped(stream, output.write)] : []));
  const read = Promise.all(streams.map(closed));
  const place = reportOf(child);
  const { stdin } = child;
  stdin?.on("error", () => {}); // it does not read
  if (typeof options.stdin === "object") stdin?.end(options.stdin.text);

  const alive = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  const tree = {
    mine: isOfCall(marker),
    since: startOf(child.pid),
    group: () => (alive() ? (child.pid ?? null) : null),
    launcher: (row: ProcessRow) => Boolean(sandbox) && [row.pid, row.parent].includes(child.pid ?? 0),
  };
  const stop = () => endTree(table, tree).catch(() => endGroup(tree.group()));

  let why: "timeout" | "abort" | "stop" | LimitBreach | null = null;
  let ending: Promise<TreeEnd> | null = null;
  const { promise: ended, resolve: over } = Promise.withResolvers<TreeEnd>();
  const end = (reason: NonNullable<typeof why>) => {
    why ??= reason;
    ending ??= stop();
    void ending.then(over);
    return ending;
  };
  const onTime = () => void end("timeout");
  const timer = timeoutMs === undefined ? undefined : setTimeout(onTime, Math.min(timeoutMs, LONGEST_TIMEOUT));
  const release = onAbort(signal, () => void end("abort"));
  const unwatch =
    options.limits && child.pid !== undefined && watchTree(child.pid, options.limits, (over) => void end(over));

  async function settle(): Promise<Result> {
    // Without the second, a process that even SIGKILL does not end would never settle.
    const exit = await Promise.race([exitOf(child), ended.then(() => null)]);
    clearTimeout(timer);
    if (unwatch) unwatch();
    release();
    const durationMs = Math.round(performance.now() - began);
    const reason = why; // what comes later did not end it
    const { found, left } = await (ending ?? (background || child.pid === undefined ? NOTHING : stop()));
    await within(clock, DRAIN_MS, read);
    stdin?.destroy();
    if (exit instanceof Error) await output.write(Buffer.from(`It could not be started: ${exit.message}\n`));
    const cwd = await place();
    // What a background process leaves running may go on printing.
    const goesOn = background && !reason && streams.some((stream) => !stream.closed);
    if (!goesOn) for (const stream of streams) stream.destroy();
    const captured = await (goesOn ? output.now() : output.end());
    if (goesOn) void read.then(output.end);
    const outcome = exitCode(exit, reason);
    const notBegun = sandbox && outcome.code === 1 && captured.output.startsWith("bwrap: ");
    return {
      ...captured,
      ...outcome,
      ...(notBegun && { code: captured.output.startsWith("bwrap: execvp") ? NOT_FOUND : NOT_STARTED }),
      timedOut: reason === "timeout",
      aborted: reason === "abort" || reason === "stop",
      ...((reason === "memory" || reason === "processes") && { over: reason }),
      durationMs,
      stragglers: reason || sandbox ? 0 : found,
      survivors: left,
      ...(cwd && { cwd }),
    };
  }

  const done = settle();
  return {
    done,
    stop: () => end("stop").then(stop), // once more: the first end may be long ago
    write: (text, last = false) => {
      if (!stdin?.writable || !alive() || stdin.writableLength > MOST_UNREAD) return false;
      if (text) stdin.write(text);
      if (last) stdin.end();
      return true;
    },
    fresh: output.fresh,
  };
}

const NOTHING: TreeEnd = { found: 0, left: 0 };

/** When we cannot even look (no descriptors left): better than nothing, and said so. */
function endGroup(group: number | null): TreeEnd {
  if (group !== null) attempt(() => process.kill(-group, "SIGKILL"));
  return { found: 0, left: 1 };
}

/** Where there are no real pipes: one socket for each. */
function pumped(stream: Readable, write: (bytes: Uint8Array) => Promise<void> | undefined): Readable {
  return stream.on("data", (bytes: Buffer) => {
    const taken = write(bytes);
    if (!taken) return;
    stream.pause();
    void taken.then(() => stream.resume());
  });
}

const closed = (stream: Readable) =>
  new Promise<void>((resolve) => {
    stream.once("error", () => {}).once("close", resolve);
  });

type Exit = { code: number | null; signal: NodeJS.Signals | null };
const exitOf = (child: ChildProcess) =>
  new Promise<Exit | Error>((resolve) => {
    child.once("error", resolve);
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });

function exitCode(exit: Exit | Error | null, why: string | null): { code: number; signal: NodeJS.Signals | null } {
  if (exit instanceof Error)
    return { code: "code" in exit && exit.code === "ENOENT" ? NOT_FOUND : NOT_STARTED, signal: null };
  const signal = exit?.signal ?? null;
  if (why === "memory" || why === "processes") return { code: OTHER_LIMIT, signal };
  if (why) return { code: why === "timeout" ? TIME_LIMIT : ABORTED, signal };
  return { code: exit?.code ?? 128 + (signal ? os.signals[signal] : 0), signal };
}

function failed(code: number, why: string): RunningProcess {
  const aborted = code === ABORTED;
  const nothing = { truncated: false, signal: null, timedOut: false, durationMs: 0, stragglers: 0, survivors: 0 };
  return {
    done: Promise.resolve({ ...nothing, code, output: why, bytes: Buffer.byteLength(why), aborted }),
    stop: () => Promise.resolve(NOTHING),
    write: () => false,
    fresh: () => why,
  };
}

/** The last line of descriptor 3, which only our own part of the shell can write to. */
function reportOf(child: ChildProcess): () => Promise<string> {
  const report = child.stdio[3];
  if (!(report instanceof Readable)) return () => Promise.resolve("");
  let text = "";
  report.setEncoding("utf8").on("data", (more: string) => (text = (text + more).slice(-5000)));
  report.on("error", () => {});
  const over = new Promise((resolve) => report.once("close", resolve));
  return async () => {
    await within(clock, DRAIN_MS, over);
    report.destroy();
    return text.startsWith("/") && text.endsWith("\n") ? text.slice(0, -1) : "";
  };
}

// ── What is on this machine ───────────────────────────────────────────────────────────────────────────

const PS = ["axeww", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command="];
export const psTable: Table = () =>
  psRows(
    spawnSync(findProgram("ps") ?? "/bin/ps", PS, { cwd: "/", encoding: "utf8", maxBuffer: 1e8, env: { LC_ALL: "C" } })
      .stdout,
  );
export const table = existsSync("/proc/self/stat") ? procTable : psTable;

const startOf = (pid: number | undefined): number => {
  if (pid === undefined) return 0;
  if (table === procTable) return procRow(pid)?.start ?? 0;
  return Date.now() - 2000; // `ps` knows whole seconds
};

const newPipe = createPipes(
  (paths) =>
    new Promise((resolve) => {
      const mkfifo = findProgram("mkfifo");
      if (!mkfifo) return resolve(false);
      const child = spawn(mkfifo, ["-m", "600", ...paths], { cwd: "/", stdio: "ignore", env: {} });
      child.once("error", () => resolve(false));
      child.once("exit", (code) => resolve(code === 0));
    }),
);

/** Without --norc, bash reads ~/.bashrc when its input is a socket, as rshd would want it. */
const shell = () => {
  const bash = findProgram("bash");
  return bash ? [bash, "--noprofile", "--norc"] : ["/bin/sh"];
};
export const bubblewrap = () => findProgram("bwrap");
export const nsenter = () => findProgram("nsenter") ?? "nsenter";

export type Probe = { usable: true } | { usable: false; why: string };

/** It may be there and not allowed to work (containers, hardened kernels): only trying tells. */
export async function probeSandbox(): Promise<Probe> {
  if (process.platform !== "linux") return { usable: false, why: "bubblewrap exists for Linux only" };
  if (!bubblewrap()) return { usable: false, why: "bubblewrap is not installed (package bubblewrap)" };
  const { code, output } = await tryIn(null);
  if (code === 0) return { usable: true };
  return { usable: false, why: `bubblewrap does not work here: ${output.trim() || `exit code ${code}`}` };
}

const tryIn = (netns: Netns | null) =>
  run(["true"], {
    cwd: "/",
    marker: `probe-${process.pid}`,
    sandbox: { writable: [], hidden: [], netns },
    timeoutMs: 5000,
    background: true, // it leaves nothing to look for
  });

/** It may be made and not be joined (no nsenter, a kernel or a profile that forbids it): only trying tells. */
export const canJoin = async (netns: Netns): Promise<boolean> => (await tryIn(netns)).code === 0;

/** A network for commands to share. Null where none can be made. */
export async function openNetns(owner: string): Promise<Netns | null> {
  const said = Promise.withResolvers<string>();
  const maker = await start([bubblewrap() ?? "bwrap", ...makerArgs()], {
    cwd: "/",
    marker: `netns-${process.pid}`,
    owner,
    stdin: "open",
    timeoutMs: 5000,
    onOutput: said.resolve,
  });
  return netnsOf(maker, said.promise);
}

// ── What a predecessor left ───────────────────────────────────────────────────────────────────────────

export const ownerHere = (home: string): string =>
  ownerMark({ home: homeMark(home), pid: process.pid, start: startOf(process.pid) });

/** Ends the tool processes of dead predecessors at this home; never those of a process that lives. */
export function sweepOrphans(home: string): Promise<TreeEnd> {
  const mark = homeMark(home);
  let first: ProcessRow[] | null = table();
  const rows = new Map(first.map((row) => [row.pid, row]));
  // Nobody starts anything for a dead process any more, so what is not ours stays so: each environment is read once. A start of a
  // machine with 200 processes spent a sixth of its time with this.
  const environs = new Map<string, string | null>();
  const readOnce = (row: ProcessRow): ProcessRow => ({
    ...row,
    environ() {
      const id = `${row.pid} ${row.start}`;
      const environ = environs.get(id) || row.environ();
      environs.set(id, environ);
      return environ;
    },
  });
  const lookup: Table = () => {
    const found = first ?? table();
    first = null;
    return found.map(readOnce);
  };
  const lives = ({ pid, start }: Owner) => {
    const row = rows.get(pid);
    return row !== undefined && !row.dead && (table === psTable || row.start === start);
  };
  const spare = new Set<number>();
  for (let row = rows.get(process.pid); row && !spare.has(row.pid); row = rows.get(row.parent)) spare.add(row.pid);
  const mine = (environ: string) => {
    const owner = ownerOf(environ);
    return owner !== null && owner.home === mark && !lives(owner);
  };
  return endTree(lookup, { mine, spare });
}

/** Everything that tools of this process have started and that still runs. */
export function endOwned(owner: string): Promise<TreeEnd> {
  return endTree(table, { mine: (environ) => ownerOf(environ) !== null && environ.includes(`=${owner};`) });
}
