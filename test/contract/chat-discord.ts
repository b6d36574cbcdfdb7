import { createDiscord } from "../../src/chats/discord/discord.ts";
import { startFakeDiscord } from "../fakes/chat/discord.ts";
import type { Rig, Spot } from "./chat.ts";

const POST = "POST /channels/:channel/messages";
const TYPING = "POST /channels/:channel/typing";
const OFFER = "PUT /applications/:app/commands";

const people = {
  anna: { id: "801234567890123456", name: "Anna" },
  ben: { id: "802345678901234567", name: "Ben" },
};
const BEEP = { id: "803456789012345678", name: "Beep", bot: true };

type Component = { label: string; custom_id: string };

export async function rig(): Promise<Rig> {
  // A short heartbeat: by it a dead connection is noticed.
  const discord = await startFakeDiscord({ heartbeatMs: 500 });
  const channels: Record<Spot, string> = {
    anna: discord.dm(people.anna),
    ben: discord.dm(people.ben),
    room: discord.guild.general,
    thread: discord.guild.thread,
  };
  const gone = await startFakeDiscord();
  await gone.close();
  const us = `<@${discord.bot.id}>`;

  return {
    create: (world, but) =>
      createDiscord({
        token: but === "wrong token" ? `${discord.token}x` : discord.token,
        apiRoot: but === "nobody" ? gone.apiRoot : discord.apiRoot,
        ...world,
      }),
    variable: "DISCORD_BOT_TOKEN",
    secrets: [discord.token, discord.token.split(".")[2] ?? ""],
    people,
    place: (spot) => {
      if (spot === "thread") return { kind: "thread", chat: channels.room, thread: channels.thread };
      return { kind: spot === "room" ? "channel" : "dm", chat: channels[spot] };
    },
    say: ({ where = "anna", from = "anna", text, mention, replyTo, file }) =>
      discord.say({
        from: from === "bot" ? BEEP : people[from],
        channel: channels[where],
        content: mention === "first" ? `${us} ${text}` : mention === "last" ? `${text} ${us}` : text,
        ...(replyTo && { replyTo }),
        ...(file && { attachments: [file] }),
      }),
    edit: (_spot, message, text) => discord.edit(message, text),
    remove: (_spot, message) => discord.remove(message),
    press: async ({ message, button, by }) => {
      const { data } = await discord.press({ message, button, by: people[by] }).acknowledged;
      return String(data.content);
    },
    command: (where, name) => void discord.command({ name, by: people.anna, channel: channels[where] }),
    sent: (spot) =>
      discord
        .sent(channels[spot])
        .filter(({ ephemeral }) => !ephemeral)
        .map(({ id, content, components, replyTo, deleted }) => ({
          message: id,
          text: content,
          buttons: (components as { components: Component[] }[]).map((row) =>
            row.components.map(({ label, custom_id }) => ({ label, data: custom_id })),
          ),
          replyTo,
          deleted,
        })),
    typed: (spot) =>
      discord.calls.filter(({ method, path }) => method === TYPING && path.includes(channels[spot])).length,
    offered: () => {
      const { params } = discord.calls.findLast(({ method }) => method === OFFER) ?? { params: {} };
      return ((params as { list?: { name: string }[] }).list ?? []).map(({ name }) => name);
    },
    violations: () => discord.violations,
    limit: (seconds) => void discord.fault(POST, { status: 429, retryAfter: seconds }),
    loseAnswer: () => void discord.fault(POST, "lost"),
    hang: async () => {
      const trap = discord.fault(POST, "hang");
      await discord.until(() => trap.hits > 0);
    },
    shut: (spot) => discord.block(spot === "ben" ? people.ben : people.anna),
    cut: () => discord.cut(),
    silence: discord.silence,
    revoke: discord.revoke,
    remembers: false,
    sendsOnce: true,
    close: discord.close,
  };
}
