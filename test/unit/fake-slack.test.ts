// That the fake speaks Slack as Slack's own libraries do, and does to a bot what Slack does.
import { once } from "node:events";
import { LogLevel, SocketModeClient } from "@slack/socket-mode";
import { type ChatPostMessageArguments, type KnownBlock, WebClient } from "@slack/web-api";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FakeSlack, startFakeSlack } from "../fakes/chat/slack.ts";

const ANNA = { id: "U07ANNA00001", name: "Anna" };
const BEN = { id: "U07BEN000001", name: "Ben" };
const ONCE = { retries: 0 };
const QUIET = {
  getLevel: () => LogLevel.ERROR,
  setLevel() {},
  setName() {},
  debug() {},
  info() {},
  warn() {},
  error() {},
};

type Heard = {
  ack(payload?: object): Promise<void>;
  event: Record<string, string>;
  body: Record<string, unknown>;
  retry_num: number;
  retry_reason: string;
};

let slack: FakeSlack;
let web: WebClient;
let expected: unknown[];
const clients: SocketModeClient[] = [];
beforeEach(async () => {
  expected = [];
  slack = await startFakeSlack();
  web = newWeb();
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.disconnect()));
  await slack.close();
  expect(slack.violations).toEqual(expected);
});

function newWeb(token = slack.botToken, options = {}): WebClient {
  const slackApiUrl = slack.apiRoot;
  return new WebClient(token, { slackApiUrl, retryConfig: ONCE, logger: QUIET, ...options });
}

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- Slack's, not a window's
const postMessage = (args: ChatPostMessageArguments) => web.chat.postMessage(args);

/** Whose patience ends soon. */
async function hurried(): Promise<void> {
  await slack.close();
  slack = await startFakeSlack({ ackMs: 200 });
}

/** A short ping timeout is also a short wait before it connects again. */
function newSocket(appToken = slack.appToken): SocketModeClient {
  const clientOptions = { slackApiUrl: slack.apiRoot, retryConfig: ONCE };
  const client = new SocketModeClient({ appToken, clientOptions, clientPingTimeout: 600, logger: QUIET });
  clients.push(client);
  return client;
}

async function connected(): Promise<SocketModeClient> {
  const client = newSocket();
  await client.start();
  return client;
}

const next = (client: SocketModeClient, type: string): Promise<Heard> =>
  new Promise((resolve) => client.once(type, resolve));
const acknowledging = (client: SocketModeClient, type: string, texts: string[] = []) => {
  client.on(type, (heard: Heard) => {
    texts.push(heard.event?.text ?? "");
    void heard.ack();
  });
  return texts;
};
const offence = (text: string | RegExp) => expected.push(expect.stringMatching(text));
const refused = (error: string) => expect.objectContaining({ data: expect.objectContaining({ error }) });
const buttons = (...list: object[]): KnownBlock[] => [
  { type: "section", text: { type: "mrkdwn", text: "Sure?" } },
  { type: "actions", elements: list.map((one) => ({ type: "button", ...one })) } as KnownBlock,
];
const yes = { text: { type: "plain_text", text: "Yes" }, action_id: "yes", value: "1" };

