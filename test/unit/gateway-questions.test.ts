// Approvals and questions in a chat: who may answer, how, how often, and what becomes of the message that asked.
import { describe, expect, it } from "vitest";
import type { Gate } from "../../src/core/ports.ts";
import { BEN } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway, type TestGateway } from "../fakes/gateway.ts";
import { calm, type Desk, type Running, scriptedTool } from "../fakes/scripted.ts";

const CHOICES = ["once", "session", "always", "deny"];
const COMMAND = "rm *.txt\n\nin /work: it deletes files";
const approval = (text = COMMAND, choices = CHOICES): Gate => ({
  gate: "ask",
  kind: "approval",
  text,
  choices,
  timeoutMs: 300_000,
});
const question = (text: string, choices: string[] = []): Gate => ({
  gate: "ask",
  kind: "question",
  text,
  choices,
  timeoutMs: 3_600_000,
});
const use = (tool: string) => ({ tool, args: {} });

/** A turn of Anna's that asks. */
async function asking(gate: Gate = approval(), options: Parameters<typeof bootGateway>[0] = {}) {
  const tool = scriptedTool("do", { gate });
  const running = await bootGateway({ tools: [tool], progress: "off", ...options });
  await running.chat.say("clean up");
  (await running.model.next()).answer("", use("do"));
  await running.entry(ANNAS, "asked");
  await calm();
  return { ...running, tool, ask: askOf(running) };
}
function askOf({ chat }: TestGateway) {
  const found = chat.sent().find(({ buttons }) => buttons.length > 0);
  return found?.message ?? "";
}
/** How it was decided; null: it still waits. */
const decided = ({ journal }: TestGateway) => {
  const found = journal(ANNAS).find(({ kind }) => kind === "decided");
  return found?.kind === "decided" ? { allow: found.allow, text: found.text, by: found.by } : null;
};
const runs = async (tool: Desk<Running>) => {
  await calm();
  return tool.all.length;
};

describe("where nobody can be asked", () => {
  it("a chat is shown no question: it is decided as its platform's turns are", async () => {
    const { chat, tool, ...running } = await asking(approval(), { unattended: () => "deny" });
    expect(decided({ chat, ...running })).toMatchObject({ allow: false, by: "unattended" });
    (await running.model.next()).answer("I was not allowed to.");
    await calm();
    expect(chat.sent().map(({ text }) => text)).toEqual(["I was not allowed to."]);
    expect(await runs(tool)).toBe(0);
    expect(await running.engine.notes.list("ask")).toEqual([]); // nor is a button noted that is never shown
  });

  it("work that was begun beside the conversation is decided too", async () => {
    const tool = scriptedTool("do", { gate: approval() });
    const running = await bootGateway({ tools: [tool], progress: "off", unattended: () => "allow" });
    await running.chat.say("/background clean up");
    (await running.model.next()).answer("", use("do"));
    expect(await runs(tool)).toBe(1);
  });
});

