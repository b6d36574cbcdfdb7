// The terminal and process tools as the agent uses them: real shells, real background processes.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Gate, Tool, ToolCall } from "../../src/core/ports.ts";
import { chooseSandbox, type SandboxChoice } from "../../src/tools/sandbox/sandbox.ts";
import { ownerHere, probeSandbox } from "../../src/tools/shell/exec.ts";
import {
  type CommandJudgement,
  createTerminal,
  type TerminalOptions,
  type TerminalTool,
} from "../../src/tools/shell/terminal.ts";
import { localStateIn } from "../fakes/local-state.ts";
import { marked, until } from "../fakes/shapes.ts";
import { needs } from "../needs.ts";

const probe = await probeSandbox();
const NONE: SandboxChoice = { sandbox: null, why: "not wanted", refuse: false };

let dir: string;
let home: string;
let workspace: string;
let told: { session: string; text: string }[];
let onTold: () => void;
let asked: { command: string; cwd: string }[];
let kept: { command: string; cwd: string }[];
let answer: (command: string) => CommandJudgement;
let open: TerminalTool[];
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-terminal-")));
  [home, workspace] = ["home", "work"].map((name) => join(dir, name)) as [string, string];
  for (const place of [home, workspace]) mkdirSync(place, { mode: 0o700 });
  told = [];
  asked = [];
  kept = [];
  onTold = () => {};
  answer = () => ({ verdict: "allow", reason: "" });
  open = [];
});
afterEach(async () => {
  await Promise.all(open.map((terminal) => terminal.close()));
  const left = marked(ownerHere(home));
  for (const pid of left) process.kill(pid, "SIGKILL");
  rmSync(dir, { recursive: true, force: true });
  expect(left).toEqual([]);
});

const boxed = (): SandboxChoice =>
  chooseSandbox({ mode: "required", probe, writable: [workspace], homes: { hermes: home, user: join(dir, "user") } });

function terminal(more: Partial<TerminalOptions> = {}) {
  const made = createTerminal({
    localState: localStateIn(home),
    home,
    workspace,
    sandbox: NONE,
    policy: {
      judge: (command, cwd) => {
        asked.push({ command, cwd });
        return answer(command);
      },
      canKeep: () => true,
      keep: async (command, cwd) => void kept.push({ command, cwd }),
    },
    onComplete: ({ session }, text) => {
      told.push({ session, text });
      onTold();
    },
    log: () => {},
    ...more,
  });
  open.push(made);
  const tool = (name: string) => made.tools.find((t) => t.name === name) ?? expect.fail(`no tool ${name}`);
  const use =
    (name: string) =>
    async (args: unknown, session = "s", signal = new AbortController().signal) => {
      const gate = await tool(name).judge(args, session);
      if (gate.gate === "refuse") return { ok: false, text: gate.result };
      const { about } = gate;
      const approved = gate.gate === "ask" ? { approved: "once" as const } : {};
      return tool(name).run(args, { session, turn: "t", call: "c", signal, ...(about && { about }), ...approved });
    };
  return { ...made, tool, sh: use("terminal"), bg: use("process") };
}
const idOf = (text: string) => /bg_[0-9a-f]+/.exec(text)?.[0] ?? expect.fail(text);

