import { request } from "undici";
import { createSlack } from "../../src/chats/slack/slack.ts";
import type { Chat, Place } from "../../src/core/chat.ts";
import { startFakeSlack } from "../fakes/chat/slack.ts";
import type { Rig, Spot } from "./chat.ts";

const POST = "chat.postMessage";

const people = {
  anna: { id: "U07ANNA00001", name: "Anna" },
  ben: { id: "U07BEN000001", name: "Ben" },
};

type Element = { value: string; text: { text: string } };

export async function rig(): Promise<Rig> {
  const slack = await startFakeSlack();
  const gone = await startFakeSlack();
  await gone.close();
  /** As an app does it: other apps write with the same method. */
  const post = async (text: string): Promise<{ ts: string }> => {
    const { body } = await request(`${slack.apiRoot}${POST}`, {
      method: "POST",
      headers: { authorization: `Bearer ${slack.botToken}`, "content-type": "application/json" },
      body: JSON.stringify({ channel: slack.general, text }),
      reset: true, // an idle connection of ours would look like one of the adapter's
    });
    return body.json() as Promise<{ ts: string }>;
  };
  const { ts: root } = await post("an old message, with a thread below it");
  const channels: Record<Spot, string> = {
    anna: slack.dm(people.anna),
    ben: slack.dm(people.ben),
    room: slack.general,
    thread: slack.general,
  };
  const us = `<@${slack.bot.user}>`;
  const posting: Promise<unknown>[] = [];
  /** Slack shows it for people only: what can be seen is that the adapter takes it and leaves it at that. */
  const taken: Place[] = [];

  return {
    create: (world, but) => {
      const chat = createSlack({
        botToken: slack.botToken,
        appToken: but === "wrong token" ? `${slack.appToken}x` : slack.appToken,
        apiRoot: but === "nobody" ? gone.apiRoot : slack.apiRoot,
        ...world,
      });
      const typing: Chat["typing"] = async (place) => {
        await chat.typing(place);
        taken.push(place);
      };
      return { ...chat, typing };
    },
    variable: "SLACK_APP_TOKEN",
    secrets: [slack.botToken, slack.appToken],
    people,
    place: (spot) => {
      if (spot === "thread") return { kind: "thread", chat: channels.room, thread: root };
      return { kind: spot === "room" ? "channel" : "dm", chat: channels[spot] };
    },
    say: ({ where = "anna", from = "anna", text, mention, replyTo, file }) => {
      const words = escaped(text);
      if (from === "bot") {
        posting.push(post(words));
        return "";
      }
      const thread = where === "thread" ? root : replyTo;
      return slack.say({
        from: people[from],
        channel: channels[where],
        text: mention === "first" ? `${us} ${words}` : mention === "last" ? `${words} ${us}` : words,
        ...(thread && { thread }),
        ...(file && { files: [file] }),
      });
    },
    edit: (spot, message, text) => slack.edit({ channel: channels[spot], ts: message }, escaped(text)),
    remove: (spot, message) => slack.remove({ channel: channels[spot], ts: message }),
    press: async ({ where, message, button, by }) => {
      const press = slack.press({ message: { channel: channels[where], ts: message }, button, by: people[by] });
      await press.acknowledged;
      const shown = await slack.until(() => press.responses[0]);
      return String(shown.text);
    },
    command: (where, name) => void slack.command({ command: `/${name}`, by: people.anna, channel: channels[where] }),
    sent: (spot) =>
      slack
        .sent(channels[spot])
        .filter(({ ts, thread }) => ts !== root && (spot === "thread") === (thread === root))
        .map(({ ts, text, blocks, thread, deleted }) => ({
          message: ts,
          text: text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"),
          buttons: blocks.flatMap((block) =>
            block.type === "actions"
              ? [(block.elements as unknown as Element[]).map(({ value, text }) => ({ label: text.text, data: value }))]
              : [],
          ),
          replyTo: thread,
          deleted,
        })),
    typed: (spot) => taken.filter(({ chat, thread }) => chat === channels[spot] && thread === undefined).length,
    violations: () => slack.violations,
    limit: (seconds) => void slack.fault(POST, { status: 429, retryAfter: seconds }),
    loseAnswer: () => void slack.fault(POST, "lost"),
    hang: async () => {
      const trap = slack.fault(POST, "hang");
      await slack.until(() => trap.hits > 0);
    },
    shut: (spot) => slack.archive(channels[spot]),
    cut: slack.cut,
    silence: slack.silence,
    revoke: slack.revoke,
    redeliver: () => slack.redeliver(),
    remembers: true,
    sendsOnce: false,
    close: async () => {
      await Promise.all(posting);
      await slack.close();
    },
  };
}

/** As Slack's own clients do it. */
const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
