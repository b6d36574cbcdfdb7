// Slack: Socket Mode brings what people say, the Web API takes what we say.
import { z } from "zod";
import type { Button, Chat, InboundHandler, OutboundMessage } from "../../core/chat.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { openCalls } from "../shared/calls.ts";
import { createHealth } from "../shared/health.ts";
import { openLanes } from "../shared/lanes.ts";
import { faultOf, openApi, reasonOf } from "./api.ts";
import type { SlackBot } from "./inbound.ts";
import { openIntake } from "./intake.ts";
import { sections, slackMrkdwn } from "./mrkdwn.ts";
import { openSocket } from "./socket.ts";

type Options = Ambient & {
  botToken: string;
  appToken: string;
  apiRoot?: string | undefined;
  random: Random;
};
type SlackSubscription = { sent(channel: string, ts: string): void; stop(): Promise<void>; close(): Promise<void> };

const platform = "slack";
/** Of the 4,000 that Slack shows well, and takes in an edit. */
const LONGEST = 3_900;
const MOST_TEXT = { send: 40_000, edit: 4_000 };
/** About fifty a minute. */
const EDIT_EVERY_MS = 1_500;
/** What Slack has room for in a block. */
const SECTION = 3_000;
const BUTTONS = 25;
const LABEL = 75;

export function createSlack(options: Options): Chat {
  const { botToken, appToken, apiRoot = "https://slack.com/api/", clock, log, random } = options;
  const health = createHealth(platform, { clock, log });
  const { alive } = health;
  const calls = openCalls(clock);
  const api = openApi({ token: botToken, apiRoot, calls, alive });
  let subscription: SlackSubscription | null = null;

  async function start(handler: InboundHandler): Promise<void> {
    let me: SlackBot = { user: "", bot: "" };
    const lanes = openLanes({ platform, clock, random, log });
    const common = { apiRoot, api, calls, clock, log };
    const intake = openIntake({ ...common, token: botToken, lanes, handler, me: () => me });
    const socket = openSocket({
      ...common,
      appToken,
      random,
      alive,
      introduce: async (signal) => {
        if (me.user) return;
        const { user_id: user, bot_id: bot } = selfShape.parse(await api.ask("auth.test", {}, signal));
        me = { user, bot };
      },
      onEnvelope: (envelope) => {
        alive();
        intake.onEnvelope(envelope);
      },
      changed: health.changed,
    });
    subscription = {
      sent: intake.sent,
      stop: async () => {
        await intake.stop();
        await socket.stop();
      },
      close: async () => {
        void intake.stop();
        await socket.stop();
      },
    };
    await socket.start();
  }

  /** Blocks that Slack does not take are left out: the words are in the text as well. */
  async function written(
    method: Writing,
    where: object,
    { text, blocks }: SlackContent,
    signal: AbortSignal,
  ): Promise<unknown> {
    try {
      // None in an edit take away those that are there.
      const shown = (blocks.length > 0 || method === "chat.update") && { blocks };
      return await api.ask(method, { ...where, text, ...shown }, signal);
    } catch (error) {
      if (reasonOf(error) !== "invalid_blocks" || blocks.length === 0) throw faultOf(error);
      log("warn", "chat.unformatted", { platform });
      return written(method, where, { text, blocks: [] }, signal);
    }
  }

  return {
    platform,
    longest: LONGEST,
    editEveryMs: EDIT_EVERY_MS,
    start,
    stop: async () => subscription?.stop(),
    async send(place, outbound, _key, signal) {
      const { chat: channel, thread = outbound.replyTo } = place;
      const where = { channel, ...(thread && IS_TS.test(thread) && { thread_ts: thread }) };
      const quiet = { unfurl_links: false, unfurl_media: false };
      const content = contentOf(outbound, MOST_TEXT.send);
      const { ts } = sentShape.parse(await written("chat.postMessage", { ...where, ...quiet }, content, signal));
      subscription?.sent(channel, ts);
      return ts;
    },
    async edit({ chat: channel }, ts, outbound, signal) {
      await written("chat.update", { channel, ts }, contentOf(outbound, MOST_TEXT.edit), signal);
    },
    async remove({ chat: channel }, ts, signal) {
      await api.ask("chat.delete", { channel, ts }, signal).catch((error: unknown) => {
        if (reasonOf(error) !== "message_not_found") throw faultOf(error);
      });
    },
    typing: async () => {}, // Slack shows it for people only
    offer: async () => {}, // its commands are made in the settings of the app
    health: health.now,
    close: async () => {
      await subscription?.close();
      await calls.close();
    },
  };
}

type Writing = "chat.postMessage" | "chat.update";
type SlackContent = { text: string; blocks: object[] };

/** In blocks only where there are buttons, or where the text alone has no room. */
function contentOf({ text, buttons = [] }: OutboundMessage, most: number): SlackContent {
  const mrkdwn = slackMrkdwn(text);
  if (buttons.length === 0 && mrkdwn.length <= most) return { text: mrkdwn, blocks: [] };
  const words = sections(mrkdwn, SECTION).map((text) => ({ type: "section", text: { type: "mrkdwn", text } }));
  return { text: mrkdwn.slice(0, most), blocks: [...words, ...buttons.map(rowOf)] };
}

const rowOf = (row: Button[], at: number) => ({
  type: "actions",
  elements: row.slice(0, BUTTONS).map(({ label, data }, index) => ({
    type: "button",
    text: { type: "plain_text", text: label.slice(0, LABEL), emoji: true },
    action_id: `${at}.${index}`,
    value: data,
  })),
});

/** How Slack names a message. A command from its menu has another name, and cannot be replied to. */
const IS_TS = /^\d+\.\d+$/;
const sentShape = z.object({ ts: z.string() });
const selfShape = z.object({ user_id: z.string(), bot_id: z.string().default("") });
