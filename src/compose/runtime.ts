// A configuration in, a running engine out. With its neighbours and main.ts the only place that knows every folder.

import pkg from "../../package.json" with { type: "json" };
import { createPerform } from "../agent/agent.ts";
import { createBreaker } from "../agent/breaker.ts";
import { systemPrompt } from "../agent/prompt.ts";
import { withTitles } from "../agent/title.ts";
import { type Flag, loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import { createBounded } from "../core/bounded.ts";
import { messageOf } from "../core/errors.ts";
import type { Channel, Log, Model, Store, Tool } from "../core/ports.ts";
import { formatAndModel } from "../core/providers.ts";
import { parseKey, RUN, rootOf, TERMINAL } from "../core/session-key.ts";
import type { Observe } from "../engine/dispatch.ts";
import { createEngine, type Engine } from "../engine/engine.ts";
import { createDemoModel } from "../llm/demo.ts";
import { chooseEndpoints, type Endpoint } from "../llm/endpoint.ts";
import { createModel } from "../llm/provider.ts";
import type { LongTermMemory } from "../memory/manager.ts";
import { clock } from "../platform/clock.ts";
import { createContextFiles } from "../platform/context-files.ts";
import { setDeadline } from "../platform/deadline.ts";
import { type Home, homeOf, makeHome } from "../platform/home.ts";
import { everyHour } from "../platform/hourly.ts";
import { openLog } from "../platform/log.ts";
import { createRedactor } from "../platform/redact.ts";
import { createSweep, removeSessionDir } from "../platform/session-dirs.ts";
import { logUncaught } from "../platform/uncaught.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import type { Skills } from "../skills/skills.ts";
import { openSqlite } from "../store/sqlite/sqlite.ts";
import { deliversBy } from "./channels.ts";

export type Running = {
  engine: Engine;
  config: Config;
  home: Home;
  endpoints: Endpoint[];
  /** For people: where commands run. */
  sandbox: string;
  log: Log;
  tools(): readonly Tool[];
  skills: Skills;
  memory: Pick<LongTermMemory, "health" | "sessionEnded" | "sessionSwitched">;
  redact(text: string): string;
  /** Never shown again by `redact`. */
  hide(secret: string): void;
  scheduler: Scheduler;
  /** What is done every hour while this runs. */
  chores: Set<() => Promise<void>>;
  /** They see what happens in all sessions, once it is durable. */
  observers: Set<Observe>;
  /** The conversation of a terminal that was last talked in. */
  newest(): Promise<string | null>;
  /** What was opened over this runtime is closed with it, the last one first, also when the engine cannot start. */
  defer(close: () => Promise<unknown> | void): void;
  /** Lets running turns (but that one) finish for so long, then lets go. What is left goes on at the next start. */
  close(drainMs: number, except?: string): Promise<{ left: string[] }>;
};

const DAY_MS = 86_400_000;
/** What those who are told of ends may take when we leave. */
const TELL_MS = 2_000;
const LIMITS = { inbox: 100, text: 4_000_000, graceMs: 5_000, resumeWithinMs: 3_600_000, warm: 500 };

/** Models that were asked for by name, kept open. Whoever may call us names them: there must be an end. */
const MODELS = 32;

/** Whatever it has opened is closed again when it fails: the store's thread alone would keep the process, with nobody behind
 *  its port. */
export async function openRuntime(options: {
  env: NodeJS.ProcessEnv;
  flags?: readonly Flag[];
  /** No screen owns the terminal: the log is shown on stderr too. */
  logToStderr: boolean;
  channel?: Channel;
  /** Before the engine starts: whoever cannot go on says so here. */
  prepare?(running: Running): Promise<void>;
  /** The sessions whose unfinished turns this process takes up. */
  mine(session: string): boolean;
}): Promise<Running> {
  const { env, flags = [], logToStderr } = options;
  const { config, warnings, secrets } = loadConfig({ env, flags });
  const home = homeOf(env);
  makeHome(home);
  const redactor = createRedactor();
  for (const secret of secrets) redactor.add(secret);
  const { log, close: closeLog } = openLog({
    file: home.log,
    level: config.logging.level,
    stderr: logToStderr,
    redactor,
  });
  await using opened = new AsyncDisposableStack();
  opened.defer(closeLog);
  opened.defer(logUncaught(log));
  for (const warning of warnings) log("warn", "config.warning", { warning });

  const endpoints = chooseEndpoints(config);
  const modelOf = (endpoint: Endpoint): Model =>
    endpoint.provider === "demo" ? createDemoModel(clock) : discreet(createModel(endpoint), redactor.text);
  const models = endpoints.map(modelOf);
  const [primary] = endpoints;
  const modelNamed = (name: string) => {
    const parts = formatAndModel(name);
    const { format, model } = parts.format === "demo" ? { format: null, model: name } : parts; // `demo:latest`, of Ollama
    if (!primary || primary.provider === "demo") return null;
    if (model === primary.model && (!format || format === primary.provider)) return null;
    const [endpoint = primary] = format
      ? chooseEndpoints({ ...config, model: { ...config.model, provider: format, default: model } })
      : [];
    return modelOf({ ...endpoint, model, guessed: true });
  };
  const named = keepLast(MODELS, modelNamed);
  const cwd = config.terminal.cwd ?? process.cwd();
  const contextFiles = createContextFiles({ cwd, home: home.dir, now: clock.now, log });

  const [store, { openToolbox }] = await Promise.all([
    openSqlite({ file: home.database }),
    import("../tools/toolbox.ts"), // while the store's thread starts
  ]);
  opened.defer(() => store.close());
  const { approvals, terminal } = config;
  const { openSkills } = await import("../skills/open.ts");
  const skills = openSkills({ home: home.dir, workspace: cwd, clock, log });
  const toolbox = await openToolbox({
    skills,
    home: home.dir,
    workspace: cwd,
    terminal: { ...terminal, timeoutMs: terminal.timeout * 1_000 },
    approvals: { ...approvals, timeoutMs: approvals.timeout * 1_000 },
    clarifyMs: config.agent.clarify_timeout * 1_000,
    mcpServers: config.mcp_servers,
    store,
    runtime: () => runtime,
    jobs: () => scheduler,
    clock,
    log,
  });
  opened.defer(() => toolbox.close());
  const { openMemory } = await import("../memory/open.ts");
  const memory = openMemory({
    settings: config.memory,
    home: home.dir,
    store,
    callMcp: toolbox.callMcp,
    originOf: async (session) => {
      const route = await store.notes.get(`route/${session}`);
      const to = typeof route === "object" && route !== null && "to" in route ? route.to : null;
      return typeof to === "string" ? to : null;
    },
    clock,
    log,
    redact: redactor.text,
  });
  const [first] = models;
  const told =
    config.display.titles === "model" && first ? withTitles(memory, { model: first, store, clock, log }) : memory;
  const tools = joined(() => toolbox.tools(), memory.tools);
  const observers: Running["observers"] = new Set();
  const engine = createEngine({
    store,
    clock,
    log,
    announce: config.webhooks.map(({ url }) => url),
    observers,
    rules: { iterations: config.agent.max_iterations, recoveries: 3, parallel: 8, memory: told.writers },
    limits: {
      ...LIMITS,
      turns: config.agent.max_concurrent_turns,
      resumeWithinMs: config.agent.auto_resume ? LIMITS.resumeWithinMs : 0,
    },
    perform: createPerform({
      models,
      modelNamed: named,
      system: async (session, { instructions = "", by }) =>
        systemPrompt({
          platform: platformOf(session),
          cwd,
          date: new Date(clock.now()).toISOString().slice(0, 10),
          tools: tools().map((tool) => tool.name),
          memory: await memory.systemBlock({ session, by }),
          skills: await skills.index(),
          files: await contextFiles(),
          instructions,
        }),
      breaker: createBreaker(clock),
      ...(config.model.stale_timeout && { staleMs: config.model.stale_timeout * 1_000 }),
      get tools() {
        return tools();
      },
      redact: redactor.known,
      channel: options.channel ?? null,
      memory: told,
      clock,
      random: Math.random,
      log,
    }),
  });
  /** The engine's, and what only the tools know: processes in the background, and files. */
  const runtime: Engine = {
    ...engine,
    async stop(stop) {
      const stopped = await engine.stop(stop);
      if (stop.scope !== "tree") return stopped;
      // The turn is stopped whatever comes of the rest.
      await toolbox
        .endBackground(stop.session)
        .catch((error: unknown) =>
          log("error", "background.unended", { session: stop.session, error: messageOf(error) }),
        );
      return stopped;
    },
    async restoreFiles(what) {
      const { turn } = await engine.status(what.session);
      return turn ? "Files were not brought back: stop the turn first." : toolbox.restoreFiles(what);
    },
    /** With the files of its own and of the sessions that it made. */
    async forget(session) {
      const family = await familyOf(store, session);
      const became = await engine.forget(session);
      if (became !== "forgotten") return became;
      for (const one of family)
        await Promise.all([toolbox.forget(one), removeSessionDir(home.attachments, one)]).catch((error: unknown) =>
          log("warn", "files.kept", { session: one, error: messageOf(error) }),
        );
      return became;
    },
    async status(session) {
      const status = await engine.status(session);
      const suspended = memory.health().filter(({ state }) => state === "suspended");
      const named = (by: string) => {
        const trouble = suspended.find(({ name }) => name === by);
        return trouble ? `${by} (left alone for now: ${trouble.lastError})` : by;
      };
      return { ...status, unsaved: status.unsaved.map(named), background: toolbox.background(session) };
    },
  };
  const { createWebhooks } = await import("../surfaces/webhooks/webhooks.ts");
  const webhooks = createWebhooks({ runtime, targets: config.webhooks, clock, random: Math.random, log });
  observers.add(webhooks.observe);
  const telemetry = await openTelemetry();
  if (telemetry) observers.add(telemetry.observe);
  opened.defer(async () => {
    await Promise.all([webhooks.close(TELL_MS), telemetry?.close(TELL_MS), memory.shutdownAll(TELL_MS)]);
  });
  const { createScheduler } = await import("../schedule/scheduler.ts");
  const { unattended } = approvals;
  const scheduler = createScheduler({
    runtime,
    notes: store.notes,
    clock,
    log,
    unattended,
    delivers: deliversBy(config),
  });
  observers.add(scheduler.observe);
  const { runs_days } = config.retention;
  const sweepAttachments = createSweep(home.attachments);
  const chores: Running["chores"] = new Set([
    () => toolbox.sweep(clock.now()),
    () => sweepAttachments(clock.now(), []),
  ]);
  if (runs_days > 0) chores.add(async () => void (await store.prune(RUN, clock.now() - runs_days * DAY_MS)));
  const parts = opened.move();
  const running: Running = {
    chores,
    engine: runtime,
    config,
    home,
    endpoints,
    sandbox: toolbox.sandbox,
    log,
    tools,
    memory,
    skills,
    redact: redactor.text,
    hide: redactor.add,
    observers,
    scheduler,
    newest: async () => (await store.sessions({ prefix: TERMINAL, top: true, limit: 1 }))[0]?.session ?? null,
    defer: (close) =>
      parts.defer(async () => {
        await close();
      }),
    async close(drainMs, except) {
      await scheduler.close();
      const drained = await engine.drain(drainMs, except);
      await parts.disposeAsync();
      return drained;
    },
  };
  try {
    // What may keep us from starting is known before a turn that was left is counted as taken up again.
    await options.prepare?.(running);
    await engine.start(options.mine);
  } catch (error) {
    await abandon(running);
    throw error;
  }
  webhooks.start();
  parts.defer(everyHour(chores, { clock, log })); // off the path of whatever is waiting to start
  return running;

  async function openTelemetry() {
    const { endpoint, ...rest } = config.telemetry;
    if (!endpoint) return null;
    const { createTelemetry } = await import("../telemetry/otel.ts");
    return createTelemetry({ runtime, endpoint, ...rest, redact: redactor.text, version: pkg.version, clock, log });
  }
}

/** Closes what could not start, whatever comes of it: why it could not is what its user must hear. */
export async function abandon({ close, config, log }: Running): Promise<void> {
  const cancelDeadline = setDeadline(config.agent.exit_watchdog * 1_000);
  await close(0).catch((error: unknown) => log("error", "start.unclosed", { error: messageOf(error) }));
  cancelDeadline();
}

/** A provider may repeat our key in its error, and that goes into the journal and to clients. */
const discreet = (model: Model, redact: (text: string) => string): Model => ({
  ...model,
  get context() {
    return model.context; // it may be learnt
  },
  async call(...given) {
    const result = await model.call(...given);
    return result.end === "fault" ? { ...result, reason: redact(result.reason) } : result;
  },
});

/** Where a session is talked in: changes how the agent should write. */
function platformOf(session: string): "terminal" | "chat" | "api" {
  const { of } = parseKey(rootOf(session));
  if (of === "terminal") return "terminal";
  return of === "run" || of === "named" || of === "unknown" ? "api" : "chat";
}

/** Another array only when one of them is: what is said of the tools to a model is counted once for each array. */
function joined(...lists: (() => readonly Tool[])[]): () => readonly Tool[] {
  let parts: (readonly Tool[])[] = [];
  let all: readonly Tool[] = [];
  return () => {
    const now = lists.map((list) => list());
    if (now.some((list, i) => list !== parts[i])) [parts, all] = [now, now.flat()];
    return all;
  };
}

async function familyOf(store: Pick<Store, "children">, session: string): Promise<string[]> {
  const children = await store.children(session);
  return [session, ...(await Promise.all(children.map((child) => familyOf(store, child)))).flat()];
}

/** Makes it once for each name, and forgets what was not asked for longest. */
function keepLast<T>(most: number, make: (name: string) => T): (name: string) => T {
  const kept = createBounded<{ made: T }>(most);
  return (name) => {
    const known = kept.get(name) ?? { made: make(name) };
    kept.set(name, known);
    return known.made;
  };
}
