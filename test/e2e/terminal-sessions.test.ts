// hermes chat on a real terminal: what helps with typing, commands of one's own, and going from one conversation to another.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TERMINAL_COMMANDS } from "../../src/conversation/commands/commands.ts";
import { alive, eventually, holds, rests, typed } from "../fakes/chat-screen.ts";
import { closeAfterTest, llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import { type Screen, startShell } from "../fakes/pty.ts";
import { needs } from "../needs.ts";

const boxed = await needs("sandbox", "git");

useProgram({
  llm: { models: ["fake-model", "other-model", "third-model"] },
  env: { HERMES_YOLO_MODE: "yes" },
});

function open(args: string[] = [], env: NodeJS.ProcessEnv = {}): Screen {
  const screen = openTerminal(["chat", ...args], { cols: 120, rows: 40, env });
  return screen;
}
async function chat(args: string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Screen> {
  const screen = open(args, env);
  await screen.until(() => /^(fake-model|offline-demo|working) /m.test(screen.text()), "the status bar");
  return screen;
}
async function leave(screen: Screen): Promise<void> {
  screen.key("ctrl+d");
  expect(await screen.exit).toBe(0);
}
function send(screen: Screen, text: string): void {
  screen.type(text);
  screen.key("enter");
}
/** A message and the whole answer to it. */
async function say(screen: Screen, text: string, answer: string): Promise<void> {
  llm.script({ text: answer });
  send(screen, text);
  await screen.shows(answer);
  await rests(screen);
}
/** A conversation that is there already. */
async function talkedAbout(session: string, text: string, answer: string): Promise<void> {
  llm.script({ text: answer });
  const run = place.start(["run", "--session", session, text]);
  run.hangUp();
  expect(await run.exit).toBe(0);
}
const bar = (screen: Screen) => screen.rows().findLast((row) => /^(fake-model|other-model|working) /.test(row)) ?? "";
const lastSaid = () => llm.requests.at(-1)?.messages.findLast(({ role }) => role === "user")?.text;
const count = (screen: Screen, line: string) => screen.lines().filter((one) => one === line).length;
function configure(yaml: string): void {
  mkdirSync(place.home, { recursive: true });
  writeFileSync(join(place.home, "config.yaml"), yaml);
}

describe("what is typed", () => {
  it("comes back with Up, also at the next start", async () => {
    const first = await chat();
    await say(first, "the first", "one");
    await say(first, "the second", "two");
    await leave(first);
    const second = await chat();
    second.key("up");
    await holds(second, "the second");
    second.key("up");
    await holds(second, "the first");
    second.key("down");
    second.key("down");
    await holds(second, "");
  });

  it("is completed: commands and what they take, and files", async () => {
    mkdirSync(join(place.dir, "docs"));
    writeFileSync(join(place.dir, "docs", "notes.txt"), "");
    const screen = await chat();
    screen.type("/sta");
    await screen.shows("→ status");
    screen.key("enter");
    await screen.shows("Idle.");
    await holds(screen, "");
    screen.type("/expo");
    await screen.shows("→ export");
    screen.key("tab");
    await holds(screen, "/export");
    screen.type("j");
    await screen.shows("→ json");
    screen.key("esc");
    await screen.until(() => !screen.text().includes("→ json"), "no menu");
    screen.key("ctrl+u");
    screen.type("see @not");
    await screen.shows("→ notes.txt");
    screen.key("enter");
    await holds(screen, "see @docs/notes.txt");
    screen.type("now");
    screen.key("enter");
    await screen.shows("Hello from the fake model.");
    expect(lastSaid()).toBe("see @docs/notes.txt now");
  });

  it("is not changed by a list that is still for what stood there before", async () => {
    const screen = await chat();
    screen.type("/stat");
    await screen.shows("→ status");
    screen.type("\x15/usage\r"); // Ctrl+U and a whole line, faster than any list
    await screen.shows("Nothing was spent yet.");
    screen.type("see @home");
    await screen.shows("→ home/");
    screen.type("\x15done\r");
    await screen.shows("Hello from the fake model.");
    expect(lastSaid()).toBe("done");
  });

  it("can have several lines, and be undone", async () => {
    const screen = await chat();
    screen.type("one\\");
    screen.key("enter");
    screen.type("two");
    screen.key("ctrl+j");
    screen.type("three");
    screen.type("\x1b[13;2u"); // Shift+Enter, where a terminal has it
    screen.type("four five");
    await holds(screen, "one\ntwo\nthree\nfour five");
    screen.type("\x1f"); // Ctrl+_
    await holds(screen, "one\ntwo\nthree\nfour");
    screen.key("enter");
    await screen.shows("Hello from the fake model.");
    expect(lastSaid()).toBe("one\ntwo\nthree\nfour");
  });

  it("shows the model a picture by its path; one that is too big is refused, and the text stays", async () => {
    const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
    writeFileSync(join(place.dir, "small one.png"), png);
    writeFileSync(join(place.dir, "big.png"), Buffer.concat([png, Buffer.alloc(5_100_000)]));
    const screen = await chat();
    send(screen, "what is on ./big.png?");
    await screen.shows(/big\.png: has 5\.1 MB, more than 5; make it smaller/);
    expect(typed(screen)).toBe("what is on ./big.png?");
    expect(llm.requests).toEqual([]);
    screen.key("ctrl+u");
    send(screen, "what is on './small one.png'?");
    const { messages } = await llm.nextRequest();
    expect(messages.at(-1)).toMatchObject({ images: [`data:image/png;base64,${png.toString("base64")}`] });
    await screen.shows("1 picture");
  });
});

describe("a paste", () => {
  const lines = (count: number, more = "") => Array.from({ length: count }, (_, i) => `row ${i}${more}`);
  const hash = (text = "") => createHash("sha256").update(text).digest("hex");

  it("of a megabyte is a mark in the editor, typing goes on, and it is sent as it was", async () => {
    configure("model:\n  context_length: 4000000\n");
    const screen = await chat();
    const text = lines(12_000, ` ${"päste 日本 ".repeat(9)}`).join("\n");
    expect(text.length).toBeGreaterThan(1_000_000);
    screen.type("see: ");
    screen.paste(text);
    await holds(screen, "see: [paste #1 +12000 lines]");
    const started = performance.now();
    screen.type("!");
    await holds(screen, "see: [paste #1 +12000 lines]!");
    expect(performance.now() - started).toBeLessThan(1_000);
    screen.key("enter");
    const { messages } = await llm.nextRequest();
    expect(hash(messages.at(-1)?.text)).toBe(hash(`see: ${text}!`));
    await screen.shows("Hello from the fake model.");
  });

  it("that is more than a message can hold is refused, and stays", async () => {
    const screen = await chat();
    screen.paste("x".repeat(4_000_001));
    await holds(screen, "[paste #1 4000001 chars]");
    screen.key("enter");
    await screen.shows("This message has 4000001 characters; at most 4000000 fit.");
    expect(typed(screen)).toBe("[paste #1 4000001 chars]");
    expect(llm.requests).toEqual([]);
  });

  it("stays whole when a waiting message comes back before it", async () => {
    const screen = await chat();
    llm.script({ text: "on and on", fault: { silence: "text" } });
    send(screen, "go");
    await screen.shows("on and on");
    screen.type("wait");
    screen.key("alt+enter");
    await screen.shows("1. [queue] wait");
    screen.paste(lines(20).join("\n"));
    await holds(screen, "[paste #1 +20 lines]");
    screen.key("alt+up");
    await screen.until(() => typed(screen).endsWith("row 18\nrow 19"), "all of it");
  });
});

describe("a command of one's own", () => {
  it("shows what it prints, and goes with the next message; with !! it does not", async () => {
    const screen = await chat();
    send(screen, "!echo 'it is' `echo known`; exit 3");
    await screen.shows("■ exit 3 · Goes with your next message.");
    expect(screen.text()).toMatch(/^ {2}\$ echo 'it is' `echo known`; exit 3\n {2}it is known$/m);
    send(screen, "!!echo secret");
    await screen.until(() => count(screen, "  secret") === 1, "what it printed");
    send(screen, "/compress"); // takes nothing with it
    await screen.shows("There is nothing to summarise yet.");
    await say(screen, "so?", "I see.");
    expect(lastSaid()).toBe("```\n$ echo 'it is' `echo known`; exit 3\nit is known\n[exit 3]\n```\n\nso?");
    await say(screen, "and now?", "Nothing new.");
    expect(lastSaid()).toBe("and now?");
  });

  it("is stopped by Esc with everything that it started; a second one has to wait", async () => {
    const screen = await chat();
    send(screen, "!sleep 61 & sleep 62");
    await eventually(() => alive(place).includes("sleep 62"));
    send(screen, "!echo second");
    await screen.shows("Your last command still runs");
    expect(typed(screen)).toBe("!echo second");
    screen.key("esc");
    await screen.shows("■ stopped");
    await eventually(() => !alive(place).some((command) => command.startsWith("sleep")));
    screen.key("enter");
    await screen.until(() => count(screen, "  second") === 1, "the second");
  });
});

describe("conversations", () => {
  it("--resume shows them to choose from: by arrows, by typing, or none; -c goes on with the newest", async () => {
    await talkedAbout("a", "about apples", "Apples are red.");
    await talkedAbout("b", "about bears", "Bears are brown.");
    await talkedAbout("c", "about cats 日本 👨‍👩‍👧‍👦", "Cats are cats.");
    const arrows = open(["--resume"]);
    await arrows.shows(/→ about cats 日本 👨‍👩‍👧‍👦.*\n.*about bears.*\n.*about apples/);
    arrows.key("down");
    await arrows.shows("→ about bears");
    arrows.key("enter");
    await arrows.shows("Bears are brown.");
    await arrows.until(() => bar(arrows).endsWith("about bears"), "its title");
    await leave(arrows);
    const typing = open(["--resume"]);
    await typing.shows("about apples");
    typing.type("appl");
    await typing.until(() => !typing.text().includes("about bears"), "only what fits");
    typing.key("enter");
    await typing.shows("Apples are red.");
    await leave(typing);
    const none = open(["--resume"]);
    await none.shows("about apples");
    none.key("esc");
    await none.until(() => /^fake-model · interrupt mode · ~ · [0-9a-f]{8}$/m.test(none.text()), "a new one");
    await say(none, "about nothing", "Fine.");
    expect(llm.requests.at(-1)?.messages).toHaveLength(1);
    await leave(none);
    const newest = await chat(["-c"]);
    await newest.shows("Fine.");
    expect(count(newest, "❯ about nothing")).toBe(1);
    await say(newest, "and nobody?", "Honey.");
    expect(llm.requests.at(-1)?.messages).toHaveLength(3);
  });

  it("resuming shows the last turns once, and a turn that was under way goes on", async () => {
    const first = await chat();
    await say(first, "one", "The first answer.");
    llm.script({ text: "The second", fault: { silence: "text" } });
    send(first, "two");
    await first.shows("The second");
    first.key("ctrl+d");
    await first.exit;
    const hold = Promise.withResolvers<void>();
    llm.script({ text: ["The second ", "answer."], hold: hold.promise, holdAt: "finish" });
    const second = await chat(["-c"]);
    await second.shows("The second answer.");
    expect(bar(second)).toContain("working");
    hold.resolve();
    await rests(second);
    expect(["❯ one", "The first answer.", "❯ two", "The second answer."].map((line) => count(second, line))).toEqual([
      1, 1, 1, 1,
    ]);
  });

  boxed.it("are taken back with what they did to files, and that is taken back too", async () => {
    const work = join(place.dir, "work");
    mkdirSync(work);
    execFileSync("git", ["init", "-q"], { cwd: work });
    writeFileSync(join(work, "edited"), "as it was\n");
    configure(`terminal: { cwd: ${JSON.stringify(work)} }`);
    const screen = await chat();
    const command = "echo turn > edited; echo turn > made";
    llm.script([{ calls: [{ name: "terminal", args: { command } }] }, { text: "Changed." }]);
    send(screen, "change it");
    await screen.shows("Changed.");
    await rests(screen);
    const files = () =>
      ["edited", "made"].map((name) => existsSync(join(work, name)) && readFileSync(join(work, name), "utf8"));
    expect(files()).toEqual(["turn\n", "turn\n"]);
    send(screen, "/undo");
    await screen.shows("Files brought back: edited. Files removed: made.");
    expect(files()).toEqual(["as it was\n", false]);
    await holds(screen, "change it");
    screen.key("ctrl+u");
    send(screen, "/undo files");
    await screen.shows("Files brought back: edited, made.");
    expect(files()).toEqual(["turn\n", "turn\n"]);
  });

  it("are left, tried again, taken back and branched; nothing of them is lost", async () => {
    const screen = await chat(["--session", "talk"]);
    await say(screen, "first", "One.");
    await say(screen, "second", "Two.");
    llm.script({ text: "Two again." });
    send(screen, "/retry");
    await screen.shows("Two again.");
    await rests(screen);
    expect(llm.requests.at(-1)?.messages.map(({ text }) => text)).toEqual(["first", "One.", "second"]);
    send(screen, "/undo");
    await holds(screen, "second");
    screen.key("ctrl+u");
    await say(screen, "other", "Three.");
    expect(llm.requests.at(-1)?.messages.map(({ text }) => text)).toEqual(["first", "One.", "other"]);
    send(screen, "/branch a side road");
    await screen.until(() => bar(screen).endsWith("a side road"), "the branch");
    await say(screen, "aside", "Four.");
    expect(llm.requests.at(-1)?.messages.map(({ text }) => text)).toEqual([
      "first",
      "One.",
      "other",
      "Three.",
      "aside",
    ]);
    send(screen, "/new");
    await screen.shows("A new conversation.");
    await say(screen, "afresh", "Five.");
    expect(llm.requests.at(-1)?.messages).toHaveLength(1);
    send(screen, "/title Bears\u3000& bees");
    await screen.until(() => bar(screen).endsWith("Bears & bees"), "its title");
    send(screen, "/resume talk");
    await screen.until(() => bar(screen).endsWith("· first"), "the first one");
    await say(screen, "still there?", "Yes.");
    expect(llm.requests.at(-1)?.messages.map(({ text }) => text)).toEqual([
      "first",
      "One.",
      "second",
      "Two.",
      "still there?",
    ]);
  });

  it("/compress has them summarised", async () => {
    const screen = await chat();
    const long = `${"word ".repeat(20)}\n`.repeat(150);
    for (const text of ["one", "two", "three", "four"]) {
      llm.script({ text: `${long}\nThat was ${text}.` });
      send(screen, text);
      await screen.shows(`That was ${text}.`);
      await rests(screen);
    }
    llm.script({ text: "We counted." });
    send(screen, "/compress");
    await screen.shows("The conversation so far was summarised to make room.");
    await rests(screen);
    await say(screen, "go on", "Five.");
    expect(JSON.stringify(llm.requests.at(-1)?.messages)).toContain("We counted.");
    expect(llm.requests.at(-1)?.raw.length).toBeLessThan(llm.requests.at(-3)?.raw.length ?? 0);
  });
});

describe("commands", () => {
  it("/model lists what there is, and the next request names what was chosen", async () => {
    const screen = await chat();
    send(screen, "/model");
    await screen.shows(/→ fake-model\n.*other-model\n.*third-model/);
    screen.type("other");
    await screen.until(() => !screen.text().includes("third-model"), "only what fits");
    screen.key("enter");
    await screen.shows("This conversation uses other-model.");
    await screen.until(() => bar(screen).startsWith("other-model ·"), "its name");
    await say(screen, "hi", "I am another.");
    expect(llm.requests.at(-1)?.model).toBe("other-model");
    send(screen, "/model default");
    await screen.shows("This conversation now uses fake-model.");
    send(screen, "/model othr-model");
    await screen.shows('The endpoint has no model "othr-model". Did you mean other-model?');
    screen.type("\x15"); // what was refused stays, to be changed
    await say(screen, "hi again", "It is me.");
    expect(llm.requests.at(-1)?.model).toBe("fake-model");
  });

  it("/usage says what was spent, in tokens and, with prices, in money", async () => {
    configure("prices:\n  fake-model: { input: 3, output: 15, cached: 1 }\n");
    const screen = await chat();
    send(screen, "/usage");
    await screen.shows("Nothing was spent yet.");
    llm.script({ text: "Dear.", usage: { input: 1_000_000, output: 100_000, cached: 500_000 } });
    send(screen, "hi");
    await screen.shows("Dear.");
    await rests(screen);
    await say(screen, "again", "Cheap.");
    send(screen, "/usage");
    await screen.shows("2 calls, 1,000,100 tokens in (500,000 of them cached), 100,020 out, $3.5006");
    expect(bar(screen)).toMatch(/ 1\.1M tokens · \$3\.50 /);
  });

  it("/export writes a file, and never over one", async () => {
    const screen = await chat(["--session", "talk"]);
    llm.script([{ calls: [{ name: "terminal", args: { command: "echo done" } }] }, { text: "It is **done**." }]);
    send(screen, "do it");
    await screen.shows("It is done.");
    await rests(screen);
    send(screen, "/export");
    await screen.shows(/Written to .*hermes-talk\.md/);
    const text = readFileSync(join(place.dir, "hermes-talk.md"), "utf8");
    expect(text).toMatch(/^# do it\n[^]*## User[^]*do it[^]*Tool `terminal`[^]*echo done[^]*It is \*\*done\*\*\./);
    send(screen, "/export json md-notes.txt");
    await screen.shows(/Written to .*md-notes\.txt/);
    const json: unknown = JSON.parse(readFileSync(join(place.dir, "md-notes.txt"), "utf8"));
    expect(json).toMatchObject({
      title: "do it",
      messages: [{ role: "user", text: "do it" }, {}, { text: "It is **done**." }],
    });
    send(screen, "/export md-notes.txt");
    await screen.shows("md-notes.txt is there already: name another file.");
    expect(typed(screen)).toBe("/export md-notes.txt");
  });

  it("/status tells what goes on and waits, /stop all also ends what runs in the background", async () => {
    const screen = await chat();
    llm.script([
      { calls: [{ name: "terminal", args: { command: "sleep 63", background: true } }] },
      { text: "on and on", fault: { silence: "text" } },
    ]);
    send(screen, "begin");
    await screen.shows("on and on");
    screen.type("and then this");
    screen.key("alt+enter");
    await screen.shows("1. [queue] and then this");
    send(screen, "/status");
    await screen.shows(/Working \(thinking, model call 2\)\. Conversation \w+ “begin”\. 1 waiting\./);
    await screen.shows(/In the background: \S+ sleep 63/);
    send(screen, "/retry");
    await screen.shows("`/retry` can't run mid-turn.");
    screen.key("ctrl+u");
    expect(alive(place)).toContain("sleep 63");
    send(screen, "/stop all");
    await eventually(() => !alive(place).includes("sleep 63"));
    await screen.shows("Hello from the fake model.");
    expect(lastSaid()).toContain("and then this");
  });

  it("/help lists all of them, and one that is not there is said to be so", async () => {
    const screen = await chat();
    send(screen, "/help");
    await screen.shows("keeps it to yourself");
    for (const { name } of TERMINAL_COMMANDS)
      expect(screen.lines().join("\n")).toMatch(new RegExp(`^- /${name}\\b`, "m"));
    send(screen, "/nosuch thing");
    await screen.shows("Unknown command /nosuch. See /help.");
    expect(typed(screen)).toBe("/nosuch thing");
  });
});

describe("the first start", () => {
  it("without a key is a demo that says so, and how to set one", async () => {
    const screen = await chat([], { OPENAI_BASE_URL: undefined, OPENAI_API_KEY: undefined, LLM_MODEL: undefined });
    expect(screen.lines()[0]).toBe("hermes · Demo mode: canned replies. Run hermes setup to connect a model.");
    send(screen, "hi");
    await screen.shows("❯ hi");
    await rests(screen);
    expect(llm.requests).toEqual([]);
    expect(existsSync(join(place.home, "hermes.db"))).toBe(true);
  });

  it("with a wrong setting is one message, and the terminal is as it was", async () => {
    configure("display:\n  theme: pink\n");
    const shell = startShell(place, { cols: 100 });
    closeAfterTest(shell);
    const before = shell.settings();
    send(shell, "hermes chat; echo code $?");
    await shell.shows("code 78");
    expect(shell.text()).toMatch(/display\.theme/);
    expect(shell.text()).not.toContain("at file:");
    expect(shell.settings()).toEqual(before);
    expect(shell.cursor().hidden).toBe(false);
    shell.key("ctrl+d");
  });
});
