// What is special about Discord: @discordjs/ws and @discordjs/rest over a fake Discord. What all platforms share is in test/contract/chat.ts.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocketServer } from "ws";
import { createDiscord } from "../../src/chats/discord/discord.ts";
import { sessionIn } from "../../src/chats/discord/saved-session.ts";
import type { Chat, Place } from "../../src/core/chat.ts";
import { ConfigError } from "../../src/core/errors.ts";
import type { Clock, Log } from "../../src/core/ports.ts";
import { clock as realClock } from "../../src/platform/clock.ts";
import { hastyClock, type Listener, listener } from "../contract/chat.ts";
import { type FakeDiscord, startFakeDiscord } from "../fakes/chat/discord.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

const ANNA = { id: "801234567890123456", name: "Anna" };
const BEN = { id: "802345678901234567", name: "Ben" };
const POST = "POST /channels/:channel/messages";
const never = new AbortController().signal;

let discord: FakeDiscord;
let inbox: Listener;
let expected: unknown[];
const chats: Chat[] = [];
beforeEach(async () => {
  [discord, inbox, expected] = [await startFakeDiscord(), listener(), []];
});
afterEach(async () => {
  await Promise.all(chats.splice(0).map((chat) => chat.close()));
  await discord.close();
  expect(discord.violations).toEqual(expected);
});

type Options = Parameters<typeof createDiscord>[0];
function create(but: Partial<Options> = {}): Chat {
  const common = { token: discord.token, apiRoot: discord.apiRoot, clock: hastyClock(), log: () => {} };
  const chat = createDiscord({ ...common, random: () => 1, ...but });
  chats.push(chat);
  return chat;
}
async function started(clock?: Clock): Promise<Chat> {
  const chat = create(clock && { clock });
  await chat.start(inbox);
  return chat;
}
const general = (): Place => ({ kind: "channel", chat: discord.guild.general });
const say = (content: string) => discord.say({ from: ANNA, channel: discord.guild.general, content });
const texts = () => inbox.messages.map(({ text }) => text);

describe("what was said while a session was lost", () => {
  it("is fetched when a new one begins, in order, before what comes after, each once", async () => {
    await started();
    say("before");
    discord.say({ from: BEN, content: "privately" });
    await inbox.texts(2);
    discord.invalidate(false);
    say("unheard 1");
    discord.say({ from: BEN, content: "unheard, privately" });
    say("unheard 2");
    await discord.until(() => discord.sessions.length === 2);
    say("live");
    await inbox.texts(6);
    const inGeneral = inbox.messages.filter(({ place }) => place.kind === "channel").map(({ text }) => text);
    expect(inGeneral).toEqual(["before", "unheard 1", "unheard 2", "live"]);
    expect(inbox.messages.filter(({ place }) => place.kind === "dm").map(({ text }) => text)).toEqual([
      "privately",
      "unheard, privately",
    ]);
  });

  it("is fetched to its end, page by page", async () => {
    await started();
    say("before");
    await inbox.texts(1);
    discord.invalidate(false);
    const missed = Array.from({ length: 250 }, (_, index) => `missed ${index}`);
    for (const text of missed) say(text);
    await inbox.texts(251);
    expect(texts()).toEqual(["before", ...missed]);
  });

  it("is fetched again when it was not taken, without what was", async () => {
    await started();
    say("before");
    await inbox.texts(1);
    let refusals = 2;
    inbox.take = async ({ text }) => {
      if (text === "two" && refusals-- > 0) throw new Error("the store is full");
    };
    discord.invalidate(false);
    for (const text of ["one", "two", "three"]) say(text);
    await inbox.until(() => texts().includes("three"));
    expect(texts()).toEqual(["before", "one", "two", "two", "two", "three"]);
  });

  it("in a channel that we may no longer read is let go", async () => {
    await started();
    say("before");
    discord.say({ from: BEN, content: "privately" });
    await inbox.texts(2);
    discord.fault("GET /channels/:channel/messages", { status: 403 });
    discord.invalidate(false);
    await discord.until(() => discord.sessions.length === 2);
    say("go on");
    discord.say({ from: BEN, content: "privately, too" });
    expect((await inbox.texts(4)).slice(2).toSorted()).toEqual(["go on", "privately, too"]);
  });
});

