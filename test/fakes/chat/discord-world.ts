// The users, channels and messages that a fake Discord knows, as its API shows them.
import type { Params, Upload } from "./body.ts";

export type User = { id: string; username: string; global_name: string | null; bot: boolean };
export type Person = string | { id: string; name: string; bot?: boolean };
export type Channel = {
  id: string;
  type: number;
  guild_id?: string;
  name?: string;
  parent_id?: string;
  recipient?: User;
};
type Attachment = { id: string; filename: string; content_type: string; size: number; url: string };
export type Message = {
  id: string;
  channel: Channel;
  author: User;
  content: string;
  at: string;
  editedAt: string | null;
  attachments: Attachment[];
  components: unknown[];
  embeds: unknown[];
  flags: number;
  nonce?: string | number;
  replyTo?: string;
};
type File = { name: string; type?: string; bytes: Uint8Array };
type Draft = Omit<Message, "id" | "at" | "editedAt" | "attachments">;

export const TEXT = 0;
export const DM = 1;
const THREAD = 11;
const REPLY = 19;
/** Everything but administration: what a bot in a small guild has. */
const PERMISSIONS = "2248473465835073";

export function world(url: () => string) {
  let last = 0n;
  /** As Discord makes them: milliseconds since 2015, then a counter. */
  const snowflake = () => {
    const now = BigInt(Date.now() - 1_420_070_400_000) << 22n;
    last = now > last ? now : last + 1n;
    return String(last);
  };
  const bot: User = { id: snowflake(), username: "hermes", global_name: null, bot: true };
  const owner: User = { id: snowflake(), username: "owner", global_name: "Owner", bot: false };
  const users = new Map<string, User>([bot, owner].map((user) => [user.id, user]));
  const channels = new Map<string, Channel>();
  const messages = new Map<string, Message>();
  const files = new Map<string, Uint8Array>();
  const guildId = snowflake();
  const botRole = snowflake();
  const general = addChannel({ type: TEXT, guild_id: guildId, name: "general" });
  const thread = addChannel({ type: THREAD, guild_id: guildId, name: "a thread", parent_id: general.id });

  function addChannel(channel: Omit<Channel, "id">): Channel {
    const added = { id: snowflake(), ...channel };
    channels.set(added.id, added);
    return added;
  }

  function person(who: Person): User {
    const { id, name, bot = false } = typeof who === "string" ? { id: who, name: "" } : who;
    const known = users.get(id);
    if (known && (!name || known.global_name === name)) return known;
    const username = name ? name.toLowerCase().replace(/[^a-z0-9_.]/g, "") : `user${id.slice(-4)}`;
    const user = { id, username, global_name: name || username, bot };
    users.set(id, user);
    return user;
  }

  function dm(user: User): Channel {
    const known = [...channels.values()].find(({ recipient }) => recipient?.id === user.id);
    return known ?? addChannel({ type: DM, recipient: user });
  }

  function addMessage(draft: Draft, uploads: (File | Upload)[]): Message {
    const attachments = uploads.map(({ name, type = "application/octet-stream", bytes }) => {
      const id = snowflake();
      const path = `/attachments/${draft.channel.id}/${id}/${encodeURIComponent(name)}`;
      files.set(path, bytes);
      return { id, filename: name, content_type: type, size: bytes.length, url: `${url()}${path}` };
    });
    const message = { ...draft, id: snowflake(), at: new Date().toISOString(), editedAt: null, attachments };
    messages.set(message.id, message);
    return message;
  }

  // ── As the API shows them ───────────────────────────────────────────────────────────────────────────

  const showUser = (user: User): Params => ({ ...user, discriminator: "0", avatar: null, public_flags: 0 });

  const showMember = (user?: User): Params => ({
    ...(user && { user: showUser(user) }),
    roles: [],
    joined_at: "2024-01-01T00:00:00.000Z",
    deaf: false,
    mute: false,
    flags: 0,
    nick: null,
    avatar: null,
    permissions: PERMISSIONS,
  });

  function showChannel({ recipient, ...channel }: Channel): Params {
    const last = [...messages.values()].findLast((message) => message.channel.id === channel.id);
    const shown = { ...channel, flags: 0, last_message_id: last?.id ?? null };
    if (recipient) return { ...shown, recipients: [showUser(recipient)] };
    if (channel.type !== THREAD)
      return { ...shown, position: 0, permission_overwrites: [], nsfw: false, topic: null, parent_id: null };
    const created = "2024-01-01T00:00:00.000Z";
    const thread_metadata = {
      archived: false,
      auto_archive_duration: 1440,
      archive_timestamp: created,
      locked: false,
      create_timestamp: created,
    };
    const member = { id: channel.id, user_id: bot.id, join_timestamp: created, flags: 0 };
    return { ...shown, owner_id: owner.id, message_count: 0, member_count: 2, thread_metadata, member };
  }

  function showMessage(message: Message, nested = false): Params {
    const { id, channel, author, content, at, editedAt, attachments, components, embeds, flags, nonce, replyTo } =
      message;
    const mentioned = [...content.matchAll(/<@!?(\d+)>/g)].flatMap(([, user = ""]) => users.get(user) ?? []);
    const replied = replyTo === undefined ? undefined : messages.get(replyTo);
    const pinged = replied && !nested ? [...new Set([...mentioned, replied.author])] : mentioned;
    return {
      id,
      channel_id: channel.id,
      author: showUser(author),
      content,
      timestamp: at,
      edited_timestamp: editedAt,
      tts: false,
      mention_everyone: false,
      mentions: pinged.map(showUser),
      mention_roles: channel.guild_id && content.includes(`<@&${botRole}>`) ? [botRole] : [],
      attachments: attachments.map((one) => ({ ...one, proxy_url: one.url })),
      embeds,
      pinned: false,
      type: replyTo === undefined ? 0 : REPLY,
      flags,
      components,
      ...(nonce !== undefined && { nonce }),
      ...(replyTo !== undefined && {
        message_reference: { type: 0, message_id: replyTo, channel_id: channel.id, guild_id: channel.guild_id },
        ...(!nested && { referenced_message: replied ? showMessage(replied, true) : null }),
      }),
    };
  }

  function showGuild(): Params {
    const all = [...channels.values()].filter(({ guild_id }) => guild_id === guildId);
    const everyone = {
      id: guildId,
      name: "@everyone",
      color: 0,
      colors: { primary_color: 0, secondary_color: null, tertiary_color: null },
      hoist: false,
      position: 0,
      permissions: PERMISSIONS,
      managed: false,
      mentionable: false,
      flags: 0,
    };
    // Discord makes one for each bot that is invited with permissions.
    const managed = {
      ...everyone,
      id: botRole,
      name: bot.username,
      managed: true,
      position: 1,
      tags: { bot_id: bot.id },
    };
    return {
      id: guildId,
      name: "A guild",
      icon: null,
      owner_id: owner.id,
      afk_timeout: 300,
      verification_level: 0,
      default_message_notifications: 0,
      explicit_content_filter: 0,
      mfa_level: 0,
      system_channel_flags: 0,
      premium_tier: 0,
      nsfw_level: 0,
      preferred_locale: "en-US",
      features: [],
      emojis: [],
      stickers: [],
      roles: [everyone, managed],
      joined_at: "2024-01-01T00:00:00.000Z",
      large: false,
      unavailable: false,
      member_count: 2,
      members: [bot, owner].map(showMember),
      channels: all.filter(({ type }) => type !== THREAD).map(showChannel),
      threads: all.filter(({ type }) => type === THREAD).map(showChannel),
      voice_states: [],
      presences: [],
      stage_instances: [],
      guild_scheduled_events: [],
      soundboard_sounds: [],
    };
  }

  return {
    bot,
    botRole,
    guildId,
    general,
    thread,
    users,
    channels,
    messages,
    files,
    snowflake,
    addChannel,
    person,
    dm,
    addMessage,
    showUser,
    showMember,
    showChannel,
    showMessage,
    showGuild,
  };
}

export type World = ReturnType<typeof world>;
