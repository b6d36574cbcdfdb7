// hermes chat on a real terminal: what the agent does can be seen.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { holds, isWorking } from "../fakes/chat-screen.ts";
import { configure, llm, openTerminal, place, useProgram } from "../fakes/program.ts";
import type { Screen } from "../fakes/pty.ts";

useProgram({ env: { HERMES_YOLO_MODE: "yes" } });

async function chat(size: { cols?: number; rows?: number } = {}, args: string[] = []): Promise<Screen> {
  const screen = openTerminal(["chat", ...args], { rows: 40, ...size });
  await screen.until(() => /^fake-model/m.test(screen.text()), "the status bar");
  return screen;
}

async function turn(screen: Screen, text: string, end: string): Promise<void> {
  send(screen, text);
  await screen.shows(end);
  await screen.until(() => !isWorking(screen), "the end of the turn");
}

function send(screen: Screen, text: string): void {
  screen.type(text);
  screen.key("enter");
}

const runs = (command: string) => ({ name: "terminal", args: { command } });
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i + 1).join("\n");

describe("what the agent does is shown", () => {
  it("edits and new files with their lines, up to 12 until Ctrl+O, and the same when it is opened again", async () => {
    writeFileSync(join(place.dir, "retry.ts"), "one\ntwo\nthree\n");
    llm.script([
      {
        calls: [
          { name: "patch", args: { edits: [{ path: "retry.ts", old_text: "two\n", new_text: "2\n2b\n" }] } },
          { name: "write_file", args: { path: "src/new.ts", content: `${numbers(40)}\n` } },
        ],
      },
      { text: "all edited" },
    ]);
    const screen = await chat();
    await turn(screen, "edit it", "all edited");
    const shown = screen.text();
    expect(readFileSync(join(place.dir, "retry.ts"), "utf8")).toBe("one\n2\n2b\nthree\n");
    expect(shown).toMatch(
      /^✓ edit retry\.ts \+2 −1 0\.\d s\n {2}@@ line 1 @@\n {3}one\n {2}-two\n {2}\+2\n {2}\+2b\n {3}three$/m,
    );
    expect(shown).toMatch(/^✓ write src\/new\.ts \+40 0\.\d s\n {2}\+1\n/m);
    expect(shown).toMatch(/^ {2}\+12\n {2}… \+28 lines, Ctrl\+O$/m);
    expect(shown).not.toContain("+13");
    screen.key("ctrl+o");
    await screen.shows(/^ {2}\+40$/m);
    screen.key("ctrl+d");
    await screen.exit;
    const again = await chat({}, ["-c"]);
    await again.shows(/^✓ write src\/new\.ts \+40 0\.\d s\n {2}\+1$/m);
  });

  it("the todo list as a checklist", async () => {
    const items = [
      { text: "read the code", status: "done" },
      { text: "write the test", status: "in_progress" },
      { text: "fix it", status: "pending" },
    ];
    llm.script([{ calls: [{ name: "todo", args: { items } }] }, { text: "planned" }]);
    const screen = await chat();
    await turn(screen, "plan it", "planned");
    expect(screen.text()).toMatch(
      /^✓ todo 1 of 3 done 0\.\d s\n {2}☑ read the code\n {2}◐ write the test\n {2}☐ fix it$/m,
    );
  });

  it("a command: its last five lines while it runs, then the last three and how many more", async () => {
    const command = "seq 1 200; until [ -e go ]; do sleep 0.02; done; seq 201 400";
    llm.script([{ calls: [runs(command)] }, { text: "over" }]);
    const screen = await chat();
    send(screen, "count");
    await screen.until(() => / s\n {2}196\n {2}197\n {2}198\n {2}199\n {2}200\n/.test(screen.text()), "its last lines");
    writeFileSync(join(place.dir, "go"), "");
    await screen.shows("over");
    await screen.until(() => !isWorking(screen), "the end of the turn");
    expect(screen.text()).toMatch(/^✓ terminal seq 1 200.* s\n {2}… \+397 lines, Ctrl\+O\n {2}398\n {2}399\n {2}400$/m);
    expect(screen.lines().filter((line) => line === "  200")).toEqual([]);
  });

  it("what a stopped command had printed, to the person, to the model, and when it is opened again", async () => {
    llm.script([{ calls: [runs("echo 'half of it'; sleep 300")] }, { text: "I have seen it." }]);
    const screen = await chat();
    send(screen, "work");
    await screen.shows(/^ {2}half of it$/m);
    screen.key("esc");
    await screen.shows("■ stopped");
    await screen.until(() => !isWorking(screen), "the end of the turn");
    expect(screen.text()).toMatch(/^■ terminal echo .* s\n {2}half of it$/m);
    await turn(screen, "and?", "I have seen it.");
    expect(JSON.stringify(llm.requests.at(-1))).toContain(
      "while this ran. The end of what it had printed:\\nhalf of it",
    );
    screen.key("ctrl+d");
    await screen.exit;
    const again = await chat({}, ["-c"]);
    await again.shows(/^■ terminal echo .* s\n {2}half of it$/m);
  });

  it("in plain lines too", async () => {
    llm.script([
      { calls: [{ name: "write_file", args: { path: "new.ts", content: numbers(20) } }, runs("seq 1 10")] },
      { text: "over" },
    ]);
    const hermes = place.start(["run", "go"]);
    hermes.hangUp();
    expect(await hermes.exit).toBe(0);
    expect(hermes.stderr()).toMatch(/^✓ write new\.ts \+20 ok \(0\.\d s\)\n {4}\+1\n/m);
    expect(hermes.stderr()).toMatch(/^ {4}\+12\n {4}… 8 more lines$/m);
    expect(hermes.stderr()).toMatch(/^✓ terminal ok \(.* s\)\n {4}… 7 more lines\n {4}8\n {4}9\n {4}10$/m);
  });
});

