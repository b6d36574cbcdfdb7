// hermes gateway: runtime, chats and API in one process, from its start to its end.
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Flag, loadConfig } from "../config/config.ts";
import type { Config } from "../config/schema.ts";
import type { Chat } from "../core/chat.ts";
import { ConfigError } from "../core/errors.ts";
import type { Channel, Log } from "../core/ports.ts";
import { clock } from "../platform/clock.ts";
import { homeOf } from "../platform/home.ts";
import { lockToken } from "../platform/token-lock.ts";
import { ownerPid } from "../store/sqlite.ts";
import type { PairingDesk } from "../surfaces/cli/gateway.ts";
import { createGateway } from "../surfaces/gateway/gateway.ts";
import { createLifecycle, leaveTo, setDeadline } from "../surfaces/gateway/lifecycle.ts";
import { notifyService } from "../surfaces/gateway/service.ts";
import { pairingRoutes } from "../surfaces/http/pairing.ts";
import { serve } from "./api.ts";
import { openRuntime } from "./runtime.ts";

/** Returns the exit code. `again`: the command that starts the same gateway. */
export async function runGateway(options: {
  env: NodeJS.ProcessEnv;
  flags: readonly Flag[];
  version: string;
  print(line: string): void;
  again: readonly string[];
}): Promise<number> {
  const { env, flags, version, print, again } = options;
  // The engine sends what a process before us left as soon as it starts; the chats come after it.
  const opened = Promise.withResolvers<Channel>();
  const channel: Channel = { send: async (reply, signal) => (await opened.promise).send(reply, signal) };
  const running = await openRuntime({ env, flags, logToStderr: true, channel, mine: () => true });
  const { engine, config, home, log, endpoints, observers } = running;
  const lifecycle = createLifecycle(log);
  const unlocks: (() => void)[] = [];
  const closeAll = async () => {
    await running.close(0);
    for (const unlock of unlocks) unlock();
  };
  try {
    const chats = await openChats(config, log, unlocks);
    const gateway = createGateway({
      runtime: engine,
      chats,
      clock,
      log,
      newKey: randomUUID,
      randomBytes,
      lists: (platform) => listsOf(config, platform),
      busyMode: (platform) => busyModeOf(config, platform),
      models: () => endpoints.map(({ provider, model }) => `${provider}:${model}`),
      progress: config.display.tool_progress,
      files: join(home.dir, "attachments"),
      sharedGroups: false,
      requestRestart: lifecycle.requestRestart,
    });
    opened.resolve(gateway.channel);
    observers.add(gateway.observe);
    const api = config.gateway.api_server.enabled
      ? await serve(running, version, {
          health: () => ({ channels: gateway.health() }),
          more: pairingRoutes(gateway.access),
        })
      : null;
    await gateway.start();
    const place = join(home.dir, "gateway.json");
    writeFileSync(place, JSON.stringify({ pid: process.pid, url: api?.url ?? null, version }), { mode: 0o600 });
    if (api?.keyFile) print(`The key of the API is in ${api.keyFile}`);
    for (const { platform } of chats) print(`Listening on ${platform}`);
    print(`hermes gateway ready${api ? ` on ${api.url}` : ""}`);
    const service = notifyService({ env, clock, log });

    const { why, turn } = await lifecycle.asked;
    service.stopping();
    const { restart_drain_timeout: drain, exit_watchdog: watchdog } = config.agent;
    const drainMs = drain * 1_000;
    const cancelDeadline = setDeadline(drainMs + watchdog * 1_000);
    log("info", "gateway.leaving", { why, drainMs });
    const drained = running.close(drainMs, turn ?? undefined);
    await gateway.announceLeaving(why).catch(() => {});
    const { left } = await drained;
    await Promise.all([gateway.stopHearing().then(() => gateway.close()), api?.close(1_000)]);
    if (left.length) console.error(`hermes: ${left.length} turn(s) go on after the next start`);
    rmSync(place, { force: true });
    for (const unlock of unlocks) unlock();
    cancelDeadline();
    return leaveTo(why, env, again);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

type ChatConfig = Config["gateway"]["telegram"] | Config["gateway"]["discord"] | Config["gateway"]["slack"];

const chatConfig = (config: Config, platform: string): ChatConfig | null => {
  const { telegram, discord, slack } = config.gateway;
  const all: Record<string, ChatConfig> = { telegram, discord, slack };
  return all[platform] ?? null;
};
const listsOf = (config: Config, platform: string) => {
  const { allowed_users: allowed = [], admin_users: admins = [] } = chatConfig(config, platform) ?? {};
  return { allowed, admins };
};
const busyModeOf = (config: Config, platform: string) =>
  chatConfig(config, platform)?.busy_input_mode ?? config.display.busy_input_mode;

/** One process for each bot: two that listen with the same token take each other's messages. */
async function openChats(config: Config, log: Log, unlocks: (() => void)[]): Promise<Chat[]> {
  const { telegram, discord, slack } = config.gateway;
  const common = { clock, log, random: Math.random };
  const chats: Chat[] = [];
  const lock = async (platform: string, token: string) => {
    const unlock = await lockToken(token);
    if (!unlock)
      throw new ConfigError(`Another gateway on this machine uses the same ${platform} token; stop it first.`);
    unlocks.push(unlock);
  };
  if (telegram.token) {
    const { createTelegram } = await import("../chats/telegram.ts");
    await lock("Telegram", telegram.token);
    chats.push(createTelegram({ ...common, token: telegram.token, apiRoot: telegram.api_root }));
  }
  if (discord.token) {
    const { createDiscord } = await import("../chats/discord.ts");
    await lock("Discord", discord.token);
    chats.push(createDiscord({ ...common, token: discord.token, apiRoot: discord.api_root }));
  }
  if (slack.bot_token && slack.app_token) {
    const { createSlack } = await import("../chats/slack.ts");
    await lock("Slack", slack.bot_token);
    const { bot_token: botToken, app_token: appToken, api_root: apiRoot } = slack;
    chats.push(createSlack({ ...common, botToken, appToken, apiRoot }));
  }
  return chats;
}

/** The pairing desk of the gateway that runs, or of its files while none does. */
export async function withPairing<T>(env: NodeJS.ProcessEnv, use: (desk: PairingDesk) => Promise<T>): Promise<T> {
  const remote = await gatewayOf(env);
  if (remote) {
    const call = async (method: string, path: string, body?: unknown) => {
      const answer = await remote.ask(method, `/api/pairing${path}`, body);
      if (answer.status >= 400 && answer.status !== 404) throw new Error(`The gateway answers ${answer.status}.`);
      return answer;
    };
    return use({
      newCode: async (platform) => (await call("POST", "", { platform })).body as { code: string; expiresAt: number },
      paired: async () => ((await call("GET", "")).body as { data: Awaited<ReturnType<PairingDesk["paired"]>> }).data,
      unpair: async (platform, id) => (await call("DELETE", `/${platform}/${encodeURIComponent(id)}`)).status === 200,
    });
  }
  const { openSqlite } = await import("../store/sqlite.ts");
  const { createAccess } = await import("../surfaces/gateway/access.ts");
  const store = await openSqlite({ file: homeOf(env).database });
  try {
    const lists = () => ({ allowed: [], admins: [] });
    return await use(createAccess({ lists, notes: store.notes, clock, randomBytes }));
  } finally {
    await store.close();
  }
}

/** The API of the gateway that owns this home; null: there is none that answers. */
export async function gatewayOf(env: NodeJS.ProcessEnv) {
  const home = homeOf(env);
  const { config } = loadConfig({ env });
  try {
    const { url } = JSON.parse(readFileSync(join(home.dir, "gateway.json"), "utf8")) as { url: string | null };
    const key = config.gateway.api_server.key ?? readFileSync(home.apiKey, "utf8").trim();
    if (!url || ownerPid(home.database) === null) return null;
    const ask = async (method: string, path: string, body?: unknown) => {
      const answer = await fetch(`${url}${path}`, {
        method,
        headers: { Authorization: `Bearer ${key}`, ...(body !== undefined && { "Content-Type": "application/json" }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      return { status: answer.status, body: (await answer.json()) as unknown };
    };
    return { url, key, ask };
  } catch {
    return null;
  }
}

const ANSWER_MS = 5_000;