describe("too much at once", () => {
  it("stays at Discord until it can be taken, and loses neither its order nor a word", async () => {
    await started();
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    const all = Array.from({ length: 700 }, (_, index) => `message ${index}`);
    for (const text of all) say(text);
    await inbox.texts(1);
    // By now the connection has brought all of it: what is said elsewhere comes behind it.
    discord.say({ from: BEN, content: "elsewhere" });
    await inbox.texts(2);
    gate.resolve();
    await inbox.until(() => texts().includes("message 699"));
    expect(texts().filter((text) => text !== "elsewhere")).toEqual(all);
  });
});

describe("the connection", () => {
  it("without the Message Content intent is refused, with what to switch on", async () => {
    await using refusing = await startRefusing(4014);
    const failed = create({ apiRoot: refusing.apiRoot }).start(inbox);
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
    await expect(failed).rejects.toThrow("Message Content intent");
  });

  it("is begun anew at most every five seconds", async () => {
    const clock = hastyClock();
    await started(clock);
    for (const count of [2, 3]) {
      discord.invalidate(false);
      await discord.until(() => discord.sessions.length === count);
    }
    expect(clock.pauses.filter((ms) => ms > 4_000 && ms <= 5_000)).toHaveLength(2);
  });

  it("that is cut again and again is made with growing pauses", async () => {
    await using refusing = await startRefusing(4000);
    const clock = hastyClock();
    const chat = create({ apiRoot: refusing.apiRoot, clock });
    await chat.start(inbox);
    expect(chat.health()).toMatchObject({ connected: false, error: "The connection was lost." });
    await refusing.refused(4);
    // The first is one second, which is also how long a socket has to close. Between them it waits until it may identify again.
    const pauses = clock.pauses.filter((ms) => ms % 500 === 0 && ms > 1_000);
    expect(pauses.slice(0, 2)).toEqual([2_000, 4_000]);
  });

  it.each([
    ["is cut", () => discord.cut()],
    ["is closed for a reason that passes", () => discord.cut(4000)],
    ["is asked to reconnect", () => discord.reconnect()],
    ["is told to resume", () => discord.invalidate(true)],
  ])("that %s resumes its session, in which Discord replays what happened meanwhile", async (_what, end) => {
    await started();
    const message = say("before");
    await inbox.texts(1);
    end();
    discord.edit(message, "changed meanwhile");
    await discord.until(() => discord.sessions[0]?.resumes === 1);
    await inbox.until(() => inbox.edits.length === 1);
    say("after");
    await inbox.texts(2);
    expect(discord.sessions).toHaveLength(1);
  });

  it.each([1000, 4007])("that Discord closes with %d begins a new session", async (code) => {
    await started();
    say("before");
    await inbox.texts(1);
    discord.cut(code);
    say("meanwhile");
    await inbox.texts(2);
    expect(discord.sessions).toMatchObject([{ resumes: 0 }, { resumes: 0 }]);
  });

  it("is not begun while Discord allows no new session", async () => {
    await using refusing = await startRefusing(4000, { remaining: 0 });
    const chat = create({ apiRoot: refusing.apiRoot });
    await chat.start(inbox);
    expect(chat.health()).toMatchObject({ connected: false, error: expect.stringContaining("no new session") });
    expect(refusing.count()).toBe(0);
  });

  it("with a token that was revoked is tried again after a minute", async () => {
    const minute = Promise.withResolvers<void>();
    const chat = await started({
      ...realClock,
      sleep: (ms, signal) => {
        if (ms === 60_000) minute.resolve();
        return realClock.sleep(ms, signal);
      },
    });
    discord.revoke();
    await minute.promise;
    expect(chat.health()).toMatchObject({ connected: false, error: expect.stringContaining("DISCORD_BOT_TOKEN") });
  });

  it("is over at once with close, also when the line is dead or not yet made", async () => {
    const chat = await started();
    discord.silence();
    await chat.close();
    // Both ends of every connection are in this process.
    await expect.poll(() => process.getActiveResourcesInfo()).not.toContain("TCPSocketWrap");
    const hanging = discord.fault("GET /gateway/bot", "hang");
    const other = create();
    const starting = other.start(inbox);
    await discord.until(() => hanging.hits === 1);
    await other.close();
    await starting;
    expect(other.health()).toMatchObject({ connected: false });
  });
});