describe("an approval", () => {
  it("is asked in full, as it will run, with a button for each choice", async () => {
    const { chat } = await asking();
    expect(chat.sent()).toMatchObject([
      {
        text: `❓ May I?\n\`\`\`\n${COMMAND}\n\`\`\``,
        buttons: [
          [{ label: "✅ Yes, once" }, { label: "✅ Yes, this conversation" }],
          [{ label: "✅ Always, this folder" }, { label: "❌ No" }],
        ],
      },
    ]);
  });

  it("keeps a command that holds fences of its own in one block of code", async () => {
    const sly = "echo ```\n**harmless**\n```; rm -rf x";
    const { chat } = await asking(approval(sly));
    expect(chat.texts()).toEqual([`❓ May I?\n\`\`\`\`\n${sly}\n\`\`\`\``]);
  });

  it("that is longer than one message is shown whole, with its buttons under the end", async () => {
    const long = Array.from({ length: 900 }, (_, n) => `touch file-${n};`).join("\n");
    const { chat } = await asking(approval(`${long}\nrm -rf the-last-line`));
    const sent = chat.sent();
    expect(sent.length).toBeGreaterThan(2);
    expect(sent.map(({ buttons }) => buttons.length > 0)).toEqual(sent.map((_, i) => i === sent.length - 1));
    const whole = sent.map(({ text }) => text).join("\n");
    for (const part of ["touch file-0;", "touch file-450;", "touch file-899;", "rm -rf the-last-line"])
      expect(whole).toContain(part);
    expect(chat.violations).toEqual([]);
  });

  it("that nobody could read is not asked, and not run", async () => {
    const running = await asking(approval("x".repeat(100_000)));
    expect(running.chat.sent()).toEqual([]);
    expect(decided(running)).toMatchObject({ allow: false, text: expect.stringContaining("too long to be shown") });
    expect(await runs(running.tool)).toBe(0);
  });

  it.each([
    ["✅ Yes, once", true, "once"],
    ["✅ Yes, this conversation", true, "session"],
    ["✅ Always, this folder", true, "always"],
    ["❌ No", false, "The user said no."],
  ])("is decided by the button %s, and its message says so without buttons", async (label, allow, text) => {
    const running = await asking();
    const { chat, ask, tool } = running;
    expect(await chat.press(ask, label)).toBe(label);
    await calm();
    expect(decided(running)).toEqual({ allow, text, by: "telegram:999" });
    expect(await runs(tool)).toBe(allow ? 1 : 0);
    const [shown] = chat.sent();
    expect(shown?.buttons).toEqual([]);
    expect(shown?.text).toContain(COMMAND);
    expect(shown?.text).toMatch(allow ? /✅ \w+$/ : /❌ The user said no\.$/);
  });

  it("is decided once: a second press, and a replayed one, do nothing", async () => {
    const running = await asking();
    const { chat, ask, tool } = running;
    const data = chat.sent()[0]?.buttons[0]?.[0]?.data ?? "";
    expect(await chat.press(ask, "❌ No")).toBe("❌ No");
    expect(await chat.press(ask, data)).toBe("This was decided already.");
    (await running.model.next()).answer("", use("do"));
    await calm();
    expect(await chat.press(ask, data)).toBe("This was decided already.");
    expect(await runs(tool)).toBe(0);
    expect((await running.engine.status(ANNAS)).asking).toHaveLength(1);
  });

  it("two presses at the same moment are one decision", async () => {
    const running = await asking();
    const { chat, ask } = running;
    const shown = await Promise.all([chat.press(ask, "✅ Yes, once"), chat.press(ask, "❌ No")]);
    expect(shown).toEqual(["✅ Yes, once", "This was decided already."]);
    expect(decided(running)).toMatchObject({ allow: true });
  });

  it("is not for another person, by button or by words; an admin may", async () => {
    const place = { kind: "thread", chat: "room", thread: "t1" } as const;
    const key = "agent:main:telegram:thread:room:t1";
    const tool = scriptedTool("do", { gate: approval() });
    const running = await bootGateway({ tools: [tool], lists: { admins: ["7"] } });
    const { chat, engine, model } = running;
    await chat.say("clean up", { place });
    (await model.next()).answer("", use("do"));
    await calm();
    const ask = askOf(running);
    expect(await chat.press(ask, "✅ Yes, once", BEN)).toBe("Only the person who is asked can answer.");
    await chat.say("/approve", { place, from: BEN });
    await calm();
    expect(chat.texts(place).at(-1)).toBe("Only the person who is asked can answer.");
    await chat.say("/busy queue", { place });
    await chat.say("yes", { place, from: BEN });
    expect((await engine.status(key)).inbox).toMatchObject([{ text: "yes" }]);
    expect((await engine.status(key)).asking).toHaveLength(1);
    expect(await chat.press(ask, "✅ Yes, once", { id: "7", name: "Root" })).toBe("✅ Yes, once");
    expect(await runs(tool)).toBe(1);
  });

  it("offers always to an admin only: it changes the rules for everybody", async () => {
    const running = await asking(approval(), { lists: { admins: [BEN.id] } });
    const { chat, ask } = running;
    expect(
      chat
        .sent()[0]
        ?.buttons.flat()
        .map(({ label }) => label),
    ).toEqual(["✅ Yes, once", "✅ Yes, this conversation", "❌ No"]);
    await chat.say("always");
    await chat.say("/approve always");
    await calm();
    expect(chat.sent().filter(({ text }) => text.startsWith("Only an admin can say always"))).toHaveLength(2);
    const always = chat.sent()[0]?.buttons[0]?.[0]?.data.replace(/:\d$/, ":2") ?? "";
    expect(await chat.press(ask, always)).toMatch(/^Only an admin can say always/);
    expect(decided(running)).toBeNull();
    expect(await chat.press(ask, always, BEN)).toBe("✅ Always, this folder");
    expect(decided(running)).toMatchObject({ allow: true, by: `telegram:${BEN.id}` });
  });

  it("goes to the admins' private chats where they decide, and to nobody else", async () => {
    const tool = scriptedTool("do", { gate: approval() });
    const running = await bootGateway({
      tools: [tool],
      progress: "off",
      approvers: "admins",
      lists: { admins: [BEN.id] },
    });
    const { chat, model } = running;
    const bens = { kind: "dm", chat: "555" } as const; // a private chat has a name of its own on some platforms
    await chat.say("hello", { from: BEN, place: bens });
    (await model.next()).answer("hi Ben");
    await chat.say("clean up");
    (await model.next()).answer("", use("do"));
    await running.entry(ANNAS, "asked");
    await calm();
    const own = chat.sent().find(({ text }) => text.startsWith("❓ An admin is asked:"));
    const admins = chat.sent().find(({ text }) => text.startsWith("❓ May I, for telegram:999?"));
    expect([own?.place.chat, own?.buttons]).toEqual(["999", []]);
    expect(admins?.place).toEqual(bens);
    await chat.say("yes");
    const data = admins?.buttons[0]?.[0]?.data ?? "";
    expect(await chat.press(admins?.message ?? "", data)).toBe("Only the person who is asked can answer.");
    expect(decided(running)).toBeNull();
    expect(await chat.press(admins?.message ?? "", data, BEN)).toBe("✅ Yes, once");
    await calm();
    expect(await runs(tool)).toBe(1);
    for (const asked of [own, admins]) {
      const now = chat
        .sent()
        .find(({ message, place }) => message === asked?.message && place.chat === asked.place.chat);
      expect([now?.buttons, now?.text]).toEqual([[], expect.stringMatching(/✅ once$/)]);
    }
  });

  it("is a no at once where only admins decide and none of them can be reached", async () => {
    const running = await asking(approval(), { approvers: "admins", lists: { admins: [BEN.id] } });
    expect(decided(running)).toMatchObject({ allow: false, text: expect.stringMatching(/none of them has a private/) });
  });

  it("is not for somebody who may not talk any more", async () => {
    const allowed = ["999"];
    const { chat, ask, tool } = await asking(approval(), { lists: { allowed } });
    allowed.pop();
    expect(await chat.press(ask, "✅ Yes, once")).toBe("Only the person who is asked can answer.");
    expect(await runs(tool)).toBe(0);
  });

  it.each(["garbage", "q", "q:", "q:nobody:0", "q:nobody:0:0", "x:1:2", ""])(
    "is not moved by a button that is not ours: %j",
    async (data) => {
      const running = await asking();
      const shown = await running.chat.press(running.ask, data);
      expect(shown).toMatch(/do not know|decided already/);
      expect(decided(running)).toBeNull();
    },
  );

  it.each([-1, 4, 99, "", "constructor", "1.5"])("has no choice number %j", async (index) => {
    const running = await asking();
    const token = running.chat.sent()[0]?.buttons[0]?.[0]?.data.split(":")[1] ?? "";
    const shown = await running.chat.press(running.ask, `q:${token}:${index}`);
    // "" is 0 as a number, but no index that was ever given out.
    expect(shown).toBe("This is not a choice.");
    expect(decided(running)).toBeNull();
  });

  it("that nobody answers is a no after its time, and its message says so", async () => {
    const running = await asking();
    await running.clock.pass(300_000);
    expect(decided(running)).toMatchObject({ allow: false, by: "timeout" });
    expect(running.chat.sent()[0]).toMatchObject({ buttons: [], text: expect.stringContaining("nobody answered") });
  });

  it("whose turn is stopped is over, and its message says so", async () => {
    const running = await asking();
    await running.chat.say("/stop");
    await calm();
    expect(running.chat.sent()[0]).toMatchObject({ buttons: [], text: expect.stringContaining("It is over.") });
    expect(await running.chat.press(running.ask, "✅ Yes, once")).toBe("I do not know this button.");
  });

  it("is shown as soon as the platform can be reached again", async () => {
    const tool = scriptedTool("do", { gate: approval() });
    const { chat, model, clock } = await bootGateway({ tools: [tool], progress: "off" });
    await chat.say("clean up");
    chat.outage(true);
    (await model.next()).answer("", use("do"));
    await clock.pass(60_000);
    expect(chat.sent()).toEqual([]);
    chat.outage(false);
    await clock.pass(30_000);
    expect(chat.sent()).toHaveLength(1);
    expect(chat.sent()[0]?.buttons).toHaveLength(2);
  });

  it("is not shown any more when it was decided meanwhile", async () => {
    const tool = scriptedTool("do", { gate: approval() });
    const running = await bootGateway({ tools: [tool], progress: "off" });
    const { chat, model, clock } = running;
    await chat.say("clean up");
    chat.outage(true);
    (await model.next()).answer("", use("do"));
    await clock.pass(10_000);
    await chat.say("no");
    chat.outage(false);
    await clock.pass(60_000);
    expect(chat.sent().filter(({ text }) => text.includes("May I?"))).toEqual([]);
  });
});

