// Answers on their way out: every part once and in order through any crash, whatever the platform says to it, and the
// message that shows a turn at work until its answer is there.
import { describe, expect, it } from "vitest";
import type { LocalChat } from "../fakes/chat/local.ts";
import { ANNA, createLocalChat, dm } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway, type TestGateway } from "../fakes/gateway.ts";
import { calm, handClock, scriptedTool } from "../fakes/scripted.ts";

const AGAIN = "(Sent again: the first copy may not have arrived.)\n";
const HOUR = 3_600_000;
const use = (tool: string, args: unknown = {}) => ({ tool, args });
/** Three parts of a chat whose messages hold 200 characters. */
const PARTS = ["a", "b", "c"].map((letter) => letter.repeat(120));
const LONG = PARTS.join("\n\n");

async function answering(options: Parameters<typeof bootGateway>[0] & { longest?: number; sendsOnce?: boolean } = {}) {
  const { longest = 200, sendsOnce = false, ...rest } = options;
  const clock = handClock();
  const chats = [createLocalChat({ clock, longest, sendsOnce })];
  const running = await bootGateway({ clock, chats, ...rest });
  void running.chat.say("tell me");
  await calm();
  return running;
}
const delivered = ({ journal }: TestGateway) =>
  journal(ANNAS).flatMap((entry) => (entry.kind === "delivered" ? [entry.how] : []));
const bare = (chat: LocalChat) => chat.texts().map((text) => text.replace(AGAIN, ""));

