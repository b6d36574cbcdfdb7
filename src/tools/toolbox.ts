// All tools of an agent, from its configuration.

import { randomUUID } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { ConfigError, messageOf, Refusal, type RefusalCode } from "../core/errors.ts";
import type { RunningJobs } from "../core/jobs.ts";
import type { Ambient, Tool, ToolCall } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Unattended } from "../core/session.ts";
import { isTerminal, parseKey, rootOf, TERMINAL } from "../core/session-key.ts";
import type { Catalog, Journal, Notes, Search } from "../core/store.ts";
import { backoff } from "../core/wait.ts";
import { distrustPrograms } from "../platform/programs.ts";
import { escapeForDisplay } from "../policy/display.ts";
import { openHomePolicy } from "../policy/home-policy.ts";
import { createBackgroundChildren } from "./background-children.ts";
import { createClarify } from "./clarify.ts";
import { createDelegate } from "./delegate.ts";
import { createExposure } from "./exposure.ts";
import { bundledRipgrep } from "./files/ripgrep.ts";
import { createFileTools } from "./files/tools.ts";
import { createLocalState, type LocalStateOptions } from "./local-state.ts";
import { createMcp, type McpOptions } from "./mcp/tools.ts";
import { hostPattern, PRESETS } from "./sandbox/hosts.ts";
import { createKeptHosts } from "./sandbox/kept-hosts.ts";
import { chooseSandbox, type SandboxChoice } from "./sandbox/sandbox.ts";
import { createSchedule } from "./schedule.ts";
import { createSessionSearch } from "./session-search.ts";
import { ownerHere, probeSandbox, run, sweepOrphans } from "./shell/exec.ts";
import { USUAL_LIMITS } from "./shell/limits.ts";
import { runningProcesses } from "./shell/processes.ts";
import { createPlaces } from "./shell/session-dirs.ts";
import { createTerminal } from "./shell/terminal.ts";
import { createSkillView } from "./skill-view.ts";
import { createSnapshots } from "./snapshots/snapshots.ts";
import { createTodo } from "./todo.ts";
import { createWebTool } from "./web/fetch.ts";
import { createSearchTool } from "./web/search.ts";

export type ToolboxOptions = Ambient & {
  /** HERMES_HOME */
  home: string;
  workspace: string;
  terminal: {
    timeoutMs: number;
    sandbox: "auto" | "off" | "required";
    network: "off" | "ask" | "on";
    network_allow: readonly string[];
    /** Megabytes that one command may use. */
    memory?: number | undefined;
    /** Directories besides the workspace that may be written. */
    writable: readonly string[];
    /** What of home directories commands may read besides programs. */
    readable: readonly string[];
  };
  approvals: {
    mode: "manual" | "off";
    timeoutMs: number;
    allow: readonly string[];
    deny: readonly string[];
    /** For children, whom nobody watches. */
    unattended: Unattended;
  };
  clarifyMs: number;
  /** Of a SearXNG server; without it there is no `web_search`. */
  searchUrl?: string | undefined;
  mcpServers: McpOptions["servers"];
  journal: Pick<Journal, "entries">;
  catalog: Pick<Catalog, "summary">;
  notes: Notes;
  search: Search;
  /** The engine is made with its tools, so it is asked for when it is there. */
  runtime(): Runtime;
  /** Likewise. */
  jobs(): RunningJobs;
  skills: Parameters<typeof createSkillView>[0];
  /** What `pickSandbox` gave. */
  sandbox: SandboxChoice;
  cluster: LocalStateOptions["cluster"];
};

export type Toolbox = Awaited<ReturnType<typeof openToolbox>>;

const SEARCH = { capBytes: 8_000_000, timeoutMs: 60_000 };
const WAIT_MS = { first: 1_000, most: 60_000 };
/** What is refused for these reasons can be accepted later. */
const PASSING: ReadonlySet<RefusalCode> = new Set(["store_unavailable", "inbox_full"]);

