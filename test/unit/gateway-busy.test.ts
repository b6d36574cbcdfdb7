// A message, or a command, to a session that is busy.
import { describe, expect, it } from "vitest";
import { ANNA, BEN, createLocalChat, dm } from "../fakes/chat/local.ts";
import { ANNAS, bootGateway, type TestGateway } from "../fakes/gateway.ts";
import { calm, handClock, scriptedTool } from "../fakes/scripted.ts";

const ACK = {
  interrupt: "⚡ Interrupting current task. I'll respond to your message shortly.",
  queue: "⏳ Queued for the next turn. I'll respond once the current task finishes.",
  steer: "⏩ Steered into current run. Your message arrives after the next tool call.",
};
const use = (tool: string) => ({ tool, args: {} });

/** With a turn that thinks. */
async function busy(options: Parameters<typeof bootGateway>[0] = {}) {
  const running = await bootGateway(options);
  await running.chat.say("first");
  return { ...running, call: await running.model.next() };
}
const said = async ({ model }: TestGateway) => (await model.next()).request.messages.at(-1)?.text;

describe("a message to a busy session", () => {
  it("interrupts: the turn stops, the message is the next one", async () => {
    const running = await busy();
    const { chat, call } = running;
    await chat.say("second");
    expect(call.signal.aborted).toBe(true);
    expect(await said(running)).toBe("second");
    expect(chat.texts()).toEqual([ACK.interrupt]);
  });

  it("queues: its own turn, in order", async () => {
    const running = await busy({ busyMode: "queue" });
    const { chat, call, clock, model } = running;
    await chat.say("second");
    await clock.pass(3_000);
    await chat.say("third");
    await calm();
    expect(chat.texts()).toEqual([ACK.queue, ACK.queue]);
    call.answer("one");
    const second = await model.next();
    expect(second.request.messages.at(-1)?.text).toBe("second");
    second.answer("two");
    expect(await said(running)).toBe("third");
  });

  it("steers: joins at the next tool boundary", async () => {
    const tool = scriptedTool("look");
    const running = await busy({ busyMode: "steer", tools: [tool] });
    const { chat, call } = running;
    call.answer("", use("look"));
    const looking = await tool.next();
    await chat.say("look closer");
    await calm();
    expect(chat.texts().at(-1)).toBe(ACK.steer);
    looking.done("seen");
    expect(await said(running)).toBe("look closer");
  });

  it("steers into an answer that is made: both are answered, each in a message of its own", async () => {
    const running = await busy({ busyMode: "steer" });
    const { chat, call } = running;
    await chat.say("and this");
    call.answer("the answer");
    await calm();
    (await running.model.next()).answer("to that");
    await calm();
    expect(chat.texts()).toEqual([ACK.steer, "the answer", "to that"]);
  });

  it("that wanted to steer into an answer on its way is queued, and told so", async () => {
    const running = await busy({ busyMode: "steer" });
    const { chat, call, clock } = running;
    chat.outage(true);
    call.answer("done");
    await calm();
    await chat.say("one more thing");
    chat.outage(false);
    await clock.pass(5_000);
    expect(chat.texts()).toEqual(["done", ACK.queue]);
    expect(await said(running)).toBe("one more thing");
  });

  it("is acknowledged once within three seconds, and taken every time", async () => {
    const { chat, engine, clock } = await busy({ busyMode: "queue" });
    for (const text of ["a", "b", "c"]) await chat.say(text);
    await clock.pass(2_999);
    await chat.say("d");
    expect(chat.texts()).toEqual([ACK.queue]);
    await clock.pass(1);
    await chat.say("e");
    await calm();
    expect(chat.texts()).toEqual([ACK.queue, ACK.queue]);
    expect((await engine.status(ANNAS)).inbox.map(({ text }) => text)).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("is never glued to another; an interrupting one goes ahead of those that wait", async () => {
    const running = await busy({ busyMode: "queue" });
    const { chat, model } = running;
    await chat.say("waits");
    await chat.say("/busy interrupt");
    await chat.say("now");
    await chat.say("and this");
    const heard: (string | undefined)[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const call = await model.next();
      heard.push(call.request.messages.at(-1)?.text);
      call.answer("ok");
    }
    // "and this" interrupted "now", which had begun by then.
    expect(heard).toEqual(["now", "and this", "waits"]);
  });

  it("finds the inbox full: its sender is told, and nothing that waits is lost", async () => {
    const { chat, engine } = await busy({ busyMode: "queue", limits: { inbox: 2 } });
    for (const text of ["a", "b", "c"]) await chat.say(text);
    await calm();
    expect(chat.texts()).toEqual([ACK.queue, "⚠️ 2 messages are waiting already; wait or withdraw one."]);
    expect((await engine.status(ANNAS)).inbox.map(({ text }) => text)).toEqual(["a", "b"]);
  });

  it("follows the mode of its platform, and a session's own choice before that", async () => {
    const clock = handClock();
    const chats = [createLocalChat({ clock }), createLocalChat({ clock, platform: "slack" })];
    const [telegram, slack] = chats;
    const modes = { telegram: "queue", slack: "steer" } as const;
    const { model } = await bootGateway({ clock, chats, busyModes: modes });
    if (!telegram || !slack) throw new Error("there are two");
    for (const chat of chats) await chat.say("work");
    await model.next();
    await model.next();
    for (const chat of chats) await chat.say("more");
    await telegram.say("/busy interrupt");
    await telegram.say("now");
    await telegram.say("work", { from: BEN });
    await telegram.say("more", { from: BEN });
    await calm();
    expect(telegram.texts(dm(ANNA))).toEqual([
      ACK.queue,
      "From now on messages interrupt while I work.",
      ACK.interrupt,
    ]);
    expect(telegram.texts(dm(BEN))).toEqual([ACK.queue]);
    expect(slack.texts()).toEqual([ACK.steer]);
  });

  it("keeps a session's choice after a restart", async () => {
    const before = await bootGateway();
    await before.chat.say("/busy queue");
    before.kill();
    const { chat, model } = await before.next();
    await chat.say("work");
    await model.next();
    await chat.say("more");
    await chat.say("/busy");
    await calm();
    expect(chat.texts()).toEqual([
      "From now on messages queue while I work.",
      ACK.queue,
      "Messages queue while I work. Choose: /busy interrupt | queue | steer",
    ]);
  });
});

describe("a command to a busy session", () => {
  it.each(["retry", "undo", "rollback", "resume", "compress"])("/%s cannot run mid-turn, and says so", async (name) => {
    const { chat, call, engine } = await busy();
    await chat.say(`/${name}`);
    await calm();
    expect(chat.texts()).toEqual([
      `⏳ Agent is running — \`/${name}\` can't run mid-turn. Wait for the current response or \`/stop\` first.`,
    ]);
    expect(call.signal.aborted).toBe(false);
    expect((await engine.status(ANNAS)).inbox).toEqual([]);
  });

  it.each(["status", "help", "busy", "title", "sessions", "model", "usage", "approve", "deny"])(
    "/%s runs, and interrupts nothing",
    async (name) => {
      const { chat, call } = await busy();
      await chat.say(`/${name}`);
      await calm();
      expect(chat.texts()).toHaveLength(1);
      expect(chat.texts()[0]).not.toContain("can't run");
      expect(call.signal.aborted).toBe(false);
    },
  );

  it("/stop stops the turn, and keeps the session and its queue", async () => {
    const running = await busy({ busyMode: "queue" });
    const { chat, call } = running;
    await chat.say("next");
    await chat.say("/stop");
    expect(call.signal.aborted).toBe(true);
    const next = await running.model.next();
    const shown = ["first", expect.stringContaining("stopped by the user"), "next"];
    expect(next.request.messages.map(({ text }) => text)).toEqual(shown);
    expect(chat.texts()).toEqual([ACK.queue, "⏹ Stopped. 1 message(s) are next."]);
  });

  it("/stop with nothing to stop says so", async () => {
    const { chat } = await bootGateway();
    await chat.say("/stop");
    await calm();
    expect(chat.texts()).toEqual(["Nothing is running."]);
  });

  it("/stop of a turn whose answer is on its way lets it arrive", async () => {
    const { chat, call, clock } = await busy();
    chat.outage(true);
    call.answer("the answer");
    await calm();
    await chat.say("/stop");
    chat.outage(false);
    await clock.pass(5_000);
    expect(chat.texts()).toEqual(["the answer", "It has just finished; its answer is on the way."]);
  });

  it("/stop leaves a task beside the conversation alone, /status lists it, /stop all ends it", async () => {
    const { chat, model, engine } = await bootGateway();
    await chat.say("/background count the stars");
    const counting = await model.next();
    await chat.say("work");
    const working = await model.next();
    await chat.say("/stop");
    expect([counting.signal.aborted, working.signal.aborted]).toEqual([false, true]);
    await chat.say("/status");
    await calm();
    expect(chat.texts().at(-1)).toContain("Beside this: count the stars");
    await chat.say("/stop all");
    expect(counting.signal.aborted).toBe(true);
    await calm();
    expect((await engine.load()).turns).toBe(0);
  });

  it("/stop all in one chat leaves the tasks of another alone", async () => {
    const { chat, model } = await bootGateway();
    await chat.say("/background mine");
    const mine = await model.next();
    await chat.say("/background yours", { from: BEN });
    const yours = await model.next();
    await chat.say("/stop all");
    expect([mine.signal.aborted, yours.signal.aborted]).toEqual([true, false]);
  });

  it("/queue and /steer say something in their own mode", async () => {
    const tool = scriptedTool("look");
    const running = await busy({ tools: [tool] });
    const { chat, call } = running;
    await chat.say("/queue afterwards");
    await chat.say("/steer meanwhile");
    expect(call.signal.aborted).toBe(false);
    call.answer("", use("look"));
    (await tool.next()).done("seen");
    const next = await running.model.next();
    expect(next.request.messages.at(-1)?.text).toBe("meanwhile");
    next.answer("done");
    expect(await said(running)).toBe("afterwards");
  });

  it("/new stops the turn and begins an empty conversation; /resume brings the old one back", async () => {
    const { chat, call, model } = await busy();
    await chat.say("/new");
    expect(call.signal.aborted).toBe(true);
    await chat.say("hello");
    const fresh = await model.next();
    expect(fresh.request.messages).toEqual([{ role: "user", text: "hello" }]);
    fresh.answer("hi");
    await calm();
    await chat.say("/resume 1");
    await chat.say("where were we?");
    const texts = (await model.next()).request.messages.map(({ text }) => text);
    expect([texts[0], texts.at(-1)]).toEqual(["first", "where were we?"]);
  });

  it("/new and /resume hold after a restart", async () => {
    let running = await bootGateway();
    const { chat } = running;
    const hears = async (text: string) => {
      await chat.say(text);
      const call = await running.model.next();
      call.answer("ok");
      await calm();
      return call.request.messages.map((message) => message.text);
    };
    await hears("one");
    await chat.say("/new");
    running.kill();
    running = await running.next();
    expect(await hears("two")).toEqual(["two"]);
    await chat.say("/resume 1");
    running.kill();
    running = await running.next();
    expect(await hears("three")).toEqual(["one", "ok", "three"]);
    await chat.say("/new");
    expect(await hears("four")).toEqual(["four"]);
  });

  it("that nobody knows is answered, and does not reach the model", async () => {
    const { chat, model } = await bootGateway();
    for (const text of ["/constructor", "/nonsense now"]) await chat.say(text);
    await calm();
    expect(chat.texts()).toEqual(["Unknown command /constructor. See /help.", "Unknown command /nonsense. See /help."]);
    expect(model.all).toEqual([]);
  });

  it("a path is not a command", async () => {
    const running = await bootGateway();
    await running.chat.say("/etc/hosts looks odd");
    expect(await said(running)).toBe("/etc/hosts looks odd");
  });
});

describe("a command that changes the conversation", () => {
  async function talked() {
    const running = await bootGateway();
    for (const n of ["one", "two", "three"]) {
      await running.chat.say(n);
      (await running.model.next()).answer(`answer ${n}`);
      await calm();
    }
    return running;
  }
  const shownTo = async (running: TestGateway) => {
    await running.chat.say("now");
    return (await running.model.next()).request.messages.map(({ text }) => text);
  };

  it("/undo takes back one turn after another, also those from before it was forked", async () => {
    const running = await talked();
    await running.chat.say("/undo");
    await running.chat.say("/undo");
    expect(running.chat.texts().slice(3)).toEqual(["↩️ Taken back: three", "↩️ Taken back: two"]);
    expect(await shownTo(running)).toEqual(["one", "answer one", "now"]);
  });

  it("/rollback lists the turns, says what going back would change, and goes back", async () => {
    const running = await talked();
    for (const words of ["/rollback", "/rollback 2", "/rollback 2 now", "/rollback 9"]) await running.chat.say(words);
    const [list, preview, ...rest] = running.chat.texts().slice(3);
    expect(list).toMatch(/^1\. three \(no files\)\n2\. two .*\n3\. one /);
    expect(preview).toMatch(/^To before: two \(and 1 later message\)[\s\S]*\/rollback 2 now goes back/);
    expect(rest).toEqual(["↩️ Taken back: two", "There are only 1 turns in this conversation."]);
    expect(await shownTo(running)).toEqual(["one", "answer one", "now"]);
  });

  it("/undo of the only turn leaves nothing, and one more has nothing to do", async () => {
    const running = await bootGateway();
    await running.chat.say("one");
    (await running.model.next()).answer("answer");
    await calm();
    await running.chat.say("/undo");
    await running.chat.say("/undo");
    await calm();
    expect(running.chat.texts().slice(1)).toEqual(["↩️ Taken back: one", "There is nothing to undo."]);
    expect(await shownTo(running)).toEqual(["now"]);
  });

  it("/retry says the last message again, without its answer", async () => {
    const { chat, model } = await talked();
    await chat.say("/retry");
    const { request } = await model.next();
    expect(request.messages.map(({ text }) => text)).toEqual(["one", "answer one", "two", "answer two", "three"]);
  });

  it("/compress answers when it is done", async () => {
    const { chat, model } = await talked();
    await chat.say("/compress");
    (await model.next()).answer("a summary");
    await calm();
    expect(chat.texts().at(-1)).toContain("The conversation so far is now a summary");
  });

  it.each(["/undo", "/retry", "/new", "/stop"])("%s that the platform brings twice is done once", async (text) => {
    const running = await talked();
    const message = await running.chat.say(text);
    await running.chat.redeliver(message);
    await calm();
    expect(running.chat.sent().length + running.model.all.length).toBe(3 + 3 + 1);
  });

  it.each(["/undo", "/new"])("%s that a crash caught is not done again; its person is told to look", async (text) => {
    const running = await talked();
    const dying = await running.next({ dieAt: 3 }); // just after it was noted that it begins
    void dying.chat.say(text);
    await calm();
    expect(dying.dead()).toBe(true);
    const after = await dying.next();
    await calm();
    expect(after.chat.texts().at(-1)).toBe(
      `⚠️ I was restarted in the middle of \`${text}\`. Check whether it was done, and send it again if not.`,
    );
    expect(await shownTo(after)).toHaveLength(7);
  });

  it("/queue that a crash caught is done after all, once", async () => {
    for (let dieAt = 1; ; dieAt++) {
      const before = await bootGateway({ dieAt });
      void before.chat.say("/queue work");
      await calm();
      if (!before.dead()) {
        expect(dieAt).toBeGreaterThan(4);
        break;
      }
      const after = await before.next();
      await calm();
      expect(after.model.all, `died at ${dieAt}`).toHaveLength(1);
      expect(after.journal(ANNAS).filter(({ kind }) => kind === "accepted")).toHaveLength(1);
    }
  });
});
