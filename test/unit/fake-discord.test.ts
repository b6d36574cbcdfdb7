// That the fake speaks Discord as discord.js does, over REST and the gateway, and does to a bot what Discord does.
import { once } from "node:events";
import {
  ActionRowBuilder,
  ApplicationCommandOptionType,
  ButtonBuilder,
  ButtonStyle,
  Client,
  type ClientOptions,
  Events,
  GatewayIntentBits,
  type Interaction,
  type Message,
  MessageFlags,
  Partials,
  type SendableChannels,
} from "discord.js";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FakeDiscord, startFakeDiscord } from "../fakes/chat/discord.ts";

const ANNA = { id: "801234567890123456", name: "Anna" };
const BEN = { id: "802345678901234567", name: "Ben" };
const { Guilds, GuildMessages, DirectMessages, MessageContent } = GatewayIntentBits;
const ALL = [Guilds, GuildMessages, DirectMessages, MessageContent];
const POST = "POST /channels/:channel/messages";

let discord: FakeDiscord;
let expected: unknown[];
const clients: Client[] = [];
beforeEach(async () => {
  expected = [];
  discord = await startFakeDiscord();
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.destroy()));
  await discord.close();
  expect(discord.violations).toEqual(expected);
});

function newClient({ intents = ALL, ...options }: Partial<ClientOptions> = {}): Client<true> {
  const client = new Client({
    intents,
    partials: [Partials.Channel, Partials.Message],
    rest: { api: discord.apiRoot, retries: 0 },
    // Discord lets a bot identify every five seconds; nobody here minds.
    ws: { buildIdentifyThrottler: async () => ({ waitForIdentify: async () => {} }) },
    ...options,
  });
  client.on("error", () => {});
  clients.push(client);
  return client as Client<true>;
}

async function loggedIn(options?: Partial<ClientOptions>): Promise<Client<true>> {
  const client = newClient(options);
  const ready = once(client, Events.ClientReady);
  await client.login(discord.token);
  await ready;
  return client;
}

const next = async <T>(client: Client, event: string): Promise<T> => ((await once(client, event)) as [T])[0];
const heard = (client: Client) => next<Message>(client, Events.MessageCreate);
const channel = async (client: Client, id = discord.guild.general) =>
  (await client.channels.fetch(id)) as SendableChannels;
const offence = (text: string | RegExp) => expected.push(expect.stringMatching(text));
const row = (...buttons: ButtonBuilder[]) => new ActionRowBuilder<ButtonBuilder>().addComponents(...buttons);
const button = (id: string, label = id) =>
  new ButtonBuilder().setCustomId(id).setLabel(label).setStyle(ButtonStyle.Primary);

describe("logging in", () => {
  it("makes a bot ready, with its guild and channels", async () => {
    const client = await loggedIn();
    expect(client.user.id).toBe(discord.bot.id);
    expect(client.guilds.cache.map(({ id }) => id)).toEqual([discord.guild.id]);
    expect(client.channels.cache.get(discord.guild.thread)?.isThread()).toBe(true);
    expect(discord.sessions).toMatchObject([{ resumes: 0, over: false }]);
    expect((await client.application.fetch()).name).toBe("Hermes");
  });

  it("with a wrong token fails", async () => {
    await expect(newClient().login("wrong")).rejects.toMatchObject({ code: "TokenInvalid" });
  });

  it("ends with 4004 when the token is revoked", async () => {
    const client = await loggedIn();
    const lost = once(client, Events.ShardDisconnect);
    discord.revoke();
    expect((await lost)[0]).toMatchObject({ code: 4004 });
  });

  it("again at the gateway with a bad token closes with 4004", async () => {
    const { url } = (await (
      await fetch(`${discord.apiRoot}/v10/gateway/bot`, { headers: { authorization: `Bot ${discord.token}` } })
    ).json()) as { url: string };
    const socket = new WebSocket(`${url}?v=10&encoding=json`);
    await once(socket, "message");
    const properties = { os: "linux", browser: "x", device: "x" };
    socket.send(JSON.stringify({ op: 2, d: { token: "wrong", intents: 0, properties } }));
    expect(await once(socket, "close")).toMatchObject([{ code: 4004 }]);
  });
});

