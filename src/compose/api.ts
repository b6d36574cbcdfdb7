// The HTTP API over a running engine.
import { randomUUID } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { modelNames } from "../llm/model-list.ts";
import { openNotebook } from "../memory/notebook.ts";
import { notesIn } from "../memory/open.ts";
import { clock } from "../platform/clock.ts";
import { logFailure } from "../platform/log-failure.ts";
import { openOwnSkills } from "../skills/own.ts";
import { openTrust } from "../skills/trust.ts";
import { doctorRoutes } from "../surfaces/http/runtime/doctor.ts";
import { jobRoutes } from "../surfaces/http/runtime/jobs.ts";
import { mcpRoutes } from "../surfaces/http/runtime/mcp.ts";
import { memoryRoutes } from "../surfaces/http/runtime/memory.ts";
import { modelRoutes } from "../surfaces/http/runtime/models.ts";
import { nodeRoutes } from "../surfaces/http/runtime/nodes.ts";
import { createChanges, nowRoutes, type SessionChanges } from "../surfaces/http/runtime/now.ts";
import { pairingRoutes } from "../surfaces/http/runtime/pairing.ts";
import { peerRoutes } from "../surfaces/http/runtime/peers.ts";
import { processRoutes } from "../surfaces/http/runtime/processes.ts";
import { skillRoutes } from "../surfaces/http/runtime/skills.ts";
import { usageRoutes } from "../surfaces/http/runtime/usage.ts";
import { type ServedApi, serveApi } from "../surfaces/http/server/api.ts";
import { apiKey, requireStrongKey } from "../surfaces/http/server/key.ts";
import { createMetrics, metricsRoutes } from "../surfaces/http/server/metrics.ts";
import type { Route } from "../surfaces/http/server/route.ts";
import type { McpServeOptions } from "../surfaces/mcp/server.ts";
import { consoleRoutes } from "../surfaces/web/routes.ts";
import { openSignIns, type SignIns } from "../surfaces/web/sign-ins.ts";
import { homeChatOf, pairingDesk } from "./channels.ts";
import { reachableAt } from "./cluster.ts";
import { diagnosis } from "./doctor.ts";
import type { Running } from "./runtime.ts";

/** What answers that are under way when we leave may take. */
const CLOSE_MS = 1_000;
/** How often we look at what other nodes have done, and how many sessions that is at a time. */
const OTHERS_MS = 1_000;
const MOST_CHANGED = 50;

