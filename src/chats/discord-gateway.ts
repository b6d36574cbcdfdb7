// The connection that brings Discord's events. discord.js resumes it, so that what came meanwhile is replayed; the pauses, a
// line that does not say goodbye, and a token that is refused are ours.
import type { Client, GatewayDispatchEvents, GatewayReadyDispatchData, RESTOptions } from "discord.js";
import { ConfigError } from "../core/errors.ts";
import type { Clock, Log, Random } from "../core/ports.ts";
import { unanswered } from "./calls.ts";
import { pause } from "./pause.ts";

export type Gateway = {
  /** Resolves when a connection stands or has failed for now; rejects with a ConfigError when none ever will. */
  start(): Promise<void>;
  /** Resolves when nothing of it is left. */
  stop(): Promise<void>;
};

type Options = {
  token: string;
  rest: Partial<RESTOptions>;
  clock: Clock;
  random: Random;
  log: Log;
  /** A client that is about to connect: whoever wants its events says so now. */
  made(client: Client, events: typeof GatewayDispatchEvents): void;
  /** A new session: nothing that was said before it will come. */
  ready(data: GatewayReadyDispatchData, client: Client): void;
  /** `error` is empty while it is connected. */
  changed(connected: boolean, error: string): void;
  /** Discord has answered. */
  alive(): void;
};
/** `final`: to try again soon would change nothing. */
type End = { why: string; final: boolean };
type Line = { terminate(): void; on(event: "error", listener: () => void): void };

/** Discord allows one new session in this time, and a thousand a day: then it takes the token away. */
const IDENTIFY_EVERY_MS = 5_000;
const GOODBYE_MS = 1_000;
const SLOW = { first: 60_000, most: 600_000 };

const WRONG_TOKEN =
  "Discord does not accept the bot token. Set DISCORD_BOT_TOKEN to the one from the Bot page of your application " +
  "(discord.com/developers/applications).";
const NO_INTENT =
  "Discord does not let the bot read messages: the Message Content intent is missing. Switch it on under Privileged " +
  "Gateway Intents on the Bot page of your application (discord.com/developers/applications).";
const FINAL: Partial<Record<number, string>> = { 4004: WRONG_TOKEN, 4013: NO_INTENT, 4014: NO_INTENT };