describe("the Web API", () => {
  it("knows its tokens", async () => {
    expect(await web.auth.test()).toMatchObject({ ok: true, user_id: slack.bot.user, team_id: slack.team });
    await expect(newWeb("xoxb-wrong").auth.test()).rejects.toMatchObject(refused("invalid_auth"));
    await expect(newWeb("").auth.test()).rejects.toMatchObject(refused("not_authed"));
    await expect(web.apps.connections.open({})).rejects.toMatchObject(refused("not_allowed_token_type"));
    slack.revoke();
    await expect(web.auth.test()).rejects.toMatchObject(refused("token_revoked"));
    offence("not_allowed_token_type");
  });

  it("posts, updates and deletes, with the history kept", async () => {
    const thread_ts = slack.say({ from: ANNA, channel: slack.general, text: "?" });
    const { ts = "", message } = await postMessage({ channel: slack.general, text: "thinking", thread_ts });
    expect(message).toMatchObject({ text: "thinking", bot_id: slack.bot.id, thread_ts });
    await web.chat.update({ channel: slack.general, ts, text: "done" });
    expect(await slack.nextMessage(slack.general)).toMatchObject({
      ts,
      thread: thread_ts,
      text: "done",
      history: [{ text: "thinking" }],
    });
    await web.chat.delete({ channel: slack.general, ts });
    expect(slack.sent()).toMatchObject([{ deleted: true }]);
    await expect(web.chat.update({ channel: slack.general, ts, text: "gone" })).rejects.toMatchObject(
      refused("message_not_found"),
    );
    const theirs = web.chat.update({ channel: slack.general, ts: thread_ts, text: "mine" });
    await expect(theirs).rejects.toMatchObject(refused("cant_update_message"));
    offence("cant_update_message");
  });

  it("takes 40,000 characters at first, 4,000 in an update", async () => {
    const channel = slack.general;
    const { ts = "" } = await postMessage({ channel, text: "x".repeat(40_000) });
    const posting = postMessage({ channel, text: "x".repeat(40_001) });
    await expect(posting).rejects.toMatchObject(refused("msg_too_long"));
    const updating = web.chat.update({ channel, ts, text: "x".repeat(4001) });
    await expect(updating).rejects.toMatchObject(refused("msg_too_long"));
    await expect(postMessage({ channel, text: "" })).rejects.toMatchObject(refused("no_text"));
    offence("40001 characters");
    offence("4001 characters");
    offence("no_text");
  });

  it("refuses unknown and archived channels", async () => {
    await expect(postMessage({ channel: "C0", text: "x" })).rejects.toMatchObject(refused("channel_not_found"));
    slack.archive(slack.general);
    const posting = postMessage({ channel: slack.general, text: "x" });
    await expect(posting).rejects.toMatchObject(refused("is_archived"));
  });

  it("tells about channels and people, and takes reactions once", async () => {
    const ts = slack.say({ from: ANNA, text: "hello" });
    const channel = slack.dm(ANNA);
    expect((await web.conversations.info({ channel })).channel).toMatchObject({ is_im: true, user: ANNA.id });
    expect((await web.conversations.info({ channel: slack.general })).channel).toMatchObject({ name: "general" });
    expect((await web.users.info({ user: ANNA.id })).user?.profile?.display_name).toBe("Anna");
    await expect(web.users.info({ user: "U0" })).rejects.toMatchObject(refused("user_not_found"));
    await web.reactions.add({ channel, timestamp: ts, name: "eyes" });
    await expect(web.reactions.add({ channel, timestamp: ts, name: "eyes" })).rejects.toMatchObject(
      refused("already_reacted"),
    );
    expect(slack.reactions({ channel, ts })).toEqual(["eyes"]);
  });

  it("keeps files for those with a token", async () => {
    const client = await connected();
    const heard = next(client, "message");
    slack.say({
      from: ANNA,
      text: "look",
      files: [{ name: "a plan.txt", type: "text/plain", bytes: Buffer.from("plan") }],
    });
    const { event, ack } = await heard;
    await ack();
    const [shared] = event.files as unknown as { id: string }[];
    expect(event.subtype).toBe("file_share");
    const { file } = await web.files.info({ file: shared?.id ?? "" });
    const url = file?.url_private ?? "";
    const headers = { authorization: `Bearer ${slack.botToken}` };
    expect(await (await fetch(url, { headers })).text()).toBe("plan");
    expect(await (await fetch(url)).text()).toContain("Sign in");
  });

  it("is watched for arguments and methods that do not exist", async () => {
    await web.apiCall("chat.postMessage", { channel: slack.general, text: "x", client_msg_id: "1" });
    await expect(web.apiCall("chat.shout")).rejects.toMatchObject(refused("unknown_method"));
    await expect(web.apiCall("chat.postMessage", { text: "x" })).rejects.toMatchObject(refused("invalid_arguments"));
    offence("client_msg_id");
    offence("unknown_method");
    offence("invalid_arguments");
  });
});

