// The `terminal` tool: a shell command in the session's directory, in the foreground with a time limit or in the background.
import { createHash, randomBytes } from "node:crypto";
import { realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import * as z from "zod";
import { isGranted } from "../../core/grant.ts";
import type { Gate, Log, ToolCall, ToolResult } from "../../core/ports.ts";
import type { About, Grant, SavedRule } from "../../core/session.ts";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { asData } from "../../platform/fence.ts";
import { logFailure } from "../../platform/log-failure.ts";
import { pathWithout } from "../../platform/programs.ts";
import { escapeForDisplay as display } from "../../policy/display.ts";
import { defineTool, failed } from "../define.ts";
import type { LocalState } from "../local-state.ts";
import { createBox, type Entered, inside } from "../sandbox/box.ts";
import { allowsHost, hostPattern, PRESETS } from "../sandbox/hosts.ts";
import { createKeptHosts } from "../sandbox/kept-hosts.ts";
import type { NetworkOptions } from "../sandbox/networks.ts";
import { outside, type Sandbox, type SandboxChoice } from "../sandbox/sandbox.ts";
import { ownerHere, type Result, run } from "./exec.ts";
import { type ProcessLimits, USUAL_LIMITS } from "./limits.ts";
import { createProcessTool } from "./process.ts";
import { type Background, createProcesses, type ProcessOptions } from "./processes.ts";
import { createPlaces } from "./session-dirs.ts";

export type CommandJudgement = {
  verdict: "allow" | "ask" | "deny";
  reason: string;
  /** Everything that has to be asked about, each with its own reason. */
  parts?: readonly { text: string; reason: string }[];
};
/** The policy: its opinion of a command, and whether and how an "always" is kept. */
type TerminalPolicy = {
  judge(command: string, cwd: string, sealed: boolean): CommandJudgement | Promise<CommandJudgement>;
  canKeep(command: string, cwd: string): boolean | Promise<boolean>;
  keep(command: string, cwd: string): Promise<void>;
};

export type TerminalOptions = {
  /** HERMES_HOME */
  home: string;
  /** Where a session begins. */
  workspace: string;
  /** Other directories that commands may write. */
  writable?: readonly string[];
  sandbox: SandboxChoice;
  policy: TerminalPolicy;
  /** May this be typed into that background process? Without an opinion of its own: as a command, and never unasked outside a sandbox. */
  judgeInput?: ((text: string, process: Background) => CommandJudgement | Promise<CommandJudgement>) | undefined;
  localState: Pick<LocalState, "starts" | "ended" | "missing" | "cwd" | "setCwd" | "forget">;
  /** A background process that was to be told about has ended. */
  onComplete: (process: Background, text: string) => void;
  log: Log;
  timeoutMs?: number;
  approvalMs?: number;
  /** What commands in the sandbox reach. */
  network?: NetworkOptions;
  /** What a command may take of the machine. */
  limits?: ProcessLimits;
};
export type TerminalTool = ReturnType<typeof createTerminal>;

const LONGEST_TIMEOUT_MS = 600_000;
/** Long enough to see that a server could not start, too short to be noticed. */
const FIRST_LOOK_MS = 150;

const Args = z.strictObject({
  command: z
    .string()
    .min(1, "is empty: give the command to run")
    .max(100_000, "is too long: write a script to a file and run that")
    .refine((text) => !text.includes("\0"), "contains a NUL character: leave it out")
    .describe("The shell command (bash)."),
  background: z.boolean().optional().describe("Start it and go on; for servers and long work. See the process tool."),
  notify_on_complete: z.boolean().optional().describe("With background: you are told when it has ended."),
  timeout: z.number().positive().optional().describe("Seconds until it is ended, if the usual limit is too short."),
  workdir: z.string().min(1).optional().describe("Run it in this directory, for this once."),
  network: z
    .array(
      z
        .string()
        .max(300)
        .refine((text) => hostPattern(text) !== null, "is no host name, as in registry.npmjs.org"),
    )
    .max(20)
    .optional()
    .describe(
      `Hosts it needs, as in registry.npmjs.org or *.example.com, or ${Object.keys(PRESETS).join(" or ")} for the usual ones. The user is asked about those that are not allowed yet.`,
    ),
});
type Args = z.output<typeof Args>;
/** `note`: why it is not where the session was. */
type CommandDir = { cwd: string; note: string };

export function createTerminal(options: TerminalOptions) {
  const { home, policy, localState, onComplete, log } = options;
  const { timeoutMs = 180_000, approvalMs = 300_000, network: net = OFF, limits = USUAL_LIMITS } = options;
  const workspace = realpathSync(options.workspace);
  const longest = Math.max(timeoutMs, LONGEST_TIMEOUT_MS);
  const owner = ownerHere(home);
  const env = {
    PATH: pathWithout([workspace, ...(options.writable ?? [])], process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin"),
  };
  const places = createPlaces(home, log);
  const kept = createKeptHosts(join(home, "hosts.allow"), log);
  /** An approval holds only where a command would do the same as when it was asked for. */
  const environment = digest([options.sandbox.sandbox, env, net.mode]);
  const box = createBox({ sandbox: options.sandbox.sandbox, network: net, env, owner, log });
  const processes = createProcesses({
    owner,
    log,
    notes: localState,
    onComplete: (process, result) => onComplete(process, endedText(process, result)),
  });

  async function judge(args: Args, session: string, grants: readonly Grant[] = []): Promise<Gate> {
    const refusal = refused() ?? noNetwork(args);
    if (refusal) return { gate: "refuse", result: refusal };
    const { cwd } = await placeOf(args, session);
    const { command } = args;
    const about: About = { command, cwd, env: environment };
    const hosts = newHosts(args, grants);
    const judgement = await policy.judge(command, cwd, isSealed(args, grants));
    const granted = judgement.verdict === "ask" && isGranted(grants, about);
    const asked = withHosts(granted ? { verdict: "allow", reason: "" } : judgement, hosts);
    const isKept = judgement.verdict === "ask" && !granted && (await policy.canKeep(command, cwd));
    const saves: SavedRule[] = [
      ...(isKept ? [{ file: "policy.yaml", rule: `allow_exact: ${onLine(command)}` } as const] : []),
      ...hosts.map((rule) => ({ file: "hosts.allow", rule }) as const),
    ];
    const canKeep = isKept || ((granted || judgement.verdict === "allow") && hosts.length > 0);
    const choices = canKeep ? CHOICES : CHOICES.filter((choice) => choice !== "always");
    const where = `in ${display(cwd)}${args.background ? ", in the background" : ""}`;
    const gate = gateOf(asked, choices, (reason) => `${display(command)}\n\n${where}: ${reason}`);
    if (gate.gate === "refuse") return gate;
    const judged = { ...gate, about: { ...about, ...(hosts.length > 0 && { hosts }) } };
    return judged.gate === "ask" && canKeep ? { ...judged, saves } : judged;
  }

  /** What it may reach without a question. A yes for the session holds for its other commands too. */
  const openHosts = (grants: readonly Grant[]): string[] => [
    ...net.allow,
    ...kept.list(),
    ...grants.flatMap(({ about }) => about.hosts ?? []),
  ];
  /** Nothing is reached from in there, so nothing can be sent away or changed elsewhere. */
  const isSealed = (args: Args, grants: readonly Grant[]): boolean =>
    options.sandbox.sandbox !== null && net.mode !== "on" && !hostsOf(args).length && !openHosts(grants).length;
  /** What it names and nobody has allowed yet. */
  function newHosts(args: Args, grants: readonly Grant[]): string[] {
    if (!options.sandbox.sandbox || net.mode !== "ask") return [];
    const open = openHosts(grants);
    return hostsOf(args).filter((host) => !open.includes(host) && !allowsHost(open, host, 443));
  }

  async function act(args: Args, call: ToolCall): Promise<ToolResult> {
    const { session, about } = call;
    const now = await placeOf(args, session);
    // What was judged for one directory runs in that one, whatever calls beside it do (I15).
    const cwd = about?.cwd ?? now.cwd;
    const note = now.cwd === cwd ? now.note : "";
    const no = refused() ?? (await refusedAtTheDoor(args, cwd, call));
    if (no) return failed(no);
    if (call.approved === "always") {
      kept.keep(about?.hosts ?? []);
      // Where a grant covered the command already, only its hosts were asked about.
      if (!isGranted(call.grants ?? [], { command: args.command, cwd, env: environment }))
        await policy.keep(args.command, cwd).catch(logFailure(log, "error", "policy.unwritten")); // it is approved all the same
    }
    const place = places.of(session);
    const { outputs } = place;
    const hosts = [...openHosts(call.grants ?? []), ...((call.approved && about?.hosts) || [])];
    const entered = await box.enter(session, place, hosts);
    if (args.background) return begin(args, { cwd, outputs, session, unattended: call.unattended }, entered);

    const limitMs = Math.min((args.timeout ?? timeoutMs / 1000) * 1000, longest);
    const id = randomBytes(8).toString("hex");
    const result = await run(args.command, {
      cwd,
      sandbox: entered.sandbox,
      env: { ...env, ...entered.env },
      owner,
      marker: id,
      timeoutMs: limitMs,
      limits,
      signal: call.signal,
      spool: { file: join(outputs, `${id}.txt`) },
      reportCwd: true,
      onOutput: call.print,
    });
    const left = await entered.leave();
    if (result.survivors > 0) log("warn", "terminal.survivors", { session, survivors: result.survivors });
    const moved = result.cwd !== undefined && result.cwd !== cwd && args.workdir === undefined;
    if (moved || note) await setCwd(session, moved && result.cwd ? result.cwd : cwd);
    const notes = [
      note,
      moved ? `now in ${result.cwd}` : "",
      ...left,
      overNote(result, limits),
      ...notesOn(result, limitMs),
    ];
    return {
      ok: result.code === 0,
      text: report(`exit ${result.code} · ${seconds(result.durationMs)}`, notes, result.output),
    };
  }

  async function begin(
    args: Args,
    { session, ...how }: Pick<ProcessOptions, "cwd" | "outputs" | "unattended"> & { session: string },
    entered: Entered,
  ): Promise<ToolResult> {
    const notify = args.notify_on_complete ?? false;
    const process = await processes.start(session, args.command, {
      ...how,
      sandbox: entered.sandbox,
      env: { ...env, ...entered.env },
      limits,
      notify,
      onEnd: entered.leave,
    });
    if (typeof process === "string") return failed(process);
    await within(clock, FIRST_LOOK_MS, process.running.done);
    const head = process.result
      ? `${process.id} · exit ${process.result.code}`
      : `${process.id} · running in the background`;
    const notes = [
      `its output is in ${process.file}`,
      entered.refused(),
      notify && !process.result ? "you will be told when it ends" : "",
    ];
    return { ok: !process.result || process.result.code === 0, text: report(head, notes, process.running.fresh()) };
  }

  /** Judged again: neither a way around the gate nor rules that have changed since run what is not allowed now (I16). */
  async function refusedAtTheDoor(args: Args, cwd: string, call: ToolCall): Promise<string | null> {
    const { command } = args;
    const { about, approved, grants = [] } = call;
    if (about && (about.command !== command || about.env !== environment))
      return "Not run: hermes was restarted with another sandbox or environment since this was judged. Call it again.";
    const { verdict, reason } = await policy.judge(command, cwd, isSealed(args, grants));
    if (verdict === "deny") return `Not run: ${reason}`;
    const yes = verdict === "allow" || approved !== undefined || isGranted(grants, { command, cwd, env: environment });
    const hosts = newHosts(args, grants).filter((host) => !approved || !about?.hosts?.includes(host));
    if (yes && hosts.length > 0) return `Not run: ${hosts.join(", ")} is not allowed any longer. Call it again.`;
    return yes ? null : `Not run: it needs approval by now. Call it again. ${reason}`;
  }

  /** The directory of this call: the one it names, or the session's. */
  async function placeOf(args: Args, session: string): Promise<CommandDir> {
    const last = (await localState.cwd(session)) ?? places.cwd(session) ?? workspace;
    const base = exists(last, session) ? last : workspace;
    const note = base === last ? "" : `${last} is gone, back in ${base}`;
    if (args.workdir === undefined) return { cwd: base, note };
    const named = resolve(base, args.workdir.replace(/^~(?=\/|$)/, process.env.HOME ?? homedir()));
    const there = onHost(named, session);
    // By its real name, so that a link that is turned meanwhile changes nothing.
    return { cwd: there === named && exists(named, session) ? realpathSync(named) : named, note: "" };
  }

  async function setCwd(session: string, cwd: string): Promise<void> {
    places.setCwd(session, cwd);
    await localState.setCwd(session, cwd).catch(logFailure(log, "warn", "terminal.cwd_not_kept", { session }));
  }

  const onHost = (path: string, session: string) => {
    const { sandbox } = options.sandbox;
    return sandbox ? outside(inside(sandbox, places.of(session)), path) : path;
  };
  const exists = (path: string, session: string) => {
    const there = onHost(path, session);
    return there !== null && (statSync(there, { throwIfNoEntry: false })?.isDirectory() ?? false);
  };
  const refused = () =>
    options.sandbox.sandbox === null && options.sandbox.refuse
      ? `Not run: commands must run in a sandbox, and there is none: ${options.sandbox.why}. Tell the user.`
      : null;

  const noNetwork = (args: Args) =>
    options.sandbox.sandbox && net.mode === "off" && hostsOf(args).length > 0
      ? "Not run: the user has switched the network off (terminal.network). Leave network out, or tell the user."
      : null;

  function gateOf(judgement: CommandJudgement, choices: string[], text: (reason: string) => string): Gate {
    switch (judgement.verdict) {
      case "allow":
        return { gate: "run" };
      case "deny":
        return { gate: "refuse", result: `Not run: ${judgement.reason}` };
      case "ask":
        return { gate: "ask", kind: "approval", text: text(reasonsOf(judgement)), choices, timeoutMs: approvalMs };
    }
  }

  /** One reason is a sentence; of several each is listed with its part. */
  function reasonsOf({ reason, parts = [] }: CommandJudgement): string {
    if (parts.length < 2) return display(reason);
    const lines = parts.map((part) => `- ${[onLine(part.text), display(part.reason)].filter(Boolean).join(": ")}`);
    return `${parts.length} parts need approval.\n${lines.join("\n")}`;
  }
  const onLine = (text: string): string => {
    const line = display(text).replaceAll("\n", " ");
    return line.length > LONGEST_PART ? `${line.slice(0, LONGEST_PART - 1)}…` : line;
  };

  /** Typed into a shell it would be a command that nobody judged; only a sandbox bounds what an unknown program does with it. */
  async function judgeInput(text: string, process: Background): Promise<CommandJudgement> {
    const judgement = await policy.judge(text, process.cwd, false);
    if (judgement.verdict !== "allow" || options.sandbox.sandbox) return judgement;
    return { verdict: "ask", reason: "it goes to a program that is running outside a sandbox" };
  }

  const tool = defineTool({
    name: "terminal",
    description: describe(workspace, options.sandbox.sandbox, net.mode, timeoutMs, longest),
    args: Args,
    example: '{"command": "ls -l"}',
    repeatable: false,
    judge,
    run: act,
  });
  const judgeWrite = async (text: string, process: Background): Promise<Gate> =>
    gateOf(
      await (options.judgeInput ?? judgeInput)(text, process),
      ["once", "deny"],
      (reason) => `${display(text)}\n\ninto ${process.id} (${display(process.command)}): ${reason}`,
    );
  return {
    tools: [tool, createProcessTool(processes, localState.missing, judgeWrite)],
    /** What a command of the session is put into. */
    enter: (session: string) => box.enter(session, places.of(session), []),
    processes: processes.list,
    running: processes.running,
    endAll: processes.endAll,
    /** The session is gone: its processes end, its files go. */
    async forget(session: string) {
      await processes.forget(session);
      await Promise.all([places.forget(session), localState.forget(session)]);
    },
    /** Removes files of sessions that nobody has used for long, a part of them each time. */
    sweep: (now: number) => {
      const busy = processes.running().map(({ session }) => session);
      return places.sweep(now, busy);
    },
    close: async () => {
      await processes.close();
      await box.close();
    },
  };
}

const OFF: NetworkOptions = { mode: "off", allow: [] };
const hostsOf = ({ network = [] }: Args): string[] => network.flatMap((text) => hostPattern(text) ?? []);

function withHosts(judgement: CommandJudgement, hosts: string[]): CommandJudgement {
  if (hosts.length === 0 || judgement.verdict === "deny") return judgement;
  const reach = `It wants to reach ${hosts.map((host) => (PRESETS[host] ? `${host} (${PRESETS[host].join(", ")})` : host)).join(", ")}`;
  if (judgement.verdict === "allow") return { verdict: "ask", reason: `${reach}.` };
  const { reason, parts = [{ text: "", reason }] } = judgement;
  return { verdict: "ask", reason, parts: [...parts, { text: "", reason: `${reach}.` }] };
}

/** Characters of a part in a list; the whole command stands above it. */
const LONGEST_PART = 200;
const CHOICES = ["once", "session", "always", "deny"];

const NETWORK: Record<NetworkOptions["mode"], string> = {
  off: "There is no network but the session's own localhost.",
  ask: "Of the network it reaches the session's own localhost, and by HTTP(S) the hosts that the user has allowed: name those it needs in network.",
  on: "It reaches the session's own localhost, and public hosts by HTTP(S).",
};

const describe = (
  workspace: string,
  sandbox: Sandbox | null,
  net: NetworkOptions["mode"],
  timeoutMs: number,
  longest: number,
) =>
  [
    `Runs a shell command and gives its output (standard output and errors, in order) and exit code. It starts in ${workspace}; a cd is remembered for the next call.`,
    `It has no input and no terminal, and ${timeoutMs / 1000} s (timeout: up to ${longest / 1000} s). What it leaves running is ended with it; use background for servers and long work.`,
    sandbox &&
      `It runs in a sandbox: only ${[...sandbox.writable, "/tmp"].join(", ")} can be written, home directories cannot be read. ${NETWORK[net]}`,
  ]
    .filter(Boolean)
    .join("\n");

const digest = (parts: unknown): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);

const overNote = ({ over }: Result, { memoryBytes, processes }: ProcessLimits): string => {
  if (over === "memory") return `ended, since it used more than ${Math.round(memoryBytes / 2 ** 20)} MB of memory`;
  return over ? `ended, since it had more than ${processes} processes` : "";
};

function notesOn(result: Result, limitMs: number): string[] {
  return [
    result.timedOut ? `ended at its time limit of ${limitMs / 1000} s, with everything it had started` : "",
    result.stragglers > 0
      ? `${result.stragglers} process(es) it left running were ended; use background for those`
      : "",
    result.survivors > 0 ? `${result.survivors} process(es) could not be ended` : "",
    /could not (?:write|lock) config file|\.git\/(?:config|hooks)\S*: (?:Read-only|Device or resource busy)/.test(
      result.output,
    )
      ? "the configuration and hooks of repositories are read-only in the sandbox: the user has to do that"
      : "",
    result.signal && !result.timedOut && !result.over ? `killed by ${result.signal}` : "",
    result.truncated && result.file
      ? `only its beginning and end are here; ${result.note ? "more of it" : "the whole output"} is in ${result.file}`
      : "",
    result.truncated && result.note ? result.note : "",
  ];
}

/** Our own words first: nothing that a program prints can stand before them. */
const report = (head: string, notes: string[], output: string) =>
  `[${[head, ...notes.filter(Boolean)].join(" · ")}]\n${output || "(no output)"}`;

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/** It is said to the model where a person's words stand, so nothing that a program printed may look like those. */
function endedText(process: Background, result: Result): string {
  const how = `exit ${result.code} after ${seconds(result.durationMs)} · all of its output is in ${process.file}`;
  const head = `A program says this, not a person: background process ${process.id} has ended: ${how}`;
  return asData(head, `$ ${process.command.slice(0, 500)}\n${result.output.slice(-LAST_WORDS)}`);
}
const LAST_WORDS = 2000;
