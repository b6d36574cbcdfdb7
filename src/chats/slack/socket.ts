// The connection that brings Slack's events: Socket Mode, made again by us. Slack's library would do that by itself, but when
// that fails it throws where nobody can catch it, and the process ends.

import type { Socket } from "node:net";
import type { Ambient, Random } from "../../core/ports.ts";
import { after, onAbort, within } from "../../core/wait.ts";
import type { ApiCalls } from "../shared/calls.ts";
import { type End, keepConnected } from "../shared/reconnect.ts";
import { faultOf, fetchFor, onceAt, quiet, REFUSED, reasonOf } from "./api.ts";

/** Something that Slack wants acknowledged. */
export type Envelope = { type: string; body: unknown; ack(): Promise<void> };

type Options = Ambient & {
  appToken: string;
  apiRoot: string;
  calls: ApiCalls;
  random: Random;
  /** Done once before the first connection; throws what Slack's library throws. */
  introduce(signal: AbortSignal): Promise<void>;
  onEnvelope(envelope: Envelope): void;
  changed(connected: boolean, error: string): void;
  /** Slack has answered. */
  alive(): void;
};

const HELLO_MS = 30_000;
const GOODBYE_MS = 1_000;
const APP_TOKEN =
  "Set SLACK_APP_TOKEN to an app-level token (xapp-…) with the scope connections:write, from Basic Information of your app";
const BOT_TOKEN = "Set SLACK_BOT_TOKEN to the Bot User OAuth Token (xoxb-…) from OAuth & Permissions of your app";
const WHERE = "(api.slack.com/apps)";

export function openSocket(options: Options) {
  const { appToken, apiRoot, calls, clock, random, log, alive, changed } = options;

  async function connect(onState: (connected: boolean) => void, signal: AbortSignal): Promise<End> {
    try {
      await options.introduce(signal);
    } catch (error) {
      return endOf(error, "bot token", BOT_TOKEN);
    }
    const { LogLevel, SocketModeClient } = await import("@slack/socket-mode");
    const line = await openLine();
    const done = new AbortController();
    const ended = Promise.withResolvers<End>();
    const release = onAbort(signal, () => ended.resolve({ why: "", final: false }));

    const client = new SocketModeClient({
      appToken,
      autoReconnectEnabled: false,
      dispatcher: line.dispatcher,
      clientOptions: { ...onceAt(apiRoot), fetch: fetchFor(calls, done.signal, alive) },
      // The only way to learn that the connection lives while no event comes.
      pingPongLoggingEnabled: true,
      logger: quiet(LogLevel.ERROR, (text) => {
        if (text.startsWith("WebSocket received p")) alive();
      }),
    });
    client.on("slack_event", options.onEnvelope);
    client.on("disconnected", () => ended.resolve({ why: "Slack closed the connection.", final: false }));
    const silent = { why: "Slack did not say hello.", final: false };
    const greeted = after(clock, HELLO_MS, () => ended.resolve(silent));
    client.start().then(
      () => {
        greeted();
        onState(true);
      },
      (error: unknown) => ended.resolve(endOf(error, "app token", APP_TOKEN)),
    );

    const end = await ended.promise;
    release();
    greeted();
    await within(clock, GOODBYE_MS, client.disconnect());
    done.abort();
    await line.close();
    return end;
  }

  return keepConnected({ platform: "slack", clock, random, log, connect, changed });
}

function endOf(error: unknown, which: string, what: string): End {
  const name = reasonOf(error);
  if (name !== undefined && REFUSED.has(name))
    return { why: `Slack does not accept the ${which} (${name}). ${what} ${WHERE}.`, final: true };
  return { why: faultOf(error).message, final: false };
}

/** Connections that can be cut: once it has become a WebSocket, undici forgets to whom a socket belongs. */
async function openLine() {
  const { Agent, buildConnector } = await import("undici");
  const sockets = new Set<Socket>();
  const connect = buildConnector({ allowH2: false });
  const dispatcher = new Agent({
    connect: (to, use) =>
      connect(to, (...made) => {
        const [, socket] = made;
        if (socket) sockets.add(socket);
        use(...made);
      }),
  });
  return {
    dispatcher,
    async close(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      await dispatcher.destroy();
    },
  };
}