describe("an approval in words", () => {
  it.each(["approve", "yes", "YES", "ok", "y", "👍", " yes "])("%j is a yes, for once", async (text) => {
    const running = await asking();
    await running.chat.say(text);
    expect(decided(running)).toEqual({ allow: true, text: "once", by: "telegram:999" });
    await calm();
    expect(running.chat.texts().at(-1)).toBe("👍");
  });

  it.each(["deny", "no", "No", "n", "👎"])("%j is a no", async (text) => {
    const running = await asking();
    await running.chat.say(text);
    expect(decided(running)).toMatchObject({ allow: false, text: "The user said no." });
    expect(await runs(running.tool)).toBe(0);
  });

  it.each(["always", "session", "Always"])("%j is a yes that lasts", async (text) => {
    const running = await asking();
    await running.chat.say(text);
    expect(decided(running)).toMatchObject({ allow: true, text: text.toLowerCase() });
  });

  it.each(["yes please", "no way", "okay", "ja", "approve all"])(
    "%j is a message like any other: it follows the mode, and the question stays",
    async (text) => {
      const running = await asking(approval(), { busyMode: "queue" });
      await running.chat.say(text);
      const { asking: asked, inbox } = await running.engine.status(ANNAS);
      expect(asked).toHaveLength(1);
      expect(inbox).toMatchObject([{ text }]);
      expect(decided(running)).toBeNull();
    },
  );

  it.each([
    ["/approve", { allow: true, text: "once" }],
    ["/approve session", { allow: true, text: "session" }],
    ["/approve always", { allow: true, text: "always" }],
    ["/deny", { allow: false, text: "The user said no." }],
    ["/deny not on a Friday", { allow: false, text: "The user said no: not on a Friday" }],
  ])("%s decides", async (text, expected) => {
    const running = await asking();
    await running.chat.say(text);
    expect(decided(running)).toMatchObject(expected);
  });

  it.each(["/answer no", "/answer deny", "/answer yes", "/answer anything"])(
    "%s does not: that is for questions",
    async (text) => {
      const running = await asking();
      await running.chat.say(text);
      await calm();
      expect(decided(running)).toBeNull();
      expect(running.chat.texts().at(-1)).toBe("That is no answer to this. Say one of: once, session, always, deny.");
    },
  );

  it.each(["/approve always", "always", "/approve deny"])("%s is no way to more than was offered", async (text) => {
    const running = await asking(approval(COMMAND, ["once", "deny"]), { busyMode: "queue" });
    await running.chat.say(text);
    expect(decided(running)).toBeNull();
    expect(await runs(running.tool)).toBe(0);
  });

  it("in words with a reason", async () => {
    const running = await asking();
    await running.chat.say("no, use husky");
    expect(decided(running)).toMatchObject({ allow: false, text: "The user said no: use husky" });
  });

  it("not by another message: the question stays, also where messages interrupt", async () => {
    const running = await asking(approval(), { busyMode: "interrupt" });
    await running.chat.say("and mind the umlauts");
    await calm();
    expect(decided(running)).toBeNull();
    expect((await running.engine.status(ANNAS)).asking).toHaveLength(1);
    await running.chat.say("yes");
    (await running.tool.next()).done("gone");
    expect((await running.model.next()).request.messages.at(-1)).toMatchObject({ text: "and mind the umlauts" });
  });

  it("said when nothing is asked is a message", async () => {
    const { chat, model } = await bootGateway();
    await chat.say("yes");
    expect((await model.next()).request.messages.at(-1)?.text).toBe("yes");
    await chat.say("/approve");
    await calm();
    expect(chat.texts()).toEqual(["Nothing is asked just now."]);
  });

  it("that began the very turn is no answer to what that turn asks when it comes again", async () => {
    const tool = scriptedTool("do", { gate: approval() });
    const running = await bootGateway({ tools: [tool], progress: "off" });
    const message = await running.chat.say("ok");
    (await running.model.next()).answer("", use("do"));
    await calm();
    await running.chat.redeliver(message);
    await calm();
    expect(decided(running)).toBeNull();
    expect(running.model.all).toHaveLength(1);
  });

  it.each(["yes", "/approve"])("%s that comes again is no answer to the next question", async (text) => {
    const before = await asking();
    const { tool } = before;
    const message = await before.chat.say(text);
    await calm();
    expect(tool.all).toHaveLength(1);
    tool.all[0]?.done("deleted");
    (await before.model.next()).answer("", use("do"));
    await calm();
    expect((await before.engine.status(ANNAS)).asking).toHaveLength(1);
    await before.chat.redeliver(message);
    expect((await before.engine.status(ANNAS)).asking).toHaveLength(1);
    expect((await before.engine.status(ANNAS)).inbox).toEqual([]);
    expect(await runs(tool)).toBe(1);
  });

  it.each(["yes", "/approve"])("%s at any moment of a crash approves this one or nothing", async (text) => {
    for (let dieAt = 1; ; dieAt++) {
      const first = await asking();
      const dying = await first.next({ dieAt });
      void dying.chat.say(text);
      await calm();
      const died = dying.dead();
      const after = await dying.next();
      await calm();
      const { asking: asked, inbox } = await after.engine.status(ANNAS);
      expect(inbox, `died at ${dieAt}`).toEqual([]);
      expect(asked.length + after.journal(ANNAS).filter(({ kind }) => kind === "decided").length).toBe(1);
      expect(after.journal(ANNAS).filter(({ kind }) => kind === "accepted")).toHaveLength(1);
      if (died) continue;
      expect(asked).toEqual([]);
      expect(dieAt).toBeGreaterThan(2);
      break;
    }
  });
});