describe("an answer", () => {
  it("that does not fit goes out in parts, in order, each once", async () => {
    const running = await answering();
    running.model.all[0]?.answer(LONG);
    await calm();
    expect(running.chat.texts()).toEqual(PARTS);
    expect(running.chat.violations).toEqual([]);
    expect(delivered(running)).toEqual(["sent"]);
  });

  it("that says nothing is said all the same", async () => {
    const { chat, model } = await answering();
    model.all[0]?.answer("  \n ");
    await calm();
    expect(chat.texts()).toEqual(["(There is nothing to say.)"]);
  });

  it("is there once, whole and in order, whenever the process dies; a second copy is marked, and only where nobody knows", async () => {
    let marked = 0;
    for (let dieAt = 1; ; dieAt++) {
      const dying = await answering({ dieAt });
      dying.model.all[0]?.answer(LONG);
      await calm();
      const died = dying.dead();
      const before = dying.chat.texts();
      const after = await dying.next();
      await calm();
      after.model.all[0]?.answer(LONG);
      await calm();
      const texts = after.chat.texts();
      const copies = texts.filter((text) => text.startsWith(AGAIN));
      expect(copies.length, `died at ${dieAt}: ${JSON.stringify(texts)}`).toBeLessThanOrEqual(1);
      // Without the marked copy, or without what it is a copy of: exactly the parts.
      const firsts = texts.filter((text) => !text.startsWith(AGAIN));
      const all = new Set(bare(after.chat));
      expect([...all], `died at ${dieAt}`).toEqual(PARTS);
      expect(firsts.length).toBe(new Set(firsts).size);
      if (!copies.length) expect(texts).toEqual(PARTS);
      // What a process had noted as done is not sent again by the next.
      for (const [n, text] of before.slice(0, -1).entries()) expect(texts[n]).toBe(text);
      marked += copies.length;
      if (!died) break;
    }
    // Of each part: just before and after its send, from the note before it to the note behind it.
    expect(marked).toBe(4 * PARTS.length);
  });

  it("through three crashes in a row is still there once", async () => {
    for (let dieAt = 1; dieAt < 60; dieAt += 3) {
      let running = await answering({ dieAt });
      running.model.all[0]?.answer(LONG);
      await calm();
      for (let crash = 0; crash < 2; crash++) {
        running = await running.next({ dieAt: 2 + ((dieAt * 7 + crash * 5) % 11) });
        await calm();
        running.model.all[0]?.answer(LONG);
        await calm();
      }
      running = await running.next();
      await calm();
      running.model.all[0]?.answer(LONG);
      await calm();
      expect([...new Set(bare(running.chat))], `died at ${dieAt}`).toEqual(PARTS);
      expect(running.journal(ANNAS).filter(({ kind }) => kind === "ended")).toHaveLength(1);
    }
  });

  it("on a platform that knows its keys is there exactly once whenever the process dies between two sends", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const dying = await answering({ dieAt, sendsOnce: true });
      dying.model.all[0]?.answer(LONG);
      await calm();
      const died = dying.dead();
      const after = await dying.next();
      await calm();
      after.model.all[0]?.answer(LONG);
      await calm();
      expect(bare(after.chat), `died at ${dieAt}`).toEqual(PARTS);
      if (!died) break;
    }
  });

  it("that is refused for a while waits as long as it is asked to, and is not marked", async () => {
    const { chat, model, clock } = await answering();
    chat.fault("send", { retryAfter: 30_000 });
    model.all[0]?.answer("hello");
    await clock.pass(29_999);
    expect(chat.texts()).toEqual([]);
    await clock.pass(2);
    expect(chat.texts()).toEqual(["hello"]);
    expect(chat.violations).toEqual([]);
  });

  it("that was refused is not marked by the next process either", async () => {
    const before = await answering();
    before.chat.fault("send", "no", 3);
    before.model.all[0]?.answer("hello");
    await calm();
    before.kill();
    const { chat, clock } = await before.next();
    await clock.pass(10_000);
    expect(chat.texts()).toEqual(["hello"]);
  });

  it("whose arrival nobody knows of is sent again, marked", async () => {
    const running = await answering();
    running.chat.fault("send", "lost");
    running.model.all[0]?.answer("hello");
    await running.clock.pass(1_000);
    expect(running.chat.texts()).toEqual(["hello", `${AGAIN}hello`]);
    expect(delivered(running)).toEqual(["sent"]);
  });

  it("that will never arrive ends its turn as undelivered, and the next message begins one", async () => {
    const running = await answering();
    running.chat.fault("send", "never");
    running.model.all[0]?.answer("hello");
    await calm();
    expect(delivered(running)).toEqual(["undelivered"]);
    await running.chat.say("are you there?");
    expect(running.model.all).toHaveLength(2);
  });

  it("of which only a part will ever arrive is undelivered", async () => {
    const running = await answering();
    const { chat } = running;
    running.model.all[0]?.answer(LONG);
    await Promise.resolve();
    chat.fault("send", "no");
    chat.fault("send", "never");
    await running.clock.pass(2_000);
    expect(delivered(running)).toEqual(["undelivered"]);
  });

  it("waits out an outage of an hour, and those of others do not wait for it", async () => {
    const clock = handClock();
    const chats = [createLocalChat({ clock }), createLocalChat({ clock, platform: "slack" })];
    const [telegram, slack] = chats;
    const { model } = await bootGateway({ clock, chats });
    if (!telegram || !slack) throw new Error("there are two");
    telegram.outage(true);
    await telegram.say("hello");
    await slack.say("hello");
    (await model.next()).answer("one");
    (await model.next()).answer("two");
    await clock.pass(HOUR);
    expect([telegram.texts(), slack.texts()]).toEqual([[], ["two"]]);
    telegram.outage(false);
    await clock.pass(60_000);
    expect(telegram.texts()).toEqual(["one"]);
  });

  it("of an outage that outlives the process goes out after the next start, unmarked", async () => {
    const before = await answering();
    before.chat.outage(true);
    before.model.all[0]?.answer("hello");
    await before.clock.pass(10_000);
    before.kill();
    const { chat, clock } = await before.next();
    await clock.pass(10_000);
    chat.outage(false);
    await clock.pass(60_000);
    expect(chat.texts()).toEqual(["hello"]);
  });

  it("to a platform that is not configured any more is undelivered, and says so in the log", async () => {
    const before = await answering();
    before.kill();
    const slack = createLocalChat({ clock: before.clock, platform: "slack" });
    const after = await before.next({ chats: [slack] });
    (await after.model.next()).answer("hello");
    await calm();
    expect(delivered(after)).toEqual(["undelivered"]);
    expect(after.logs.map(({ event }) => event)).toContain("reply.nowhere");
  });

  it("of a task beside the conversation comes to the chat that asked, also after a restart", async () => {
    const before = await bootGateway();
    await before.chat.say("/background count");
    await before.model.next();
    before.kill();
    const { chat, model } = await before.next();
    (await model.next()).answer("42");
    await calm();
    expect(chat.sent().at(-1)).toMatchObject({ place: dm(ANNA), text: "42" });
  });

  it("to a client of the API in the same session is not shown in the chat", async () => {
    const { engine, model, chat, clock } = await bootGateway();
    await engine.accept({ session: ANNAS, source: "api", key: "1", text: "hi", mode: "queue", reply: "pull" });
    const call = await model.next();
    call.say("for the client");
    await clock.pass(5_000);
    call.answer("");
    await calm();
    expect(chat.sent()).toEqual([]);
    expect(chat.typed()).toBe(0);
  });
});

