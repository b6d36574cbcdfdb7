// Buttons and commands of Discord's menu. Discord wants an answer within three seconds. If the result is not known by then, the answer
// is an acknowledgement, and the result follows as a message.

import {
  type APIChatInputApplicationCommandInteraction,
  type APIInteraction,
  type APIMessageComponentButtonInteraction,
  ApplicationCommandType,
  ComponentType,
  InteractionResponseType,
  InteractionType,
  MessageFlags,
} from "discord-api-types/v10";
import type { InboundHandler } from "../../core/chat.ts";
import type { Clock, Log } from "../../core/ports.ts";
import { within } from "../../core/wait.ts";
import { logFailure } from "../../platform/log-failure.ts";
import type { Lanes } from "../shared/lanes.ts";
import type { DiscordApi } from "./api.ts";
import { commandText, personOf, placeOf } from "./inbound.ts";

const ANSWER_MS = 2_000;

export function openAnswers(options: {
  api: DiscordApi;
  lanes: Lanes;
  clock: Clock;
  log: Log;
  handler: InboundHandler;
}) {
  const { api, lanes, clock, log, handler } = options;
  const never = new AbortController().signal;
  const busy = new Set<Promise<void>>();
  let stopped = false;

  function interact(interaction: APIInteraction): void {
    if (stopped) return;
    const work = begin(interaction);
    if (!work) return;
    const answered = answer(interaction, work).catch(
      logFailure(log, "warn", "chat.unanswered", { platform: "discord" }),
    );
    busy.add(answered);
    void answered.then(() => busy.delete(answered));
  }

  /** Resolves with the text that the person is shown. Undefined: the interaction is not for us. */
  const begin = (interaction: APIInteraction): Promise<string> | undefined =>
    isPress(interaction) ? press(interaction) : isCommand(interaction) ? command(interaction) : undefined;

  function press(interaction: APIMessageComponentButtonInteraction) {
    const { data, channel, guild_id, message, member, user = member?.user } = interaction;
    if (!user) return undefined;
    const place = placeOf(channel, guild_id);
    return handler.onPress({ data: data.custom_id, place, from: personOf(user), message: message.id });
  }

  function command(interaction: APIChatInputApplicationCommandInteraction) {
    const { id, channel, guild_id, member, user = member?.user } = interaction;
    if (!user) return undefined;
    const text = commandText(interaction);
    const message = { message: id, place: placeOf(channel, guild_id), from: personOf(user), text };
    return lanes
      .add(channel.id, () => handler.onMessage({ ...message, attachments: [], addressed: true }))
      .then((taken) => (taken ? `\`${text.replaceAll("`", "'")}\`` : "This was not taken. Please say it again."));
  }

  async function answer(interaction: APIInteraction, work: Promise<string>): Promise<void> {
    const { id, token, application_id } = interaction;
    const respond = (type: InteractionResponseType, data: object) =>
      api.ask("post", `/interactions/${id}/${token}/callback`, { auth: false, body: { type, data } }, never);
    const text = await within(clock, ANSWER_MS, work);
    if (text !== undefined)
      return void (await (text
        ? respond(InteractionResponseType.ChannelMessageWithSource, shown(text))
        : respond(InteractionResponseType.DeferredMessageUpdate, {})));
    await respond(
      isPress(interaction)
        ? InteractionResponseType.DeferredMessageUpdate
        : InteractionResponseType.DeferredChannelMessageWithSource,
      { flags: MessageFlags.Ephemeral },
    );
    const late = await work;
    if (late) await api.ask("post", `/webhooks/${application_id}/${token}`, { auth: false, body: shown(late) }, never);
  }

  return {
    interact,
    /** Takes no more interactions; resolves when all have their answer. */
    async stop(): Promise<void> {
      stopped = true;
      await Promise.all(busy);
    },
  };
}

const shown = (text: string) => ({
  content: text.slice(0, 2_000),
  flags: MessageFlags.Ephemeral,
  allowed_mentions: { parse: [] },
});

const isPress = (one: APIInteraction): one is APIMessageComponentButtonInteraction =>
  one.type === InteractionType.MessageComponent && one.data.component_type === ComponentType.Button;
const isCommand = (one: APIInteraction): one is APIChatInputApplicationCommandInteraction =>
  one.type === InteractionType.ApplicationCommand && one.data.type === ApplicationCommandType.ChatInput;