describe("a question", () => {
  it("with choices has a button for each, and takes its text as well", async () => {
    const running = await asking(question("Which **one**?", ["red", "blue"]));
    expect(running.chat.sent()).toMatchObject([
      { text: "❓ Which **one**?", buttons: [[{ label: "red" }, { label: "blue" }]] },
    ]);
    await running.chat.say("Blue");
    expect(decided(running)).toMatchObject({ allow: true, text: "blue" });
  });

  it("whose choice is deny takes that for an answer, not for a no", async () => {
    const running = await asking(question("Allow or deny?", ["allow", "deny"]));
    await running.chat.press(running.ask, "❌ No");
    expect(decided(running)).toMatchObject({ allow: true, text: "deny" });
  });

  it("without choices takes /answer, and no message that was meant as input", async () => {
    const running = await asking(question("What is your name?"), { busyMode: "queue" });
    expect(running.chat.texts()).toEqual(["❓ What is your name?\n\nAnswer with /answer and your words."]);
    await running.chat.say("by the way");
    await running.chat.say("yes");
    expect((await running.engine.status(ANNAS)).inbox.map(({ text }) => text)).toEqual(["by the way", "yes"]);
    await running.chat.say("/answer Anna Karenina");
    expect(decided(running)).toMatchObject({ allow: true, text: "Anna Karenina" });
  });
});