export async function openToolbox(options: ToolboxOptions) {
  const { home, workspace, approvals, terminal, clock, log, runtime, journal, catalog, notes, search } = options;
  const { sandbox: choice } = options;
  const [swept, rg] = await Promise.all([sweepOrphans(home), bundledRipgrep()]);
  log("info", "orphans.swept", { ...swept });
  const policy = await openHomePolicy({
    file: join(home, "policy.yaml"),
    lists: approvals,
    mode: approvals.mode,
    sandbox: choice.sandbox !== null,
    userHome: homedir(),
  });
  const places = createPlaces(home, log);
  const closing = new AbortController();
  const owner = ownerHere(home);
  const localState = createLocalState({ notes, log, home, life: owner, cluster: options.cluster });
  const shell = createTerminal({
    localState,
    home,
    workspace,
    writable: terminal.writable,
    sandbox: choice,
    policy,
    ...(approvals.mode === "off" && { judgeInput: () => ({ verdict: "allow" as const, reason: "asking is off" }) }),
    onComplete: (process, text) => void tell(process, text, { source: "process", key: randomUUID() }),
    log,
    timeoutMs: terminal.timeoutMs,
    approvalMs: approvals.timeoutMs,
    ...(terminal.memory && { limits: { ...USUAL_LIMITS, memoryBytes: terminal.memory * 2 ** 20 } }),
    network: {
      mode: networkMode(terminal.network, approvals.mode),
      allow: allowedHosts(terminal.network_allow),
    },
  });
  const snapshots = createSnapshots({
    home,
    workspace,
    choice,
    notes,
    enter: shell.enter,
    display: escapeForDisplay,
    owner,
    clock,
    log,
  });
  const roots = [workspace, ...terminal.writable];
  const exposure =
    approvals.mode === "off"
      ? undefined
      : createExposure({ journal, catalog, roots, home, timeoutMs: approvals.timeoutMs });
  const delegated = createBackgroundChildren({
    notes,
    runtime,
    clock,
    log,
    tell: (about, text, key) => tell(about, text, { source: "delegate", key: `end/${key}` }),
  });
  const todo = createTodo({ notes, dir: join(home, "todo") });
  const own: Tool[] = [
    ...shell.tools,
    ...createFileTools({
      workspace,
      roots: terminal.writable,
      home,
      outputsOf: (session) => places.of(session).outputs,
      ripgrep:
        rg === null ? null : (args, how) => run([rg, ...args], { ...how, ...SEARCH, marker: randomUUID(), owner }),
      log,
    }),
    createWebTool(exposure && { judge: exposure.judgeFetch }),
    ...(options.searchUrl ? [createSearchTool(options.searchUrl)] : []),
    createSessionSearch({ search, scopeOf }),
    todo.tool,
    createSkillView(options.skills),
    createClarify(options.clarifyMs),
    createDelegate({ runtime, clock, unattended: approvals.unattended, delegated }),
    createSchedule({ jobs: options.jobs, clock, ...(exposure && { judge: exposure.judgeJob }) }),
  ].map((tool) => localState.around(snapshots.around(tool)));
  let all = own;
  const mcp = createMcp({
    servers: options.mcpServers,
    home,
    roots,
    owner,
    log,
    approvalMs: approvals.timeoutMs,
    ...(approvals.mode === "off" && { gate: () => ({ gate: "run" as const }) }),
    onChange: (tools) => {
      all = [...own, ...tools];
    },
  });
  await mcp.ready;
  all = [...own, ...mcp.tools()];

  /** Said like anything else: durable, in order, and not in the middle of something. Tried until it is taken; false: it was not. Never
   *  rejects. */
  async function tell(
    { session, unattended }: Pick<ToolCall, "session" | "unattended">,
    text: string,
    from: { source: string; key: string },
  ): Promise<boolean> {
    const { of } = parseKey(rootOf(session));
    const reply = of === "terminal" || of === "run" || of === "named" ? "pull" : "push"; // a chat must be told of it
    const said = { session, ...from, text, mode: "queue", reply, same: from.key } as const;
    const request = { ...said, ...(unattended && { unattended }) };
    for (let tries = 0; !closing.signal.aborted; tries++) {
      try {
        await runtime().accept(request);
        return true;
      } catch (error) {
        const again = error instanceof Refusal && PASSING.has(error.code);
        log("warn", again ? "notice.delayed" : "notice.lost", { session, tries, error: messageOf(error) });
        if (!again) return false;
        await clock.sleep(backoff(tries, WAIT_MS), closing.signal);
      }
    }
    return false;
  }

  return {
    /** Another list only when the tools are others: MCP servers come and go. */
    tools: (): readonly Tool[] => all,
    /** For people: where commands run. */
    sandbox: sandboxLine(choice),
    background: (session: string) => [
      ...shell.processes(session).map(({ id, command }) => ({ id, command })),
      ...delegated.list(session),
    ],
    /** The part of it that are child agents. */
    delegated,
    localState,
    /** What runs in the background of any session. */
    processes: runningProcesses(shell.running),
    /** Ends the other part: processes. */
    endBackground: shell.endAll,
    /** Brings files back to before a turn. */
    restoreFiles: snapshots.restore,
    fileChanges: snapshots.changes,
    async forget(session: string) {
      await Promise.all([shell.forget(session), snapshots.forget(session), todo.forget(session)]);
    },
    async sweep(now: number) {
      await Promise.all([shell.sweep(now), snapshots.sweep(now)]);
    },
    callMcp: mcp.call,
    async close() {
      closing.abort("closed");
      delegated.close();
      await snapshots.close();
      await Promise.all([shell.close(), mcp.close(), policy.close()]);
    },
  };
}

