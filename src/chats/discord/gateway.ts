// The connection that brings Discord's events. discord.js resumes it, so that what came meanwhile is replayed; the pauses, a
// line that does not say goodbye, and a token that is refused are ours.
import type {
  Client,
  GatewayDispatchEvents,
  GatewayDispatchPayload,
  GatewayReadyDispatchData,
  RESTOptions,
} from "discord.js";
import { messageOf } from "../../core/errors.ts";
import type { Clock, Log, Random } from "../../core/ports.ts";
import { unanswered } from "../shared/calls.ts";
import { pause } from "../shared/pause.ts";
import { type End, type Kept, keep } from "../shared/reconnect.ts";

type Options = {
  token: string;
  rest: Partial<RESTOptions>;
  clock: Clock;
  random: Random;
  log: Log;
  /** Whoever wants its events says so now. */
  listen(on: Listen, events: typeof GatewayDispatchEvents): void;
  /** A new session: nothing that was said before it will come. */
  ready(data: GatewayReadyDispatchData, client: Client): void;
  changed(connected: boolean, error: string): void;
  /** Discord has answered. */
  alive(): void;
};
export type Listen = <E extends GatewayDispatchEvents>(
  event: E,
  hear: (data: Extract<GatewayDispatchPayload, { t: E }>["d"]) => void,
) => void;
type Line = { readyState: number; terminate(): void; on(event: "error", listener: () => void): void };

/** Discord allows one new session in this time, and a thousand a day: then it takes the token away. */
const IDENTIFY_EVERY_MS = 5_000;
const GOODBYE_MS = 1_000;
/** Of a WebSocket. */
const CLOSED = 3;

const WRONG_TOKEN =
  "Discord does not accept the bot token. Set DISCORD_BOT_TOKEN to the one from the Bot page of your application " +
  "(discord.com/developers/applications).";
const NO_INTENT =
  "Discord does not let the bot read messages: the Message Content intent is missing. Switch it on under Privileged " +
  "Gateway Intents on the Bot page of your application (discord.com/developers/applications).";
const FINAL: Partial<Record<number, string>> = { 4004: WRONG_TOKEN, 4013: NO_INTENT, 4014: NO_INTENT };

export function openGateway(options: Options): Kept {
  const { token, clock, random, log, changed } = options;
  let identifiedAt = Number.NEGATIVE_INFINITY;

  /** One client, which connects and resumes by itself until it can do no more. */
  async function connect(tell: (standing: boolean) => void, signal: AbortSignal): Promise<End> {
    const discord = await import("discord.js");
    const { Client, Events, GatewayDispatchEvents, GatewayIntentBits, SimpleShardingStrategy } = discord;
    const ended = Promise.withResolvers<End>();
    const stop = () => ended.resolve({ why: "", final: false });
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    const done = new AbortController();
    let isOver = false;
    let lines = (): Line[] => [];
    /** How often in a row it was cut off. */
    let cuts = 0;
    let waitedFor = 0;

    const client = new Client({
      intents: [
        GatewayIntentBits.Guilds,
        GatewayIntentBits.GuildMessages,
        GatewayIntentBits.DirectMessages,
        GatewayIntentBits.MessageContent,
      ],
      rest: options.rest,
      makeCache: discord.Options.cacheWithLimits({ ...discord.Options.DefaultMakeCacheSettings, MessageManager: 0 }),
      ws: {
        buildStrategy: (manager) => {
          const strategy = new SimpleShardingStrategy(manager);
          lines = () => linesOf(strategy);
          // It is asked just before each connection: the one place to make it wait, and to keep it from connecting once
          // more after its end, which it does when it is ended while it connects.
          const { retrieveSessionInfo } = manager.options;
          manager.options.retrieveSessionInfo = async (shard) => {
            if (cuts > waitedFor) {
              waitedFor = cuts;
              await clock.sleep(pause(cuts - 1, random, { first: 500 }), done.signal);
            }
            return isOver ? new Promise(() => {}) : retrieveSessionInfo(shard);
          };
          return strategy;
        },
        buildIdentifyThrottler: () => ({ waitForIdentify }),
      },
    });
    const stands = () => {
      cuts = waitedFor = 0;
      tell(true);
    };
    // What is thrown in there, nobody could catch.
    const on: Listen = (event, hear) =>
      client.ws.on(event, (data) => {
        try {
          hear(data);
        } catch (error) {
          log("error", "chat.unread", { platform: "discord", event, error: messageOf(error) });
        }
      });
    on(GatewayDispatchEvents.Ready, (data) => {
      options.ready(data, client);
      stands();
    });
    on(GatewayDispatchEvents.Resumed, stands);
    client.on(Events.ShardReconnecting, () => {
      if (isOver) return;
      cuts += 1;
      tell(false);
    });
    client.on(Events.ShardDisconnect, ({ code }) =>
      ended.resolve({ why: FINAL[code] ?? `Discord closed the connection (${code}).`, final: true }),
    );
    client.on(Events.Debug, (text) => {
      if (text.includes("Heartbeat acknowledged")) options.alive();
      if (text.includes("Destroying shard")) void part(lines(), done.signal);
    });
    client.on(Events.Error, () => {}); // without anybody to hear it, it would be thrown
    options.listen(on, GatewayDispatchEvents);

    client.login(token).catch((error: unknown) => ended.resolve(loginEnd(error)));
    const end = await ended.promise;
    isOver = true;
    signal.removeEventListener("abort", stop);
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

  return keep({ platform: "discord", clock, random, log, connect, changed });
}

function loginEnd(error: unknown): End {
  const final = error instanceof Error && "code" in error && error.code === "TokenInvalid";
  if (final) return { why: WRONG_TOKEN, final };
  if (error instanceof Error && "status" in error) return { why: `Discord answered ${String(error.status)}.`, final };
  // A thousand sessions were begun today.
  if (error instanceof Error && error.message.startsWith("Not enough sessions")) return { why: error.message, final };
  return { why: unanswered("Discord", error).message, final };
}

/** Its sockets, for which discord.js has no door. Should they move, a dead line costs half a minute more, and no harm. */
function linesOf(strategy: object): Line[] {
  const shards: unknown = Reflect.get(strategy, "shards");
  if (!(shards instanceof Map)) return [];
  const lines = [...shards.values()].map((shard: object) => Reflect.get(shard, "connection")).filter(isLine);
  return lines.filter(({ readyState }) => readyState !== CLOSED);
}

const isLine = (value: unknown): value is Line =>
  typeof value === "object" && value !== null && "terminate" in value && typeof value.terminate === "function";
