// A terminal over the runtime of this process, or over the gateway that owns this home already: the same screen, and then
// the turn survives the terminal.

import pkg from "../../package.json" with { type: "json" };
import { createFailover, successorOf } from "../client/failover.ts";
import { createRemoteJobs } from "../client/jobs.ts";
import { createRemoteRuntime } from "../client/remote.ts";
import type { CommandJobs } from "../conversation/commands/command.ts";
import { ConfigError, messageOf } from "../core/errors.ts";
import type { ModelNames } from "../core/model-names.ts";
import type { Runtime } from "../core/runtime.ts";
import { backoff } from "../core/wait.ts";
import { modelNames } from "../llm/model-list.ts";
import { clock } from "../platform/clock.ts";
import { homeOf } from "../platform/home.ts";
import { StoreInUse } from "../store/in-use.ts";
import { skillLines } from "../surfaces/cli/skills.ts";
import { gatewayOf } from "./gateway.ts";
import { openRuntime, type Running } from "./runtime.ts";
import { settingsFor } from "./settings.ts";
import { createShell, type Shell } from "./shell.ts";

const EXIT_MS = 200;
/** A terminal serves half a second after it has taken the store; a busy machine takes longer. */
const SERVED_MS = 3_000;
const LOOK_MS = 100;
const LATEST_LOOK_MS = 2_000;

type OpenedRuntime = Pick<Running, "config" | "home" | "endpoints" | "sandbox" | "close"> & {
  engine: Runtime;
  /** Where its tools work. */
  workspace: string;
  jobs(): CommandJobs;
  skills(): Promise<string>;
  switched(from: string): void;
  /** The person's own commands, on this machine. */
  shell: Shell;
  models(): Promise<ModelNames>;
  /** Whose process runs the turns. */
  owner: "self" | "terminal" | "gateway";
};

type AttachOptions = Parameters<typeof openRuntime>[0] & {
  attach?: boolean;
  serves?: boolean;
  /** Another process runs the turns from now on, or this one; or why none does yet. */
  moved?(line: string): void;
};

export async function openOrAttach(options: AttachOptions): Promise<OpenedRuntime> {
  const first = await (options.attach ? attach(options) : openFirst(options, SERVED_MS));
  return first.owner === "self" ? first : lasting(first, options);
}

/** The process that owns the home may leave. After a terminal, one of those that were attached to it takes over and the others
 *  attach to that one; a gateway comes back. */
function lasting(first: OpenedRuntime, options: AttachOptions): OpenedRuntime {
  const leaving = new AbortController();
  let current = first;
  let next: Promise<unknown> = Promise.resolve();
  const engine = createFailover(first.engine, () => {
    const found = successor(options, leaving.signal, current.owner === "terminal" && !options.attach).then((opened) => {
      current = opened;
      if (opened.owner === "terminal") options.moved?.(opened.sandbox);
      if (opened.owner !== "self") return opened.engine;
      options.moved?.(`The other terminal has left. This one takes over.\n${opened.sandbox}`);
      return successorOf(opened.engine);
    });
    next = found.catch(() => {});
    return found;
  });
  return {
    ...first,
    engine,
    jobs: () => current.jobs(),
    skills: () => current.skills(),
    switched: (from) => current.switched(from),
    async close(drainMs) {
      leaving.abort();
      await next;
      return current.close(drainMs);
    },
  };
}

async function successor(options: AttachOptions, signal: AbortSignal, mayTakeOver: boolean): Promise<OpenedRuntime> {
  let said = "";
  for (let attempt = 0; ; attempt++) {
    await clock.sleep(backoff(attempt, { first: LOOK_MS, most: LATEST_LOOK_MS }), signal);
    signal.throwIfAborted();
    try {
      if (mayTakeOver) return await openFirst(options, LOOK_MS);
      if (await gatewayOf(options.env)) return await attach(options);
    } catch (error) {
      if (error instanceof StoreInUse || messageOf(error) === said) continue; // its owner is still leaving, or does not serve yet
      said = messageOf(error);
      options.moved?.(said);
    }
  }
}

async function openFirst(options: AttachOptions, servedMs: number): Promise<OpenedRuntime> {
  try {
    const running = await openRuntime(options);
    const jobs = () => running.scheduler;
    const skills = () => skillLines(running.skills);
    const switched = (session: string) => running.memory.sessionEnded({ session });
    const shell = shellOf(running, options.env);
    const workspace = workspaceOf(running);
    const models = () => modelNames(running.endpoints);
    if (options.serves) running.scheduler.start(); // loops and goals of the conversations that are worked in here
    const opened = { jobs, skills, switched, shell, models, workspace, owner: "self" } as const;
    return { ...(options.serves ? served(running) : running), ...opened };
  } catch (error) {
    if (!(error instanceof StoreInUse) || !(await gatewaySoon(options.env, servedMs))) throw error;
    return attach(options);
  }
}

/** The API beside a terminal, so that other shells and programs reach the same home. Nobody waits for it: a terminal that
 *  cannot serve is still a terminal. */
function served(running: Running): Running {
  const { config, log } = running;
  const api = config.gateway.api_server.enabled
    ? serveOpened(running).catch((error: unknown) => {
        log("warn", "api.unserved", { error: messageOf(error) });
        return null;
      })
    : null;
  return {
    ...running,
    async close(drainMs) {
      await (await api)?.close(EXIT_MS);
      return running.close(drainMs);
    },
  };
}

/** Of two terminals that start together, the second waits until the first one serves. */
async function gatewaySoon(env: NodeJS.ProcessEnv, ms: number): Promise<boolean> {
  for (let waited = 0; waited < ms; waited += LOOK_MS) {
    if (await gatewayOf(env)) return true;
    await clock.sleep(LOOK_MS);
  }
  return false;
}

async function serveOpened(running: Running) {
  // Another shell finds the address in the home, so a busy port does not matter.
  const { serve } = await import("./api.ts");
  const api = await serve(running, pkg.version, { anyPort: true });
  await api.opened();
  return api;
}

async function attach({ env, flags = [] }: Parameters<typeof openRuntime>[0]): Promise<OpenedRuntime> {
  const gateway = await gatewayOf(env);
  if (!gateway) throw new ConfigError("No gateway serves this HERMES_HOME. Start one with: hermes gateway");
  const settings = settingsFor(env, flags);
  const { url, key } = gateway;
  const engine = createRemoteRuntime({ url, key, patient: false });
  const owner = gateway.isTerminal ? "terminal" : "gateway";
  return {
    ...settings,
    engine,
    owner,
    workspace: gateway.workspace ?? workspaceOf(settings),
    models: () => modelNames(settings.endpoints),
    sandbox: `Attached to the ${owner} at ${url}: turns continue when you leave.`,
    switched: () => {}, // the gateway's memories are its own business
    shell: shellOf(settings, env),
    jobs: () => createRemoteJobs(gateway.wire),
    skills: async () => "Run this on the machine of the gateway: hermes skills list\n",
    close: async () => ({ left: [] }),
  };
}

const workspaceOf = ({ config }: Pick<Running, "config">): string => config.terminal.cwd ?? process.cwd();

const shellOf = ({ config }: Pick<Running, "config">, env: NodeJS.ProcessEnv): Shell =>
  createShell({ cwd: workspaceOf({ config }), env, home: homeOf(env).dir });