export function openGateway(options: Options): Gateway {
  const { token, clock, random, log } = options;
  const over = new AbortController();
  let kept: Promise<void> = Promise.resolve();
  let identifiedAt = Number.NEGATIVE_INFINITY;

  async function keep(first: PromiseWithResolvers<void>): Promise<void> {
    let attempt = 0;
    for (let begun = false; !over.signal.aborted; begun = true) {
      let stood = false;
      const end = await connection((up) => {
        stood ||= up;
        first.resolve();
      });
      if (over.signal.aborted) break;
      options.changed(false, end.why);
      log(end.final ? "error" : "warn", "chat.disconnected", { platform: "discord", error: end.why });
      if (end.final && !begun && !stood) return first.reject(new ConfigError(end.why));
      first.resolve();
      attempt = stood ? 0 : attempt + 1;
      const wait = pause(Math.max(0, attempt - 1), random, end.final ? SLOW : {});
      await clock.sleep(wait, over.signal);
    }
    first.resolve();
  }

  /** One client, until it can do no more. `settled`: it is connected, or was not for the first time. */
  async function connection(settled: (up: boolean) => void): Promise<End> {
    const { Client, Events, GatewayDispatchEvents, GatewayIntentBits, Options, SimpleShardingStrategy } = await import(
      "discord.js"
    );
    const ended = Promise.withResolvers<End>();
    const stop = () => ended.resolve({ why: "", final: false });
    over.signal.addEventListener("abort", stop);
    if (over.signal.aborted) stop();
    const done = new AbortController();
    let isOver = false;
    let lines = (): Line[] => [];
    /** How often in a row it was cut off. */
    let cuts = 0;

    const client = new Client({
      intents: [
        GatewayIntentBits.Guilds,
        GatewayIntentBits.GuildMessages,
        GatewayIntentBits.DirectMessages,
        GatewayIntentBits.MessageContent,
      ],
      rest: options.rest,
      makeCache: Options.cacheWithLimits({ ...Options.DefaultMakeCacheSettings, MessageManager: 0 }),
      ws: {
        buildStrategy: (manager) => {
          const strategy = new SimpleShardingStrategy(manager);
          lines = () => linesOf(strategy);
          // It is asked just before each connection: the one place to make it wait, and to keep it from connecting once
          // more after its end, which it does when it is ended while it connects.
          const { retrieveSessionInfo } = manager.options;
          let waitedFor = 0;
          manager.options.retrieveSessionInfo = async (shard) => {
            if (cuts > waitedFor) {
              waitedFor = cuts;
              await clock.sleep(pause(cuts - 1, random, { first: 500 }), done.signal);
            }
            if (isOver) return new Promise(() => {});
            return retrieveSessionInfo(shard);
          };
          return strategy;
        },
        buildIdentifyThrottler: () => ({ waitForIdentify }),
      },
    });
    const stands = () => {
      cuts = 0;
      options.changed(true, "");
      settled(true);
    };
    client.ws.on(GatewayDispatchEvents.Ready, (data: GatewayReadyDispatchData) => {
      options.ready(data, client);
      stands();
    });
    client.ws.on(GatewayDispatchEvents.Resumed, stands);
    client.on(Events.ShardReconnecting, () => {
      if (isOver) return;
      cuts += 1;
      options.changed(false, "The connection to Discord was lost.");
      settled(false);
    });
    client.on(Events.ShardDisconnect, ({ code }) =>
      ended.resolve({ why: FINAL[code] ?? `Discord closed the connection (${code}).`, final: true }),
    );
    client.on(Events.Debug, (text) => {
      if (text.includes("Heartbeat acknowledged")) options.alive();
      if (text.includes("Destroying shard")) void part(lines(), done.signal);
    });
    client.on(Events.Error, () => {}); // without anybody to hear it, it would be thrown
    options.made(client, GatewayDispatchEvents);

    client.login(token).catch((error: unknown) => ended.resolve(loginEnd(error)));
    const end = await ended.promise;
    isOver = true;
    over.signal.removeEventListener("abort", stop);
    const parted = part(lines(), done.signal);
    await Promise.race([client.destroy(), parted]);
    done.abort();
    await parted;
    return end;
  }

  /** It waits half a minute for an answer to its goodbye, which a dead line never gives. */
  async function part(lines: Line[], signal: AbortSignal): Promise<void> {
    if (lines.length === 0) return;
    for (const line of lines) line.on("error", () => {}); // what is cut while it connects says so
    await clock.sleep(GOODBYE_MS, signal);
    for (const line of lines) line.terminate();
  }

  async function waitForIdentify(_shard: number, signal: AbortSignal): Promise<void> {
    const wait = identifiedAt + IDENTIFY_EVERY_MS - clock.now();
    if (wait > 0) await clock.sleep(wait, signal);
    signal.throwIfAborted();
    identifiedAt = clock.now();
  }

  return {
    start: () => {
      const first = Promise.withResolvers<void>();
      kept = keep(first);
      return first.promise;
    },
    async stop() {
      over.abort();
      await kept;
      options.changed(false, "");
    },
  };
}

function loginEnd(error: unknown): End {
  if (error instanceof Error && "code" in error && error.code === "TokenInvalid")
    return { why: WRONG_TOKEN, final: true };
  if (error instanceof Error && "status" in error) return { why: `Discord answered ${error.status}.`, final: false };
  // A thousand sessions were begun today.
  if (error instanceof Error && error.message.startsWith("Not enough sessions"))
    return { why: error.message, final: false };
  return { why: unanswered("Discord", error).message, final: false };
}

/** Its sockets, for which discord.js has no door. Should they move, a dead line costs half a minute more, and no harm. */
function linesOf(strategy: object): Line[] {
  const shards: unknown = Reflect.get(strategy, "shards");
  if (!(shards instanceof Map)) return [];
  return [...shards.values()].map((shard: object) => Reflect.get(shard, "connection")).filter(isLine);
}

const isLine = (value: unknown): value is Line =>
  typeof value === "object" && value !== null && "terminate" in value && typeof value.terminate === "function";
