// hermes chat on a real terminal: what is drawn, at any size, of any text, and of however much of it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { holds, isWorking, typed } from "../fakes/chat-screen.ts";
import { llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import { type Screen } from "../fakes/pty.ts";

useProgram({ env: { HERMES_YOLO_MODE: "yes" } });

type Size = { cols?: number; rows?: number; env?: NodeJS.ProcessEnv };

async function chat(size: Size = {}, args: string[] = []): Promise<Screen> {
  const screen = openTerminal(["chat", ...args], size);
  await screen.until(() => /^fake-model/m.test(screen.text()), "the status bar");
  return screen;
}

function send(screen: Screen, text: string): void {
  screen.type(text);
  screen.key("enter");
}

const rests = (screen: Screen, patienceMs?: number) =>
  screen.until(() => !isWorking(screen) && /^fake-model/m.test(screen.text()), "the end of the turn", patienceMs);
const runs = (command: string) => ({ name: "terminal", args: { command } });
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
/** The numbers behind that word, from the first line that was printed to the last on the screen. */
const numbered = (screen: Screen, word: string) =>
  screen
    .lines()
    .flatMap((line) => new RegExp(`\\b${word} (\\d+)\\b`).exec(line)?.[1] ?? [])
    .map(Number);
/** The terminal's memory was cleared, to draw everything anew. */
const REDRAWN = "\x1b[3J";
/** Lines that were wider than the terminal. */
function wrapped(screen: Screen): string[] {
  const buffer = screen.emulator.buffer.active;
  const lines = upTo(buffer.length).map((at) => buffer.getLine(at));
  return lines.flatMap((line, at) => (line?.isWrapped ? [lines[at - 1]?.translateToString(true) ?? ""] : []));
}
const peakMb = ({ pid }: Screen) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1_000;

/** How long a key takes to be seen, in the middle of a few. */
async function keyMs(screen: Screen): Promise<number> {
  const took: number[] = [];
  for (const text of ["a", "ab", "abc", "abcd", "abcde"]) {
    const started = performance.now();
    screen.type(text.slice(-1));
    await holds(screen, text);
    took.push(performance.now() - started);
  }
  return took.toSorted((a, b) => a - b)[2] ?? Number.POSITIVE_INFINITY;
}

/** What people write, and what only programs do: it is shown by its number, and typed by nobody. */
const WRITTEN = [
  "日本語のテキストは幅が二倍です",
  "👨‍👩‍👧‍👦👩🏽‍🚀🏳️‍🌈🧑‍🤝‍🧑",
  "🇩🇪🇯🇵🇺🇸🇧🇷",
  "e\u0301a\u0308o\u0302\u0323 z\u0351\u0344\u036b",
  "שלום עולם مرحبا بالعالم",
  "❤️ ❤ ©️ ™ 1️⃣ #️⃣ ☃ ⚠️ ✔️",
  "한국어 각",
  "नमस्ते क्षत्रिय ไทยภาษา ကမ္ဘာ",
  "ｆｕｌｌ　ｗｉｄｔｈ 𝒳𝒴𝒵 🀄 🂡",
];
const TORTURE = [
  ...WRITTEN,
  "a\tb\tc",
  "x\u200by\u200dz\u200c\ufeffw\u2060v",
  "\u202eabc\u202c \u2066iso\u2069",
  "\u00ad soft\u00adhyphen \u2028 line \u2029 end",
];

describe("a long answer", () => {
  const long = [
    "```js\n",
    ...upTo(300).map((i) => `const code${i} = "code ${i}";\n`),
    "```\n\n| n | width |\n|---|---|\n",
    ...upTo(200).map((i) => `| table ${i} | ${"x".repeat(i % 30)} |\n`),
    "\n",
    ...upTo(300).map((i) => `- item ${i}\n`),
    "\n",
    ...upTo(1_200).map((i) => `line ${i} of many.\n\n`),
  ].join("");
  const pieces = long.match(/[^]{1,100}/g) ?? [];

  it.each([
    [80, 24],
    [60, 8],
  ])("is there line by line, each once, and nothing is drawn anew meanwhile (%i × %i)", async (cols, rows) => {
    const screen = await chat({ cols, rows });
    llm.script([
      {
        text: "I look first.",
        calls: [
          runs("echo tool 0; exit 1"),
          { name: "clarify", args: { question: "Which?", choices: ["this", "that"] } },
        ],
      },
      { text: pieces, chunkDelayMs: 1 },
      { text: "reply 1" },
      { text: "reply 2" },
    ]);
    send(screen, "say 0");
    await screen.shows("2. that");
    for (const i of [1, 2]) {
      screen.type(`say ${i}`);
      screen.key("alt+enter");
      await screen.until(() => screen.text().includes(`${i} waiting`), "it waits");
    }
    send(screen, "this");
    await screen.shows("code 200");
    screen.type("a draft");
    await screen.shows("reply 2", 30_000);
    await rests(screen);
    expect(screen.raw()).not.toContain(REDRAWN);
    for (const [word, count] of Object.entries({ code: 300, table: 200, item: 300, line: 1_200 }))
      expect(numbered(screen, word), word).toEqual(upTo(count));
    const once = screen.lines().filter((line) => /^(❯|✗|reply)/.test(line));
    expect(once).toEqual([
      "❯ say 0",
      expect.stringContaining("✗ terminal"),
      "❯ say 1",
      "reply 1",
      "❯ say 2",
      "reply 2",
    ]);
    expect(typed(screen)).toBe("a draft");
  });

  it("gets the colours of its code without drawing anew what has scrolled away, also when it is resumed", async () => {
    const code = (language: string) => `\`\`\`${language}\nlet code = 1;\n\`\`\`\n\n`;
    llm.script({
      text:
        code("ts") +
        upTo(60)
          .map((i) => `old ${i}\n\n`)
          .join(""),
    });
    const run = place.start(["run", "--session", "talk", "code please"]);
    run.hangUp();
    expect(await run.exit).toBe(0);
    const screen = await chat({}, ["-c"]);
    await screen.shows("old 59");
    llm.script({
      text:
        code("rust") +
        upTo(60)
          .map((i) => `new ${i}\n\n`)
          .join("") +
        code("python"),
    });
    send(screen, "more");
    await screen.shows(/new 59[^]*let code/);
    await rests(screen);
    expect(screen.raw()).not.toContain(REDRAWN);
    expect(numbered(screen, "old")).toEqual(upTo(60));
    const row = screen.rows().findIndex((one) => one.includes("let code"));
    const cell = () => screen.emulator.buffer.active.getLine(screen.emulator.buffer.active.baseY + row)?.getCell(13);
    await screen.until(() => cell()?.isFgDefault() === false, "a number in its colour");
  });

  it("comes through a storm of new sizes with each line once, and so does what is being typed", async () => {
    const screen = await chat();
    llm.script({ text: upTo(600).map((i) => `- item ${i}: ${"word ".repeat(i % 9)}end ${i}\n`), chunkDelayMs: 2 });
    send(screen, "go");
    await screen.shows("item 3");
    screen.type("a draft");
    for (const i of upTo(100)) {
      await screen.resize(20 + ((i * 67) % 181), 5 + ((i * 31) % 56));
      await sleep(10); // as fast as a window is drawn larger
    }
    await screen.resize(80, 24);
    await rests(screen);
    await screen.until(() => screen.emulator.cols === 80 && typed(screen) === "a draft", "the last size");
    expect(numbered(screen, "item")).toEqual(upTo(600));
    expect(numbered(screen, "end")).toEqual(upTo(600));
    expect(screen.lines().filter((line) => line.startsWith("❯ go"))).toHaveLength(1);
    await sleep(500); // the renderer forgets most of it, and still all of it is drawn for the next size
    const before = screen.raw().length;
    await screen.resize(100, 30);
    await screen.until(
      () => screen.raw().lastIndexOf(REDRAWN) > before && typed(screen) === "a draft",
      "a new picture",
    );
    expect(numbered(screen, "item")).toEqual(upTo(600));
  });

  it("comes through a terminal of a few columns, of one, and of one row", async () => {
    const screen = await chat();
    const hold = Promise.withResolvers<void>();
    const items = upTo(60).map((i) => `- item ${i} ${TORTURE[i % TORTURE.length]}\n`);
    const table = "\n| 日本 | two |\n|---|---|\n| 👨‍👩‍👧‍👦 | b |\n\n> quote\n\n";
    const text = [...items, table];
    llm.script([{ text, chunkDelayMs: 10, hold: hold.promise, calls: [runs("echo 日本; exit 1")] }, { text: "over" }]);
    send(screen, "日本 go");
    await screen.shows("item 0"); // and more of it in each size
    screen.type("a 日本 draft 👨‍👩‍👧‍👦");
    for (const size of ["10×3", "7×3", "4×3", "2×3", "1×3", "1×1", "2×60", "3×30"]) {
      const [cols = 80, rows = 24] = size.split("×").map(Number);
      const before = screen.raw().length;
      await screen.resize(cols, rows);
      await screen.until(() => screen.raw().length > before, "a new picture");
    }
    hold.resolve();
    await screen.until(() => screen.lines().join("").includes("over"), "the rest, in three columns");
    await screen.resize(80, 24);
    await rests(screen);
    await holds(screen, "a 日本 draft 👨‍👩‍👧‍👦");
    expect(numbered(screen, "item")).toEqual(upTo(60));
  });
});

describe("ten megabytes", () => {
  /** What is kept is a tenth of it; the rest is garbage that V8 collects when it likes. */
  const MOST_MB = 600;
  /** Far above what a person would bear: 1.2 s was seen with both cores busy with other tests, 2.4 s at a load of 15. */
  const KEY_MS = 5_000;

  it("of an answer: keys are heeded, the memory stays small, and it ends", { timeout: 90_000 }, async () => {
    const screen = await chat();
    const filler = "lorem ipsum ".repeat(40);
    llm.script({
      text: upTo(2_000).map((i) =>
        upTo(10)
          .map((k) => `line ${i * 10 + k} ${filler}\n\n`)
          .join(""),
      ),
    });
    send(screen, "go");
    await screen.shows("line 1000 ");
    expect(await keyMs(screen)).toBeLessThan(KEY_MS);
    await rests(screen, 60_000);
    expect(screen.raw()).not.toContain(REDRAWN);
    const lines = numbered(screen, "line");
    expect(lines).toEqual(upTo(20_000).slice(-lines.length));
    expect(peakMb(screen)).toBeLessThan(MOST_MB);
  });

  it("of a tool, and of a command of one's own", async () => {
    const screen = await chat();
    llm.script([{ calls: [runs("yes 'the output of a tool' | head -c 10000000")] }, { text: "over" }]);
    send(screen, "go");
    await screen.shows("terminal yes");
    expect(await keyMs(screen)).toBeLessThan(KEY_MS);
    await screen.shows("over");
    screen.key("ctrl+u");
    await holds(screen, "");
    send(screen, "!seq 1 1000000");
    await screen.shows("$ seq 1 1000000");
    expect(await keyMs(screen)).toBeLessThan(KEY_MS);
    await screen.shows(/ 1000000\n.*next message/s);
    expect(numbered(screen, " ").length + screen.lines().length).toBeLessThan(1_000);
    screen.key("ctrl+u");
    send(screen, "!yes");
    await screen.until(() => screen.rows().filter((row) => row === "  y").length > 5, "what it prints");
    expect(await keyMs(screen)).toBeLessThan(KEY_MS);
    screen.key("esc");
    await screen.shows("■ stopped");
    expect(peakMb(screen)).toBeLessThan(MOST_MB);
  });
});

describe("text that is hard to draw", () => {
  it.each([20, 33, 80])(
    "has its place at %i columns: in answers, tools, questions, titles, the queue and the editor",
    async (cols) => {
      const screen = await chat({ cols, rows: 30 });
      const [all, mine] = [TORTURE.join(" "), WRITTEN.join(" ")];
      const table = TORTURE.map((text) => `| ${text} | b |\n`);
      const question = { name: "clarify", args: { question: all, choices: TORTURE.slice(0, 4) } };
      llm.script([
        {
          reasoning: all,
          text: [
            `# ${all}\n\n`,
            ...TORTURE.map((text) => `- ${text}\n`),
            `\n${table[0]}|---|---|\n`,
            ...table.slice(1),
            `\n\`\`\`\n${TORTURE.join("\n")}\n\`\`\`\n\n> ${all}\n\n${all}\n`,
          ],
          calls: [runs(`printf '%s\\n' '${TORTURE.join("' '")}'; exit 1`), question],
        },
        { text: "over" },
      ]);
      writeFileSync(join(place.dir, "日本語👨‍👩‍👧‍👦.txt"), "");
      send(screen, mine);
      await screen.until(() => /^ {2}4\. /m.test(screen.text()), "the choices");
      screen.type(mine);
      screen.key("alt+enter");
      await screen.shows("1. [queue]");
      screen.key("ctrl+o"); // with thoughts, and what tools said
      send(screen, "1");
      await screen.shows("over");
      await rests(screen);
      screen.type(`${mine} @日`);
      await screen.until(() => /日本語👨‍👩‍👧‍👦/.test(screen.rows().slice(-12).join("\n")), "the file");
      for (const key of ["esc", "home", "up", "left", "left", "backspace"]) screen.key(key);
      screen.type("ö");
      await screen.until(() => typed(screen).includes("ö"), "the editor");
      expect(wrapped(screen)).toEqual([]);
      expect(screen.lines().filter((line) => line.trim() === "over")).toHaveLength(1);
      expect(screen.lines().filter((line) => /^[\u2800-\u28ff]/.test(line))).toEqual([]); // what moved is gone
    },
  );

  const EVIL =
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;owned\x07\x1b]8;;http://evil\x07\x1b[31m\x9b32m\x9d52;c;QQ==\x9c\x1bPq\x1b\\\u202e\x1b[2J\x1b[H";
  /** What of it would act on a terminal. Our own sequences are others. */
  const acting = (raw: string) =>
    raw.match(/\x1b\](?:52|0;)|\x1b\]8;;http|\x1b\[31m|[\x80-\x9f]|\x1bP|\u202e|\x1b\[2J\x1b\[H(?!\x1b\[3J)/g);

  const letters = (text: string) => text.split("");

  it("cannot drive the terminal: from the model, its tools and questions, and what was said elsewhere or pasted", async () => {
    const run = place.start(["run", "--session", "elsewhere", `message${EVIL}`]);
    run.hangUp();
    expect(await run.exit).toBe(0);
    llm.script([
      {
        reasoning: `why${EVIL}`,
        text: ["the ", ...letters(`answer${EVIL}`)],
        calls: [runs(`echo 'out${EVIL}'; exit 1`)],
      },
      { calls: [{ name: "clarify", args: { question: `which${EVIL}`, choices: [`one${EVIL}\ntwo`, "three"] } }] },
      { text: "over" },
    ]);
    const screen = await chat({}, ["--resume", "elsewhere"]);
    screen.key("ctrl+o");
    send(screen, "go");
    await screen.shows("2. three");
    expect(screen.text()).toMatch(/ {2}1\. one.* two$/m);
    send(screen, "three");
    await screen.shows("over");
    await rests(screen);
    send(screen, "/undo");
    await holds(screen, "go");
    screen.key("ctrl+u");
    send(screen, "/undo");
    await screen.until(() => typed(screen).startsWith("message"), "what was said elsewhere");
    screen.key("ctrl+u");
    screen.paste(`pasted${EVIL}`);
    await screen.until(() => typed(screen).startsWith("pasted"), "the paste");
    expect(acting(screen.raw().replaceAll("\u202e", ""))).toBeNull();
    expect(screen.lines()[0]).toContain("hermes · fake-model");
  });

  it("cannot drive it in plain lines either", async () => {
    llm.script([{ text: letters(`answer${EVIL}`), calls: [runs(`echo 'out${EVIL}'; exit 1`)] }, { text: "over" }]);
    const screen = openTerminal(["chat", "--plain"]);
    await screen.shows("Ctrl+D leaves");
    send(screen, "go");
    await screen.shows("over");
    expect(acting(screen.raw())).toBeNull();
  });
});

describe("what it looks like", () => {
  const colours = (raw: string) => raw.match(/\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)(?:;\d+)*m/g);

  it("Markdown is drawn: headings, lists, code, tables, quotes, links, and diffs in their colours", async () => {
    const screen = await chat();
    const diff = "```diff\n-before\n+after\n```\n";
    llm.script({
      text: `# Title\n\n1. one\n   - two\n\n\`\`\`ts\nconst x = "text"; // why\n\`\`\`\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4000 |\n\n> said\n\n[here](https://example.org/x) **bold**\n\n${diff}`,
    });
    send(screen, "show me");
    await screen.shows("+after");
    await rests(screen);
    const rows = screen.lines();
    const at = (text: string) => rows.findIndex((row) => row.includes(text));
    const cell = (text: string, column = rows[at(text)]?.indexOf(text) ?? 0) =>
      screen.emulator.buffer.active.getLine(at(text))?.getCell(column);
    expect(cell("Title")?.isBold()).toBeTruthy();
    expect(rows[at("Title")]).not.toContain("#");
    expect(rows[at("one")]).toBe("1. one");
    expect(rows[at("two")]).toMatch(/^ +- two$/);
    expect(rows[at("│ 1")]).toMatch(/^│ 1 +│ {4}2 │$/);
    expect(rows[at("said")]).toMatch(/^│ said$/);
    expect(rows[at("here")]).toBe("here (https://example.org/x) bold");
    const parts = ["const", '"text"', "// why"].map((text) => cell(text)?.getFgColor());
    expect(new Set(parts).size).toBe(3);
    const [removed, added] = [cell("-before")?.getFgColor(), cell("+after")?.getFgColor()];
    expect(removed).not.toBe(added);
    expect(colours(screen.raw())).not.toBeNull();
  });

  it("NO_COLOR: no colour at all", async () => {
    const screen = await chat({ env: { NO_COLOR: "1" } });
    llm.script([{ text: "# Title\n\n`code`\n\n```diff\n-a\n+b\n```\n", calls: [runs("exit 3")] }, { text: "over" }]);
    send(screen, "go");
    await screen.shows("over");
    send(screen, "/nosuch");
    await screen.shows("Unknown command /nosuch");
    expect(colours(screen.raw())).toBeNull();
  });

  it.each([
    ["--plain", ["chat", "--plain"], {}],
    ["TERM=dumb", ["chat"], { TERM: "dumb" }],
  ])("%s: plain lines without any sequence", async (_, args, env) => {
    const screen = openTerminal(args, { env });
    await screen.shows("Ctrl+D leaves");
    llm.script([
      { text: "**the** answer", calls: [runs("exit 3")] },
      { text: "never", fault: { silence: "text" } },
    ]);
    send(screen, "go");
    await screen.shows("✗ terminal error");
    await screen.shows("never");
    screen.key("ctrl+c");
    await screen.shows("Stopping…");
    expect(screen.raw()).not.toContain("\x1b");
    screen.key("ctrl+d");
    expect(await screen.exit).toBe(0);
  });

  it("a pipe gets plain lines too", async () => {
    const hermes = place.start(["chat"]);
    hermes.type("go\n");
    await hermes.prints(/Hello from the fake model/);
    hermes.hangUp();
    expect(await hermes.exit).toBe(0);
    expect(hermes.stdout()).not.toContain("\x1b");
  });

  it("a tool is one line that lives, then says what came of it; Ctrl+O shows the rest and hides it again", async () => {
    const screen = await chat();
    const wait = "until [ -e go ]; do sleep 0.02; done; seq 1 9";
    llm.script([{ calls: [runs(`${wait}; exit 3`)] }, { calls: [runs("echo 'all is' well")] }, { text: "over" }]);
    send(screen, "work");
    const line = () => screen.rows().find((row) => row.includes(" terminal until [ -e go ]")) ?? "";
    await screen.until(() => /^. terminal .* 0\.[1-9] s$/.test(line()), "its time");
    const before = line();
    await screen.until(() => line().endsWith(" s") && line() !== before, "more of it");
    writeFileSync(join(place.dir, "go"), "");
    await screen.shows("over");
    await rests(screen);
    expect(screen.lines().filter((row) => row.includes("terminal until"))).toHaveLength(1);
    expect(line()).toMatch(/^✗ /);
    expect(screen.text()).toMatch(/^ {2}7\n {2}8\n {2}9$/m);
    expect(screen.text()).toMatch(/^✓ terminal echo/m);
    expect(screen.text()).toMatch(/^ {2}… \+6 lines, Ctrl\+O\n {2}7$/m);
    screen.key("ctrl+o");
    await screen.until(
      () => /^ {2}command: echo 'all is' well$/m.test(screen.text()) && /^ {2}1\n {2}2$/m.test(screen.text()),
      "it all",
    );
    screen.key("ctrl+o");
    await screen.until(() => !/^ {2}command: /m.test(screen.text()), "only the lines");
    expect(line()).toContain(" exit 3 ");
  });

  it.each([
    [20, "fake-model · ~ · hi"],
    [40, "fake-model · interrupt mode · 120 tokens"],
  ])("at %i columns the status bar leaves out what does not fit, and all can be used", async (cols, bar) => {
    const screen = await chat({ cols });
    send(screen, "hi");
    await screen.until(() => screen.rows().includes(bar), bar);
    screen.type("/hel");
    await screen.until(() => screen.rows().some((row) => row.startsWith("→ help")), "the menu");
    screen.key("enter");
    await screen.until(() => screen.lines().join("").includes("!!command"), "help");
    expect(wrapped(screen)).toEqual([]);
    expect(typed(screen)).toBe("");
  });
});
