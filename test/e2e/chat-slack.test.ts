// What is special about Slack: its own libraries over a fake Slack. What all platforms share is in test/contract/chat.ts.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openCalls } from "../../src/chats/shared/calls.ts";
import { attachmentsOf } from "../../src/chats/slack/inbound.ts";
import { createSlack } from "../../src/chats/slack/slack.ts";
import type { Chat, Place } from "../../src/core/chat.ts";
import { ConfigError } from "../../src/core/errors.ts";
import type { Clock } from "../../src/core/ports.ts";
import { clock as realClock } from "../../src/platform/clock.ts";
import { hastyClock, type Listener, listener } from "../contract/chat.ts";
import { type FakeSlack, startFakeSlack } from "../fakes/chat/slack.ts";

const ANNA = { id: "U07ANNA00001", name: "Anna" };
const BEN = { id: "U07BEN000001", name: "Ben" };
const never = new AbortController().signal;

let slack: FakeSlack;
let inbox: Listener;
let expected: unknown[];
const chats: Chat[] = [];
beforeEach(async () => {
  [slack, inbox, expected] = [await startFakeSlack(), listener(), []];
});
afterEach(async () => {
  await Promise.all(chats.splice(0).map((chat) => chat.close()));
  await slack.close();
  expect(slack.violations).toEqual(expected);
});

function create(but: { botToken?: string; clock?: Clock } = {}): Chat {
  const { botToken = slack.botToken, clock = hastyClock() } = but;
  const { appToken, apiRoot } = slack;
  const chat = createSlack({ botToken, appToken, apiRoot, clock, log: () => {}, random: () => 1 });
  chats.push(chat);
  return chat;
}
async function started(clock?: Clock): Promise<Chat> {
  const chat = create(clock && { clock });
  await chat.start(inbox);
  return chat;
}
async function restarted(options: Parameters<typeof startFakeSlack>[0]): Promise<void> {
  await slack.close();
  slack = await startFakeSlack(options);
}

const general = (): Place => ({ kind: "channel", chat: slack.general });
const us = () => `<@${slack.bot.user}>`;
const say = (text: string) => slack.say({ from: ANNA, channel: slack.general, text });
const acknowledged = () => slack.until(() => slack.deliveries.every(({ state }) => state === "acknowledged"));

