// The `terminal` tool: a shell command in the session's directory, in the foreground with a time limit or in the background.
import { createHash, randomBytes } from "node:crypto";
import { realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import * as z from "zod";
import { messageOf } from "../core/errors.ts";
import { isGranted } from "../core/grant.ts";
import type { Gate, Log, Tool, ToolCall, ToolResult } from "../core/ports.ts";
import type { About, Grant } from "../core/session.ts";
import { pathWithout } from "./env.ts";
import { ownerHere, type Result, run } from "./exec.ts";
import { createPlaces } from "./places.ts";
import { createProcessTool } from "./process.ts";
import { type Background, createProcesses } from "./processes.ts";
import { type Choice, outside, type Sandbox } from "./sandbox.ts";
import { within } from "./within.ts";

export type Judgement = { verdict: "allow" | "ask" | "deny"; reason: string };
/** The policy: its opinion of a command, and whether and how an "always" is kept. */
type Policy = {
  judge(command: string, cwd: string): Judgement | Promise<Judgement>;
  canKeep(command: string, cwd: string): boolean | Promise<boolean>;
  keep(command: string, cwd: string): Promise<void>;
};

export type TerminalOptions = {
  /** HERMES_HOME */
  home: string;
  /** Where a session begins. */
  workspace: string;
  sandbox: Choice;
  policy: Policy;
  /** May this be typed into that background process? Without an opinion of its own: as a command, and never unasked outside a sandbox. */
  judgeInput?: ((text: string, process: Background) => Judgement | Promise<Judgement>) | undefined;
  /** Makes control and bidi characters visible. */
  display: (text: string) => string;
  /** A background process that was to be told about has ended. */
  onComplete: (session: string, text: string) => void;
  log: Log;
  timeoutMs?: number;
  approvalMs?: number;
  /** Names of variables that commands may have besides the usual ones. */
  pass?: readonly string[];
};
export type Terminal = {
  tools: Tool[];
  processes(session: string): readonly Background[];
  /** `/stop all` */
  endAll(session: string): Promise<void>;
  /** The session is gone: its processes end, its files go. */
  forget(session: string): Promise<void>;
  /** Removes files of sessions that nobody has used for long, a part of them each time. */
  sweep(now: number): Promise<void>;
  /** Ends everything. */
  close(): Promise<void>;
};

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
});
type Args = z.output<typeof Args>;
/** `note`: why it is not where the session was. */
type Where = { cwd: string; note: string };