describe("the message that shows the work", () => {
  async function working(options: Parameters<typeof bootGateway>[0] = {}) {
    const tool = scriptedTool("look", { repeatable: true });
    const running = await bootGateway({ tools: [tool], ...options });
    await running.chat.say("look it up");
    return { ...running, tool, call: await running.model.next() };
  }

  it("shows tools as they run and end, and becomes the answer", async () => {
    const { chat, clock, call, tool, model } = await working();
    call.answer("", use("look", { path: "a `file`\nhere" }), use("look"));
    await clock.pass(1_000);
    expect(chat.texts()).toEqual(["⚙️ look: `a file here`\n⚙️ look"]);
    (await tool.next()).done("found");
    (await tool.next()).done("lost", false);
    await clock.pass(1_000);
    expect(chat.texts()).toEqual(["✓ look: `a file here`\n✗ look"]);
    (await model.next()).answer("It is here.");
    await calm();
    expect(chat.texts()).toEqual(["It is here."]);
    expect(chat.sent()[0]?.history.at(-1)).toBe("✓ look: `a file here`\n✗ look");
  });

  it("shows words that take their time, and is not sent for an answer that is there at once", async () => {
    const { chat, clock, call } = await working();
    call.say("Let me ");
    await clock.pass(1_000);
    expect(chat.texts()).toEqual([]);
    await clock.pass(1_000);
    expect(chat.texts()).toEqual(["Let me "]);
    call.say("think");
    await clock.pass(1_000);
    expect(chat.texts()).toEqual(["Let me think"]);
    call.answer(".");
    await calm();
    expect(chat.texts()).toEqual(["Let me think."]);
  });

  it("is edited no more often than the platform allows, and never longer than it may be", async () => {
    const clock = handClock();
    const chats = [createLocalChat({ clock, longest: 100, editEveryMs: 3_000 })];
    const { chat, call } = await working({ clock, chats });
    for (let n = 0; n < 100; n++) {
      call.say(`word ${n} `);
      await clock.pass(100);
    }
    expect(chat.sent()[0]?.history.length).toBeLessThanOrEqual(3);
    expect(chat.texts()[0]).toMatch(/^….*word \d+ $/s);
    expect(chat.violations).toEqual([]);
  });

  it("waits as long as the platform asks it to, and nobody waits for it", async () => {
    const { chat, clock, call, tool, model } = await working();
    call.answer("", use("look"));
    await clock.pass(1_000);
    chat.fault("edit", { retryAfter: 20_000 });
    (await tool.next()).done("found");
    await clock.pass(1_000);
    const next = await model.next();
    for (let n = 0; n < 10; n++) {
      next.say("word ");
      await clock.pass(1_000);
    }
    expect(chat.violations).toEqual([]);
    await clock.pass(20_000);
    expect(chat.texts()[0]).toContain("word word");
  });

  it("never overwrites the answer: an edit that hangs gets a while, then the answer goes elsewhere", async () => {
    const { chat, clock, call, tool, model } = await working();
    call.answer("", use("look"));
    await clock.pass(1_000);
    const stuck = chat.fault("edit", "hang");
    chat.fault("remove", "hang"); // nor can it be taken away
    (await tool.next()).done("found");
    await clock.pass(1_000);
    (await model.next()).answer("It is here.");
    await clock.pass(10_000);
    expect(chat.texts()).toEqual(["⚙️ look", "It is here."]);
    stuck.release();
    await clock.pass(10_000);
    expect(chat.texts()).toEqual(["✓ look", "It is here."]);
  });

  it("never overwrites the answer: an edit that is only slow is waited for", async () => {
    const { chat, clock, call, tool, model } = await working();
    call.answer("", use("look"));
    await clock.pass(1_000);
    const slow = chat.fault("edit", "hang");
    (await tool.next()).done("found");
    await clock.pass(1_000);
    (await model.next()).answer("It is here.");
    await clock.pass(1_000);
    slow.release();
    await clock.pass(1_000);
    expect(chat.texts()).toEqual(["It is here."]);
  });

  it("that somebody has deleted is no loss: the answer is a message of its own", async () => {
    const { chat, clock, call, tool, model } = await working();
    call.answer("", use("look"));
    await clock.pass(1_000);
    chat.fault("edit", "never", 99);
    (await tool.next()).done("found");
    (await model.next()).answer("It is here.");
    await clock.pass(1_000);
    expect(chat.texts().at(-1)).toBe("It is here.");
  });

  it.each([
    ["/stop", "⏹ Stopped."],
    ["something else", "⚡ Interrupted."],
  ])("says how it ended where there is no answer: %s", async (text, mark) => {
    const { chat, clock, call } = await working();
    call.answer("", use("look"));
    await clock.pass(1_000);
    await chat.say(text);
    await clock.pass(2_000);
    expect(chat.texts()[0]).toBe(`✗ look\n\n${mark}`);
  });

  it("is the same one after a crash in the middle of a tool, and becomes the answer", async () => {
    const before = await working();
    before.call.answer("", use("look"));
    await before.tool.next();
    await before.clock.pass(1_000);
    before.kill();
    const { chat, model, clock } = await before.next();
    (await before.tool.next()).done("found");
    await clock.pass(1_000);
    (await model.next()).answer("It is here.");
    await calm();
    expect(chat.texts()).toEqual(["It is here."]);
  });

  it("with an answer in parts becomes the first of them, whenever the process dies", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const clock = handClock();
      const chats = [createLocalChat({ clock, longest: 200 })];
      const tool = scriptedTool("look", { repeatable: true });
      const options = { clock, chats, tools: [tool] };
      let running = await bootGateway({ ...options, dieAt });
      void running.chat.say("look it up");
      await calm();
      const work = async () => {
        running.model.all[0]?.answer("", use("look"));
        await clock.pass(1_000);
        for (const one of tool.all) one.done("found");
        await clock.pass(1_000);
        running.model.all[1]?.answer(LONG);
        await clock.pass(1_000);
      };
      await work();
      const died = running.dead();
      running = await running.next();
      await clock.pass(1_000);
      for (const one of tool.all) one.done("found");
      await clock.pass(1_000);
      const [first] = running.model.all;
      if (first?.request.messages.at(-1)?.role === "tool") first.answer(LONG);
      else await work();
      await clock.pass(1_000);
      const texts = bare(running.chat).filter((text) => !text.includes("look"));
      expect([...new Set(texts)], `died at ${dieAt}: ${JSON.stringify(running.chat.texts())}`).toEqual(PARTS);
      if (!died) {
        expect(running.chat.texts()).toEqual(PARTS);
        break;
      }
    }
  });

  it("is not sent where progress is off, and the answer is", async () => {
    const { chat, clock, call, tool, model } = await working({ progress: "off" });
    call.answer("", use("look"));
    await clock.pass(5_000);
    expect(chat.texts()).toEqual([]);
    (await tool.next()).done("found");
    (await model.next()).answer("It is here.");
    await calm();
    expect(chat.texts()).toEqual(["It is here."]);
  });
});

