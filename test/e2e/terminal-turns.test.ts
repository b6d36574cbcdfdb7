// hermes chat on a real terminal: what is typed while a turn runs, ends, or asks. None of it is lost, doubled or taken for
// something else.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createRemoteRuntime } from "../../src/client/remote.ts";
import type { Entry } from "../../src/core/session.ts";
import { openSqlite } from "../../src/store/sqlite/sqlite.ts";
import { eventually, holds, rests, toolsOf, typed } from "../fakes/chat-screen.ts";
import { program } from "../fakes/hermes.ts";
import { type LlmRequest } from "../fakes/llm/server.ts";
import { configure, llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import { type Screen } from "../fakes/pty.ts";

useProgram();

const SESSION = "agent:main:terminal:dm:talk";
/** Nothing is asked about a command. */
const FREELY = { HERMES_YOLO_MODE: "yes" };
const ALT_ENTER = "\x1b\r";

async function chat(env: NodeJS.ProcessEnv = {}): Promise<Screen> {
  const screen = openTerminal(["chat", "--session", "talk"], { env, cols: 100, rows: 30 });
  await screen.shows("Ctrl+D leaves");
  return screen;
}

const runs = (command: string) => ({ calls: [{ name: "terminal", args: { command } }] });
const asks = (question: string, choices: string[] = []) => ({
  calls: [{ name: "clarify", args: { question, choices } }],
});

/** Without the note that an interrupted turn leaves before it. */
const lastSaid = (request: LlmRequest | undefined) =>
  request?.messages
    .findLast(({ role }) => role === "user")
    ?.text.split("\n")
    .at(-1);
/** What the model was told last, request by request. */
const said = () => llm.requests.map(lastSaid);

async function journal(): Promise<Entry[]> {
  const store = await openSqlite({ file: join(place.home, "hermes.db"), readOnly: true });
  const entries = await store.journal.entries(SESSION, 0, 10_000);
  await store.close();
  return entries;
}
/** How the turns have ended, once the last one has. */
async function outcomes(screen: Screen) {
  await rests(screen);
  return (await journal()).flatMap((e) => (e.kind === "ended" ? [e.outcome] : []));
}

describe("while a turn runs", () => {
  it("a message ends a foreground command at once and is the next turn", async () => {
    llm.script([runs("sleep 120"), { text: "Of course." }]);
    const screen = await chat();
    screen.type("go\r");
    await eventually(() => toolsOf(place).includes("sleep 120"));
    screen.type("do this instead\r");
    await screen.shows("Of course.", 5_000);
    expect(toolsOf(place)).toEqual([]);
    expect(typed(screen)).toBe("");
    expect(said()).toEqual(["go", "do this instead"]);
    expect(screen.text()).toContain("Interrupted by a newer message.");
  });

  it("Esc stops the model's call; what is being typed stays, and what waits runs", async () => {
    llm.script([{ text: "on and on", fault: { silence: "text" } }, { text: "Now this." }]);
    const screen = await chat({ HERMES_GATEWAY_BUSY_INPUT_MODE: "queue" });
    screen.type("tell me everything\r");
    const held = await llm.nextRequest();
    await screen.shows("on and on");
    screen.type("what waits\r");
    await screen.shows("1. [queue] what waits");
    screen.type("half a thou");
    await holds(screen, "half a thou");
    screen.key("esc");
    expect(await held.closed).toBe("closed-by-client");
    await screen.shows("Now this.");
    await screen.shows("■ stopped");
    expect(typed(screen)).toBe("half a thou");
    expect(said()).toEqual(["tell me everything", "what waits"]);
    screen.type("ght\r");
    await screen.shows("❯ half a thought");
  });

  it("Ctrl+C stops a command with everything that it started; what waits runs", async () => {
    llm.script([runs("sleep 120 & setsid sleep 121 & (setsid sleep 122 &) ; wait"), { text: "Now this." }]);
    const screen = await chat({ ...FREELY, HERMES_GATEWAY_BUSY_INPUT_MODE: "queue" });
    screen.type("go\r");
    await eventually(() => [120, 121, 122].every((s) => toolsOf(place).includes(`sleep ${s}`)));
    screen.type("what waits\r");
    await screen.shows("1. [queue] what waits");
    screen.type("half a thought");
    await holds(screen, "half a thought");
    screen.key("ctrl+c");
    await screen.shows("Now this.", 5_000);
    expect(toolsOf(place)).toEqual([]);
    expect(typed(screen)).toBe("half a thought");
    expect(said()).toEqual(["go", "what waits"]);
  });

  it("Ctrl+C right behind Enter stops what Enter began", async () => {
    llm.script({ text: "on and on", fault: { silence: "text" } });
    const screen = await chat();
    screen.type("go\r\x03");
    await screen.shows("■ stopped");
    expect(await outcomes(screen)).toEqual(["cancelled"]);
    expect(llm.requests.map(({ ending }) => ending)).not.toContain(undefined);
  });

  it("lines that come in one burst are as many messages, in order", async () => {
    llm.script(({ number }) => ({ text: `Answer ${number}.` }));
    const screen = await chat({ HERMES_GATEWAY_BUSY_INPUT_MODE: "queue" });
    screen.type("one\rtwo\rthree\rfour");
    await screen.shows("Answer 3.");
    await holds(screen, "four");
    expect(said()).toEqual(["one", "two", "three"]);
  });

  it.each(["esc", "ctrl+c"])("%s stops a command of one's own", async (key) => {
    const screen = await chat();
    screen.type("!sleep 120\r");
    await eventually(() => toolsOf(place).includes("sleep 120"));
    screen.key(key);
    await screen.shows("■ stopped");
    expect(toolsOf(place)).toEqual([]);
  });

  it("Ctrl+J begins another line of the same message", async () => {
    const screen = await chat();
    screen.type("one\ntwo\r");
    await screen.shows("Hello from the fake model.");
    expect(llm.requests.map(({ messages }) => messages)).toMatchObject([[{ role: "user", text: "one\ntwo" }]]);
  });

  it("/busy queue: a message waits, Alt+Enter interrupts all the same", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ text: "First", hold: hold.promise }, { text: "Third." }, { text: "Second." }]);
    const screen = await chat();
    screen.type("/busy queue\rone\r");
    await screen.shows("First");
    screen.type("two\r");
    await screen.shows("⏳ Queued for the next turn.");
    screen.type(`three${ALT_ENTER}`);
    await screen.shows("Interrupted by a newer message.");
    await screen.shows("Second.");
    expect(said()).toEqual(["one", "three", "two"]);
    expect(await outcomes(screen)).toEqual(["interrupted", "completed", "completed"]);
  });

  it("in interrupt mode Alt+Enter queues", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ text: "First", hold: hold.promise }, { text: "Second." }]);
    const screen = await chat();
    screen.type("one\r");
    await screen.shows("First");
    screen.type(`two${ALT_ENTER}`);
    await screen.shows("1. [queue] two");
    hold.resolve();
    await screen.shows("Second.");
    expect(await outcomes(screen)).toEqual(["completed", "completed"]);
  });

  it("/busy steer: a message joins the turn after its tool", async () => {
    llm.script([runs("sleep 1"), { text: "Both done." }]);
    const screen = await chat();
    screen.type("/busy steer\rone\r");
    await eventually(() => toolsOf(place).includes("sleep 1"));
    screen.type("and this\r");
    await screen.shows("⏩ Steered into current run.");
    await screen.shows("Both done.");
    await screen.shows("❯ and this");
    expect(said()).toEqual(["one", "and this"]);
    expect(await outcomes(screen)).toEqual(["completed"]);
  });

  it("Alt+Up takes back what would run last, before what is being typed; /withdraw any", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ text: "First", hold: hold.promise }, { text: "Second." }]);
    const screen = await chat();
    screen.type("/busy queue\rone\r");
    await screen.shows("First");
    screen.type("two\rthree\rfour\r");
    await screen.shows("3. [queue] four");
    screen.type("and more");
    screen.key("alt+up");
    await holds(screen, "four\nand more");
    await screen.until(() => !screen.text().includes("3. [queue] four"));
    screen.type("\x15\x7f\x15"); // both lines are cleared
    await holds(screen, "");
    screen.type("/withdraw 1\r");
    await holds(screen, "two");
    hold.resolve();
    await screen.shows("Second.");
    expect(said()).toEqual(["one", "three"]);
  });

  it("after Esc all return to the editor, before what is being typed, if that is configured", async () => {
    configure("display: {busy_input_mode: queue, queued_after_stop: edit}");
    llm.script([{ text: "First", hold: new Promise(() => {}) }, { text: "Second." }]);
    const screen = await chat();
    screen.type("one\r");
    await screen.shows("First");
    screen.type("two\rthree\r");
    await screen.shows("2. [queue] three");
    await screen.shows("after Esc they return to the editor");
    screen.type("and more");
    screen.key("esc");
    await screen.shows("■ stopped");
    await holds(screen, "two\nthree\nand more");
    screen.key("enter");
    await screen.shows("Second.");
    expect(JSON.stringify(llm.requests.at(-1))).toContain("two\\nthree\\nand more");
  });

  it("what is taken back while a message is on its way comes after it", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ text: "First", hold: hold.promise }]);
    const screen = await chat({ HERMES_GATEWAY_BUSY_INPUT_MODE: "queue" });
    screen.type("one\r");
    await screen.shows("First");
    screen.type("two\r");
    await screen.shows("1. [queue] two");
    screen.type("three\x1b[1;3A\r"); // Alt+Up and Enter in one go
    await screen.shows("1. [queue] three");
    await holds(screen, "two");
  });
});