describe("events", () => {
  it("come from direct messages and channels, a mention as two", async () => {
    const client = await connected();
    const messages = acknowledging(client, "message");
    const mentions = acknowledging(client, "app_mention");
    slack.say({ from: ANNA, text: "private" });
    slack.say({ from: BEN, channel: slack.general, text: `<@${slack.bot.user}> hi` });
    await slack.until(() => slack.deliveries.every(({ state }) => state === "acknowledged"));
    expect(messages).toEqual(["private", `<@${slack.bot.user}> hi`]);
    expect(mentions).toEqual([`<@${slack.bot.user}> hi`]);
    expect(slack.deliveries[0]?.payload).toMatchObject({
      type: "event_callback",
      event_id: expect.stringMatching(/^Ev/),
      event: { channel: slack.dm(ANNA), channel_type: "im", user: ANNA.id },
    });
  });

  it("tell a bot of its own messages as well, and of edits and removals", async () => {
    const client = await connected();
    const seen: Record<string, string>[] = [];
    client.on("message", (heard: Heard) => {
      seen.push(heard.event);
      void heard.ack();
    });
    await postMessage({ channel: slack.general, text: "mine" });
    const ts = slack.say({ from: ANNA, channel: slack.general, text: "helo" });
    slack.edit({ channel: slack.general, ts }, "hello");
    slack.remove({ channel: slack.general, ts });
    await slack.until(() => slack.deliveries.every(({ state }) => state === "acknowledged"));
    expect(seen).toMatchObject([
      { bot_id: slack.bot.id, text: "mine" },
      { text: "helo" },
      { subtype: "message_changed", message: { text: "hello" }, previous_message: { text: "helo" } },
      { subtype: "message_deleted", deleted_ts: ts },
    ]);
  });

  it("that are not acknowledged in time come again, under the same event_id", async () => {
    await hurried();
    const client = await connected();
    const first = next(client, "message");
    slack.say({ from: ANNA, text: "hello?" });
    const { body, retry_num } = await first;
    const again = await next(client, "message");
    expect(retry_num).toBe(0);
    expect(again).toMatchObject({ retry_num: 1, retry_reason: "timeout", body: { event_id: body.event_id } });
    await again.ack();
    await slack.until(() => slack.deliveries[0]?.state === "acknowledged");
  });

  it("are given up after the fourth time", async () => {
    await hurried();
    await connected();
    slack.say({ from: ANNA, text: "anybody?" });
    await slack.until(() => slack.deliveries[0]?.state === "lost");
    expect(slack.deliveries[0]?.attempts).toBe(4);
  });

  it("wait for a connection, and come again when one broke before they were acknowledged", async () => {
    slack.say({ from: ANNA, text: "early" });
    const client = newSocket();
    // Before it starts: what waits comes right behind the hello.
    const heard = next(client, "message");
    await client.start();
    expect((await heard).event.text).toBe("early");
    slack.cut();
    const again = await next(client, "message");
    expect(again.event.text).toBe("early");
    await again.ack();
    await slack.until(() => slack.deliveries[0]?.state === "acknowledged");
  });

  it("can come twice although they were acknowledged", async () => {
    const client = await connected();
    const texts = acknowledging(client, "message");
    slack.say({ from: ANNA, text: "once" });
    await slack.until(() => slack.deliveries[0]?.state === "acknowledged");
    slack.redeliver();
    await slack.until(() => slack.deliveries[0]?.attempts === 2 && slack.deliveries[0].state === "acknowledged");
    expect(texts).toEqual(["once", "once"]);
  });
});

describe("buttons and commands", () => {
  it("are pressed by anybody, also after an edit took them away", async () => {
    const client = await connected();
    acknowledging(client, "message");
    const { ts = "" } = await postMessage({ channel: slack.general, text: "Sure?", blocks: buttons(yes) });
    await web.chat.update({ channel: slack.general, ts, text: "Decided.", blocks: [] });
    const heard = next(client, "interactive");
    const press = slack.press({ message: { channel: slack.general, ts }, button: "Yes", by: BEN });
    const { body, ack } = await heard;
    expect(body).toMatchObject({
      type: "block_actions",
      user: { id: BEN.id },
      channel: { id: slack.general },
      container: { message_ts: ts },
      actions: [{ action_id: "yes", value: "1" }],
    });
    await ack();
    expect(await press.acknowledged).toEqual({});
    await fetch(String(body.response_url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"text":"Thanks","response_type":"ephemeral"}',
    });
    expect(press.responses).toMatchObject([{ text: "Thanks" }]);
    expect(slack.sent()).toMatchObject([{ text: "Decided.", blocks: [], history: [{ text: "Sure?" }] }]);
  });

  it("stay when an update does not name the blocks", async () => {
    const { ts = "" } = await postMessage({ channel: slack.general, text: "Sure?", blocks: buttons(yes) });
    await web.chat.update({ channel: slack.general, ts, text: "Really sure?" });
    expect(slack.sent()[0]?.blocks).toHaveLength(2);
  });

  it.each([
    ["value of 2,001 characters", [{ ...yes, value: "x".repeat(2001) }], "/blocks/1/elements/0/value"],
    ["action_id of 256 characters", [{ ...yes, action_id: "x".repeat(256) }], "/blocks/1/elements/0/action_id"],
    ["text that is mrkdwn", [{ ...yes, text: { type: "mrkdwn", text: "Yes" } }], "/blocks/1/elements/0/text"],
    ["action_id of another", [yes, yes], "action_id already exists"],
  ])("are refused with a %s", async (_what, list, where) => {
    const posting = postMessage({ channel: slack.general, text: "x", blocks: buttons(...list) });
    await expect(posting).rejects.toMatchObject(refused("invalid_blocks"));
    expect(slack.sent()).toEqual([]);
    offence(where);
  });

  it("are commands, answered with the acknowledgement", async () => {
    const client = await connected();
    const heard = next(client, "slash_commands");
    const { acknowledged } = slack.command({ command: "/hermes", text: "status", by: ANNA });
    const { body, ack } = await heard;
    expect(body).toMatchObject({ command: "/hermes", text: "status", user_id: ANNA.id, channel_id: slack.dm(ANNA) });
    await ack({ text: "All is well." });
    expect(await acknowledged).toEqual({ text: "All is well." });
  });

  it("are lost when nobody listens", () => {
    expect(slack.command({ command: "/hermes", by: ANNA }).state).toBe("lost");
  });
});