const inSandbox = await needs("sandbox");
for (const [name, choice, describeIn] of [
  ["without a sandbox", () => NONE, describe],
  ["in a sandbox", boxed, inSandbox.describe],
] as const)
  describeIn(name, () => {
    it("runs, and says first what came of it", async () => {
      const { sh } = terminal({ sandbox: choice() });
      const fine = await sh({ command: "echo hello; echo world >&2" });
      expect(fine).toEqual({ ok: true, text: expect.stringMatching(/^\[exit 0 · \d+\.\d s\]\nhello\nworld\n$/) });
      const bad = await sh({ command: "exit 3" });
      expect(bad).toEqual({ ok: false, text: expect.stringMatching(/^\[exit 3 · .*\]\n\(no output\)$/) });
    });

    it("remembers a cd, for each session, through a restart; not a workdir", async () => {
      const first = terminal({ sandbox: choice() });
      await first.sh({ command: "mkdir -p a/b; cd a" });
      expect((await first.sh({ command: "pwd" })).text).toContain(`\n${workspace}/a\n`);
      expect((await first.sh({ command: "cd b; exit 1" })).text).toContain(`now in ${workspace}/a/b`);
      expect((await first.sh({ command: "pwd", workdir: "/usr" })).text).toContain("\n/usr\n");
      expect((await first.sh({ command: "pwd", workdir: ".." })).text).toContain(`\n${workspace}/a\n`);
      expect((await first.sh({ command: "pwd" }, "other")).text).toContain(`\n${workspace}\n`);
      expect((await terminal({ sandbox: choice() }).sh({ command: "pwd" })).text).toContain(`\n${workspace}/a/b\n`);
    });

    it("is back at the workspace, and says so, when its directory is gone", async () => {
      const { sh } = terminal({ sandbox: choice() });
      await sh({ command: "mkdir -p gone; cd gone" });
      rmSync(join(workspace, "gone"), { recursive: true });
      expect((await sh({ command: "pwd" })).text).toContain(`gone is gone, back in ${workspace}]\n${workspace}\n`);
      expect((await sh({ command: "pwd" })).text).not.toContain("gone");
      await sh({ command: "mkdir here && cd here" });
      expect((await sh({ command: 'rm -rf "$PWD"; echo still' })).text).toContain("still");
      expect((await sh({ command: "pwd" })).text).toContain(`\n${workspace}\n`);
    });

    it("ends at its time limit with what was printed so far", async () => {
      const { sh } = terminal({ sandbox: choice(), timeoutMs: 1000 });
      const { ok, text } = await sh({ command: "echo begun; setsid sleep 300 & sleep 300" });
      expect([ok, text]).toEqual([false, expect.stringMatching(/^\[exit 124 .*time limit of 1 s.*\]\nbegun\n$/)]);
      expect((await sh({ command: "sleep 30", timeout: 0.1 })).text).toContain("time limit of 0.1 s");
    });

    it("keeps the whole of a long output where the next command can read it", async () => {
      const { sh } = terminal({ sandbox: choice() });
      const { text } = await sh({ command: "seq 1 100000" });
      const file = /the whole output is in (\S+?)\]?\n/.exec(text)?.[1] ?? expect.fail(text.slice(0, 300));
      expect([statSync(file).mode & 0o777, readFileSync(file, "utf8").length]).toEqual([0o600, 588_895]);
      expect((await sh({ command: `sed -n 50000p ${file}` })).text).toMatch(/\n50000\n$/);
    });

    it("starts in the background: poll, write, wait, list, notify, kill", async () => {
      const { sh, bg, processes } = terminal({
        sandbox: choice(),
        judgeInput: () => ({ verdict: "allow", reason: "" }),
      });
      const command = "echo started; while read line; do echo got $line; done; echo over; exit 5";
      const begun = await sh({ command, background: true, notify_on_complete: true });
      const id = idOf(begun.text);
      expect(begun).toMatchObject({ ok: true, text: expect.stringContaining("running in the background") });
      await bg({ action: "write", id, text: "one\ntwo\n" });
      const file = processes("s")[0]?.file ?? "";
      await until(() => readFileSync(file, "utf8").includes("got two"));
      const polled = await bg({ action: "poll", id });
      expect(begun.text + polled.text).toMatch(/started[^]*got one\ngot two/);
      expect((await bg({ action: "poll", id })).text).toContain("(nothing new)");
      expect((await bg({ action: "list" })).text).toContain(`${id} · running for`);
      expect((await bg({ action: "wait", id, timeout: 0.05 })).text).toContain("running");

      const notified = new Promise<void>((resolve) => (onTold = resolve));
      await bg({ action: "write", id, eof: true });
      expect((await bg({ action: "wait", id })).text).toMatch(/exit 5[^]*over/);
      await notified;
      expect(told).toEqual([
        { session: "s", text: expect.stringMatching(new RegExp(`${id} has ended: exit 5[^]*over`)) },
      ]);
      expect((await bg({ action: "write", id, text: "late\n" })).ok).toBe(false);

      const second = idOf((await sh({ command: "setsid sleep 300 & trap '' TERM; sleep 300", background: true })).text);
      expect(await bg({ action: "kill", id: second })).toMatchObject({
        ok: true,
        text: expect.stringContaining("ended"),
      });
      expect((await bg({ action: "list" })).text).toContain(`${second} · ended by us`);
      expect(told).toHaveLength(1);
    });

    it("background processes survive the turn and a stop, end by session, and end with us", async () => {
      const { sh, bg, endAll, close, processes } = terminal({ sandbox: choice() });
      const stop = new AbortController();
      const mine = idOf((await sh({ command: "sleep 300", background: true }, "mine", stop.signal)).text);
      const theirs = idOf((await sh({ command: "sleep 300", background: true }, "theirs")).text);
      const waiting = bg({ action: "wait", id: mine }, "mine", stop.signal);
      stop.abort();
      expect((await waiting).text).toContain("running");
      expect((await bg({ action: "poll", id: theirs }, "mine")).text).toContain("There is no process");
      await endAll("mine");
      expect(processes("mine")[0]?.result).toMatchObject({ aborted: true });
      expect(processes("theirs")[0]?.result).toBeNull();
      await close();
      expect(processes("theirs")[0]?.result).toMatchObject({ aborted: true });
      expect((await sh({ command: "sleep 300", background: true })).text).toContain("shutting down");
    });

    it("a stop ends the command with everything it started, and settles", async () => {
      const { sh } = terminal({ sandbox: choice() });
      const stop = new AbortController();
      const running = sh({ command: `trap '' TERM; setsid sleep 300 & touch ready; sleep 300` }, "s", stop.signal);
      await until(() => statSync(join(workspace, "ready"), { throwIfNoEntry: false }) !== undefined);
      stop.abort();
      expect(await running).toMatchObject({ ok: false });
      expect(marked(ownerHere(home))).toEqual([]);
    });
  });

