// All tools of an agent, from its configuration.
import { homedir } from "node:os";
import { join } from "node:path";
import type { Clock, Log, Store, Tool } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import { createClarify } from "./clarify.ts";
import { createDelegate } from "./delegate.ts";
import { probeSandbox, sweepOrphans } from "./exec.ts";
import { openGrants } from "./grants.ts";
import { escapeForDisplay } from "./policy/display.ts";
import { chooseSandbox } from "./sandbox.ts";
import { createTerminal } from "./terminal.ts";
import { createTodo } from "./todo.ts";

export type ToolboxOptions = {
  /** HERMES_HOME */
  home: string;
  workspace: string;
  terminal: { timeoutMs: number; sandbox: "auto" | "off" | "required" };
  approvals: {
    mode: "manual" | "off";
    timeoutMs: number;
    allow: readonly string[];
    deny: readonly string[];
    /** For children, whom nobody watches. */
    unattended: "deny" | "allow";
  };
  clarifyMs: number;
  store: Pick<Store, "turn">;
  /** The engine is made with its tools, so it is asked for when it is there. */
  runtime(): Runtime;
  clock: Clock;
  log: Log;
};

export type Toolbox = {
  tools: Tool[];
  /** For people: where commands run. */
  sandbox: string;
  /** An approval was decided: what was allowed for longer is remembered. */
  decided(turn: string, call: string, session: string, how: string): Promise<void>;
  /** What still runs in the background. */
  processes(session: string): { id: string; command: string }[];
  endAll(session: string): Promise<void>;
  close(): Promise<void>;
};

export async function openToolbox(options: ToolboxOptions): Promise<Toolbox> {
  const { home, workspace, approvals, clock, log, runtime, store } = options;
  const swept = await sweepOrphans(home);
  log("info", "orphans.swept", { ...swept });
  const choice = chooseSandbox({
    mode: options.terminal.sandbox,
    probe: options.terminal.sandbox === "off" ? { usable: false, why: "it is off" } : await probeSandbox(),
    writable: [workspace],
    homes: { hermes: home, user: homedir() },
  });
  const grants = await openGrants({
    file: join(home, "policy.yaml"),
    lists: approvals,
    mode: approvals.mode,
    sandbox: choice.sandbox !== null,
    userHome: homedir(),
    log,
  });
  /** Where a command was when it was asked about: a grant is for there. */
  const judgedIn = new Map<string, string>();
  const terminal = createTerminal({
    home,
    workspace,
    sandbox: choice,
    judgeCommand: (command, cwd, session) => {
      judgedIn.delete(`${session}\0${command}`);
      judgedIn.set(`${session}\0${command}`, cwd);
      for (const oldest of judgedIn.keys()) {
        if (judgedIn.size <= MOST_JUDGED) break;
        judgedIn.delete(oldest);
      }
      return grants.judge(command, cwd, session);
    },
    display: escapeForDisplay,
    onComplete: (session, text) => {
      // Told like anything else that is said: durable, in order, and not in the middle of something.
      const key = `${session}/${clock.now()}`;
      const request = { session, source: "process", key, text, mode: "queue", reply: "pull" } as const;
      void runtime()
        .accept(request)
        .catch((error: unknown) => log("warn", "notice.lost", { session, error: String(error) }));
    },
    log,
    timeoutMs: options.terminal.timeoutMs,
    approvalMs: approvals.timeoutMs,
  });
  return {
    tools: [
      ...terminal.tools,
      createTodo(join(home, "todo")),
      createClarify(options.clarifyMs),
      createDelegate({ runtime, clock, approvals: approvals.unattended }),
    ],
    sandbox: choice.sandbox
      ? "commands run in a sandbox (bubblewrap)"
      : `commands run without a sandbox: ${choice.why}`,
    async decided(turn, call, session, how) {
      if (how !== "session" && how !== "always") return;
      const thought = (await store.turn(turn)).findLast(
        (e) => e.kind === "thought" && e.calls.some((c) => c.id === call),
      );
      const use = thought?.kind === "thought" ? thought.calls.find((c) => c.id === call) : undefined;
      const command = use?.tool === "terminal" ? commandOf(use.args) : null;
      const cwd = judgedIn.get(`${session}\0${command}`);
      if (command !== null && cwd !== undefined) await grants.grant(command, cwd, session, how);
    },
    processes: (session) => terminal.processes(session).map(({ id, command }) => ({ id, command })),
    endAll: terminal.endAll,
    close: terminal.close,
  };
}

const MOST_JUDGED = 500;

function commandOf(args: unknown): string | null {
  const command = typeof args === "object" && args !== null && "command" in args ? args.command : null;
  return typeof command === "string" ? command : null;
}