describe("what we say", () => {
  it("has a nonce of its own in every place, however long the key is", async () => {
    const chat = await started();
    const key = "a key of a delivery that is much longer than a nonce may be";
    const dm: Place = { kind: "dm", chat: discord.dm(ANNA) };
    const first = await chat.send(general(), { text: "once" }, key, never);
    expect(await chat.send(general(), { text: "once" }, key, never)).toBe(first);
    expect(await chat.send(dm, { text: "once" }, key, never)).not.toBe(first);
    expect(discord.sent()).toHaveLength(2);
  });

  it("goes out again after Discord refused the token once", async () => {
    const chat = await started();
    discord.fault(POST, { status: 401 });
    await expect(chat.send(general(), { text: "x" }, "k", never)).rejects.toMatchObject({ landed: "no" });
    await chat.send(general(), { text: "y" }, "k2", never);
    expect(discord.sent()).toMatchObject([{ content: "y" }]);
  });

  it("may have landed when Discord itself fails, and is sent once by us", async () => {
    const chat = await started();
    discord.fault(POST, { status: 502 });
    await expect(chat.send(general(), { text: "x" }, "k", never)).rejects.toMatchObject({ landed: "unknown" });
    expect(discord.calls.filter(({ method }) => method === POST)).toHaveLength(1);
  });

  it("calls nobody", async () => {
    const chat = await started();
    await chat.send(general(), { text: `@everyone <@${BEN.id}> \`@here\`` }, "k", never);
    const call = discord.calls.findLast(({ method }) => method === POST);
    expect(call?.params).toMatchObject({ allowed_mentions: { parse: [] } });
    expect(discord.sent()[0]?.content).toBe(`@\u200beveryone <@${BEN.id}> \`@here\``);
  });

  it.each([
    ["#### Small heading", "**Small heading**"],
    ["## Heading", "## Heading"],
    ["![a cat](https://example.com/cat.png)", "[a cat](https://example.com/cat.png)"],
    ["| a | b |\n|---|---|\n| 1 | 22 |\nend", "```\na  b\n-  --\n1  22\n```\nend"],
    ["~~~py\n```\n~~~", "```py\n`\u200b``\n```"],
    ["```ts\nconst a = '@everyone'", "```ts\nconst a = '@everyone'\n```"],
    ["a | b is no table", "a | b is no table"],
  ])("is Markdown as Discord reads it: %j", async (markdown, content) => {
    const chat = create();
    await chat.send(general(), { text: markdown }, "k", never);
    expect(discord.sent()).toMatchObject([{ content }]);
  });

  it("is left as it is where its table would not fit", async () => {
    const chat = create();
    const text = `| name | text |\n|---|---|\n| a | ${"x".repeat(900)} |\n| b | y |\n| c | z |`;
    await chat.send(general(), { text: `${text}\n${"w".repeat(1_000)}` }, "k", never);
    expect(discord.sent()[0]?.content).toContain(text);
  });

  it("has as many buttons as there is room for", async () => {
    const chat = create();
    const row = Array.from({ length: 7 }, (_, index) => ({ label: "x".repeat(100), data: `d${index}` }));
    await chat.send(general(), { text: "which?", buttons: [row] }, "k", never);
    const rows = discord.sent()[0]?.components as { components: unknown[] }[];
    expect(rows.map(({ components }) => components.length)).toEqual([5, 2]);
  });

  it("is removed also when it is gone already", async () => {
    const chat = await started();
    const message = await chat.send(general(), { text: "x" }, "k", never);
    await chat.remove(general(), message, never);
    await chat.remove(general(), message, never);
    await expect(chat.edit(general(), message, { text: "y" }, never)).rejects.toMatchObject({ landed: "never" });
    // Its deletion is no news to us.
    say("next");
    await inbox.texts(1);
    expect(inbox.deletions).toEqual([]);
  });
});