describe("what people say", () => {
  it("with a mention comes as two events and is heard once; both are acknowledged", async () => {
    await started();
    say(`${us()} hello`);
    await acknowledged();
    expect(slack.deliveries).toHaveLength(2);
    expect(inbox.messages).toMatchObject([{ text: "hello", addressed: true, place: general() }]);
  });

  it("is acknowledged when it was taken, and not before", async () => {
    await started();
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    say("wait");
    await inbox.texts(1);
    expect(slack.deliveries).toMatchObject([{ state: "waiting" }]);
    gate.resolve();
    await acknowledged();
  });

  it("and comes again while it is being taken is the same message", async () => {
    await restarted({ ackMs: 200 });
    await started();
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    say("slow");
    await slack.until(() => slack.deliveries[0]?.attempts === 3);
    gate.resolve();
    await acknowledged();
    expect(inbox.messages).toHaveLength(1);
  });

  it("and comes again after it was taken is acknowledged, and not told again", async () => {
    await started();
    say("once");
    await acknowledged();
    slack.redeliver();
    await slack.until(() => slack.deliveries[0]?.attempts === 2 && slack.deliveries[0].state === "acknowledged");
    say("done");
    expect(await inbox.texts(2)).toEqual(["once", "done"]);
  });

  it("by an app is not heard, and acknowledged", async () => {
    const chat = await started();
    await chat.send(general(), { text: "from an app" }, "k", never);
    await acknowledged();
    expect(slack.deliveries).toHaveLength(1);
    expect(inbox.messages).toEqual([]);
  });

  it("is read as people read it: names for ids, addresses without signs, nothing escaped", async () => {
    await started();
    slack.say({ from: BEN, text: "hi" });
    await inbox.texts(1);
    say(
      `${us()}: ask <@${BEN.id}> in <#C07X|random> about <https://example.com/a?b=1&amp;c=2|the plan>, ` +
        "<https://example.com> &amp; 1 &lt; 2 <!here>",
    );
    await inbox.texts(2);
    expect(inbox.messages[1]?.text).toBe(
      "ask @Ben in #random about the plan (https://example.com/a?b=1&c=2), https://example.com & 1 < 2 @here",
    );
  });

  it("in a thread below our message is meant for us, and in one of others is not", async () => {
    const chat = await started();
    const ours = await chat.send(general(), { text: "What do you think?" }, "k", never);
    const theirs = say("who is hungry?");
    slack.say({ from: BEN, channel: slack.general, thread: ours, text: "good" });
    slack.say({ from: BEN, channel: slack.general, thread: theirs, text: "I am" });
    await inbox.texts(3);
    expect(inbox.messages.slice(1)).toMatchObject([
      { addressed: true, place: { kind: "thread", chat: slack.general, thread: ours } },
      { addressed: false, place: { kind: "thread", chat: slack.general, thread: theirs } },
    ]);
  });

  it("in a thread of a direct talk is still said to us alone", async () => {
    const chat = await started();
    const root = slack.say({ from: ANNA, text: "a question" });
    slack.say({ from: ANNA, text: "and more", thread: root });
    await inbox.texts(2);
    const place: Place = { kind: "dm", chat: slack.dm(ANNA), thread: root };
    expect(inbox.messages[1]).toMatchObject({ place, addressed: true });
    await chat.send(place, { text: "an answer" }, "k", never);
    expect(slack.sent(slack.dm(ANNA))).toMatchObject([{ thread: root }]);
  });

  it("is called by its id when Slack does not tell the name", async () => {
    await started();
    slack.fault("users.info", { status: 500 });
    say("hello");
    await inbox.texts(1);
    expect(inbox.messages).toMatchObject([{ from: { id: ANNA.id, name: ANNA.id } }]);
  });

  it("is called by a new name within an hour", async () => {
    let leap = 0;
    await started({ ...hastyClock(), monotonic: () => realClock.monotonic() + leap });
    const hi = (name: string) => slack.say({ from: { id: ANNA.id, name }, text: "hi" });
    hi("Anna");
    await inbox.texts(1);
    hi("Ann");
    await inbox.texts(2);
    leap = 3_600_000;
    hi("Ann");
    await inbox.texts(3);
    expect(inbox.messages.map(({ from }) => from.name)).toEqual(["Anna", "Anna", "Ann"]);
  });

  it("as a command is heard with its words and acknowledged when it was taken", async () => {
    await started();
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    const command = slack.command({ command: "/queue", text: "buy milk", by: ANNA });
    await inbox.texts(1);
    const place = { kind: "dm", chat: slack.dm(ANNA) };
    expect(inbox.messages).toMatchObject([{ text: "/queue buy milk", addressed: true, place, from: ANNA }]);
    expect(command.state).toBe("waiting");
    gate.resolve();
    expect(await command.acknowledged).toEqual({});
  });

  it("is no edit when only a preview was added, and none of ours is told", async () => {
    const chat = await started();
    const ts = say("https://example.com");
    const ours = await chat.send(general(), { text: "mine" }, "k", never);
    slack.edit({ channel: slack.general, ts }, "https://example.com");
    await chat.edit(general(), ours, { text: "still mine" }, never);
    await chat.remove(general(), ours, never);
    await chat.remove(general(), ours, never);
    await acknowledged();
    expect([inbox.edits, inbox.deletions]).toEqual([[], []]);
  });
});

