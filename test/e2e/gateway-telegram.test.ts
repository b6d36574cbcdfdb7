// `hermes gateway` as real processes between a Telegram and a model provider of this machine: talked to, interrupted, asked,
// killed, drained, restarted.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ownerPid } from "../../src/store/sqlite/file.ts";
import { type FakeTelegram, startFakeTelegram } from "../fakes/chat/telegram.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import type { Reply } from "../fakes/llm/reply.ts";
import { type FakeLlm, type LlmRequest, startFakeLlm } from "../fakes/llm/server.ts";

const ANNA = { id: 999, name: "Anna" };
const BEN = { id: 1001, name: "Ben" };
const DETACHED_MS = 20_000;

let llm: FakeLlm;
let telegram: FakeTelegram;
let place: Place;
let expected: unknown[];
beforeEach(async () => {
  [llm, telegram] = await Promise.all([startFakeLlm(), startFakeTelegram()]);
  expected = [];
  place = makePlace({ ...llm.env, ...telegram.env(ANNA.id, BEN.id) });
  place.configure("approvals: {mode: off}\nterminal: {sandbox: off}\n");
});
afterEach(async () => {
  await endDetached();
  place.clear();
  await Promise.all([llm.close(), telegram.close()]);
  expect(llm.violations).toEqual([]);
  expect(telegram.violations).toEqual(expected);
});

const gateway = async (env?: NodeJS.ProcessEnv) => (await place.startGateway(env)).hermes;
async function killed(hermes: { kill(signal: NodeJS.Signals): void; exit: Promise<unknown> }) {
  hermes.kill("SIGKILL");
  await hermes.exit;
}
const owner = () => ownerPid(join(place.home, "hermes.db"));

