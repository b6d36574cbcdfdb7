// A configuration in, a running engine out. With its neighbours and main.ts the only place that knows every folder.

import pkg from "../../package.json" with { type: "json" };
import { createPerform } from "../agent/agent.ts";
import { createBreaker } from "../agent/breaker.ts";
import { promptFrom } from "../agent/prompt.ts";
import { withTitles } from "../agent/title.ts";
import { type Flag, loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import { costOf } from "../conversation/cost.ts";
import type { Channel, Log, RunningProcesses, Tool } from "../core/ports.ts";
import type { Endpoint } from "../core/providers.ts";
import { replyRoute } from "../core/reply-route.ts";
import type { Runtime } from "../core/runtime.ts";
import { RUN } from "../core/session-key.ts";
import type { Skills } from "../core/skills.ts";
import type { Nodes } from "../core/store.ts";
import { createEngine, type Engine } from "../engine/engine.ts";
import { type Begin, type HeldLease, holdLease } from "../engine/lease.ts";
import { createRouter } from "../engine/router.ts";
import type { Observe, World } from "../engine/world.ts";
import { chooseEndpoints } from "../llm/endpoint.ts";
import { formatOf } from "../llm/formats.ts";
import { openModels } from "../llm/models.ts";
import type { LongTermMemory } from "../memory/manager.ts";
import { withMemoryHealth } from "../memory/runtime.ts";
import { clock } from "../platform/clock.ts";
import { createContextFiles, standingText } from "../platform/context-files.ts";
import { setDeadline } from "../platform/deadline.ts";
import { type Home, homeOf, makeHome } from "../platform/home.ts";
import { everyHour } from "../platform/hourly.ts";
import { collectWhenIdle } from "../platform/idle-gc.ts";
import { openLog } from "../platform/log.ts";
import { logFailure } from "../platform/log-failure.ts";
import { createRedactor } from "../platform/redact.ts";
import { createSweep, removeSessionDir } from "../platform/session-dirs.ts";
import { logUncaught } from "../platform/uncaught.ts";
import { withGoals } from "../schedule/runtime.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import { StoreInUse } from "../store/in-use.ts";
import { joined } from "../tools/joined.ts";
import { withTools } from "../tools/runtime.ts";
import { deliversBy, unattendedIn } from "./channels.ts";
import { type Cluster, clusterOf } from "./cluster.ts";
import { externalSkills, goalLimitsOf } from "./settings.ts";
import { openStore } from "./store.ts";

export type Running = {
  /** Over all nodes that share the store. */
  engine: Engine;
  /** This node's own: it refuses what lives on another one. */
  local: Runtime;
  nodes: Nodes;
  /** Null: this process has its store for itself. */
  cluster: Cluster | null;
  /** Does something on one of the nodes only: at once where there is one. */
  onOneNode(name: string, begin: Begin): Promise<HeldLease>;
  config: Config;
  home: Home;
  endpoints: Endpoint[];
  /** For people: where commands run. */
  sandbox: string;
  log: Log;
  tools(): readonly Tool[];
  processes: RunningProcesses;
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
  /** Resolves when another process has taken over the store. */
  fenced: Promise<void>;
  /** Resolves when somebody wants this node to leave. */
  drained: Promise<void>;
  /** What was opened over this runtime is closed with it, the last one first, also when the engine cannot start. */
  defer(close: () => Promise<unknown> | void): void;
  /** Lets running turns (but that one) finish for so long, then lets go. What is left goes on at the next start. */
  close(drainMs: number, except?: string): Promise<{ left: string[] }>;
};

const DAY_MS = 86_400_000;
/** What those who are told of ends may take when we leave. */
const TELL_MS = 2_000;
/** And memories: what they were not told is in the journal, and they are told after the next start. */
const MEMORY_MS = 200;
/** Jobs are changed on other nodes too. */
const JOBS_ELSEWHERE = { longestMs: 2_000 };
/** Runs end on other nodes too, and nobody tells us. */
const ENDS_ELSEWHERE = { lookMs: 1_000 };
/** How often a turn is taken up again after a crash, without anything of it done in between. */
const RECOVERIES = 3;
const LIMITS = { inbox: 100, text: 4_000_000, graceMs: 5_000, warm: 500 };

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
  /** See World. */
  barred?: NonNullable<World["barred"]>;
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

  const cluster = clusterOf(config, pkg.version, log);
  if (cluster && !options.prepare)
    throw new StoreInUse(
      null,
      "This home is a node of a cluster. Start it with `hermes gateway`, then this command uses it.",
    );
  const endpoints = chooseEndpoints(config);
  const { models, modelNamed } = openModels({ settings: config, endpoints, clock, redact: redactor.text });
  const cwd = config.terminal.cwd ?? process.cwd();
  const contextFiles = createContextFiles({ cwd, home: home.dir, now: clock.now, log });

  const { approvals, terminal } = config;
  const opening = openStore(config, home);
  opened.defer(() => opening.then((store) => store.close()).catch(() => {}));
  // While the store's thread starts, and the sandbox is tried.
  const { openToolbox, pickSandbox } = await import("../tools/toolbox.ts");
  const [store, sandbox, { openSkills }, { openMemory }, { createWebhooks }, { createScheduler }] = await Promise.all([
    opening,
    pickSandbox({ home: home.dir, workspace: cwd, terminal }),
    import("../skills/open.ts"),
    import("../memory/open.ts"),
    import("../surfaces/webhooks/webhooks.ts"),
    import("../schedule/scheduler.ts"),
  ]);
  const skills = openSkills({ home: home.dir, workspace: cwd, external: externalSkills(config), clock, log });
  const toolbox = await openToolbox({
    skills,
    sandbox,
    home: home.dir,
    workspace: cwd,
    terminal: { ...terminal, timeoutMs: terminal.timeout * 1_000 },
    approvals: { ...approvals, timeoutMs: approvals.timeout * 1_000 },
    clarifyMs: config.agent.clarify_timeout * 1_000,
    searchUrl: config.web.search.url,
    mcpServers: config.mcp_servers,
    ...store,
    runtime: () => runtime,
    jobs: () => scheduler,
    cluster: cluster && {
      address: () => cluster.about.address,
      ownFiles: config.cluster.workspace === "local",
      nodes: store.nodes,
      unreachable: cluster.unreachable,
    },
    clock,
    log,
  });
  opened.defer(() => toolbox.close());
  if (cluster) {
    const { ownerHere } = await import("../tools/shell/exec.ts");
    const { watchOver } = await import("../tools/shell/watcher.ts");
    opened.defer(watchOver(ownerHere(home.dir)));
  }
  const memory = openMemory({
    settings: config.memory,
    home: home.dir,
    journal: store.journal,
    search: store.search,
    callMcp: toolbox.callMcp,
    originOf: (session) => replyRoute(store.notes, session),
    clock,
    log,
    redact: redactor.text,
  });
  const [first] = models;
  const told =
    config.display.titles === "model" && first
      ? withTitles(memory, { model: first, catalog: store.catalog, clock, log })
      : memory;
  const tools = joined(() => toolbox.tools(), memory.tools);
  const observers: Running["observers"] = new Set();
  const fenced = Promise.withResolvers<void>();
  const leaving = Promise.withResolvers<void>();
  const engine = createEngine({
    fenced: fenced.resolve,
    ...(cluster && { node: cluster.about, nodeOf: toolbox.localState.nodeOf, leaving: leaving.resolve }),
    ...(options.barred && { barred: options.barred }),
    store,
    clock,
    log,
    announce: config.webhooks.map(({ url }) => url),
    observers,
    begins: memory.recallAhead,
    rules: {
      iterations: config.agent.max_iterations,
      recoveries: RECOVERIES,
      parallel: 8,
      memory: told.writers,
    },
    limits: {
      ...LIMITS,
      turns: config.agent.max_concurrent_turns,
      resumeWithinMs: config.agent.auto_resume ? config.agent.resume_within * 1_000 : 0,
    },
    perform: createPerform({
      models,
      modelNamed,
      system: promptFrom({
        cwd,
        clock,
        tools,
        memory: (about) => memory.systemBlock(about),
        skills: () => skills.index(),
        files: contextFiles,
      }),
      breaker: createBreaker(clock),
      ...(config.model.stale_timeout && { staleMs: config.model.stale_timeout * 1_000 }),
      get tools() {
        return tools();
      },
      redact: redactor.known,
      channel: options.channel ?? null,
      memory: toolbox.localState.withNotices(told),
      clock,
      random: Math.random,
      log,
    }),
  });
  const local: Engine = withMemoryHealth(
    withTools(engine, {
      toolbox,
      journal: store.journal,
      removeFiles: (session) => Promise.all([toolbox.forget(session), removeSessionDir(home.attachments, session)]),
      log,
    }),
    memory,
  );
  const { journal, nodes } = store;
  const runtime: Engine = cluster
    ? { ...local, ...createRouter({ engine: local, nodes, journal, peerOf: cluster.peerOf, clock, log }) }
    : local;
  const onOneNode: Running["onOneNode"] = async (name, begin) =>
    cluster ? holdLease({ nodes, node: engine.node, clock, log }, name, begin) : always(begin);
  const targets = config.webhooks;
  let telling: HeldLease | null = null;
  const tellEnds: Begin = async () => {
    const webhooks = createWebhooks({
      runtime,
      targets,
      clock,
      random: Math.random,
      log,
      ...(cluster && ENDS_ELSEWHERE),
    });
    observers.add(webhooks.observe);
    webhooks.start();
    return async () => {
      await webhooks.close(TELL_MS);
      observers.delete(webhooks.observe);
    };
  };
  observers.add(toolbox.delegated.observe);
  observers.add(toolbox.localState.observe);
  const telemetry = await openTelemetry();
  if (telemetry) observers.add(telemetry.observe);
  opened.defer(async () => {
    await Promise.all([telling?.release(), telemetry?.close(TELL_MS), memory.shutdownAll(MEMORY_MS)]);
  });
  const { unattended } = approvals;
  const scheduler = createScheduler({
    runtime,
    notes: store.notes,
    clock,
    log,
    unattended,
    zone: config.schedule.zone,
    delivers: deliversBy(config),
    ...(cluster && JOBS_ELSEWHERE),
    goalLimits: goalLimitsOf(config),
    costOf: (model, usage) => costOf(config.prices, model, usage),
    mine: options.mine,
    ...(options.barred && { barred: options.barred }),
    unattendedIn: (session) => unattendedIn(config, session),
    standingText: () => standingText({ cwd, home: home.dir, log }),
  });
  observers.add(scheduler.observe);
  const { runs_days } = config.retention;
  const sweepAttachments = createSweep(home.attachments);
  const chores: Running["chores"] = new Set([
    () => toolbox.sweep(clock.now()),
    () => sweepAttachments(clock.now(), []),
  ]);
  if (runs_days > 0) chores.add(async () => void (await store.catalog.prune(RUN, clock.now() - runs_days * DAY_MS)));
  const parts = opened.move();
  const running: Running = {
    chores,
    engine: withGoals(runtime, scheduler, log),
    local,
    nodes,
    cluster,
    onOneNode,
    config,
    home,
    endpoints,
    sandbox: toolbox.sandbox,
    log,
    tools,
    processes: toolbox.processes,
    memory,
    skills,
    redact: redactor.text,
    hide: redactor.add,
    observers,
    fenced: fenced.promise,
    drained: leaving.promise,
    scheduler,
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
  telling = await onOneNode("webhooks", tellEnds);
  if (cluster) {
    parts.defer(cluster.watch(nodes));
    // A turn that another node hands over would wait for this code: 100 ms of its hand-over.
    for (const endpoint of endpoints)
      formatOf(endpoint)
        .load(endpoint, () => {})
        .catch(() => {});
  }
  const resting = collectWhenIdle(async () => (await engine.load()).turns === 0);
  resting.active();
  observers.add(resting.active);
  cluster?.onUse(resting.active); // a door has no turns, and a stop through it would wait for the collection
  parts.defer(resting.close);
  toolbox.delegated.takeUp(options.mine).catch(logFailure(log, "warn", "delegate.untold"));
  parts.defer(everyHour(chores, { clock, log })); // off the path of whatever is waiting to start
  return running;

  async function openTelemetry() {
    const { endpoint, ...rest } = config.telemetry;
    if (!endpoint) return null;
    const { createTelemetry } = await import("../telemetry/otel.ts");
    return createTelemetry({ runtime, endpoint, ...rest, redact: redactor.text, version: pkg.version, clock, log });
  }
}

/** Where there is one node. */
async function always(begin: Begin): Promise<HeldLease> {
  const end = await begin();
  return {
    here: () => true,
    async release() {
      await end();
    },
  };
}

/** Closes what could not start, whatever comes of it: why it could not is what its user must hear. */
export async function abandon({ close, config, log }: Running): Promise<void> {
  const cancelDeadline = setDeadline(config.agent.exit_watchdog * 1_000);
  await close(0).catch(logFailure(log, "error", "start.unclosed"));
  cancelDeadline();
}