describe("a file", () => {
  it("that lies elsewhere is not fetched: our token must not go there", async () => {
    await using elsewhere = await startFakeSlack();
    const calls = openCalls(realClock);
    const message = { ts: "1.2", files: [{ name: "bait", url_private: `${elsewhere.apiRoot}bait` }] };
    const [file] = attachmentsOf(message, { token: slack.botToken, apiRoot: slack.apiRoot, calls });
    await expect(file?.load(1_000, never)).rejects.toThrow("not kept at Slack");
    await calls.close();
    expect(elsewhere.calls).toEqual([]);
  });

  it("that Slack does not give us is not taken for its page to sign in on", async () => {
    const chat = await started();
    slack.say({ from: ANNA, text: "look", files: [{ name: "a.png", type: "image/png", bytes: Buffer.from("png") }] });
    await inbox.texts(1);
    await chat.stop();
    slack.revoke();
    const [file] = inbox.messages[0]?.attachments ?? [];
    expect(file).toMatchObject({ kind: "photo", size: 3 });
    await expect(file?.load(1_000, never)).rejects.toThrow("files:read");
  });
});

describe("a button", () => {
  const buttons = [[{ label: "Yes", data: "yes" }]];

  it("is acknowledged in time, and its person told the rest when it takes long", async () => {
    const chat = await started();
    const ts = await chat.send(general(), { text: "Sure?", buttons }, "k", never);
    const gate = Promise.withResolvers<string>();
    inbox.answer = () => gate.promise;
    const press = slack.press({ message: { channel: slack.general, ts }, button: "Yes", by: BEN });
    expect(await press.acknowledged).toEqual({});
    expect(press.responses).toEqual([]);
    gate.resolve("At last.");
    await slack.until(() => press.responses.length > 0);
    expect(press.responses).toEqual([{ response_type: "ephemeral", replace_original: false, text: "At last." }]);
  });

  it("is not acknowledged when nothing was taken; with nothing to say, nothing is shown", async () => {
    const chat = await started();
    const ts = await chat.send(general(), { text: "Sure?", buttons }, "k", never);
    const message = { channel: slack.general, ts };
    inbox.answer = () => Promise.reject(new Error("the store is full"));
    const refused = slack.press({ message, button: "Yes", by: BEN });
    await inbox.until(() => inbox.presses.length === 1);
    inbox.answer = async () => "";
    const taken = slack.press({ message, button: "Yes", by: BEN });
    await taken.acknowledged;
    expect([refused.state, taken.responses]).toEqual(["waiting", []]);
  });

  it("is left out when Slack does not take it, and the words arrive", async () => {
    const chat = await started();
    await chat.send(general(), { text: "Sure?", buttons: [[{ label: "", data: "x" }]] }, "k", never);
    expect(slack.sent()).toMatchObject([{ text: "Sure?", blocks: [] }]);
    expected.push(expect.stringContaining("invalid_blocks"));
  });
});

describe("the connection", () => {
  it("with a wrong bot token is refused, with the name of what to set", async () => {
    const failed = create({ botToken: "xoxb-wrong" }).start(inbox);
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
    await expect(failed).rejects.toThrow("SLACK_BOT_TOKEN");
  });

  it.each(["warning", "refresh_requested"] as const)("is made again when Slack says %s", async (reason) => {
    const chat = await started();
    slack.disconnect(reason);
    say("still there?");
    expect(await inbox.texts(1)).toEqual(["still there?"]);
    await acknowledged();
    expect(chat.health()).toMatchObject({ connected: true, error: "" });
  });

  it("that cannot be made again for a while is tried with growing pauses, and nothing is thrown", async () => {
    const clock = hastyClock();
    await started(clock);
    const trap = slack.fault("apps.connections.open", "reset", 3);
    slack.cut();
    say("meanwhile");
    expect(await inbox.texts(1)).toEqual(["meanwhile"]);
    expect(trap.hits).toBe(3);
    expect([...new Set(clock.pauses)].slice(0, 4)).toEqual([1_000, 2_000, 4_000, 8_000]);
  });

  it("is seen to live while nobody says anything", async () => {
    await restarted({ pingMs: 50 });
    let now = 1;
    const looked = Promise.withResolvers<void>();
    const chat = await started({
      ...realClock,
      now: () => {
        if (now > 1) looked.resolve();
        return now;
      },
    });
    now = 60_000;
    await looked.promise;
    expect(chat.health().heardAt).toBe(60_000);
  });

  it("is over at once with close, also when the line is dead or not yet made", async () => {
    const chat = await started();
    slack.silence();
    await chat.close();
    const hanging = slack.fault("apps.connections.open", "hang");
    const other = create();
    const starting = other.start(inbox);
    await slack.until(() => hanging.hits === 1);
    await other.close();
    await starting;
    expect(other.health()).toMatchObject({ connected: false });
    await slack.until(() => slack.connections === 0);
  });
});