export function createTerminal(options: TerminalOptions): Terminal {
  const { home, policy, display, onComplete, log, pass } = options;
  const { timeoutMs = 180_000, approvalMs = 300_000 } = options;
  const workspace = realpathSync(options.workspace);
  const longest = Math.max(timeoutMs, LONGEST_TIMEOUT_MS);
  const owner = ownerHere(home);
  const env = { PATH: pathWithout(workspace, process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin") };
  const places = createPlaces(home, log);
  /** An approval holds only where a command would do the same as when it was asked for. */
  const environment = digest([options.sandbox.sandbox, env, pass]);
  const processes = createProcesses({
    owner,
    log,
    onComplete: (process, result) => onComplete(process.session, endedText(process, result)),
  });

  async function judge(raw: unknown, session: string, grants: readonly Grant[] = []): Promise<Gate> {
    const args = parsed(raw);
    if (typeof args === "string") return { gate: "refuse", result: args };
    const refusal = refused();
    if (refusal) return { gate: "refuse", result: refusal };
    const { cwd } = placeOf(args, session);
    const about: About = { command: args.command, cwd, env: environment };
    const judgement = await policy.judge(args.command, cwd);
    if (judgement.verdict === "ask" && isGranted(grants, about)) return { gate: "run", about };
    const where = `in ${display(cwd)}${args.background ? ", in the background" : ""}`;
    const keeps = judgement.verdict === "ask" && (await policy.canKeep(args.command, cwd));
    const choices = keeps ? CHOICES : CHOICES.filter((choice) => choice !== "always");
    const gate = gateOf(judgement, choices, (reason) => `${display(args.command)}\n\n${where}: ${reason}`);
    return gate.gate === "refuse" ? gate : { ...gate, about };
  }

  async function act(raw: unknown, call: ToolCall): Promise<ToolResult> {
    const args = parsed(raw);
    if (typeof args === "string") return { ok: false, text: args };
    const { session, about } = call;
    const now = placeOf(args, session);
    // What was judged for one directory runs in that one, whatever calls beside it do (I15).
    const cwd = about?.cwd ?? now.cwd;
    const note = now.cwd === cwd ? now.note : "";
    const no = refused() ?? (await refusedAtTheDoor(args, cwd, call));
    if (no) return { ok: false, text: no };
    if (call.approved === "always") await keep(args.command, cwd);
    const { outputs, tmp } = places.of(session);
    const sandbox = inside({ outputs, tmp });
    if (args.background) return begin(args, { cwd, sandbox, outputs, session });

    const limitMs = Math.min((args.timeout ?? timeoutMs / 1000) * 1000, longest);
    const id = randomBytes(8).toString("hex");
    const result = await run(args.command, {
      cwd,
      sandbox,
      pass,
      env,
      owner,
      marker: id,
      timeoutMs: limitMs,
      signal: call.signal,
      spool: { file: join(outputs, `${id}.txt`) },
      reportCwd: true,
    });
    if (result.survivors > 0) log("warn", "terminal.survivors", { session, survivors: result.survivors });
    const moved = result.cwd !== undefined && result.cwd !== cwd && args.workdir === undefined;
    if (moved || note) places.setCwd(session, moved && result.cwd ? result.cwd : cwd);
    const notes = [note, moved ? `now in ${result.cwd}` : "", ...notesOn(result, limitMs)];
    return {
      ok: result.code === 0,
      text: report(`exit ${result.code} · ${seconds(result.durationMs)}`, notes, result.output),
    };
  }

  async function begin(
    args: Args,
    { session, ...how }: { session: string; cwd: string; sandbox: Sandbox | null; outputs: string },
  ): Promise<ToolResult> {
    const notify = args.notify_on_complete ?? false;
    const process = await processes.start(session, args.command, { ...how, pass, env, notify });
    if (typeof process === "string") return { ok: false, text: process };
    await within(process.running.done, FIRST_LOOK_MS);
    const head = process.result
      ? `${process.id} · exit ${process.result.code}`
      : `${process.id} · running in the background`;
    const notes = [
      `its output is in ${process.file}`,
      notify && !process.result ? "you will be told when it ends" : "",
    ];
    return { ok: !process.result || process.result.code === 0, text: report(head, notes, process.running.fresh()) };
  }

  /** Judged again: neither a way around the gate nor rules that have changed since run what is not allowed now (I16). */
  async function refusedAtTheDoor({ command }: Args, cwd: string, call: ToolCall): Promise<string | null> {
    const { about, approved, grants = [] } = call;
    if (about && (about.command !== command || about.env !== environment))
      return "Not run: hermes was restarted with another sandbox or environment since this was judged. Call it again.";
    const { verdict, reason } = await policy.judge(command, cwd);
    if (verdict === "deny") return `Not run: ${reason}`;
    const yes = verdict === "allow" || approved !== undefined || isGranted(grants, { command, cwd, env: environment });
    return yes ? null : `Not run: it needs approval by now. Call it again. ${reason}`;
  }

  async function keep(command: string, cwd: string): Promise<void> {
    try {
      await policy.keep(command, cwd);
    } catch (error) {
      log("error", "policy.unwritten", { error: messageOf(error) }); // this call is approved all the same
    }
  }

  /** The directory of this call: the one it names, or the session's. */
  function placeOf(args: Args, session: string): Where {
    const last = places.cwd(session) ?? workspace;
    const base = exists(last, session) ? last : workspace;
    const note = base === last ? "" : `${last} is gone, back in ${base}`;
    if (args.workdir === undefined) return { cwd: base, note };
    const named = resolve(base, args.workdir.replace(/^~(?=\/|$)/, process.env.HOME ?? homedir()));
    const there = onHost(named, session);
    // By its real name, so that a link that is turned meanwhile changes nothing.
    return { cwd: there === named && exists(named, session) ? realpathSync(named) : named, note: "" };
  }

  const inside = (place: { outputs: string; tmp: string }): Sandbox | null =>
    options.sandbox.sandbox && { ...options.sandbox.sandbox, tmp: place.tmp, readable: [place.outputs] };
  const onHost = (path: string, session: string) => {
    const sandbox = inside(places.of(session));
    return sandbox ? outside(sandbox, path) : path;
  };
  const exists = (path: string, session: string) => {
    const there = onHost(path, session);
    return there !== null && (statSync(there, { throwIfNoEntry: false })?.isDirectory() ?? false);
  };
  const refused = () =>
    options.sandbox.sandbox === null && options.sandbox.refuse
      ? `Not run: commands must run in a sandbox, and there is none: ${options.sandbox.why}. Tell the user.`
      : null;

  function gateOf(judgement: Judgement, choices: string[], text: (reason: string) => string): Gate {
    switch (judgement.verdict) {
      case "allow":
        return { gate: "run" };
      case "deny":
        return { gate: "refuse", result: `Not run: ${judgement.reason}` };
      case "ask":
        return { gate: "ask", kind: "approval", text: text(judgement.reason), choices, timeoutMs: approvalMs };
    }
  }

  /** Typed into a shell it would be a command that nobody judged; only a sandbox bounds what an unknown program does with it. */
  async function judgeInput(text: string, process: Background): Promise<Judgement> {
    const judgement = await policy.judge(text, process.cwd);
    if (judgement.verdict !== "allow" || options.sandbox.sandbox) return judgement;
    return { verdict: "ask", reason: "it goes to a program that is running outside a sandbox" };
  }

  const tool: Tool = {
    name: "terminal",
    description: describe(workspace, options.sandbox.sandbox, timeoutMs, longest),
    schema: z.toJSONSchema(Args),
    repeatable: false,
    judge,
    run: act,
  };
  const judgeWrite = async (text: string, process: Background): Promise<Gate> =>
    gateOf(
      await (options.judgeInput ?? judgeInput)(text, process),
      ["once", "deny"],
      (reason) => `${display(text)}\n\ninto ${process.id} (${display(process.command)}): ${reason}`,
    );
  return {
    tools: [tool, createProcessTool(processes, judgeWrite)],
    processes: processes.list,
    endAll: processes.endAll,
    async forget(session) {
      await processes.forget(session);
      await places.forget(session);
    },
    sweep: (now) => places.sweep(now, processes.busy()),
    close: processes.close,
  };
}

const CHOICES = ["once", "session", "always", "deny"];

const describe = (workspace: string, sandbox: Sandbox | null, timeoutMs: number, longest: number) =>
  [
    `Runs a shell command and gives its output (standard output and errors, in order) and exit code. It starts in ${workspace}; a cd is remembered for the next call.`,
    `It has no input and no terminal, and ${timeoutMs / 1000} s (timeout: up to ${longest / 1000} s). What it leaves running is ended with it; use background for servers and long work.`,
    sandbox &&
      `It runs in a sandbox: only ${[...sandbox.writable, "/tmp"].join(", ")} can be written, credentials cannot be read${sandbox.network ? "" : ", and there is no network"}.`,
  ]
    .filter(Boolean)
    .join("\n");

/** The arguments, or what is wrong with them and what to do. */
function parsed(raw: unknown): Args | string {
  const { success, data, error } = Args.safeParse(raw);
  if (success) return data;
  const wrong = error.issues.map(({ path, message }) => `${path.join(".") || "arguments"}: ${message}`).join("; ");
  return `Not run, the arguments do not fit: ${wrong}. Call it again like this: {"command": "ls -l"}`;
}

const digest = (parts: unknown): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);

function notesOn(result: Result, limitMs: number): string[] {
  return [
    result.timedOut ? `ended at its time limit of ${limitMs / 1000} s, with everything it had started` : "",
    result.stragglers > 0
      ? `${result.stragglers} process(es) it left running were ended; use background for those`
      : "",
    result.survivors > 0 ? `${result.survivors} process(es) could not be ended` : "",
    result.signal && !result.timedOut ? `killed by ${result.signal}` : "",
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

function endedText(process: Background, result: Result): string {
  const head = `Background process ${process.id} has ended: exit ${result.code} after ${seconds(result.durationMs)}`;
  const notes = [process.command.slice(0, 500), `all of its output is in ${process.file}`];
  return report(head, notes, result.output.slice(-LAST_WORDS));
}
const LAST_WORDS = 2000;