describe("Socket Mode", () => {
  const reconnected = (client: SocketModeClient) =>
    new Promise<void>((resolve) => client.once("connected", () => resolve()));

  it("refuses a wrong app token", async () => {
    await expect(newSocket("xapp-wrong").start()).rejects.toMatchObject(refused("invalid_auth"));
    clients.length = 0;
  });

  it.each(["warning", "refresh_requested"] as const)(
    "disconnects with %s, and the client comes back",
    async (reason) => {
      const client = await connected();
      const texts = acknowledging(client, "message");
      const again = reconnected(client);
      slack.disconnect(reason);
      await again;
      slack.say({ from: ANNA, text: "still there?" });
      await slack.until(() => slack.deliveries[0]?.state === "acknowledged");
      expect(texts).toEqual(["still there?"]);
    },
  );

  it("goes silent without a word; the client finds out by its pings, and nothing is lost", async () => {
    const client = await connected();
    const texts = acknowledging(client, "message");
    slack.say({ from: ANNA, text: "before" });
    await slack.until(() => slack.deliveries[0]?.state === "acknowledged");
    const again = reconnected(client);
    slack.silence();
    slack.say({ from: ANNA, text: "into the void" });
    await again;
    await slack.until(() => slack.deliveries[1]?.state === "acknowledged");
    expect(texts).toEqual(["before", "into the void"]);
    expect(slack.deliveries[1]?.attempts).toBe(2);
  });

  it("gives an address for one use", async () => {
    const { url = "" } = await newWeb(slack.appToken).apps.connections.open({});
    const socket = new WebSocket(url);
    const [hello] = (await once(socket, "message")) as [{ data: string }];
    expect(JSON.parse(hello.data)).toMatchObject({ type: "hello", num_connections: 1 });
    const second = new WebSocket(url);
    expect(await once(second, "close")).toMatchObject([{ code: 1008 }]);
    socket.send('{"envelope_id":"never-sent"}');
    await slack.until(() => slack.violations.length === 2);
    socket.close();
    await once(socket, "close");
    offence("used before");
    offence("acknowledges nothing");
  });
});

describe("faults", () => {
  const post = (text = "hi") => postMessage({ channel: slack.general, text });

  it("429 says how long to wait; who does not is seen, and Slack's library does", async () => {
    slack.fault("chat.postMessage", { status: 429, retryAfter: 1 });
    web = newWeb(slack.botToken, { rejectRateLimitedCalls: true });
    await expect(post()).rejects.toMatchObject({ retryAfter: 1 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    web = newWeb(slack.botToken, { retryConfig: { retries: 1, minTimeout: 0 } });
    await post("patient");
    expect(slack.sent()).toMatchObject([{ text: "patient" }]);
    offence("before the rate limit was over");
  });

  it("a lost answer is repeated by Slack's library, and the message is there twice", async () => {
    web = newWeb(slack.botToken, { retryConfig: { retries: 1, minTimeout: 0 } });
    slack.fault("chat.postMessage", "lost");
    await post("twice");
    expect(slack.sent()).toMatchObject([{ text: "twice" }, { text: "twice" }]);
  });

  it("500, resets, hangs and late answers", async () => {
    slack.fault("chat.postMessage", { status: 503 });
    await expect(post()).rejects.toMatchObject({ code: "slack_webapi_http_error" });
    slack.fault("chat.postMessage", "reset");
    await expect(post()).rejects.toMatchObject({ code: "slack_webapi_request_error" });
    expect(slack.sent()).toEqual([]);
    for (const fault of ["hang", "late"] as const) {
      const trap = slack.fault("chat.postMessage", fault);
      const posting = post(fault);
      await slack.until(() => trap.hits === 1);
      trap.release();
      await posting;
    }
    expect(slack.sent()).toMatchObject([{ text: "hang" }, { text: "late" }]);
  });
});
