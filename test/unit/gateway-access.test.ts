// Who may talk: nobody by default. Lists, pairing codes, strangers.
import { describe, expect, it } from "vitest";
import type { Person } from "../../src/core/chat.ts";
import { ANNA, BEN, createLocalChat, dm } from "../fakes/chat/local.ts";
import { bootGateway } from "../fakes/gateway.ts";
import { calm, handClock } from "../fakes/scripted.ts";

const EVE: Person = { id: "666", name: "Eve" };
const REFUSED = expect.stringMatching(
  /^I only talk to people I know\. If you have a pairing code, send it here\. Or ask my owner to run: hermes pairing approve telegram [A-HJ-NP-Z2-9]{8}$/,
) as string;
const INVALID = "That code is not valid.";
const PAIRED = "Paired. You can talk to me here now.";
const group = { kind: "group", chat: "chat1" } as const;
const nobody = { lists: { allowed: [] } };

describe("a stranger", () => {
  it("is refused once, and nothing of theirs reaches the model or the store", async () => {
    const { chat, model, engine } = await bootGateway(nobody);
    for (const text of ["hello", "/help", "/status", "/restart", "yes", "hello?"]) await chat.say(text, { from: EVE });
    await calm();
    expect(chat.texts()).toEqual([REFUSED]);
    expect(model.all).toEqual([]);
    expect(await engine.sessions({ limit: 10 })).toEqual([]);
  });

  it("is refused once also after a restart, and again after a day", async () => {
    const before = await bootGateway(nobody);
    await before.chat.say("hello", { from: EVE });
    before.kill();
    const { chat, clock } = await before.next();
    await chat.say("hello?", { from: EVE });
    await clock.pass(86_400_000);
    await chat.say("hello!", { from: EVE });
    await calm();
    expect(chat.texts()).toEqual([REFUSED, REFUSED]);
  });

  it("can be let in by the owner with the code of the refusal, once and within an hour", async () => {
    const { chat, model, gateway, clock } = await bootGateway(nobody);
    const codeFor = async (from: Person) => {
      await chat.say("hello", { from });
      await calm();
      return chat.texts().at(-1)?.slice(-8) ?? "";
    };
    const code = await codeFor(EVE);
    await chat.say(code, { from: EVE }); // it is for the owner, not for the one who has it
    await calm();
    expect(chat.texts().at(-1)).toBe(INVALID);
    expect(await gateway.access.approve("discord", code)).toBeNull();
    expect(await gateway.access.approve("telegram", code.toLowerCase())).toEqual(EVE);
    expect(await gateway.access.approve("telegram", code)).toBeNull();
    await chat.say("hello again", { from: EVE });
    expect((await model.next()).request.messages.at(-1)?.text).toBe("hello again");
    const late = await codeFor(BEN);
    await clock.pass(3_600_001);
    expect(await gateway.access.approve("telegram", late)).toBeNull();
  });

  it("in a group gets no answer at all, whatever they say", async () => {
    const { chat, model, gateway } = await bootGateway(nobody);
    const { code } = await gateway.access.newCode("telegram");
    for (const text of ["hello", code, `/pair ${code}`]) await chat.say(text, { from: EVE, place: group });
    await calm();
    expect(chat.sent()).toEqual([]);
    expect(model.all).toEqual([]);
  });

  it("with the name of somebody we know is a stranger: ids count, names do not", async () => {
    const { chat, model } = await bootGateway();
    await chat.say("it is me", { from: { id: "667", name: ANNA.name } });
    await chat.say("it is me", { from: { id: ANNA.name, name: ANNA.name } });
    await chat.say("it is me", { from: { id: "*", name: ANNA.name } });
    await calm();
    expect(model.all).toEqual([]);
    expect(chat.texts()).toEqual([REFUSED, REFUSED, REFUSED]);
  });

  it("cannot press our buttons, edit or delete what others have said", async () => {
    const { chat, model, engine } = await bootGateway({ busyMode: "queue" });
    await chat.say("work", { place: group });
    await model.next();
    await chat.say("waits", { place: group });
    await chat.say("mine", { place: group, from: EVE, message: "m2" });
    await chat.edit("m2", "theirs");
    expect((await engine.status("agent:main:telegram:group:chat1:999")).inbox.map(({ text }) => text)).toEqual([
      "waits",
    ]);
  });

  it("does not hold up others while they are being refused", async () => {
    const { chat, model } = await bootGateway({ lists: { allowed: [ANNA.id] } });
    chat.fault("send", "hang");
    await chat.say("hello", { from: EVE });
    await chat.say("hello");
    expect(model.all).toHaveLength(1);
  });
});