/** The API over a runtime. Whoever serves it loads this file then: a command that does not serve does not pay for it. */
export async function serve(
  running: Running,
  version: string,
  {
    health = () => ({}),
    more = [],
    anyPort = false,
  }: { health?: () => Record<string, unknown>; more?: readonly Route[]; anyPort?: boolean } = {},
): Promise<ServedApi & { keyFile: string | null }> {
  const { engine, config, home, endpoints, log, tools, redact, observers, cluster, nodes } = running;
  const { api_server: server } = config.gateway;
  requireStrongKey({ host: server.host, configured: server.key });
  const { key, file: keyFile } = apiKey({ configured: server.key, file: home.apiKey });
  running.hide(key);
  const signIns = await openSignIns({ notes: engine.notes, clock });
  const workspace = config.terminal.cwd ?? process.cwd();
  let served: ServedApi | null = null;
  const node = cluster && (() => ({ node: engine.node(), peers_unreachable: cluster.unreachable().length }));
  const metrics = createMetrics({
    runtime: engine,
    clock,
    connections: async () => served?.connections() ?? 0,
    ...(node && { node }),
  });
  observers.add(metrics.observe);
  const changes = createChanges(clock);
  observers.add(changes.observe);
  const api = await serveApi({
    runtime: engine,
    clock,
    log,
    newKey: randomUUID,
    tools,
    redact,
    host: server.host,
    port: server.port,
    anyPort,
    key,
    origins: server.cors_origins,
    secret: cluster?.secret,
    ...(node && { node }),
    names: [...server.allowed_hosts, ...(cluster?.about.address ? [new URL(cluster.about.address).host] : [])],
    rateLimit: server.rate_limit,
    signedIn: signIns.admits,
    more: [
      ...consoleRoutes(signIns),
      ...nowRoutes(engine, changes),
      ...jobRoutes(running.scheduler, (platform) => homeChatOf(config, platform)),
      ...doctorRoutes(() => diagnosis(process.env)),
      ...memoryRoutes(openNotebook(notesIn(home.dir))),
      ...modelRoutes(() => modelNames(endpoints), config.prices),
      ...usageRoutes(engine, { prices: config.prices, clock }),
      ...processRoutes(running.processes, redact),
      ...pairingRoutes(pairingDesk(engine.notes)),
      ...skillRoutes({
        skills: running.skills,
        own: openOwnSkills(home.dir),
        trust: openTrust(home.dir),
        workspace,
      }),
      ...nodeRoutes(nodes, { self: engine.node, unreachable: () => cluster?.unreachable() ?? [] }),
      ...(cluster ? peerRoutes(running.local) : []),
      ...metricsRoutes(metrics),
      ...mcpRoutes(mcpHandler({ runtime: engine, version, newKey: randomUUID })),
      ...more,
    ],
    health: () => ({
      memory: running.memory.health(),
      ...(cluster && { peers_unreachable: cluster.unreachable() }),
      ...health(),
    }),
    settings: {
      modelName: server.model_name ?? "hermes-agent",
      models: endpoints.map(({ provider, model }) => `${provider}:${model}`),
      busyMode: config.display.busy_input_mode,
      maxRuns: server.max_concurrent_runs,
      unattended: config.approvals.unattended,
      showReasoning: config.display.show_reasoning,
      version,
      heartbeatMs: 15_000,
      stallMs: 30_000,
      retryMs: 10_000,
    },
  });
  served = api;
  if (cluster) reachableAt(cluster, api.url);
  const close = async (ms: number) => {
    rmSync(home.served, { force: true });
    await api.close(ms);
    metrics.close();
  };
  running.defer(() => close(CLOSE_MS));
  if (cluster) running.defer(watchOthers(running, { signIns, changes }));
  observers.add(api.observe);
  // So that another shell finds us.
  const place = { pid: process.pid, url: api.url, version, workspace, owner: anyPort ? "terminal" : "gateway" };
  writeFileSync(home.served, JSON.stringify(place), { mode: 0o600 });
  return { ...api, keyFile, close };
}

/** What other nodes have done, for whoever looks at this one. Returns how to stop. */
function watchOthers(
  { engine, log }: Running,
  { signIns, changes }: { signIns: Pick<SignIns, "read">; changes: Pick<SessionChanges, "observe"> },
): () => void {
  const over = new AbortController();
  let known = new Map<string, number>();
  const look = async () => {
    await signIns.read();
    await engine.paused();
    const newest = await engine.sessions({ limit: MOST_CHANGED });
    for (const { session, updatedAt } of newest) if (known.get(session) !== updatedAt) changes.observe(session);
    known = new Map(newest.map(({ session, updatedAt }) => [session, updatedAt]));
  };
  const work = async () => {
    for (; !over.signal.aborted; await clock.sleep(OTHERS_MS, over.signal))
      await look().catch(logFailure(log, "debug", "cluster.unread"));
  };
  void work();
  return () => over.abort("over");
}

/** Loaded when the first agent calls. */
function mcpHandler(options: McpServeOptions): (request: Request) => Promise<Response> {
  let loading: Promise<(request: Request) => Promise<Response>> | null = null;
  const load = async () => {
    const { createMcpHandler } = await import("@modelcontextprotocol/server");
    const { createMcpServe } = await import("../surfaces/mcp/server.ts");
    return createMcpHandler(() => createMcpServe(options)).fetch;
  };
  return async (request) => (await (loading ??= load()))(request);
}