describe("messages of people", () => {
  it("come from direct messages and from channels, with who and where", async () => {
    const client = await loggedIn();
    const direct = heard(client);
    discord.say({ from: ANNA, content: "hello" });
    expect(await direct).toMatchObject({
      content: "hello",
      guildId: null,
      author: { id: ANNA.id, globalName: "Anna" },
    });
    const threaded = heard(client);
    discord.say({ from: BEN, channel: discord.guild.thread, content: `<@${discord.bot.id}> look` });
    const message = await threaded;
    expect(message.channel.isThread()).toBe(true);
    expect(message.mentions.has(client.user)).toBe(true);
    expect(message.member?.user.id).toBe(BEN.id);
  });

  it("without the intent for it have content only where the bot is meant", async () => {
    const client = await loggedIn({ intents: [Guilds, GuildMessages, DirectMessages] });
    const texts: string[] = [];
    const three = new Promise<void>((resolve) => {
      client.on(Events.MessageCreate, ({ content }) => texts.push(content) === 3 && resolve());
    });
    discord.say({ from: ANNA, channel: discord.guild.general, content: "among us" });
    discord.say({ from: ANNA, channel: discord.guild.general, content: `<@${discord.bot.id}> hi` });
    discord.say({ from: ANNA, content: "private" });
    await three;
    expect(texts).toEqual(["", `<@${discord.bot.id}> hi`, "private"]);
  });

  it("are edited and removed", async () => {
    const client = await loggedIn();
    const first = heard(client);
    const id = discord.say({ from: ANNA, content: "helo" });
    await first;
    const edited = once(client, Events.MessageUpdate);
    discord.edit(id, "hello");
    expect((await edited)[1]).toMatchObject({ id, content: "hello" });
    const removed = next<Message>(client, Events.MessageDelete);
    discord.remove(id);
    expect((await removed).id).toBe(id);
  });

  it("bring files that can be downloaded", async () => {
    const client = await loggedIn();
    const message = heard(client);
    discord.say({ from: ANNA, attachments: [{ name: "a plan.txt", type: "text/plain", bytes: Buffer.from("plan") }] });
    const file = (await message).attachments.first();
    expect(file).toMatchObject({ name: "a plan.txt", contentType: "text/plain", size: 4 });
    expect(await (await fetch(file?.url ?? "")).text()).toBe("plan");
  });

  it("that came while nobody was connected can be fetched", async () => {
    const before = discord.say({ from: ANNA, channel: discord.guild.general, content: "one" });
    discord.say({ from: ANNA, channel: discord.guild.general, content: "two" });
    discord.say({ from: ANNA, channel: discord.guild.general, content: "three" });
    const client = await loggedIn();
    const missed = await (await channel(client)).messages.fetch({ after: before });
    expect(missed.map(({ content }) => content)).toEqual(["three", "two"]);
  });
});

describe("messages of the bot", () => {
  it("are sent, replied with, edited, deleted, and come back over the gateway", async () => {
    const client = await loggedIn();
    const asked = heard(client);
    const id = discord.say({ from: ANNA, channel: discord.guild.general, content: "?" });
    const question = await asked;
    const echo = heard(client);
    const reply = await question.reply("thinking");
    expect((await echo).author.id).toBe(client.user.id);
    await reply.edit("done");
    expect(await discord.nextMessage(discord.guild.general)).toMatchObject({
      id: reply.id,
      replyTo: id,
      content: "done",
      history: [{ content: "thinking" }],
    });
    await reply.delete();
    expect(discord.sent()).toMatchObject([{ deleted: true }]);
    await expect(reply.edit("gone")).rejects.toMatchObject({ status: 404, code: 10008 });
  });

  it("go to somebody's direct messages, unless they are blocked", async () => {
    discord.dm(ANNA);
    const client = await loggedIn();
    const user = await client.users.fetch(ANNA.id);
    await user.send("psst");
    expect(await discord.nextMessage(discord.dm(ANNA))).toMatchObject({ content: "psst" });
    discord.block(ANNA);
    await expect(user.send("psst")).rejects.toMatchObject({ status: 403, code: 50007 });
  });

  it("may have 2,000 characters", async () => {
    const client = await loggedIn();
    const general = await channel(client);
    await general.send("😀".repeat(2000));
    await expect(general.send("x".repeat(2001))).rejects.toMatchObject({ status: 400, code: 50035 });
    await expect(general.send({ content: " " })).rejects.toMatchObject({ status: 400, code: 50006 });
    offence("Must be 2000 or fewer in length");
    offence("Cannot send an empty message");
  });

  it("carry files", async () => {
    const client = await loggedIn();
    const files = [{ attachment: Buffer.from("report"), name: "report.txt" }];
    const message = await (await channel(client)).send({ content: "here", files });
    expect(message.attachments.first()?.name).toBe("report.txt");
    expect(discord.sent()).toMatchObject([{ content: "here", files: [{ name: "report.txt" }] }]);
  });

  it("with an enforced nonce are there once, however often they are sent", async () => {
    const client = await loggedIn();
    const general = await channel(client);
    const first = await general.send({ content: "once", nonce: "delivery-1", enforceNonce: true });
    const again = await general.send({ content: "once", nonce: "delivery-1", enforceNonce: true });
    expect(again.id).toBe(first.id);
    expect(discord.sent()).toHaveLength(1);
    await general.send({ content: "twice", nonce: "delivery-1" });
    expect(discord.sent()).toHaveLength(2);
    await expect(general.send({ content: "x", nonce: "x".repeat(26) })).rejects.toMatchObject({ code: 50035 });
    offence("nonce");
  });

  it("to an unknown channel are refused", async () => {
    const client = await loggedIn();
    await expect(client.channels.fetch("1")).rejects.toMatchObject({ status: 404, code: 10003 });
  });

  it("are announced by typing", async () => {
    const client = await loggedIn();
    await (await channel(client)).sendTyping();
    expect((await discord.nextCall("POST /channels/:channel/typing")).path).toContain(discord.guild.general);
  });
});

