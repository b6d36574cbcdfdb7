// From Discord's messages and interactions to inbound messages.
import type {
  APIAttachment,
  APIChatInputApplicationCommandInteraction,
  APIMessage,
  APIUser,
} from "discord-api-types/v10";
import type { Attachment, InboundMessage, Person, Place } from "../../core/chat.ts";
import type { ApiCalls } from "../shared/calls.ts";

export type DiscordBot = {
  id: string;
  /** The roles that Discord made for this bot, one in each guild: people who type the bot's name often pick the role. */
  roles: ReadonlySet<string>;
};

/** A message and a reply; there are forty more, from "has joined" on. */
const FROM_PERSONS = new Set<number>([0, 19]);
const VOICE_MESSAGE = 1 << 13;
const THREADS = new Set([10, 11, 12]);

/** Whether a person wrote it: not we, not another program, and no notice such as "has joined". */
export const isFromPerson = ({ author, type, webhook_id }: APIMessage): boolean =>
  !author.bot && !author.system && webhook_id === undefined && FROM_PERSONS.has(type);

export function inboundMessage(message: APIMessage, place: Place, me: DiscordBot, calls: ApiCalls): InboundMessage {
  const { id, author, content, mentions, mention_roles, referenced_message, flags = 0, attachments } = message;
  const addressed =
    place.kind === "dm" ||
    mentions.some((user) => user.id === me.id) ||
    referenced_message?.author.id === me.id ||
    mention_roles.some((role) => me.roles.has(role));
  const names = new Map(mentions.map((user) => [user.id, nameOf(user)]));
  return {
    message: id,
    place,
    from: personOf(author),
    text: content
      .replace(/^\s*<@([!&]?)(\d+)>[\s,:]*/, (all, kind, who) => {
        const meant = kind === "&" ? me.roles.has(who) : who === me.id;
        return meant ? "" : all;
      })
      .replaceAll(/<@!?(\d+)>/g, (all, who) => (names.has(who) ? `@${names.get(who)}` : all)),
    attachments: attachments.map((one) => attachmentOf(one, (flags & VOICE_MESSAGE) > 0, calls)),
    addressed,
  };
}

function attachmentOf(file: APIAttachment, voice: boolean, calls: ApiCalls): Attachment {
  const { filename, content_type: mime = "application/octet-stream", size, url } = file;
  return {
    kind: voice ? "voice" : mime.startsWith("image/") ? "photo" : "file",
    name: filename,
    mime,
    size,
    load: async (most, signal) => {
      if (size > most) throw new Error(`${filename} has ${size} bytes; ${most} are allowed`);
      return (await calls.load(url, {}, most, signal)).bytes;
    },
  };
}

type DiscordChannel = { id: string; type: number; parent_id?: string | null | undefined };

export function placeOf({ id, type, parent_id }: DiscordChannel, guild: string | undefined): Place {
  if (guild === undefined) return { kind: "dm", chat: id };
  if (THREADS.has(type) && parent_id) return { kind: "thread", chat: parent_id, thread: id };
  return { kind: "channel", chat: id };
}

export const personOf = (user: APIUser): Person => ({ id: user.id, name: nameOf(user) });

const nameOf = ({ global_name, username }: APIUser) => global_name ?? username;

/** A command from the menu, as if it had been typed. */
export function commandText({ data }: APIChatInputApplicationCommandInteraction): string {
  const given = (data.options ?? []).flatMap((option) => ("value" in option ? [String(option.value)] : []));
  return [`/${data.name}`, ...given].join(" ");
}