const allowedHosts = (texts: readonly string[]): string[] =>
  texts.map((text) => {
    const pattern = hostPattern(text);
    if (pattern !== null) return pattern;
    const presets = Object.keys(PRESETS).join(", ");
    throw new ConfigError(
      `terminal.network_allow: ${text} is neither a host (registry.npmjs.org, *.example.com) nor one of ${presets}`,
    );
  });

/** How commands run here, as the policy has to know it. `sealed`: as long as no conversation has allowed a host. */
export async function confinement(
  options: ToolDirs & { approvals: Pick<ToolboxOptions["approvals"], "mode"> },
): Promise<{ sandbox: boolean; sealed: boolean }> {
  const { home, terminal, approvals } = options;
  const { sandbox } = await pickSandbox(options);
  const hosts = [
    ...allowedHosts(terminal.network_allow),
    ...createKeptHosts(join(home, "hosts.allow"), () => {}).list(),
  ];
  const reaches = networkMode(terminal.network, approvals.mode) === "on" || hosts.length > 0;
  return { sandbox: sandbox !== null, sealed: sandbox !== null && !reaches };
}

/** Where nobody is asked, anything that is named would be allowed. */
const networkMode = (
  network: ToolboxOptions["terminal"]["network"],
  mode: ToolboxOptions["approvals"]["mode"],
): ToolboxOptions["terminal"]["network"] => (network === "ask" && mode === "off" ? "on" : network);

/** Which sandbox is in force here, if any. From then on no program is taken from where commands write. */
export async function pickSandbox({ home, workspace, terminal }: ToolDirs): Promise<SandboxChoice> {
  distrustPrograms([workspace, ...terminal.writable]);
  return chooseSandbox({
    mode: terminal.sandbox,
    probe: terminal.sandbox === "off" ? { usable: false, why: "it is off" } : await probeSandbox(),
    writable: [workspace, ...terminal.writable],
    homes: { hermes: home, user: homedir() },
    readable: terminal.readable,
    path: process.env.PATH ?? "",
  });
}
type ToolDirs = Pick<ToolboxOptions, "home" | "workspace"> & {
  terminal: Omit<ToolboxOptions["terminal"], "timeoutMs">;
};

function sandboxLine(choice: SandboxChoice): string {
  if (choice.sandbox) return "Commands run in a sandbox.";
  if (choice.refuse) return `Commands do not run: ${choice.why}.`;
  return `Commands run without a sandbox, with all that you can do: ${choice.why}. hermes doctor says what mends it.`;
}

/** Whoever sits at the terminal may see all that was said there; in a chat only what was said in it. */
function scopeOf(session: string): string {
  const talk = rootOf(session);
  return isTerminal(talk) ? TERMINAL : talk;
}
