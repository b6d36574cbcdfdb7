// Discord: its gateway brings what people say, its REST API takes what we say.
import { createHash } from "node:crypto";
import type { SessionInfo } from "@discordjs/ws";
import { GatewayDispatchEvents } from "discord-api-types/v10";
import { z } from "zod";
import type { Button, Chat, InboundHandler, OutboundMessage, Place } from "../../core/chat.ts";
import { messageOf as errorText } from "../../core/errors.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { openCalls } from "../shared/calls.ts";
import { createHealth } from "../shared/health.ts";
import { openLanes } from "../shared/lanes.ts";
import { openAnswers } from "./answers.ts";
import { codeOf, faultOf, openApi } from "./api.ts";
import { type CursorStore, openCursors } from "./cursors.ts";
import { openGateway } from "./gateway.ts";
import { openIntake } from "./intake.ts";
import { discordMarkdown, LONGEST } from "./markdown.ts";
import type { SavedSession, SessionStore } from "./saved-session.ts";
import { openWriter } from "./writer.ts";

type Options = Ambient & {
  token: string;
  apiRoot?: string | undefined;
  /** Without it, messages from before the start are not fetched. */
  cursors?: CursorStore;
  /** Without it, a new process begins a new session. */
  session?: SessionStore;
  random: Random;
};
type DiscordSubscription = { stop(): Promise<void>; close(): Promise<void> };

const platform = "discord";
/** Discord allows five edits in five seconds for a channel, and messages that we send count as well. */
const EDIT_EVERY_MS = 1_500;
const UNKNOWN_MESSAGE = 10_008;
/** What Discord has room for. */
const ROWS = 5;
const BUTTONS = 5;
const LABEL = 80;
const NONCE = 25;

export function createDiscord(options: Options): Chat {
  const { token, apiRoot, cursors: store, session: sessions, clock, log, random } = options;
  const health = createHealth(platform, { clock, log });
  const { alive } = health;
  const calls = openCalls(clock);
  const api = openApi({ token, apiRoot, calls, alive });
  const never = new AbortController().signal;
  let subscription: DiscordSubscription | null = null;

  async function start(handler: InboundHandler): Promise<void> {
    const lanes = openLanes({ platform, clock, random, log });
    const cursors = openCursors({ store, lanes, clock, log });
    const intake = openIntake({ api, calls, lanes, cursors, clock, log, handler });
    const answers = openAnswers({ api, lanes, clock, log, handler });
    const save = async (_: string, session: SessionInfo | null) =>
      sessions?.save(session && { session, bot: intake.bot() });
    const saver = openWriter(save, "chat.unsaved", { clock, log });
    const before = await loadSession();
    const gateway = openGateway({
      session: before?.session ?? null,
      changedSession: (session) => saver.save("session", session),
      keepsSession: sessions !== undefined,
      token,
      api,
      clock,
      random,
      log,
      alive,
      ready: intake.ready,
      dispatch: (event) => {
        if (event.t === GatewayDispatchEvents.InteractionCreate) answers.interact(event.d);
        else intake.dispatch(event);
      },
      changed: health.changed,
    });
    subscription = {
      stop: async () => {
        intake.stop();
        await Promise.all([lanes.stop(), answers.stop()]);
        await Promise.all([gateway.stop().then(saver.stop), cursors.stop()]);
      },
      close: async () => {
        intake.stop();
        void lanes.stop();
        await Promise.all([gateway.stop().then(saver.stop), cursors.stop()]);
      },
    };
    await intake.load();
    if (before) intake.resumes(before.bot);
    await gateway.start();
  }

  async function loadSession(): Promise<SavedSession | null> {
    try {
      return (await sessions?.load()) ?? null;
    } catch (error) {
      log("warn", "chat.unsaved", { platform, error: errorText(error) });
      return null;
    }
  }

  return {
    platform,
    longest: LONGEST,
    editEveryMs: EDIT_EVERY_MS,
    start,
    stop: async () => subscription?.stop(),
    async send(place, outbound, key, signal) {
      const { replyTo } = outbound;
      // Sent twice under one nonce, the second gives the message that the first made.
      const once = { nonce: nonceOf(place, key), enforce_nonce: true };
      const reply = replyTo && { message_reference: { message_id: replyTo, fail_if_not_exists: false } };
      const body = { ...bodyOf(outbound), ...once, ...reply };
      const message = await orFault(api.ask("post", `${channelOf(place)}/messages`, { body }, signal));
      return sentShape.parse(message).id;
    },
    async edit(place, message, outbound, signal) {
      await orFault(api.ask("patch", messageOf(place, message), { body: bodyOf(outbound) }, signal));
    },
    async remove(place, message, signal) {
      await api.ask("delete", messageOf(place, message), {}, signal).catch((error: unknown) => {
        if (codeOf(error) !== UNKNOWN_MESSAGE) throw faultOf(error);
      });
    },
    async typing(place) {
      await api.ask("post", `${channelOf(place)}/typing`, {}, never).catch(() => {});
    },
    async offer(commands) {
      const options = [{ type: 3, name: "text", description: "What else there is to say" }];
      const body = commands.map((command) => ({ ...command, options }));
      try {
        const { id } = sentShape.parse(await api.ask("get", "/applications/@me", {}, never));
        await api.ask("put", `/applications/${id}/commands`, { body }, never);
      } catch (error) {
        log("warn", "chat.unoffered", { platform, error: faultOf(error).message });
      }
    },
    health: health.now,
    close: async () => {
      await subscription?.close();
      await calls.close();
    },
  };
}

const orFault = <T>(asked: Promise<T>): Promise<T> =>
  asked.catch((error: unknown) => {
    throw faultOf(error);
  });

const channelOf = ({ chat, thread = chat }: Place) => `/channels/${encodeURIComponent(thread)}` as const;
const messageOf = (place: Place, message: string) =>
  `${channelOf(place)}/messages/${encodeURIComponent(message)}` as const;

/** An edit without buttons takes them away. Whatever the text names, it calls nobody. */
const bodyOf = ({ text, buttons = [] }: OutboundMessage) => ({
  content: discordMarkdown(text),
  components: rowsOf(buttons),
  allowed_mentions: { parse: [] },
});

const rowsOf = (rows: Button[][]) =>
  rows
    .flatMap((row) => chunks(row, BUTTONS))
    .slice(0, ROWS)
    .map((row) => ({
      type: 1,
      components: row.map(({ label, data }) => ({ type: 2, style: 2, label: label.slice(0, LABEL), custom_id: data })),
    }));

const chunks = <T>(list: T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, at) => list.slice(at * size, (at + 1) * size));

/** The nonce contains the place: Discord compares it with all our messages. */
const nonceOf = ({ chat, thread = "" }: Place, key: string) =>
  createHash("sha256").update([chat, thread, key].join("\n")).digest("base64url").slice(0, NONCE);

const sentShape = z.object({ id: z.string() });
