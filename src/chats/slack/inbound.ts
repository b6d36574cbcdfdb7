// From Slack's events to inbound messages.
import { z } from "zod";
import type { Attachment, Place } from "../../core/chat.ts";
import type { ApiCalls } from "../shared/calls.ts";

const file = z.object({
  name: z.string().nullish(),
  mimetype: z.string().nullish(),
  subtype: z.string().optional(),
  size: z.number().nullish(),
  url_private: z.string().optional(),
  url_private_download: z.string().optional(),
});

const message = z.object({
  subtype: z.string().optional(),
  user: z.string().optional(),
  bot_id: z.string().optional(),
  text: z.string().nullish(),
  ts: z.string(),
  thread_ts: z.string().optional(),
  /** Who began the thread. */
  parent_user_id: z.string().optional(),
  files: z.array(file).nullish(),
});
export type SlackMessage = z.infer<typeof message>;

export const eventBody = z.object({
  event_id: z.string(),
  event: z.object({
    ...message.partial({ ts: true }).shape,
    type: z.string(),
    channel: z.string().optional(),
    /** Of an edit and of a deletion. */
    message: message.optional(),
    previous_message: message.optional(),
    deleted_ts: z.string().optional(),
  }),
});
export type SlackEvent = z.infer<typeof eventBody>["event"];

export const pressBody = z.object({
  type: z.literal("block_actions"),
  user: z.object({ id: z.string() }),
  channel: z.object({ id: z.string() }),
  message,
  actions: z.array(z.object({ type: z.string(), value: z.string().optional() })).min(1),
  response_url: z.string(),
});

export type SlackAction = z.infer<typeof pressBody>;

export const commandBody = z.object({
  command: z.string(),
  text: z.string().default(""),
  user_id: z.string(),
  channel_id: z.string(),
  trigger_id: z.string(),
});

export type SlackCommand = z.infer<typeof commandBody>;

const userBody = z.object({
  user: z.object({
    name: z.string(),
    profile: z.object({ display_name: z.string().nullish(), real_name: z.string().nullish() }).nullish(),
  }),
});

export function nameIn(answer: unknown): string | undefined {
  const { name, profile } = userBody.safeParse(answer).data?.user ?? {};
  return profile?.display_name || profile?.real_name || name;
}

/** Who we are to Slack. */
export type SlackBot = { user: string; bot: string };

/** What people say has no subtype or one of these; "has joined" and the like have others. */
const FROM_PERSONS = new Set(["file_share", "me_message", "thread_broadcast"]);
const SLACKBOT = "USLACKBOT";

export const isFromPerson = ({ subtype, user, bot_id }: SlackMessage, me: SlackBot): boolean =>
  (subtype === undefined || FROM_PERSONS.has(subtype)) &&
  bot_id === undefined &&
  user !== undefined &&
  user !== me.user &&
  user !== SLACKBOT;

export const isOurs = ({ user, bot_id }: SlackMessage, me: SlackBot): boolean => user === me.user || bot_id === me.bot;

/** A direct talk stays one in its threads: who may talk there is another question than in a channel. */
export function placeOf(channel: string, { ts, thread_ts }: { ts: string; thread_ts?: string | undefined }): Place {
  const thread = thread_ts !== undefined && thread_ts !== ts ? { thread: thread_ts } : {};
  if (isDirect(channel)) return { kind: "dm", chat: channel, ...thread };
  return { kind: "thread" in thread ? "thread" : "channel", chat: channel, ...thread };
}

export const isDirect = (channel: string) => channel.startsWith("D");

export const names = (text: string, user: string): boolean => new RegExp(`<@${user}(\\|[^>]*)?>`).test(text);

/** As a person reads it: without our own name at the beginning, with names for ids, and nothing escaped. */
export async function plainText(
  text: string,
  me: SlackBot,
  nameOf: (user: string) => Promise<string>,
): Promise<string> {
  const words = text.replace(new RegExp(`^\\s*<@${me.user}(\\|[^>]*)?>[\\s,:]*`), "");
  const pieces = words.split(/<([^<>]+)>/);
  const plain = await Promise.all(pieces.map(async (piece, at) => (at % 2 === 0 ? piece : reference(piece, nameOf))));
  return plain.join("").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

async function reference(inside: string, nameOf: (user: string) => Promise<string>): Promise<string> {
  const [target = "", label] = inside.split("|");
  const sign = target.charAt(0);
  if (sign === "@") return `@${label ?? (await nameOf(target.slice(1)))}`;
  if (sign === "#") return `#${label || target.slice(1)}`;
  if (sign === "!") return `@${(label ?? target.slice(1)).replace(/^@/, "")}`;
  const url = target.replace(/^mailto:/, "");
  return label === undefined || url.includes(label) ? url : `${label} (${url})`;
}

export function attachmentsOf(
  { files }: SlackMessage,
  means: { token: string; apiRoot: string; calls: ApiCalls },
): Attachment[] {
  return (files ?? []).map(({ name, mimetype, subtype, size, url_private, url_private_download = url_private }) => {
    const mime = mimetype ?? "application/octet-stream";
    const title = name ?? "file";
    return {
      kind: subtype === "slack_audio" ? "voice" : mime.startsWith("image/") ? "photo" : "file",
      name: title,
      mime,
      size: size ?? 0,
      load: async (most, signal) => {
        if ((size ?? 0) > most) throw new Error(`${title} has ${size} bytes; ${most} are allowed`);
        if (!url_private_download || !isSlacks(url_private_download, means.apiRoot))
          throw new Error(`${title} is not kept at Slack`);
        const headers = { authorization: `Bearer ${means.token}` };
        const loaded = await means.calls.load(url_private_download, headers, most, signal);
        // Slack gives whoever may not have it a page to sign in on.
        if (loaded.mime.startsWith("text/html") && !mime.startsWith("text/html"))
          throw new Error(`Slack does not give us ${title}; the app needs the scope files:read`);
        return loaded.bytes;
      },
    };
  });
}

/** People can share files that lie elsewhere; our token must not go there. */
function isSlacks(address: string, apiRoot: string): boolean {
  const { protocol, hostname, origin } = new URL(address);
  return origin === new URL(apiRoot).origin || (protocol === "https:" && /(^|\.)slack\.com$/.test(hostname));
}
