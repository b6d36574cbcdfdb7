// The connection that brings Discord's events. A shard of @discordjs/ws is one connection: it identifies or resumes, sends
// heartbeats, and notices when no answer to them comes. Everything after its end is ours: the pauses, the next connection,
// and the session that the next connection resumes, so that Discord replays what happened meanwhile.

import {
  DefaultWebSocketManagerOptions,
  type SessionInfo,
  WebSocketShard,
  type WebSocketShardDestroyOptions,
  WebSocketShardDestroyRecovery,
  WebSocketShardEvents,
} from "@discordjs/ws";
import {
  type APIGatewayBotInfo,
  type GatewayDispatchPayload,
  GatewayIntentBits,
  type GatewayReadyDispatchData,
} from "discord-api-types/v10";
import { z } from "zod";
import { messageOf } from "../../core/errors.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { onAbort, within } from "../../core/wait.ts";
import { type End, keepConnected } from "../shared/reconnect.ts";
import { type DiscordApi, faultOf, isUnauthorized } from "./api.ts";

type Options = Ambient & {
  token: string;
  api: DiscordApi;
  random: Random;
  /** The one to resume. */
  session: SessionInfo | null;
  changedSession(session: SessionInfo | null): void;
  /** Somebody resumes it after `stop`. */
  keepsSession: boolean;
  /** A new session: Discord sends nothing that was said before it. */
  ready(data: GatewayReadyDispatchData): void;
  dispatch(event: GatewayDispatchPayload): void;
  changed(connected: boolean, error: string): void;
  /** Discord has answered. */
  alive(): void;
};

const INTENTS = [
  GatewayIntentBits.Guilds,
  GatewayIntentBits.GuildMessages,
  GatewayIntentBits.DirectMessages,
  GatewayIntentBits.MessageContent,
].reduce((all, one) => all | one);
/** Discord allows one new session in this time, and a thousand a day: then it takes the token away. */
const IDENTIFY_EVERY_MS = 5_000;
/** The library waits half a minute for the answer to its close frame, which a dead connection never gives. */
const CLOSE_MS = 1_000;
const NORMAL = 1_000;
/** A code that is neither 1000 nor 1001: Discord keeps the session. */
const RESUMING = 4_200;

const LOST: End = { why: "The connection was lost.", final: false };
const WRONG_TOKEN =
  "Discord does not accept the bot token. Set DISCORD_BOT_TOKEN to the one from the Bot page of your application " +
  "(discord.com/developers/applications).";
const NO_INTENT =
  "Discord does not let the bot read messages: the Message Content intent is missing. Switch it on under Privileged " +
  "Gateway Intents on the Bot page of your application (discord.com/developers/applications).";
const FINAL: Partial<Record<number, string>> = { 4004: WRONG_TOKEN, 4013: NO_INTENT, 4014: NO_INTENT };