describe("nothing ends silently", () => {
  it("a turn that used up its model calls says so, on the screen and in plain lines", async () => {
    configure("agent: {max_iterations: 1}");
    const look = { calls: [runs("true")] };
    llm.script([look, look, look, look]);
    const screen = await chat({ cols: 120 });
    await turn(screen, "work", 'agent.max_iterations). Send "continue" to go on.');
    expect(screen.text()).toMatch(/^■ terminal true.*\n\[stopped: this turn has used all of its model calls/m);
    screen.key("ctrl+d");
    await screen.exit;
    const hermes = place.start(["run", "work"]);
    hermes.hangUp();
    await hermes.exit;
    expect(hermes.stderr()).toContain("[stopped: this turn has used all of its model calls");
  });
});

describe("Ctrl+R", () => {
  it("finds an earlier message, also of an earlier start, and loses nothing that is being typed", async () => {
    const first = await chat();
    llm.script([{ text: "one" }, { text: "two" }]);
    await turn(first, "the first question", "one");
    await turn(first, "something else", "two");
    first.key("ctrl+d");
    await first.exit;
    const screen = await chat();
    screen.type("begun");
    await holds(screen, "begun");
    screen.key("ctrl+r");
    await screen.shows("History");
    screen.type("first");
    await screen.until(() => !screen.text().includes("something else"), "only what fits");
    screen.key("enter");
    await holds(screen, "the first question\nbegun");
  });
});

describe("it looks like", () => {
  it("code without fences, check boxes as boxes", async () => {
    const code = "```ts\nconst x = 1;\n- [x] not a box\n```";
    llm.script({
      text: `So:\n\n${code}\n\n- [x] done\n- [ ] to do\n\n1. in a list:\n\n   \`\`\`sh\n   make\n   \`\`\`\n\nover`,
    });
    const screen = await chat();
    await turn(screen, "show me", "over");
    expect(screen.text()).not.toContain("```");
    expect(screen.text()).toMatch(/^So:\n\n {2}const x = 1;\n {2}- \[x\] not a box\n\n- ☑ done\n- ☐ to do$/m);
    expect(screen.text()).toMatch(/^1\. in a list:\n(?:\n| +\n)* {5}make$/m);
  });

  it("a status bar with the directory and its branch, also after a turn has changed it", async () => {
    mkdirSync(join(place.dir, ".git"));
    const head = join(place.dir, ".git", "HEAD");
    writeFileSync(head, "ref: refs/heads/main\n");
    const screen = await chat();
    await screen.shows(/^fake-model .* · ~ \(main\)/m);
    llm.script({ text: "switched" });
    writeFileSync(head, "ref: refs/heads/other\n");
    await turn(screen, "switch", "switched");
    await screen.shows(/^fake-model .* · ~ \(other\)/m);
  });
});