it("what a background process leaves running goes on, is heard, and ends with it", async () => {
  const { sh, bg, processes } = terminal();
  const command = "(until [ -e go ]; do sleep 0.02; done; echo later; sleep 300) & echo first";
  const id = idOf((await sh({ command, background: true })).text);
  await processes("s")[0]?.running.done;
  writeFileSync(join(workspace, "go"), "");
  await until(() => readFileSync(processes("s")[0]?.file ?? "", "utf8") === "first\nlater\n");
  expect((await bg({ action: "poll", id })).text).toMatch(/exit 0.*\n(first\n)?later\n$/s);
  await bg({ action: "kill", id });
  expect(marked(ownerHere(home))).toEqual([]);
});

const CALL = { session: "s", turn: "t", call: "c", signal: new AbortController().signal };

/** What the journal would keep of a call for when it runs. */
async function judgedAs(tool: Tool, args: unknown): Promise<Pick<ToolCall, "about">> {
  const gate = await tool.judge(args, "s");
  if (gate.gate === "refuse" || !gate.about) return expect.fail(`not judged: ${JSON.stringify(gate)}`);
  return { about: gate.about };
}

describe("the gate", () => {
  it("asks with the whole command, made visible, and where it would run", async () => {
    const { tool } = terminal({ approvalMs: 1234 });
    answer = () => ({ verdict: "ask", reason: "it deletes" });
    const command = `rm -r x\u202e; \x1b[2K ${"long ".repeat(300)}end`;
    const gate = (await tool("terminal").judge({ command, background: true }, "s")) as Extract<Gate, { gate: "ask" }>;
    expect(gate).toMatchObject({
      gate: "ask",
      kind: "approval",
      choices: ["once", "session", "always", "deny"],
      timeoutMs: 1234,
    });
    expect(gate.text).toContain(`${"long ".repeat(300)}end\n\nin ${workspace}, in the background: it deletes`);
    expect(gate.text).toContain("⟨U+202E⟩; ⟨U+001B⟩[2K");
  });

  it("lists every part with its own reason, and names the rule that always would save", async () => {
    const { tool } = terminal();
    const parts = [
      { text: "rm -r x", reason: "It deletes." },
      { text: "git push", reason: "It sends." },
    ];
    answer = () => ({ verdict: "ask", reason: "It deletes.", parts });
    expect(await tool("terminal").judge({ command: "rm -r x && git push" }, "s")).toMatchObject({
      text: `rm -r x && git push\n\nin ${workspace}: 2 parts need approval.\n- rm -r x: It deletes.\n- git push: It sends.`,
      saves: [{ file: "policy.yaml", rule: "allow_exact: rm -r x && git push" }],
    });
  });

  it("refuses what is denied, also when the gate was passed by", async () => {
    const { tool } = terminal();
    answer = () => ({ verdict: "deny", reason: "never that" });
    expect(await tool("terminal").judge({ command: "touch x" }, "s")).toEqual({
      gate: "refuse",
      result: "Not run: never that",
    });
    expect(await tool("terminal").run({ command: "touch x" }, CALL)).toEqual({
      ok: false,
      text: "Not run: never that",
    });
    expect(statSync(join(workspace, "x"), { throwIfNoEntry: false })).toBeUndefined();
  });

  it("runs a command where it was judged, whatever ran in between", async () => {
    const { tool, sh } = terminal();
    mkdirSync(join(workspace, "a"));
    symlinkSync(join(workspace, "a"), join(workspace, "link"));
    const calls = [{ command: "pwd -P" }, { command: "pwd -P", workdir: "link" }];
    const judged = await Promise.all(calls.map((args) => judgedAs(tool("terminal"), args)));
    await sh({ command: "ln -sfn /usr link; cd /usr" });
    const [here, there] = await Promise.all(
      calls.map((args, i) => tool("terminal").run(args, { ...CALL, ...judged[i] })),
    );
    expect(here?.text).toContain(`\n${workspace}\n`);
    expect(there?.text).toContain(`\n${workspace}/a\n`);
    expect(asked.filter(({ command }) => command === "pwd -P").every(({ cwd }) => cwd.startsWith(workspace))).toBe(
      true,
    );
  });

  it("grants for the session exactly the command in its directory, not the same one in another", async () => {
    const { tool } = terminal();
    mkdirSync(join(workspace, "a"));
    answer = () => ({ verdict: "ask", reason: "it deletes" });
    const [here, there] = [{ command: "rm -r x" }, { command: "rm -r x", workdir: "a" }];
    const about = (await judgedAs(tool("terminal"), here)).about ?? expect.fail("it is about nothing");
    const grants = [{ call: "c", about, by: "me", at: 1 }];
    expect(await tool("terminal").judge(here, "s", grants)).toMatchObject({ gate: "run", about });
    expect(await tool("terminal").judge(there, "s", grants)).toMatchObject({ gate: "ask" });
    expect(await tool("terminal").judge({ command: "rm -r x " }, "s", grants)).toMatchObject({ gate: "ask" });
    expect(await tool("terminal").run(here, { ...CALL, about, grants })).toMatchObject({ ok: false });
    expect((await tool("terminal").run(there, { ...CALL, grants })).text).toContain("needs approval");
  });

  it("does not run what needs approval by now, or was approved for another environment", async () => {
    const { tool } = terminal();
    const about = (await judgedAs(tool("terminal"), { command: "touch x" })).about ?? expect.fail();
    answer = () => ({ verdict: "ask", reason: "rules have changed" });
    const run = (more: Partial<ToolCall>) => tool("terminal").run({ command: "touch x" }, { ...CALL, about, ...more });
    expect((await run({})).text).toMatch(/^Not run: it needs approval by now/);
    const elsewhere = { ...about, env: "another" };
    expect((await run({ about: elsewhere, approved: "once" })).text).toMatch(/^Not run: .*another sandbox or environ/);
    expect((await run({ about: { ...about, command: "true" }, approved: "once" })).ok).toBe(false);
    expect(statSync(join(workspace, "x"), { throwIfNoEntry: false })).toBeUndefined();
    expect((await run({ approved: "once" })).ok).toBe(true);
    expect(kept).toEqual([]);
    await run({ approved: "always" });
    expect(kept).toEqual([{ command: "touch x", cwd: workspace }]);
  });

  it("offers always only where it can be kept, and nothing lasting for what is typed into a process", async () => {
    answer = () => ({ verdict: "ask", reason: "why" });
    const policy = { judge: () => answer(""), canKeep: () => false, keep: async () => {} };
    const { tool, sh } = terminal({ policy });
    expect(await tool("terminal").judge({ command: "cat" }, "s")).toMatchObject({
      choices: ["once", "session", "deny"],
    });
    const id = idOf((await sh({ command: "cat", background: true })).text);
    expect(await tool("process").judge({ action: "write", id, text: "x\n" }, "s")).toMatchObject({
      choices: ["once", "deny"],
    });
  });

  it("tells what to do about arguments that do not fit", async () => {
    const { sh, bg } = terminal();
    for (const args of [
      {},
      null,
      "ls",
      { command: "" },
      { command: "a\0b" },
      { command: "ls", background: "true" },
      { command: "ls", cwd: "/" },
    ])
      expect(await sh(args)).toEqual({
        ok: false,
        text: expect.stringMatching(/^Not run: .*Call it again/),
      });
    expect((await bg({ action: "poll" })).text).toContain("id is missing");
    expect((await bg({ action: "write", id: "x" })).text).toContain("text is missing");
    expect((await bg({ action: "kill", id: "bg_0" })).text).toContain("There is no process bg_0");
  });

  it("asks before anything is typed into a program outside a sandbox", async () => {
    const { tool, sh } = terminal();
    const id = idOf((await sh({ command: "cat", background: true })).text);
    const typed = await tool("process").judge({ action: "write", id, text: "echo harmless\n" }, "s");
    expect(typed).toMatchObject({ gate: "ask", text: expect.stringContaining("outside a sandbox") });
    answer = () => ({ verdict: "deny", reason: "no" });
    expect(await tool("process").judge({ action: "write", id, text: "reboot\n" }, "s")).toMatchObject({
      gate: "refuse",
    });
  });

  it("runs nothing when a sandbox is required and there is none", async () => {
    const { sh } = terminal({ sandbox: { sandbox: null, why: "bubblewrap is not installed", refuse: true } });
    expect((await sh({ command: "touch x" })).text).toContain("bubblewrap is not installed");
    expect(statSync(join(workspace, "x"), { throwIfNoEntry: false })).toBeUndefined();
  });

  it("never finds a program that lies in the workspace in place of the real one", async () => {
    writeFileSync(join(workspace, "ls"), "#!/bin/sh\necho planted\n");
    chmodSync(join(workspace, "ls"), 0o755);
    const before = process.env.PATH;
    process.env.PATH = `${workspace}:.:${before}`;
    try {
      expect((await terminal().sh({ command: "ls" })).text).not.toContain("planted");
    } finally {
      process.env.PATH = before;
    }
  });

  it("has schemas that a provider takes: objects with described properties", () => {
    for (const { schema } of terminal().tools)
      expect(schema).toMatchObject({ type: "object", additionalProperties: false });
  });
});

it("leaves files that only their owner can read", async () => {
  const { sh } = terminal();
  await sh({ command: "mkdir d; cd d; seq 1 100000" });
  const open = execFileSync("find", [home, "-perm", "/077", "-not", "-type", "l"], { encoding: "utf8" });
  expect(open).toBe("");
});