describe("buttons", () => {
  const ask = async (client: Client) => {
    const components = [row(button("yes:1", "Yes"), button("no:1", "No"))];
    return (await channel(client)).send({ content: "Sure?", components });
  };

  it("are pressed by anybody and answered by an edit of the message", async () => {
    const client = await loggedIn();
    const message = await ask(client);
    const pressed = next<Interaction>(client, Events.InteractionCreate);
    const { acknowledged } = discord.press({ message: message.id, button: "Yes", by: BEN });
    const interaction = await pressed;
    if (!interaction.isButton()) throw new Error("no button");
    expect(interaction).toMatchObject({ customId: "yes:1", user: { id: BEN.id }, channelId: discord.guild.general });
    await interaction.update({ content: "Decided.", components: [] });
    expect(await acknowledged).toMatchObject({ type: 7 });
    expect(discord.sent()).toMatchObject([{ content: "Decided.", components: [], history: [{ content: "Sure?" }] }]);
  });

  it("take one answer, in time", async () => {
    const client = await loggedIn();
    const message = await ask(client);
    const press = async (tooLate: boolean) => {
      const pressed = next<Interaction>(client, Events.InteractionCreate);
      discord.press({ message: message.id, button: "no:1", by: ANNA, tooLate });
      const interaction = await pressed;
      if (!interaction.isButton()) throw new Error("no button");
      return interaction;
    };
    const late = await press(true);
    await expect(late.deferUpdate()).rejects.toMatchObject({ status: 404, code: 10062 });
    const first = await press(false);
    await first.reply({ content: "Only for you.", flags: MessageFlags.Ephemeral });
    first.replied = false;
    await expect(first.reply("again")).rejects.toMatchObject({ status: 400, code: 40060 });
    expect(discord.sent().at(-1)).toMatchObject({ content: "Only for you.", ephemeral: true });
  });

  it("have a custom_id of at most 100 characters, and no two the same", async () => {
    const client = await loggedIn();
    const general = await channel(client);
    const raw = (...ids: string[]) => ({
      content: "x",
      components: [{ type: 1, components: ids.map((custom_id) => ({ type: 2, style: 1, label: "x", custom_id })) }],
    });
    await general.send(raw("x".repeat(100)));
    await expect(general.send(raw("x".repeat(101)))).rejects.toMatchObject({ code: 50035 });
    await expect(general.send(raw("a", "a"))).rejects.toMatchObject({ code: 50035 });
    offence("custom_id");
    offence("COMPONENT_CUSTOM_ID_DUPLICATED");
  });
});

describe("slash commands", () => {
  it("are registered, used, deferred and answered", async () => {
    const client = await loggedIn();
    const options = [{ name: "text", description: "What", type: ApplicationCommandOptionType.String as const }];
    await client.application.commands.set([{ name: "queue", description: "Queue a message", options }]);
    const used = next<Interaction>(client, Events.InteractionCreate);
    const { acknowledged } = discord.command({ name: "queue", options: { text: "later" }, by: ANNA });
    const interaction = await used;
    if (!interaction.isChatInputCommand()) throw new Error("no command");
    expect(interaction.options.getString("text")).toBe("later");
    await interaction.deferReply();
    expect(await acknowledged).toMatchObject({ type: 5 });
    await interaction.editReply("Queued.");
    await interaction.editReply("Done.");
    await interaction.followUp("And more.");
    const channel = discord.dm(ANNA);
    expect(discord.sent(channel)).toMatchObject([
      { content: "Done.", history: [{ content: "Queued." }] },
      { content: "And more." },
    ]);
    expect(() => discord.command({ name: "nothing", by: ANNA })).toThrow("has no command");
  });
});