describe("that we are at work", () => {
  it("is shown every few seconds while a turn runs, and not any more when its answer is there", async () => {
    const { chat, model, clock } = await bootGateway();
    await chat.say("work");
    const call = await model.next();
    await clock.pass(12_000);
    expect(chat.typed()).toBe(4);
    call.answer("done");
    await clock.pass(60_000);
    expect(chat.typed()).toBe(4);
  });

  it("is not shown while an answer waits for its platform, nor after a stop", async () => {
    const { chat, model, clock } = await bootGateway();
    await chat.say("work");
    chat.outage(true);
    (await model.next()).answer("done");
    await calm();
    const typed = chat.typed();
    await clock.pass(60_000);
    expect(chat.typed()).toBe(typed);
    chat.outage(false);
    await clock.pass(60_000);
    await chat.say("work");
    await model.next();
    await chat.say("/stop");
    await calm();
    const before = chat.typed();
    await clock.pass(60_000);
    expect(chat.typed()).toBe(before);
  });

  it("is shown again by the process that goes on with a turn", async () => {
    const before = await bootGateway();
    await before.chat.say("work");
    await before.model.next();
    before.kill();
    const typed = before.chat.typed();
    const { clock, chat } = await before.next();
    await clock.pass(4_000);
    expect(chat.typed()).toBeGreaterThan(typed);
  });
});
