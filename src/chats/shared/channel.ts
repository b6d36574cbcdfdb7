// What the rest of the program knows of a chat channel before it is opened. `channels.ts` is the table of them.

import * as z from "zod";
import type { Chat } from "../../core/chat.ts";
import type { Ambient, Random } from "../../core/ports.ts";
import { MODES } from "../../core/session.ts";
import type { Notes } from "../../core/store.ts";
import { ids, oneOf, text, toolProgress, webAddress, yesNo } from "../../platform/setting-kinds.ts";

export type ChatChannel<Settings extends z.ZodType = z.ZodType> = {
  /** The name of the platform as people write it: Discord. */
  label: string;
  /** Who is at the other end. `people`: the configuration lists who may talk, and one process has the token. `program`: whoever
   *  knows the secret says who is talking, and nobody is there to be asked. */
  for: "people" | "program";
  /** The section `gateway.<name>` of the configuration. */
  settings: Settings;
  /** Variables of the environment, and the keys of the section that they set. */
  variables: Readonly<Record<string, string>>;
  /** The secret by which the platform knows us. Undefined: the channel is not configured. */
  secretOf(settings: z.output<Settings>): string | undefined;
  /** Loads what the channel needs: most processes open none. */
  open(settings: z.output<Settings>, world: ChannelWorld): Promise<Chat>;
};

type ChannelWorld = Ambient & {
  random: Random;
  notes: Notes;
  /** For a platform that posts to us: what answers its requests to `/channels/<name>`. */
  listen(receive: Receive): void;
};

/** One request as it came, and what to answer. */
export type Receive = (
  raw: Uint8Array,
  headers: Readonly<Record<string, string | string[] | undefined>>,
) => Promise<{ status: number; body: Record<string, unknown> }>;

/** The settings that all channels for people have. `shape`: of a user's id. */
export const peopleSettings = (shape: RegExp, needs: string) => ({
  enabled: yesNo().default(true),
  api_root: webAddress().optional(),
  allowed_users: ids(shape, needs),
  admin_users: ids(shape, needs),
  busy_input_mode: oneOf(...MODES).optional(),
  tool_progress: toolProgress().optional(),
  /** In groups and channels: whether the agent answers only messages that name it or reply to it. */
  require_mention: yesNo().default(true),
  /** Groups and channels where the agent answers every message. */
  free_response_chats: ids(/./, "the id of a chat"),
  /** The only groups and channels where the agent answers; none: all. */
  allowed_chats: ids(/./, "the id of a chat"),
  /** Where answers of jobs go that name only the platform. */
  home_chat: z.preprocess((value) => (typeof value === "number" ? String(value) : value), text()).optional(),
});

/** Those that variables set on every channel for people. */
export const peopleVariables = (prefix: string, chats: "CHATS" | "CHANNELS") => ({
  [`${prefix}_ALLOWED_USERS`]: "allowed_users",
  [`${prefix}_REQUIRE_MENTION`]: "require_mention",
  [`${prefix}_FREE_RESPONSE_${chats}`]: "free_response_chats",
  [`${prefix}_ALLOWED_${chats}`]: "allowed_chats",
  [`${prefix}_HOME_CHANNEL`]: "home_chat",
});

/** Keeps the type of the settings, which a plain annotation would lose. */
export const defineChannel = <Settings extends z.ZodType>(channel: ChatChannel<Settings>): ChatChannel<Settings> =>
  channel;