/** One that started itself again has no parent that could end it. */
async function endDetached() {
  const pid = owner();
  if (pid === null || !isAlive(pid)) return;
  process.kill(pid, "SIGKILL");
  await expect.poll(() => isAlive(pid), { timeout: DETACHED_MS }).toBe(false);
}
function isAlive(pid: number): boolean {
  try {
    // One that nobody waits for any more is as good as gone.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

const say = (text: string, from = ANNA) => telegram.say({ from, text });
const texts = (chat = ANNA.id) =>
  telegram
    .sent(chat)
    .filter(({ deleted }) => !deleted)
    .map(({ text }) => text);
const shown = (what: string | RegExp, chat = ANNA.id) =>
  telegram.until(() =>
    telegram.sent(chat).find(({ text }) => (typeof what === "string" ? text === what : what.test(text))),
  );
const lastUser = ({ messages }: LlmRequest) => messages.findLast(({ role }) => role === "user")?.text ?? "";
const held = (text: string) => {
  const gate = Promise.withResolvers<void>();
  return { reply: { text, hold: gate.promise } satisfies Reply, release: gate.resolve };
};
const run = (command: string): Reply => ({ calls: [{ name: "terminal", args: { command } }] });

describe("a message on Telegram", () => {
  it("is answered where it was said, once, and is confirmed", async () => {
    llm.script((request) => ({ text: `You said ${lastUser(request)}.` }));
    await gateway();
    say("hello");
    say("hi", BEN);
    await Promise.all([shown("You said hello."), shown("You said hi.", BEN.id)]);
    await telegram.until(() => telegram.pending().length === 0);
    expect([texts(), texts(BEN.id)]).toEqual([["You said hello."], ["You said hi."]]);
  });

  it("of somebody who was taken off the list during a crash is not worked on; theirs is told, the others go on", async () => {
    const both = [held("for Anna"), held("for Ben")];
    for (const { reply } of both) llm.script(reply);
    const first = await gateway();
    say("hello");
    say("hi", BEN);
    await llm.nextRequest();
    await llm.nextRequest();
    say("/queue and then this");
    await shown(/queue/i);
    await killed(first);
    for (const { release } of both) release();
    llm.script((request) => ({ text: `You said ${lastUser(request)}.` }));
    await gateway({ TELEGRAM_ALLOWED_USERS: String(BEN.id) });
    await shown("You said hi.", BEN.id);
    say("and?");
    await shown(/^I only talk to people I know/);
    expect(llm.requests.slice(2).map(lastUser)).toEqual(["hi"]);
  });

  it("in a group that shares a conversation is worked on after a crash only if its own sender is still on the list", async () => {
    place.configure(
      "approvals: {mode: off}\nterminal: {sandbox: off}\ngateway: {shared_groups: true, telegram: {require_mention: false}}\n",
    );
    const chat = -7;
    const { reply, release } = held("for Anna");
    llm.script(reply);
    const first = await gateway();
    telegram.say({ from: ANNA, chat, text: "hello" });
    await llm.nextRequest();
    for (const [from, text] of [
      [ANNA, "/queue and this"],
      [BEN, "/queue from Ben"],
      [ANNA, "/queue and that"],
    ] as const)
      telegram.say({ from, chat, text });
    await telegram.until(() => telegram.pending().length === 0);
    await killed(first);
    release();
    llm.script((request) => ({ text: `You said ${lastUser(request)}.` }));
    await gateway({ TELEGRAM_ALLOWED_USERS: String(BEN.id) });
    await shown("You said from Ben.", chat);
    telegram.say({ from: BEN, chat, text: "more" });
    await shown("You said more.", chat);
    expect(llm.requests.slice(1).map(lastUser)).toEqual(["from Ben", "more"]);
  });

  it("can be sent by a script, also while no gateway runs", async () => {
    const send = async (...args: string[]) => {
      const hermes = place.start(["send", ...args]);
      hermes.hangUp();
      return [await hermes.exit, hermes.stdout() + hermes.stderr()];
    };
    say("hello"); // a bot writes only to those who have written to it
    expect(await send("--to", `telegram:${ANNA.id}`, "the build is done")).toEqual([0, "Sent to telegram:999\n"]);
    expect(texts()).toEqual(["the build is done"]);
    expect((await send("--to", "slack:C1", "hello"))[0]).toBe(1);
    expect((await send("hello"))[0]).toBe(2);
  });

  it("of a stranger is refused once and reaches no model", async () => {
    await gateway();
    const eve = { id: 666, name: "Eve" };
    say("hello", eve);
    say("hello?", eve);
    await shown(/^I only talk to people I know/, eve.id);
    say("hello");
    await llm.nextRequest();
    expect([llm.requests.length, texts(eve.id).length]).toEqual([1, 1]);
  });

  it("of somebody who paired with a code from the command line is answered", async () => {
    const hermes = await gateway();
    const made = place.start(["pairing", "create", "telegram"]);
    expect(await made.exit).toBe(0);
    const [code = ""] = made.stdout().split("\n");
    const eve = { id: 666, name: "Eve" };
    say(code, eve);
    await shown("Paired. You can talk to me here now.", eve.id);
    say("hello", eve);
    await shown(/Hello from the fake model/, eve.id);
    hermes.kill("SIGTERM");
    expect(await hermes.exit).toBe(0);
  });

  it("interrupts the turn that runs, and is the next one", async () => {
    const first = held("never heard");
    llm.script([first.reply, { text: "second answer" }]);
    await gateway();
    say("first");
    const request = await llm.nextRequest();
    await request.holding;
    say("second");
    await shown("second answer");
    expect(await request.closed).toBe("closed-by-client");
    expect(texts()).toEqual(["⚡ Interrupting current task. I'll respond to your message shortly.", "second answer"]);
  });

  it("shows its tools in one message, which becomes the answer", async () => {
    llm.script([run("echo done > done.txt"), { text: "It is done." }]);
    await gateway();
    say("do it");
    const message = await shown("It is done.");
    expect(message.history.map(({ text }) => text)).toContainEqual(expect.stringMatching(/terminal: echo done/));
    expect(texts()).toEqual(["It is done."]);
  });

  it("that needs an approval is asked for with buttons; one press runs it, the next does nothing", async () => {
    place.configure("terminal: {sandbox: off}\n");
    llm.script([run("touch approved.txt"), { text: "Touched." }]);
    await gateway();
    say("touch it");
    const ask = await shown(/May I\?[^]*touch approved\.txt/);
    expect(existsSync(join(place.dir, "approved.txt"))).toBe(false);
    const wrong = telegram.press({ message: ask, button: "✅ Yes, once", by: { id: 1002, name: "Mallory" } });
    await telegram.until(() => telegram.pressAnswer(wrong));
    expect(telegram.pressAnswer(wrong)?.text).toBe("Only the person who is asked can answer.");
    const right = telegram.press({ message: ask, button: "✅ Yes, once", by: ANNA });
    await shown("Touched.");
    expect(telegram.pressAnswer(right)?.text).toBe("✅ Yes, once");
    expect(existsSync(join(place.dir, "approved.txt"))).toBe(true);
    const again = telegram.press({ message: ask, button: "❌ No", by: ANNA });
    await telegram.until(() => telegram.pressAnswer(again));
    expect(telegram.pressAnswer(again)?.text).toBe("This was decided already.");
  });

  it("is answered in as many messages as it takes", async () => {
    const long = Array.from({ length: 300 }, (_, n) => `Line ${n} of a long answer with *stars* and <signs> & more.`);
    llm.script({ text: long.join("\n") });
    await gateway();
    say("tell me all");
    await shown(/Line 299/);
    const whole = texts().join("\n");
    for (const n of [0, 77, 150, 299]) expect(whole).toContain(`Line ${n} of`);
    expect(texts().length).toBeGreaterThan(3);
  });
});

describe("kill -9", () => {
  it("in the middle of a tool: the turn goes on by itself, in the same message, once", async () => {
    llm.script([run("echo started > started.txt; sleep 300"), { text: "Went on." }]);
    const hermes = await gateway();
    say("take your time");
    await shown(/⚙️ terminal/);
    await expect.poll(() => existsSync(join(place.dir, "started.txt")), { timeout: 10_000 }).toBe(true);
    await killed(hermes);
    await gateway();
    await shown("Went on.");
    expect(texts()).toEqual(["Went on."]);
    const [, second] = llm.requests;
    expect(second?.raw).toContain("Outcome unknown");
  });

  it("and what the platform brings again after it are no reason to answer again", async () => {
    llm.script((request) => ({ text: `You said ${lastUser(request)}.` }));
    const first = await gateway();
    say("one");
    await shown("You said one.");
    say("two");
    await shown("You said two."); // so the first answer is noted as delivered
    await killed(first);
    telegram.redeliver(2);
    await gateway();
    say("three");
    await shown("You said three.");
    const answers = texts().map((text) => text.replace(/^\(Sent again.*\)\n/, ""));
    expect([answers.filter((text) => text === "You said one.").length, answers.at(-1)]).toEqual([1, "You said three."]);
    expect(llm.requests.map(lastUser)).toEqual(["one", "two", "three"]);
  });

  it("three times while it recovers: still one answer; once more, and its person is told", async () => {
    llm.script(() => ({ text: "so far", fault: { silence: "text" } }));
    let hermes = await gateway();
    say("poison");
    await llm.nextRequest();
    for (let crash = 0; crash < 3; crash++) {
      await killed(hermes);
      hermes = await gateway();
      await llm.nextRequest();
    }
    await killed(hermes);
    await gateway();
    await shown(/given up/);
    expect(texts().filter((text) => /given up/.test(text))).toHaveLength(1);
    llm.script((request) => ({ text: `You said ${lastUser(request)}.` }));
    say("go on");
    await shown(/go on/);
  });

  it("while a question waits: its button works in the next process", async () => {
    place.configure("terminal: {sandbox: off}\n");
    llm.script([run("touch later.txt"), { text: "Touched." }]);
    const hermes = await gateway();
    say("touch it");
    const ask = await shown(/May I\?/);
    await killed(hermes);
    await gateway();
    telegram.press({ message: ask, button: "✅ Yes, once", by: ANNA });
    await shown("Touched.");
    expect(existsSync(join(place.dir, "later.txt"))).toBe(true);
  });
});

describe("/restart", () => {
  it("lets the turn finish and comes back by itself; brought again, it restarts nothing", async () => {
    const slow = held("finished in peace");
    llm.script([slow.reply, { text: "the follow-up's answer" }]);
    const hermes = await gateway();
    say("work");
    await (await llm.nextRequest()).holding;
    say("/restart");
    await shown("⏳ Draining 1 active agent(s) before restart...");
    await shown(/Gateway restarting/);
    say("follow up");
    await shown("⏳ Gateway is restarting. Your message is queued for the next turn.");
    say("fresh", BEN);
    await shown("⏳ Gateway is restarting and is not accepting new work right now.", BEN.id);
    slow.release();
    expect(await hermes.exit).toBe(0);
    await shown("the follow-up's answer");
    const next = owner();
    expect(next).not.toBe(hermes.pid);
    telegram.redeliver(4);
    say("still there?");
    await shown(/Hello from the fake model/);
    expect(owner()).toBe(next);
    expect(texts().filter((text) => text.includes("Draining"))).toHaveLength(1);
    expect(texts()).toContain("finished in peace");
  });

  it("under a service manager exits with 75 and starts nothing itself", async () => {
    const hermes = await gateway({ INVOCATION_ID: "abc" });
    say("/restart");
    expect(await hermes.exit).toBe(75);
    expect(texts()).toEqual(["♻️ Restarting gateway..."]);
    expect(telegram.pending()).toEqual([]);
    expect(owner()).toBeNull();
  });

  it("from another shell does the same", async () => {
    const hermes = await gateway();
    const asked = place.start(["gateway", "restart"]);
    expect(await asked.exit).toBe(0);
    expect(asked.stdout()).toMatch(/Restarted as process \d+/);
    expect(await hermes.exit).toBe(0);
    say("hello");
    await shown(/Hello from the fake model/);
  });
});

describe("SIGTERM", () => {
  it("drains: one notice, the turn may finish, nothing is left, exit 0", async () => {
    const slow = held("finished");
    llm.script(slow.reply);
    const hermes = await gateway();
    say("work");
    await (await llm.nextRequest()).holding;
    hermes.kill("SIGTERM");
    const notice = await shown(/shutting down/);
    expect(notice.text).toContain("interrupted");
    slow.release();
    expect(await hermes.exit).toBe(0);
    expect(texts()).toEqual([notice.text, "finished"]);
    expect(hermes.stderr()).not.toContain("continue after the next start");
  });

  it("ends at the limit of its drain with a turn that is stuck, and that goes on at the next start", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const hermes = await gateway({ HERMES_RESTART_DRAIN_TIMEOUT: "0.5" });
    say("work");
    await (await llm.nextRequest()).holding;
    const asked = performance.now();
    hermes.kill("SIGTERM");
    expect(await hermes.exit).toBe(0);
    expect(performance.now() - asked).toBeGreaterThan(450);
    llm.script({ text: "went on" });
    await gateway();
    await shown("went on");
  });

  it("and SIGKILL in the middle of the drain lose nothing", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const hermes = await gateway({ HERMES_RESTART_DRAIN_TIMEOUT: "60" });
    say("work");
    await (await llm.nextRequest()).holding;
    hermes.kill("SIGTERM");
    await shown(/shutting down/);
    say("follow up");
    await shown(/queued for the next turn/);
    await killed(hermes);
    llm.script((request) => ({ text: `You said ${lastUser(request)}.` }));
    await gateway();
    await shown("You said work.");
    await shown("You said follow up.");
    expect(texts().filter((text) => text.startsWith("You said"))).toEqual(["You said work.", "You said follow up."]);
  });

  it("twice ends it at once and loses nothing", async () => {
    llm.script({ text: "so far", fault: { silence: "text" } });
    const hermes = await gateway({ HERMES_RESTART_DRAIN_TIMEOUT: "60" });
    say("work");
    await (await llm.nextRequest()).holding;
    hermes.kill("SIGTERM");
    await hermes.prints(/gateway\.leaving/);
    const asked = performance.now();
    hermes.kill("SIGTERM");
    expect(await hermes.exit).toBe(0);
    expect(performance.now() - asked).toBeLessThan(1_000);
    llm.script({ text: "went on" });
    await gateway();
    await shown("went on");
  });
});

describe("a gateway that cannot start", () => {
  it("with a token that another one uses says so (78), and leaves that one alone", async () => {
    await gateway();
    const other = makePlace({ ...llm.env, ...telegram.env() });
    const second = other.start(["gateway", "--port", "0"], { HOME: place.dir }); // the same user, another home of ours
    expect(await second.exit).toBe(78);
    expect(second.stderr()).toContain("Another gateway on this machine uses the same Telegram token; stop it first.");
    other.clear();
    say("hello");
    await shown(/Hello from the fake model/);
  });

  it("with a token that Telegram does not know says what to set (78)", async () => {
    const hermes = place.start(["gateway", "--port", "0"], { TELEGRAM_BOT_TOKEN: "1:wrong" });
    expect(await hermes.exit).toBe(78);
    expect(hermes.stderr()).toContain("TELEGRAM_BOT_TOKEN");
    expect(hermes.stderr()).not.toContain("1:wrong");
    expect(hermes.stdout()).not.toContain("ready");
  });
});