describe("what people do", () => {
  it("shows pictures, with what they say", async () => {
    await started();
    const bytes = Buffer.from("not really a picture");
    discord.say({ from: ANNA, content: "look", attachments: [{ name: "cat.png", type: "image/png", bytes }] });
    await inbox.texts(1);
    expect(inbox.messages[0]?.attachments).toMatchObject([{ kind: "photo", name: "cat.png", mime: "image/png" }]);
  });

  it("names others by their names", async () => {
    await started();
    discord.say({ from: BEN, content: "hi" });
    await inbox.texts(1);
    say(`<@${discord.bot.id}>, ask <@${BEN.id}> about <@999999999999999999>`);
    await inbox.texts(2);
    expect(inbox.messages[1]).toMatchObject({ text: "ask @Ben about <@999999999999999999>", addressed: true });
  });

  it("names the role that Discord made for us, as people do who pick it from the list", async () => {
    await started();
    say(`<@&${discord.guild.botRole}> hello`);
    say("<@&999999999999999999> not for us");
    await inbox.texts(2);
    expect(inbox.messages).toMatchObject([
      { text: "hello", addressed: true },
      { text: "<@&999999999999999999> not for us", addressed: false },
    ]);
  });

  it("as a command with words is heard as if it was typed, and answered when it was taken", async () => {
    const chat = await started();
    await chat.offer([{ name: "queue", description: "For the next turn" }]);
    const gate = Promise.withResolvers<void>();
    inbox.take = () => gate.promise;
    const { id, acknowledged } = discord.command({ name: "queue", options: { text: "buy milk" }, by: ANNA });
    await inbox.texts(1);
    const place = { kind: "dm", chat: discord.dm(ANNA) };
    expect(inbox.messages).toMatchObject([{ message: id, text: "/queue buy milk", place, addressed: true }]);
    gate.resolve();
    expect(await acknowledged).toMatchObject({ data: { flags: 64 } });
  });

  it("with a button is answered in time, and told the rest when it takes long", async () => {
    const chat = await started();
    const buttons = [[{ label: "Yes", data: "yes" }]];
    const message = await chat.send(general(), { text: "Sure?", buttons }, "k", never);
    const gate = Promise.withResolvers<string>();
    inbox.answer = () => gate.promise;
    const { acknowledged } = discord.press({ message, button: "Yes", by: BEN });
    expect(await acknowledged).toMatchObject({ type: 6 });
    gate.resolve("At last.");
    const told = await discord.until(() => discord.sent().find(({ ephemeral }) => ephemeral));
    expect(told).toMatchObject({ content: "At last." });
  });

  it("with a button is not answered when nothing was taken; with nothing to say, nothing is shown", async () => {
    const chat = await started();
    const buttons = [[{ label: "Yes", data: "yes" }]];
    const message = await chat.send(general(), { text: "Sure?", buttons }, "k", never);
    inbox.answer = () => Promise.reject(new Error("the store is full"));
    discord.press({ message, button: "Yes", by: BEN });
    await inbox.until(() => inbox.presses.length === 1);
    inbox.answer = async () => "";
    const { acknowledged } = discord.press({ message, button: "Yes", by: BEN });
    expect(await acknowledged).toMatchObject({ type: 6 });
    expect(discord.calls.filter(({ method }) => method.endsWith("/callback"))).toHaveLength(1);
  });
});