describe("a pairing code", () => {
  it("is eight letters that cannot be mistaken, and never the same", async () => {
    const { gateway } = await bootGateway(nobody);
    const codes = new Set<string>();
    for (let n = 0; n < 20; n++) codes.add((await gateway.access.newCode("telegram")).code);
    expect(codes.size).toBe(20);
    for (const code of codes) expect(code).toMatch(/^[A-HJ-NP-Z2-9]{8}$/);
    await expect(gateway.access.newCode("telegram")).rejects.toThrow("20 codes wait already");
    await expect(gateway.access.newCode("discord")).resolves.toBeTruthy();
  });

  it("makes room when those before it have expired", async () => {
    const { gateway, clock } = await bootGateway(nobody);
    for (let n = 0; n < 20; n++) await gateway.access.newCode("telegram");
    await clock.pass(600_001);
    await expect(gateway.access.newCode("telegram")).resolves.toBeTruthy();
  });

  it.each([
    (code: string) => code,
    (code: string) => code.toLowerCase(),
    (code: string) => ` ${code.slice(0, 4)}-${code.slice(4)} `,
    (code: string) => `/pair ${code}`,
  ])("lets its sender talk, there and from then on, also after a restart (%#)", async (written) => {
    const before = await bootGateway(nobody);
    const { code } = await before.gateway.access.newCode("telegram");
    await before.chat.say(written(code), { from: EVE });
    await calm();
    expect(before.chat.texts()).toEqual([PAIRED]);
    before.kill();
    const { chat, model } = await before.next();
    await chat.say("hello", { from: EVE });
    expect((await model.next()).request.messages.at(-1)?.text).toBe("hello");
  });

  it("is good once", async () => {
    const { chat, model, gateway } = await bootGateway(nobody);
    const { code } = await gateway.access.newCode("telegram");
    await Promise.all([chat.say(code, { from: EVE }), chat.say(code, { from: BEN })]);
    await calm();
    expect(chat.texts().toSorted()).toEqual([PAIRED, INVALID].toSorted());
    expect(await gateway.access.paired()).toHaveLength(1);
    expect(model.all).toEqual([]);
  });

  it("is good for ten minutes", async () => {
    const { chat, gateway, clock } = await bootGateway(nobody);
    const { code, expiresAt } = await gateway.access.newCode("telegram");
    expect(expiresAt - clock.now()).toBe(600_000);
    await clock.pass(600_001);
    await chat.say(code, { from: EVE });
    await calm();
    expect(chat.texts()).toEqual([INVALID]);
  });

  it("can be tried five times; the sixth is not looked at, however right, until an hour has passed", async () => {
    const { chat, gateway, clock } = await bootGateway(nobody);
    for (let n = 0; n < 5; n++) await chat.say(`WRNGCD${n + 2}${n + 2}`, { from: EVE });
    await clock.pass(3_000_000);
    const { code } = await gateway.access.newCode("telegram");
    await chat.say(code, { from: EVE });
    await calm();
    expect(chat.texts()).toEqual([...Array(5).fill(INVALID), REFUSED]);
    expect(await gateway.access.paired()).toEqual([]);
    await clock.pass(600_000);
    await chat.say((await gateway.access.newCode("telegram")).code, { from: EVE });
    await calm();
    expect(chat.texts().at(-1)).toBe(PAIRED);
  });

  it("whose tries a crash caught gives no more of them", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const dying = await bootGateway({ ...nobody, dieAt });
      void dying.chat.say("WRNGCD22", { from: EVE });
      await calm();
      const died = dying.dead();
      const { chat, gateway } = await dying.next();
      for (let n = 0; n < 4; n++) await chat.say(`WRNGCD3${n + 2}`, { from: EVE });
      await chat.say((await gateway.access.newCode("telegram")).code, { from: EVE });
      await calm();
      expect(await gateway.access.paired(), `died at ${dieAt}`).toEqual([]);
      if (!died) break;
    }
  });

  it("of one platform is worth nothing on another", async () => {
    const clock = handClock();
    const slack = createLocalChat({ clock, platform: "slack" });
    const { gateway } = await bootGateway({ ...nobody, clock, chats: [createLocalChat({ clock }), slack] });
    const { code } = await gateway.access.newCode("telegram");
    await slack.say(code, { from: EVE });
    await calm();
    expect(slack.texts()).toEqual([INVALID]);
  });
});

describe("one who paired", () => {
  async function paired() {
    const running = await bootGateway(nobody);
    await running.chat.say((await running.gateway.access.newCode("telegram")).code, { from: EVE });
    return running;
  }

  it("may talk in that private chat, not in a group, not in a thread, not in another private chat", async () => {
    const { chat, model } = await paired();
    for (const place of [group, { kind: "thread", chat: EVE.id, thread: "1" } as const, dm(BEN)])
      await chat.say("hello", { from: EVE, place });
    await calm();
    expect(model.all).toEqual([]);
    await chat.say("hello", { from: EVE });
    expect(model.all).toHaveLength(1);
  });

  it("is no admin", async () => {
    const { chat, restarts } = await paired();
    await chat.say("/restart", { from: EVE });
    await calm();
    expect(chat.texts().at(-1)).toBe("Only an admin may do that.");
    expect(restarts).toEqual([]);
  });

  it("may not talk any more once that is ended", async () => {
    const { chat, model, gateway } = await paired();
    expect(await gateway.access.paired()).toMatchObject([{ platform: "telegram", id: "666", name: "Eve" }]);
    expect(await gateway.access.unpair("telegram", EVE.id)).toBe(true);
    expect(await gateway.access.unpair("telegram", EVE.id)).toBe(false);
    await chat.say("hello", { from: EVE });
    await calm();
    expect(model.all).toEqual([]);
  });
});

describe("the lists", () => {
  it("let an admin talk who is on no other list", async () => {
    const { chat, model } = await bootGateway({ lists: { allowed: [], admins: [BEN.id] } });
    await chat.say("hello", { from: BEN, place: group });
    expect(model.all).toHaveLength(1);
  });

  it("with a star let everybody talk, and make nobody an admin", async () => {
    const { chat, model, restarts } = await bootGateway({ lists: { allowed: ["*"] } });
    for (const from of [EVE, { id: "*", name: "Star" }]) {
      await chat.say("hello", { from });
      await chat.say("/restart", { from });
    }
    expect(model.all).toHaveLength(2);
    expect(restarts).toEqual([]);
  });
});