export function openGateway(options: Options) {
  const { token, api, clock, random, log, changed, keepsSession } = options;
  let identifiedAt = Number.NEGATIVE_INFINITY;
  let bot: APIGatewayBotInfo | null = null;
  let { session } = options;

  async function connect(onState: (connected: boolean) => void, signal: AbortSignal): Promise<End> {
    if (!bot || !session) {
      try {
        bot = botShape.parse(await api.ask("get", "/gateway/bot", {}, signal));
      } catch (error) {
        return isUnauthorized(error)
          ? { why: WRONG_TOKEN, final: true }
          : { why: faultOf(error).message, final: false };
      }
      const { remaining, reset_after } = bot.session_start_limit;
      if (!session && remaining < 1)
        return { why: `Discord allows no new session for ${reset_after} ms.`, final: false };
    }
    if (signal.aborted) return LOST;

    const ended = Promise.withResolvers<End>();
    const shard = new SingleShard(strategyFor(bot), ({ recover, code = NORMAL }) => {
      if (recover !== WebSocketShardDestroyRecovery.Resume) setSession(null);
      const isFatal = recover === undefined;
      ended.resolve(isFatal ? { why: FINAL[code] ?? `Discord closed the connection (${code}).`, final: true } : LOST);
    });
    shard.on(WebSocketShardEvents.Ready, (data) => {
      guarded("READY", () => options.ready(data));
      onState(true);
    });
    shard.on(WebSocketShardEvents.Resumed, () => onState(true));
    shard.on(WebSocketShardEvents.Dispatch, (event) => guarded(event.t, () => options.dispatch(event)));
    shard.on(WebSocketShardEvents.HeartbeatComplete, options.alive);
    shard.on(WebSocketShardEvents.Error, () => {}); // without a listener, the error would be thrown
    const release = onAbort(signal, () => ended.resolve(LOST));
    // It rejects with the same errors that end the shard.
    shard.connect().catch(() => {});

    const end = await ended.promise;
    release();
    await within(clock, CLOSE_MS, shard.destroy(keepsSession ? { recover: WebSocketShardDestroyRecovery.Resume } : {}));
    cut(shard);
    return end;
  }

  function setSession(next: SessionInfo | null): void {
    session = next;
    options.changedSession(next);
  }

  function strategyFor(gatewayInformation: APIGatewayBotInfo): Strategy {
    return {
      options: { ...DefaultWebSocketManagerOptions, token, intents: INTENTS, gatewayInformation, shardCount: 1 },
      retrieveSessionInfo: () => session,
      // Null comes with every end; whether the session can be resumed is decided where the end is known.
      updateSessionInfo: (_shard, info) => {
        if (info) setSession(info);
      },
      waitForIdentify: async (_shard, signal) => {
        const wait = identifiedAt + IDENTIFY_EVERY_MS - clock.monotonic();
        if (wait > 0) await clock.sleep(wait, signal);
        signal.throwIfAborted();
        identifiedAt = clock.monotonic();
      },
    };
  }

  /** The shard does not await its listeners: what one throws, nobody could catch. */
  function guarded(event: string, handle: () => void): void {
    try {
      handle();
    } catch (error) {
      log("error", "chat.unread", { platform: "discord", event, error: messageOf(error) });
    }
  }

  return keepConnected({ platform: "discord", clock, random, log, connect, changed });
}

type Strategy = ConstructorParameters<typeof WebSocketShard>[0];

/** A shard that ends once and does not connect again. The library calls `destroy` for every end that it notices. */
class SingleShard extends WebSocketShard {
  readonly #ended: (end: WebSocketShardDestroyOptions) => void;
  #closing: Promise<void> | null = null;

  constructor(strategy: Strategy, ended: (end: WebSocketShardDestroyOptions) => void) {
    super(strategy, 0);
    this.#ended = ended;
  }

  override destroy(end: WebSocketShardDestroyOptions = {}): Promise<void> {
    if (this.#closing) return this.#closing;
    const { recover, code = recover === WebSocketShardDestroyRecovery.Resume ? RESUMING : NORMAL, reason = "" } = end;
    this.#closing = super.destroy({ code, reason });
    this.#ended(end);
    return this.#closing;
  }
}

/** The library keeps its socket to itself. Should the field move, a dead connection lives half a minute longer. */
function cut(shard: WebSocketShard): void {
  const socket: unknown = Reflect.get(shard, "connection");
  if (!isSocket(socket)) return;
  socket.on("error", () => {}); // one that is cut while it connects emits an error
  socket.terminate();
}

type Socket = { terminate(): void; on(event: "error", listener: () => void): void };
const isSocket = (value: unknown): value is Socket =>
  typeof value === "object" && value !== null && "terminate" in value && typeof value.terminate === "function";

const botShape = z.object({
  url: z.url({ protocol: /^wss?$/ }),
  shards: z.number(),
  session_start_limit: z.object({
    total: z.number(),
    remaining: z.number(),
    reset_after: z.number(),
    max_concurrency: z.number(),
  }),
});
