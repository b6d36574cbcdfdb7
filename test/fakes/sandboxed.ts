// The terminal tool with its real sandbox, in directories of a test's own.
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import type { Tool, ToolCall } from "../../src/core/ports.ts";
import { chooseSandbox } from "../../src/tools/sandbox/sandbox.ts";
import { ownerHere, probeSandbox } from "../../src/tools/shell/exec.ts";
import { createTerminal, type TerminalOptions } from "../../src/tools/shell/terminal.ts";
import { localStateIn } from "./local-state.ts";
import { marked } from "./shapes.ts";

const probe = await probeSandbox();

type Logged = { event: string; data: Record<string, unknown> | undefined };
type Choosing = Partial<Parameters<typeof chooseSandbox>[0]>;

export function sandboxed() {
  const box = {
    dir: "",
    home: "",
    user: "",
    workspace: "",
    logged: [] as Logged[],
    terminal,
  };
  let open: { close(): Promise<void> }[] = [];
  beforeEach(() => {
    box.dir = realpathSync(mkdtempSync(join(tmpdir(), "hermes-sandboxed-")));
    for (const name of ["home", "user", "workspace"] as const) {
      box[name] = join(box.dir, name);
      mkdirSync(box[name], { mode: 0o700 });
    }
    box.logged = [];
    open = [];
  });
  afterEach(async () => {
    await Promise.all(open.map((terminal) => terminal.close()));
    const left = marked(ownerHere(box.home));
    for (const pid of left) process.kill(pid, "SIGKILL");
    rmSync(box.dir, { recursive: true, force: true });
    expect(left).toEqual([]);
  });

  function terminal(choosing: Choosing = {}, more: Partial<TerminalOptions> = {}) {
    const { home, user, workspace } = box;
    const sandbox = chooseSandbox({
      mode: "required",
      probe,
      writable: [workspace],
      homes: { hermes: home, user },
      ...choosing,
    });
    const made = createTerminal({
      localState: localStateIn(home),
      home,
      workspace,
      sandbox,
      policy: { judge: () => ({ verdict: "allow", reason: "" }), canKeep: () => true, keep: () => Promise.resolve() },
      onComplete: () => {},
      log: (_, event, data) => void box.logged.push({ event, data }),
      ...more,
    });
    open.push(made);
    const tool = made.tools.find(({ name }) => name === "terminal") ?? expect.fail("no terminal");
    const sh = (args: string | Args, session = "s", answer: Partial<ToolCall> = {}) =>
      use(tool, typeof args === "string" ? { command: args } : args, session, answer);
    return { ...made, tool, sh };
  }
  return box;
}

type Args = { command: string; [more: string]: unknown };
/** As the engine does; to a question the answer is yes, for once unless `answer` says otherwise. */
async function use(tool: Tool, args: Args, session: string, answer: Partial<ToolCall>) {
  const gate = await tool.judge(args, session, answer.grants);
  if (gate.gate === "refuse") return { ok: false, text: gate.result };
  const { signal } = new AbortController();
  const about = gate.about && { about: gate.about };
  const approved = gate.gate === "ask" && { approved: "once" as const };
  return tool.run(args, { session, turn: "t", call: "c", signal, ...about, ...approved, ...answer });
}