describe("what was said while no process listened", () => {
  const LIST = "GET /channels/:channel/messages";
  let kept: Map<string, string>;
  let writes: string[];
  let logged: Parameters<Log>[];
  beforeEach(() => {
    [kept, writes, logged] = [new Map(), [], []];
  });
  const marks = {
    list: async () => Array.from(kept, ([channel, message]) => ({ channel, message })),
    set: async (channel: string, message: string) => {
      kept.set(channel, message);
      writes.push(message);
    },
  };
  async function process(but: Partial<Options> = {}): Promise<Chat> {
    const chat = create({ cursors: marks, log: (...line) => logged.push(line), ...but });
    await chat.start(inbox);
    return chat;
  }
  async function leave(chat: Chat): Promise<void> {
    await chat.stop();
    await chat.close();
  }
  const textsIn = (kind: Place["kind"]) => inbox.messages.filter(({ place }) => place.kind === kind).map(textOf);
  const textOf = ({ text }: { text: string }) => text;
  const gaps = () => logged.filter(([, event]) => event === "chat.gap").map(([, , fields]) => fields);

  it("is heard by the next one, in order, before what comes after, each once", async () => {
    const inThread = (content: string) => discord.say({ from: ANNA, channel: discord.guild.thread, content });
    const toUs = (content: string) => discord.say({ from: BEN, content });
    const first = await process();
    for (const speak of [say, inThread, toUs]) speak("before");
    await inbox.texts(3);
    await leave(first);

    for (const speak of [say, inThread, toUs]) {
      speak("unheard 1");
      speak("unheard 2");
    }
    const second = await process();
    say("live");
    await inbox.texts(10);
    await leave(second);

    await process();
    say("later");
    await inbox.until(() => texts().includes("later"));
    expect(textsIn("channel")).toEqual(["before", "unheard 1", "unheard 2", "live", "later"]);
    expect(textsIn("thread")).toEqual(["before", "unheard 1", "unheard 2"]);
    expect(textsIn("dm")).toEqual(["before", "unheard 1", "unheard 2"]);
  });

  it("is replayed to the next one, which resumes its session: edits, deletions and all", async () => {
    const { notes } = asStore(createMemoryStore());
    const session = sessionIn(notes, discord.token);
    const first = await process({ session });
    const message = say("before");
    const removed = say("removed");
    await inbox.texts(2);
    await leave(first);
    discord.edit(message, "changed meanwhile");
    discord.remove(removed);
    say("unheard");

    const second = await process({ session });
    await inbox.until(() => inbox.edits.length > 0 && inbox.deletions.length > 0 && texts().includes("unheard"));
    expect(texts()).toEqual(["before", "removed", "unheard"]);
    expect(inbox.edits).toMatchObject([{ text: "changed meanwhile" }]);
    await leave(second);

    await process({ session });
    say(`<@&${discord.guild.botRole}> look`);
    await inbox.until(() => texts().length === 4);
    expect(inbox.messages.at(-1)).toMatchObject({ addressed: true });
    expect(discord.sessions).toMatchObject([{ resumes: 2 }]);

    discord.invalidate(false);
    await discord.until(() => discord.sessions.length > 1);
    const { id: sessionId } = discord.sessions.at(-1) ?? {};
    await expect.poll(() => session.load()).toMatchObject({ session: { sessionId } });
  });

  it("or not taken is heard, though something after it was taken", async () => {
    const first = await process();
    const refused = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    inbox.take = async ({ text }) => {
      if (text !== "two") return;
      refused.resolve();
      await gate.promise;
      throw new Error("the store is full");
    };
    for (const text of ["one", "two", "three"]) say(text);
    await refused.promise;
    const left = leave(first);
    gate.resolve();
    await left;
    expect(texts()).toEqual(["one", "two", "three"]);

    inbox.take = async () => {};
    await process();
    await inbox.texts(5);
    expect(texts().slice(3)).toEqual(["two", "three"]);
  });

  it("or not taken before a crash is heard: a mark follows what was taken, and does not go ahead of it", async () => {
    const first = await process();
    const gate = Promise.withResolvers<void>();
    inbox.take = ({ text }) => (text === "two" ? gate.promise : Promise.resolve());
    const [one] = [say("one"), say("two")];
    await inbox.texts(2);
    await expect.poll(() => writes).toEqual([one]);
    gate.resolve();
    await leave(first);
  });

  it("is known from marks that are kept once a second, and when we stop", async () => {
    const hasty = hastyClock();
    let seconds = 0;
    const clock: Clock = {
      ...hasty,
      sleep: (ms, signal) => {
        if (ms !== 1_000) return hasty.sleep(ms, signal);
        seconds += 1;
        return realClock.sleep(3_600_000, signal);
      },
    };
    const chat = await process({ clock });
    const first = say("message 0");
    await expect.poll(() => seconds).toBe(1);
    const said = Array.from({ length: 9 }, (_, index) => say(`message ${index + 1}`));
    await inbox.texts(10);
    expect(writes).toEqual([first]);
    await chat.stop();
    expect(writes).toEqual([first, said.at(-1)]);
  });

  it("is heard up to a limit, of which the log tells, and a channel that is gone harms nobody", async () => {
    kept.set(discord.guild.general, "1").set("123456789012345678", "1");
    const all = Array.from({ length: 510 }, (_, index) => `message ${index}`);
    for (const text of all) say(text);
    await process();
    say("live");
    await inbox.until(() => texts().includes("live"));
    expect(texts()).toEqual([...all.slice(0, 500), "live"]);
    expect(gaps()).toEqual([{ platform: "discord", channel: discord.guild.general, fetched: 500 }]);
  });

  it("is looked for in two hundred channels, where somebody spoke last first, until we stop", async () => {
    const names = Array.from({ length: 201 }, (_, index) => `4000000000000000${String(index).padStart(3, "0")}`);
    for (const [index, name] of names.entries()) kept.set(name, String(index + 1));
    const chat = await process({ clock: realClock });
    const asked = () => discord.calls.filter(({ method }) => method === LIST).map(({ path }) => path.split("/")[4]);
    await discord.until(() => asked().length === 3);
    expect(asked()).toEqual(names.toReversed().slice(0, 3));
    expect(gaps()).toEqual([{ platform: "discord", channels: 201, looksInto: 200 }]);
    await chat.stop();
    expect(asked().length).toBeLessThan(50);
    expect(writes).toEqual([]);
  });
});

