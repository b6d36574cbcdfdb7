// hermes gateway: runtime, chats and API in one process, from its start to its end.
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import * as z from "zod";
import { createRemoteJobs } from "../client/jobs.ts";
import { createRemoteNodes } from "../client/nodes.ts";
import { createRemotePairing } from "../client/pairing.ts";
import { createRemoteRuntime } from "../client/remote.ts";
import { createWire } from "../client/wire.ts";
import { type Flag, loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import { costOf } from "../conversation/cost.ts";
import type { PairingDesk } from "../core/chat.ts";
import type { Channel } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import { parseKey, rootOf } from "../core/session-key.ts";
import type { Notes, Store } from "../core/store.ts";
import { storedGrants } from "../engine/grants.ts";
import type { HeldLease } from "../engine/lease.ts";
import type { ImportWorld } from "../import/import.ts";
import { modelNames } from "../llm/model-list.ts";
import { clock } from "../platform/clock.ts";
import { setDeadline } from "../platform/deadline.ts";
import { homeOf } from "../platform/home.ts";
import { findProgram } from "../platform/programs.ts";
import { uncaught } from "../platform/uncaught.ts";
import { ownerPid } from "../store/sqlite/file.ts";
import type { CronJobs } from "../surfaces/cli/cron.ts";
import type { NodeDesk } from "../surfaces/cli/nodes.ts";
import { skillLines } from "../surfaces/cli/skills.ts";
import { createGateway, type Gateway } from "../surfaces/gateway/gateway.ts";
import { createLifecycle, leaveTo } from "../surfaces/gateway/lifecycle.ts";
import { notifyService } from "../surfaces/gateway/service.ts";
import { channelRoutes, type Door } from "../surfaces/http/runtime/channels.ts";
import { restartRoutes } from "../surfaces/http/runtime/restart.ts";
import { ownerHere } from "../tools/shell/exec.ts";
import { openTranscribe } from "../tools/voice/transcribe.ts";
import {
  busyModeOf,
  deliversBy,
  hearsIn,
  listsOf,
  openChannels,
  pairingDesk,
  progressOf,
  unattendedOf,
} from "./channels.ts";
import { abandon, openRuntime, type Running } from "./runtime.ts";
import { goalLimitsOf } from "./settings.ts";
import { openStore } from "./store.ts";

/** Returns the exit code. `again`: the command that starts the same gateway. */
export async function runGateway(options: {
  env: NodeJS.ProcessEnv;
  flags: readonly Flag[];
  version: string;
  print(line: string): void;
  again: readonly string[];
}): Promise<number> {
  const { env, flags, version, print, again } = options;
  // The engine delivers what a process before us left as soon as it starts; the platforms open after it.
  const opened = Promise.withResolvers<Channel>();
  const channel: Channel = { send: async (reply, signal) => (await opened.promise).send(reply, signal) };
  const assembled = Promise.withResolvers<Awaited<ReturnType<typeof assemble>>>();
  const prepare = async (running: Running) => {
    const parts = await assemble(running, version);
    opened.resolve(parts.gateway.channel);
    assembled.resolve(parts);
  };
  const barred = async (...left: Parameters<Gateway["barred"]>) => (await assembled.promise).gateway.barred(...left);
  setImmediate(() => void import("./api.ts").catch(() => {})); // while the store's thread starts
  const running = await openRuntime({ env, flags, logToStderr: true, channel, prepare, barred, mine: () => true });
  const { gateway, api, chats, lifecycle } = await assembled.promise;
  const { config, log } = running;
  let scheduling: HeldLease;
  const { restart_drain_timeout: drain, exit_watchdog: watchdog } = config.agent;
  try {
    // The doors of the chats are open before the API says that every route answers; their connections may take longer.
    await Promise.all([gateway.start(), api?.opened()]);
    const { scheduler } = running;
    scheduling = await running.onOneNode("scheduler", async () => {
      scheduler.start();
      return scheduler.close;
    });
  } catch (error) {
    await abandon(running);
    throw error;
  }
  if (api?.keyFile) print(`The API key is in ${api.keyFile}`);
  for (const { platform } of chats) print(`Listening on ${platform}`);
  print(`hermes gateway ready${api ? ` on ${api.url}` : ""}`);
  const service = notifyService({ env, notify: findProgram("systemd-notify"), clock, log });

  const { why, turn } = await lifecycle.asked;
  const drainMs = drain * 1_000;
  log("info", "gateway.leaving", { why, drainMs });
  // From now on another node does that.
  const unscheduled = scheduling.release();
  const drained = (running.cluster ? gateway.stopHearing() : unscheduled).then(() =>
    running.engine.drain(drainMs, turn ?? undefined),
  );
  const leaving = Promise.all([drained, unscheduled]);
  leaving.catch(() => {}); // awaited below
  await clock.sleep(0); // the deadline is a thread, which takes 5 ms to start: sessions are handed over before that
  const cancelDeadline = setDeadline(drainMs + watchdog * 1_000);
  service.stopping();
  // Of several nodes another one goes on with what is left, and nobody notices.
  if (!running.cluster) await gateway.announceLeaving(why === "restart" ? why : "shutdown").catch(() => {});
  const [{ left }] = await leaving;
  await running.close(0);
  if (left.length) console.error(`hermes: ${left.length} unfinished turn(s) continue after the next start`);
  cancelDeadline();
  return leaveTo(why, env, again);
}

/** All that can refuse to start, before anything of what was left is taken up: tokens that are in use, a port, a key. */
async function assemble(running: Running, version: string) {
  const { engine, config, home, log, endpoints, observers } = running;
  const lifecycle = createLifecycle(log);
  uncaught().catch(lifecycle.fail);
  void running.drained.then(lifecycle.stop);
  void running.fenced.then(lifecycle.fail); // it would refuse everything, and take messages from whoever has taken over
  const doors = new Map<string, Door>();
  const chats = await openChannels(running, doors);
  const gateway = createGateway({
    runtime: engine,
    ...(running.cluster && { local: running.local, node: engine.node }),
    chats,
    clock,
    log,
    newKey: randomUUID,
    randomBytes,
    lists: (platform) => listsOf(config, platform),
    approvers: config.approvals.chat,
    busyMode: (platform) => busyModeOf(config, platform),
    // Nobody sits behind a webhook: whoever signs may say who is speaking, and nobody presses a button.
    unattended: (platform) => unattendedOf(config, platform),
    model: endpoints[0]?.model ?? "",
    models: () => modelNames(endpoints),
    window: endpoints[0]?.context ?? 0,
    jobs: () => running.scheduler,
    costOf: (model, usage) => costOf(config.prices, model, usage),
    skills: () => skillLines(running.skills),
    left: (session, by) => running.memory.sessionEnded({ session, by }),
    progress: (platform) => progressOf(config, platform),
    hears: (platform, message) => hearsIn(config, platform, message),
    files: home.attachments,
    transcribe: openTranscribe(config.stt, ownerHere(home.dir)),
    sharedGroups: config.gateway.shared_groups,
    strangers: config.gateway.strangers,
    requestRestart: lifecycle.requestRestart,
  });
  // Before the store: what is being heard just now is noted there before its platform is told that it has arrived.
  running.defer(() => gateway.stopHearing().then(() => gateway.close()));
  observers.add(gateway.observe);
  running.chores.add(gateway.tidy);
  const more = [...channelRoutes(doors), ...restartRoutes(lifecycle.requestRestart)];
  const health = () => ({ channels: gateway.health() });
  const { serve } = await import("./api.ts");
  const api = config.gateway.api_server.enabled ? await serve(running, version, { health, more }) : null;
  return { lifecycle, chats, gateway, api };
}

type GatewayPlace = NonNullable<Awaited<ReturnType<typeof gatewayOf>>>;

/** What is reached over the gateway that runs, or over its store while none does. */
const overEither =
  <D>(remote: (gateway: GatewayPlace) => D, stored: (store: Store, config: Config) => D | Promise<D>) =>
  async <T>(env: NodeJS.ProcessEnv, use: (desk: D) => Promise<T>): Promise<T> => {
    const gateway = await gatewayOf(env);
    if (gateway) return use(remote(gateway));
    return withStore(env, async (store, config) => use(await stored(store, config)));
  };

export const withJobs = overEither<CronJobs>(
  ({ wire }) => createRemoteJobs(wire),
  ({ notes }, config) => storedJobs(config, notes),
);
export const withPairing = overEither<PairingDesk>(
  ({ wire }) => createRemotePairing(wire),
  ({ notes }) => pairingDesk(notes),
);
export const withNodes = overEither<NodeDesk>(
  ({ wire }) => createRemoteNodes(wire),
  ({ nodes }) => nodes,
);
/** What was allowed for the rest of sessions. */
export type GrantDesk = Pick<Runtime, "granted" | "grants" | "revoke">;
export const withGrants = overEither<GrantDesk>(
  ({ url, key }) => createRemoteRuntime({ url, key }),
  (store) => storedGrants(store, clock),
);

const LOOK_MS = 100;

/** Runs what is due and sends its answers, without listening to anybody. What came of it, for people. */
export async function runDueJobs(env: NodeJS.ProcessEnv): Promise<string> {
  if (await gatewayOf(env)) return "The gateway runs jobs that are due by itself.";
  const { createOutbox } = await import("../surfaces/gateway/outbox.ts");
  const opened = Promise.withResolvers<Channel>();
  const running = await openRuntime({
    env,
    logToStderr: false,
    channel: { send: async (reply, signal) => (await opened.promise).send(reply, signal) },
    mine: (session) => parseKey(rootOf(session)).of === "job",
    async prepare(parts) {
      const chats = await openChannels(parts, new Map());
      const { notes } = parts.engine;
      const byName = new Map(chats.map((chat) => [chat.platform, chat]));
      opened.resolve(createOutbox({ chats: byName, notes, clock, log: parts.log }));
      parts.defer(() => Promise.allSettled(chats.map((chat) => chat.close())));
    },
  });
  try {
    const began = await running.scheduler.tick();
    for (let left = 1; left > 0; await clock.sleep(LOOK_MS)) {
      const { turns, waiting } = await running.engine.load();
      left = (await running.engine.paused()) ? 0 : turns + waiting;
    }
    return began ? `Ran ${began} job(s).` : "No job is due.";
  } finally {
    await running.close(0);
  }
}

async function storedJobs(config: Config, notes: Notes) {
  const { openJobs } = await import("../schedule/jobs.ts");
  const { unattended } = config.approvals;
  return openJobs({
    notes,
    clock,
    log: () => {},
    unattended,
    zone: config.schedule.zone,
    delivers: deliversBy(config),
    goalLimits: goalLimitsOf(config),
  });
}

/** What an import writes to. Only while nothing else owns this home. */
export async function withImportWorld<T>(env: NodeJS.ProcessEnv, use: (world: ImportWorld) => Promise<T>): Promise<T> {
  return withStore(env, async (store, config) => {
    const { telegram, discord, slack } = config.gateway;
    const homeChats = { telegram: telegram.home_chat, discord: discord.home_chat, slack: slack.home_chat };
    return use({ store, jobs: await storedJobs(config, store.notes), zone: config.schedule.zone, homeChats });
  });
}

async function withStore<T>(env: NodeJS.ProcessEnv, use: (store: Store, config: Config) => Promise<T>): Promise<T> {
  const { config } = loadConfig({ env });
  const store = await openStore(config, homeOf(env));
  try {
    return await use(store, config);
  } finally {
    await store.close();
  }
}

const ANSWER_MS = 5_000;
const placeOfGateway = z.object({
  pid: z.number(),
  url: z.string(),
  workspace: z.string().optional(),
  owner: z.enum(["gateway", "terminal"]).default("gateway"),
});

/** The API of the gateway that owns this home; null: there is none that answers. */
export async function gatewayOf(env: NodeJS.ProcessEnv) {
  const home = homeOf(env);
  const { config } = loadConfig({ env });
  const owner = ownerPid(home.database);
  if (owner === null) return null;
  try {
    const { pid, url, workspace, owner: kind } = placeOfGateway.parse(JSON.parse(readFileSync(home.served, "utf8")));
    if (pid !== owner) return null; // left by a process that was killed
    const key = config.gateway.api_server.key ?? readFileSync(home.apiKey, "utf8").trim();
    const wire = createWire({ url, key, patient: false, answerMs: ANSWER_MS });
    return { url, key, workspace, isTerminal: kind === "terminal", wire };
  } catch {
    return null;
  }
}
