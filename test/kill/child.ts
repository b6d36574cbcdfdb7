// The process that is killed: the real engine and effects on a real SQLite file, with a scripted model, and tools, a
// channel and a memory that write down what they do. `node child.ts DIR [before:N | after:N]`: with the second
// argument it kills itself just before, or just after, its Nth write to the store.
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createPerform } from "../../src/agent/agent.ts";
import { createBreaker } from "../../src/agent/breaker.ts";
import { messageOf, Refusal } from "../../src/core/errors.ts";
import type { Log, Model, Tool } from "../../src/core/ports.ts";
import type { Session } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { clock } from "../../src/platform/clock.ts";
import { validate } from "../simulation/checker.ts";
import { openStoreIn } from "./store.ts";
import { type Command, INBOX, JOURNALS, type Line, RECOVERIES, roundsOf, type ToolName } from "./wire.ts";

const [dir = ".", fate = ""] = process.argv.slice(2);
const [when = "", nth = "0"] = fate.split(":");

const say = (line: Line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const log: Log = (level, event, fields) => {
  if (level === "error") say({ trouble: `${event} ${JSON.stringify(fields)}` });
};
for (const event of ["unhandledRejection", "uncaughtException"])
  process.on(event, (error: unknown) => {
    say({ trouble: messageOf(error) });
    process.exitCode = 1;
    process.stdin.destroy();
  });
process.stdout.on("error", () => process.exit(1)); // nobody is there any more

// ── Journals ──────────────────────────────────────────────────────────────────────────────────────────

const journal = (name: string) => open(join(dir, name), "a");
const tools = await journal(JOURNALS.tools);
const sent = await journal(JOURNALS.sent);
const memory = await journal(JOURNALS.memory);

/** The line break is in front: a line that a kill cut in two does not spoil the next. */
async function write(file: FileHandle, line: object): Promise<void> {
  await file.appendFile(`\n${JSON.stringify(line)}`);
  await file.datasync();
}

// ── Store ─────────────────────────────────────────────────────────────────────────────────────────────

function mortal(store: Store): Store {
  let left = Number(nth);
  async function write<T>(work: () => Promise<T>): Promise<T> {
    const last = --left === 0;
    if (last && when === "before") process.kill(process.pid, "SIGKILL");
    const result = await work();
    if (last && when === "after") process.kill(process.pid, "SIGKILL");
    return result;
  }
  return {
    ...store,
    nodes: { ...store.nodes, join: (about) => write(() => store.nodes.join(about)) },
    journal: {
      ...store.journal,
      commit: async (commit) => {
        const verdict = await write(() => store.journal.commit(commit));
        if (verdict === "done") see(commit.session, commit.active, commit.state);
        return verdict;
      },
    },
  };
}

function see(session: string, active: boolean, { turn }: Session) {
  const calls = turn?.phase.at === "acting" ? turn.phase.calls : [];
  const asking = calls.filter((call) => call.status === "asking").map((call) => call.id);
  say({ seen: { session, active, asking } });
}

// ── Model and tools ───────────────────────────────────────────────────────────────────────────────────

const model: Model = {
  name: "scripted",
  context: 1_000_000_000,
  local: false,
  call: async ({ session, messages }, { text: speak }, signal) => {
    try {
      validate(messages, session);
    } catch (error) {
      say({ trouble: messageOf(error) });
    }
    const at = messages.findLastIndex((message) => message.role === "user");
    const rounds = roundsOf(messages[at]?.role === "user" ? messages[at].text : "[]");
    const round = messages.slice(at).filter((message) => message.role === "assistant").length;
    const { ms = 0, calls = [] } = rounds[round] ?? {};
    say({ thinking: session, round });
    speak(`<${session}> round `);
    if (ms) await clock.sleep(ms, signal);
    if (signal.aborted) return { end: "aborted" };
    speak(`${round}`);
    return {
      end: "answer",
      calls: calls.map((tool) => ({ tool, args: {} })),
      usage: { input: 1, output: 1 },
    };
  },
};

const TOOL_MS = 3;
const PATIENT_MS = 60_000;
const HASTY_MS = 15;

function tool(name: ToolName, { repeatable = false, alone = false, asks = 0 }): Tool {
  return {
    name,
    description: name,
    schema: {},
    repeatable,
    alone,
    judge: () =>
      asks
        ? { gate: "ask", kind: "approval", text: "may I?", choices: ["yes", "no"], timeoutMs: asks }
        : { gate: "run" },
    run: async (_args, { session, turn, call, signal }) => {
      if (!repeatable) await write(tools, { id: `${session}/${call}`, turn, at: Number(process.hrtime.bigint()) });
      await clock.sleep(TOOL_MS, signal);
      return { ok: true, text: `did ${name}` };
    },
  };
}

// ── The process ───────────────────────────────────────────────────────────────────────────────────────

const store = mortal(await openStoreIn(dir));
const engine = createEngine({
  store,
  clock,
  log,
  perform: createPerform({
    models: [model],
    modelNamed: () => null,
    system: () => Promise.resolve(""),
    breaker: createBreaker(clock),
    tools: [
      tool("write", {}),
      tool("read", { repeatable: true }),
      tool("danger", { asks: PATIENT_MS }),
      tool("hasty", { asks: HASTY_MS }),
      tool("solo", { alone: true }),
    ],
    channel: {
      send: async ({ session, turn, text, again }) => {
        await write(sent, { session, turn, text, again });
        return "sent";
      },
    },
    memory: {
      writers: ["file"],
      recall: () => Promise.resolve(""),
      remember: (_writer, { session, user }, key) => write(memory, { session, key, user }),
    },
    clock,
    random: Math.random,
    log,
  }),
  rules: { iterations: 20, recoveries: RECOVERIES, parallel: 4, memory: ["file"] },
  limits: { turns: 3, inbox: INBOX, text: 10_000, graceMs: 2_000, resumeWithinMs: 3_600_000, warm: 2 },
});

// Before the start nobody writes, so nothing newer can be overtaken by this.
for (const { session } of await store.catalog.sessions({ active: true, limit: 1_000 })) {
  const row = await store.journal.load(session);
  if (row) see(session, true, row.state);
}
await engine.start();
say({ ready: true });

for await (const line of createInterface({ input: process.stdin })) void obey(JSON.parse(line));
// Nobody is left to talk to: the end, or the parent is gone.
await engine.drain(1_000);
await store.close();

async function obey({ id, ...command }: { id: number } & Command) {
  try {
    say({ id, value: await carryOut(command) });
  } catch (error) {
    if (error instanceof Refusal) say({ id, refused: error.code });
    else say({ trouble: `${command.do} failed without a name: ${messageOf(error)}` });
  }
}

function carryOut(command: Command): Promise<unknown> {
  switch (command.do) {
    case "accept":
      return engine.accept(command.request);
    case "stop":
      return engine.stop(command);
    case "answer":
      return engine.answer({ ...command, text: command.allow ? "yes" : "no" });
    case "withdraw":
      return engine.withdraw(command.session, command.input);
    case "move":
      return engine.move(command.session, command.input, command.to);
    case "status":
      return engine.status(command.session);
  }
}