describe("when it asks", () => {
  const made = () => readdirSync(place.dir).filter((name) => name !== "home");
  const decisions = async () => (await journal()).flatMap((e) => (e.kind === "decided" ? [[e.allow, e.text]] : []));
  const asked = (screen: Screen) => screen.until(() => screen.text().includes("type its number"), "a question");
  /** So long nothing that is pressed is an answer. */
  const ARMED_MS = 500;

  it("the whole command is shown, and arrows and Enter decide", async () => {
    const command = `touch ${Array.from({ length: 60 }, (_, i) => `file-${i}`).join(" ")}`;
    llm.script([runs(command), { text: "Done." }, runs("touch other"), { text: "All right, not." }]);
    const screen = await chat();
    screen.type("go\r");
    await asked(screen);
    expect(screen.lines().join("").replaceAll(" ", "")).toContain(command.replaceAll(" ", ""));
    await sleep(ARMED_MS);
    screen.key("down");
    await screen.shows("❯ 1. Yes, once");
    screen.key("enter");
    await screen.shows("Done.");
    expect(made()).toHaveLength(60);
    screen.type("again\r");
    await asked(screen);
    await sleep(ARMED_MS);
    screen.key("up");
    await screen.shows("❯ 4. No");
    screen.type("\r\r"); // without a reason
    await screen.shows("All right, not.");
    expect(made()).not.toContain("other");
    expect(await decisions()).toEqual([
      [true, "once"],
      [false, "The user said no."],
    ]);
  });

  it("words decide too: yes, no, always", async () => {
    llm.script(({ messages }) => {
      const told = messages.filter(({ role }) => role === "tool").length;
      return messages.at(-1)?.role === "tool" ? { text: `It said ${told}.` } : runs("touch made");
    });
    const screen = await chat();
    for (const [i, word] of ["no", "yes", "always"].entries()) {
      screen.type(`go ${i}\r`);
      await asked(screen);
      screen.type(`${word}\r`);
      await screen.shows(`It said ${i + 1}.`);
      expect(made()).toEqual(i === 0 ? [] : ["made"]);
    }
    screen.type("go again\r");
    await screen.shows("It said 4."); // unasked
    expect(await decisions()).toEqual([
      [false, "The user said no."],
      [true, "once"],
      [true, "always"],
    ]);
  });

  it("an Enter that was on its way when the question came allows nothing", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ ...runs("touch made"), hold: hold.promise }, { text: "Never mind." }]);
    const screen = await chat();
    screen.type("go\r");
    await (await llm.nextRequest()).holding;
    const waiting = asked(screen);
    hold.resolve();
    for (let asking = true; asking; asking = !screen.text().includes("type its number")) {
      screen.type("\r");
      await sleep(5);
    }
    await waiting;
    screen.type("\x1b[B\r"); // an arrow and Enter, sooner than anybody can have read it
    screen.type("\r");
    await sleep(ARMED_MS);
    screen.type("\r");
    await sleep(100);
    expect(await decisions()).toEqual([]);
    screen.type("no\r");
    await screen.shows("Never mind.");
    expect(made()).toEqual([]);
  });

  it("what was being typed when it came stays, and is a message even if it is a yes", async () => {
    const hold = Promise.withResolvers<void>();
    llm.script([{ ...runs("touch made"), hold: hold.promise }, { text: "Yes what?" }]);
    const screen = await chat();
    screen.type("go\r");
    await (await llm.nextRequest()).holding;
    screen.type("yes");
    await holds(screen, "yes");
    hold.resolve();
    await asked(screen);
    expect(typed(screen)).toBe("yes");
    screen.type("\r");
    await screen.shows("1. [steer] yes");
    expect([made(), await decisions()]).toEqual([[], []]);
    screen.type("no\r");
    await screen.shows("Yes what?");
    expect(said()).toEqual(["go", "yes"]);
    expect(made()).toEqual([]);
  });

  it("a yes to one command is none to the next that is asked about meanwhile", async () => {
    llm.script([
      { calls: ["touch one", "touch two"].flatMap((command) => runs(command).calls) },
      { text: "Yes what?" },
    ]);
    const screen = await chat();
    screen.type("go\r");
    await asked(screen);
    screen.type("yes");
    await holds(screen, "yes");
    const { url } = JSON.parse(readFileSync(join(place.home, "gateway.json"), "utf8")) as { url: string };
    const key = readFileSync(join(place.home, "api_key"), "utf8").trim();
    const elsewhere = createRemoteRuntime({ url, key });
    const [first] = (await elsewhere.status(SESSION)).asking;
    await elsewhere.answer({ session: SESSION, call: first?.call ?? "", allow: false, text: "no", by: "another" });
    await screen.shows("✗ denied: no");
    screen.type("\r");
    await screen.shows("1. [steer] yes");
    expect(made()).toEqual([]);
    expect(await decisions()).toEqual([[false, "no"]]);
  });

  it("a question is answered by a choice, its number, or in one's own words", async () => {
    llm.script((request) => {
      const last = request.messages.at(-1);
      return last?.role === "tool" ? { text: `You said ${last.text}.` } : asks("Which colour?", ["red", "blue"]);
    });
    const screen = await chat();
    screen.type("one\r");
    await asked(screen);
    await sleep(ARMED_MS);
    screen.type("\x1b[B\x1b[B\r");
    await screen.shows("You said blue.");
    screen.type("two\r");
    await asked(screen);
    screen.type("1\r");
    await screen.shows("You said red.");
    screen.type("three\r");
    await asked(screen);
    screen.type("something greenish\r");
    await screen.shows("You said something greenish.");
    expect(await outcomes(screen)).toEqual(["completed", "completed", "completed"]);
  });

  it("a question takes no message: neither with Alt+Enter nor one that was begun before", async () => {
    const hold = Promise.withResolvers<void>();
    const question = { ...asks("Which colour?"), hold: hold.promise };
    llm.script([question, { text: "Blue it is." }, { text: "First." }, { text: "Second." }]);
    const screen = await chat({ HERMES_GATEWAY_BUSY_INPUT_MODE: "queue" });
    screen.type("go\r");
    await (await llm.nextRequest()).holding;
    screen.type("begun before");
    await holds(screen, "begun before");
    hold.resolve();
    await screen.shows("type your answer");
    screen.type("\r");
    await screen.shows("1. [queue] begun before");
    screen.type("/busy interrupt\r");
    await screen.shows("From now on");
    await screen.shows("your answer · Alt+Enter: a message instead");
    screen.type(`by Alt+Enter${ALT_ENTER}`);
    await screen.shows("2. [queue] by Alt+Enter");
    screen.type("blue\r");
    await screen.shows("Second.");
    expect(said()).toEqual(["go", "go", "begun before", "by Alt+Enter"]);
    expect(await decisions()).toEqual([[true, "blue"]]);
  });

  it("an answer that comes too late is a message", async () => {
    mkdirSync(place.home);
    writeFileSync(join(place.home, "config.yaml"), "agent: { clarify_timeout: 1 }\n");
    llm.script([asks("Which colour?"), { text: "Then I choose." }, { text: "Blue after all." }]);
    const screen = await chat();
    screen.type("go\r");
    await screen.shows("type your answer");
    screen.type("blue");
    await screen.shows("Then I choose.");
    expect(typed(screen)).toBe("blue");
    screen.type("\r");
    await screen.shows("Blue after all.");
    expect(said()).toEqual(["go", "go", "blue"]);
  });
});