/** A gateway that says hello, and closes with a code when somebody identifies. */
async function startRefusing(code: number, { remaining = 999 } = {}) {
  const http = createServer((_request, response) => {
    const { port } = http.address() as AddressInfo;
    const session_start_limit = { total: 1000, remaining, reset_after: 14_400_000, max_concurrency: 1 };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ url: `ws://127.0.0.1:${port}`, shards: 1, session_start_limit }));
  });
  let refusals = 0;
  const waiting = new Map<number, () => void>();
  const sockets = new WebSocketServer({ server: http });
  sockets.on("connection", (socket) => {
    socket.send(JSON.stringify({ op: 10, d: { heartbeat_interval: 45_000 }, s: null, t: null }));
    socket.on("message", (data) => {
      if ((JSON.parse((data as Buffer).toString()) as { op: number }).op !== 2) return;
      refusals += 1;
      waiting.get(refusals)?.();
      socket.close(code);
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return {
    apiRoot: `http://127.0.0.1:${(http.address() as AddressInfo).port}/api`,
    count: () => refusals,
    refused: (count: number) => new Promise<void>((resolve) => void waiting.set(count, resolve)),
    async [Symbol.asyncDispose]() {
      await Promise.all(chats.splice(0).map((chat) => chat.close()));
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}