describe("after a restart", () => {
  it("the same button still works, and the question is not asked twice", async () => {
    const before = await asking();
    before.kill();
    const after = await before.next();
    await calm();
    expect(after.chat.sent()).toHaveLength(1);
    expect(await after.chat.press(before.ask, "✅ Yes, once")).toBe("✅ Yes, once");
    await calm();
    expect(decided(after)).toMatchObject({ allow: true });
    expect(after.chat.sent()[0]).toMatchObject({ buttons: [] });
  });

  it("a question of a turn that went on by itself is shown", async () => {
    const tool = scriptedTool("do", { gate: approval() });
    const before = await bootGateway({ tools: [tool], progress: "off" });
    await before.chat.say("clean up");
    await before.model.next();
    before.kill();
    const after = await before.next();
    (await after.model.next()).answer("", use("do"));
    await calm();
    expect(after.chat.sent()).toHaveLength(1);
    expect(await after.chat.press(askOf(after), "✅ Yes, once")).toBe("✅ Yes, once");
  });

  it("whatever the crash cut off, the question is there, its buttons work once, and nothing keeps dead buttons", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const tool = scriptedTool("do", { gate: approval(), repeatable: true });
      const dying = await bootGateway({ tools: [tool], progress: "off", dieAt });
      const { chat } = dying;
      void chat.say("clean up");
      await calm();
      dying.model.all[0]?.answer("", use("do"));
      await calm();
      if (askOf(dying)) void chat.press(askOf(dying), "✅ Yes, once");
      await calm();
      const died = dying.dead();
      const after = await dying.next();
      await calm();
      after.model.all[0]?.answer("", use("do"));
      await calm();
      const open = (await after.engine.status(ANNAS)).asking;
      const buttons = chat.sent().filter((one) => one.buttons.length > 0);
      if (open.length) {
        expect(buttons.length, `died at ${dieAt}`).toBeGreaterThan(0);
        for (const { message } of buttons) await chat.press(message, "✅ Yes, once");
        await calm();
        expect((await after.engine.status(ANNAS)).asking).toEqual([]);
      }
      expect(after.journal(ANNAS).filter(({ kind }) => kind === "decided")).toHaveLength(1);
      const asks = chat.sent().filter(({ text }) => text.includes("May I?"));
      expect(asks.filter((one) => one.buttons.length > 0).length, `died at ${dieAt}`).toBeLessThan(asks.length);
      if (!died) break;
    }
  });
});