describe("the gateway", () => {
  const resumed = (client: Client) => once(client, Events.ShardResume);

  it("replays what was missed when a connection that broke is resumed", async () => {
    const client = await loggedIn();
    const texts: string[] = [];
    client.on(Events.MessageCreate, ({ content }) => texts.push(content));
    const first = heard(client);
    discord.say({ from: ANNA, content: "before" });
    await first;
    const again = resumed(client);
    discord.cut();
    discord.say({ from: ANNA, content: "meanwhile 1" });
    discord.say({ from: ANNA, content: "meanwhile 2" });
    await again;
    expect(texts).toEqual(["before", "meanwhile 1", "meanwhile 2"]);
    expect(discord.sessions).toMatchObject([{ resumes: 1 }]);
  });

  it("asks a client to reconnect, which resumes", async () => {
    const client = await loggedIn();
    const again = resumed(client);
    discord.reconnect();
    await again;
    expect(discord.sessions).toHaveLength(1);
  });

  it("declares a session invalid: resumed if it may be, else begun anew and what was missed is missed", async () => {
    const client = await loggedIn();
    const again = resumed(client);
    discord.invalidate(true);
    await again;
    discord.invalidate(false);
    discord.say({ from: ANNA, content: "unheard" });
    await discord.until(() => discord.sessions.length === 2);
    const message = heard(client);
    discord.say({ from: ANNA, content: "heard" });
    expect((await message).content).toBe("heard");
    expect(discord.sessions).toMatchObject([{ over: true, resumes: 1 }, { over: false }]);
  });

  it("goes silent without a word, and the client finds out by its heartbeat", async () => {
    await discord.close();
    discord = await startFakeDiscord({ heartbeatMs: 300 });
    const client = await loggedIn();
    const noticed = new Promise<void>((resolve) => {
      client.on(Events.Debug, (text) => text.includes("Zombie connection") && resolve());
    });
    discord.silence();
    discord.say({ from: ANNA, content: "into the void" });
    const message = heard(client);
    const again = resumed(client);
    await noticed;
    // The goodbye of the client is not answered either: it would wait for half a minute.
    discord.cut();
    await again;
    expect((await message).content).toBe("into the void");
  });

  it("gives a session up when the client says goodbye", async () => {
    const client = await loggedIn();
    await client.destroy();
    await discord.until(() => discord.sessions[0]?.over);
  });

  it("closes on what is no gateway talk, and it is remembered", async () => {
    const url = discord.apiRoot.replace("http", "ws").replace("/api", "");
    const ends = async (text: string) => {
      const socket = new WebSocket(`${url}?v=10&encoding=json`);
      await once(socket, "message");
      socket.send(text);
      return ((await once(socket, "close")) as [{ code: number }])[0].code;
    };
    expect(await ends("nonsense")).toBe(4002);
    expect(await ends('{"op":3,"d":{}}')).toBe(4003);
    offence("4002");
    offence("4003");
  });
});

describe("faults", () => {
  it("429 is waited for by discord.js, and the message comes once", async () => {
    const client = await loggedIn();
    const general = await channel(client);
    discord.fault(POST, { status: 429, retryAfter: 0.4 });
    const began = performance.now();
    await general.send("patient");
    expect(performance.now() - began).toBeGreaterThan(390);
    expect(discord.sent()).toHaveLength(1);
    expect(discord.calls.filter(({ method }) => method === POST)).toHaveLength(2);
  });

  it("a limit that is used up makes discord.js wait before it asks", async () => {
    await using strict = await startFakeDiscord({ limit: { calls: 2, seconds: 0.5 } });
    const client = newClient({ rest: { api: strict.apiRoot } });
    const ready = once(client, Events.ClientReady);
    await client.login(strict.token);
    await ready;
    const general = (await client.channels.fetch(strict.guild.general)) as SendableChannels;
    for (const text of ["1", "2", "3"]) await general.send(text);
    const statuses = await Promise.all(strict.calls.filter(({ method }) => method === POST).map((one) => one.answered));
    expect(statuses).toEqual([200, 200, 200]);
    await client.destroy();
  });

  it("a lost answer is repeated by discord.js, and only a nonce keeps it from being there twice", async () => {
    const client = await loggedIn({ rest: { api: discord.apiRoot, retries: 1 } });
    const general = await channel(client);
    discord.fault(POST, "lost");
    await general.send({ content: "with", nonce: "delivery-2", enforceNonce: true });
    expect(discord.sent()).toHaveLength(1);
    discord.fault(POST, "lost");
    await general.send("without");
    expect(discord.sent()).toHaveLength(3);
  });

  it("500, resets and hangs", async () => {
    const client = await loggedIn();
    const general = await channel(client);
    discord.fault(POST, { status: 500 });
    await expect(general.send("x")).rejects.toMatchObject({ status: 500 });
    discord.fault(POST, "reset");
    await expect(general.send("x")).rejects.toThrow();
    expect(discord.sent()).toEqual([]);
    const trap = discord.fault(POST, "hang");
    const sending = general.send("at last");
    await discord.until(() => trap.hits === 1);
    trap.release();
    await sending;
    expect(discord.sent()).toMatchObject([{ content: "at last" }]);
  });
});