it("where nothing can be stored the text stays in the editor, and is sent when there is room again", async () => {
  // As good as a full disk: no file may grow beyond 300 kB.
  const limited = `trap '' XFSZ; ulimit -S -f 600; exec '${program}' chat --session talk`;
  const screen = openTerminal(["-c", limited], { command: ["sh"], cols: 100, rows: 30 });
  await screen.shows("Ctrl+D leaves");
  screen.paste(`${"much to say ".repeat(22_000)}and the end`);
  await screen.shows("[paste #1");
  screen.key("enter");
  await screen.shows("Not accepted, try again: the disk that holds");
  expect(typed(screen)).toMatch(/^\[paste #1/);
  expect(llm.requests).toHaveLength(0);
  execFileSync("sh", ["-c", `prlimit --pid ${screen.pid} --fsize=unlimited`]);
  screen.key("enter");
  await screen.shows("Hello from the fake model.");
  expect(typed(screen)).toBe("");
  expect(said()).toEqual([expect.stringMatching(/^much to say .* and the end$/)]);
});

describe("as a turn ends", () => {
  /** The one so many milliseconds after the other, or before it. */
  async function around(late: number, act: () => void, release: () => void): Promise<void> {
    const [first, second] = late < 0 ? [act, release] : [release, act];
    first();
    await sleep(Math.abs(late));
    second();
  }

  it("100 messages within 50 ms of it: none is lost or doubled, and their order is kept", async () => {
    const COUNT = 100;
    let release = () => {};
    llm.script((request) => {
      const { promise: hold, resolve } = Promise.withResolvers<void>();
      release = resolve;
      return { text: `Answer to ${lastSaid(request)}.`, hold };
    });
    const screen = await chat();
    screen.type("message 0\r");
    for (let i = 1; i <= COUNT; i++) {
      await (await llm.nextRequest()).holding;
      await around(((i * 37) % 101) - 50, () => screen.type(`message ${i}\r`), release);
    }
    await (await llm.nextRequest()).holding;
    release();
    await screen.shows(`Answer to message ${COUNT}.`);
    const all = Array.from({ length: COUNT + 1 }, (_, i) => `message ${i}`);
    expect(said()).toEqual(all);
    const ended = await outcomes(screen);
    expect(ended).toHaveLength(COUNT + 1);
    // Both sides of the end were met.
    expect(new Set(ended)).toEqual(new Set(["completed", "interrupted"]));
    const entries = await journal();
    const texts = new Map(entries.flatMap((e) => (e.kind === "accepted" ? [[e.input.id, e.input.text]] : [])));
    expect([...texts.values()]).toEqual(all);
    expect(entries.flatMap((e) => (e.kind === "began" ? [texts.get(e.input)] : []))).toEqual(all);
    expect(typed(screen)).toBe("");
  }, 90_000);

  // The long form of Esc, as kitty sends it: the short one and a key that follows at once would be Alt and that key.
  it.each([
    ["Esc", "\x1b[27u"],
    ["Ctrl+C", "\x03"],
  ])("%s just then never stops the next turn", async (_, key) => {
    let release = () => {};
    llm.script((request) => {
      if (lastSaid(request)?.startsWith("next"))
        return { text: ["Answer ", "to ", `${lastSaid(request)}.`], chunkDelayMs: 15 };
      const { promise: hold, resolve } = Promise.withResolvers<void>();
      release = resolve;
      return { text: "Something.", hold };
    });
    const screen = await chat();
    const offsets = [-500, -20, -10, -3, -1, 0, 1, 3, 6, 10, 20, 500];
    for (const late of offsets) {
      screen.type("something\r");
      await (await llm.nextRequest()).holding;
      await around(late, () => screen.type(key), release);
      screen.type(`next ${late}\r`);
      await screen.shows(`Answer to next ${late}.`);
      expect(await (await llm.nextRequest()).closed).toBe("completed");
      await rests(screen);
    }
    const ended = await outcomes(screen);
    expect(ended.filter((_, i) => i % 2 === 1)).toEqual(offsets.map(() => "completed"));
    // Both sides of the end were met.
    expect(ended).toContain("cancelled");
    expect(ended.filter((one) => one === "completed").length).toBeGreaterThan(offsets.length);
  });
});