describe("what we say", () => {
  it.each([
    ["**bold** and *slanted* and ***both*** and ~~struck~~", "*bold* and _slanted_ and *_both_* and ~struck~"],
    ["# A **big** heading", "*A big heading*"],
    ["- one\n  - two\n3. three", "• one\n  ◦ two\n3. three"],
    ["> quoted **words**", "> quoted *words*"],
    ["[the plan](https://a.b/c?d=1&e=2) <https://x.y>", "<https://a.b/c?d=1&amp;e=2|the plan> <https://x.y>"],
    ["![a cat](https://a.b/cat.png)", "<https://a.b/cat.png|a cat>"],
    ["[bad](javascript:x) <!channel>", "[bad](javascript:x) &lt;!channel&gt;"],
    ["`a < b` ``c``", "`a &lt; b` `c`"],
    ["```ts\na **b** < c\n```", "```\na **b** &lt; c\n```"],
    ["| a | b |\n|---|---|\n| 1 | **2** |", "```\na  b\n-  -\n1  2\n```"],
    ["2 * 3 * 4, snake_case_word, a*b*c, \\*not bold\\*", "2 * 3 * 4, snake_case_word, a*b*c, *not bold*"],
  ])("is Markdown as Slack reads it: %j", async (markdown, text) => {
    const chat = create();
    await chat.send(general(), { text: markdown }, "k", never);
    expect(slack.sent()).toMatchObject([{ text, blocks: [] }]);
  });

  it("with buttons is in pieces that Slack takes; code that is cut stays code", async () => {
    const chat = create();
    const code = Array.from({ length: 200 }, (_, line) => `line ${line} is < 20`).join("\n");
    const text = `Look:\n\`\`\`\n${code}\n\`\`\`\nSure?`;
    await chat.send(general(), { text, buttons: [[{ label: "Yes", data: "y" }]] }, "k", never);
    const blocks = slack.sent()[0]?.blocks ?? [];
    const pieces = blocks.flatMap((block) => (block.type === "section" ? [block.text?.text ?? ""] : []));
    expect(blocks.at(-1)?.type).toBe("actions");
    expect(pieces.length).toBeGreaterThan(1);
    for (const piece of pieces) expect(piece.split("```").length % 2).toBe(1);
    expect(pieces.join("\n").match(/line \d+ is &lt; 20/g)).toHaveLength(200);
  });

  it("is edited also where it is longer with its escapes than an edit takes", async () => {
    const chat = create();
    const ts = await chat.send(general(), { text: "…" }, "k", never);
    await chat.edit(general(), ts, { text: "<".repeat(3_900) }, never);
    const [sent] = slack.sent();
    const pieces = (sent?.blocks ?? []).flatMap((block) => (block.type === "section" ? [block.text?.text ?? ""] : []));
    expect(pieces.join("").replaceAll("&lt;", "<")).toBe("<".repeat(3_900));
    await chat.edit(general(), ts, { text: "short" }, never);
    expect(slack.sent()).toMatchObject([{ text: "short", blocks: [] }]);
  });

  it("may have landed when Slack itself fails, and is sent once by us", async () => {
    const chat = create();
    slack.fault("chat.postMessage", { status: 503 });
    await expect(chat.send(general(), { text: "x" }, "k", never)).rejects.toMatchObject({ landed: "unknown" });
    expect(slack.calls.filter(({ method }) => method === "chat.postMessage")).toHaveLength(1);
  });

  it("may land later when the token was refused", async () => {
    const chat = create({ botToken: "xoxb-wrong" });
    await expect(chat.send(general(), { text: "x" }, "k", never)).rejects.toMatchObject({ landed: "no" });
  });
});
