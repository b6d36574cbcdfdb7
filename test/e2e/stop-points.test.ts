// A stop at every point of a turn: the run is over, the provider sees nothing new after the stop's answer, no process is left, the
// next message is answered, and what the provider is sent then is a transcript that a strict one accepts.
import { readdirSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openRuntime, type Running } from "../../src/compose/runtime.ts";
import type { Entry } from "../../src/core/session.ts";
import { makePlace, type Place } from "../fakes/hermes.ts";
import type { Reply } from "../fakes/llm/reply.ts";
import { type FakeLlm, startFakeLlm } from "../fakes/llm/server.ts";

let llm: FakeLlm;
let place: Place;
let running: Running | null;
beforeEach(async () => {
  llm = await startFakeLlm();
  place = makePlace();
  running = null;
});
afterEach(async () => {
  await running?.close(0);
  place.clear();
  expect(llm.violations).toEqual([]);
  await llm.close();
});

const SLEEP = `sleep ${200 + (process.pid % 1000) / 1000}`;
const sleeping = () =>
  readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim() === SLEEP;
    } catch {
      return false; // it has just ended
    }
  }).length;
/** A look at all processes takes some milliseconds. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

const call = (name: string, args: unknown) => ({ name, args });
const shell = (command: string) => call("terminal", { command });
const delegate = call("delegate_task", { tasks: [{ goal: "a part" }] });
const asked = (n: number) => until(() => llm.requests.length === n);
const ask = "terminal: {sandbox: off}\n";
const free = "approvals: {mode: off}\nterminal: {sandbox: off}\n";
const LONG = "word ".repeat(9_000);

/** Resolves when an entry of this kind has been seen. */
type Saw = (kind: "asked" | "acted") => Promise<void>;
type Point = {
  config?: string;
  text?: string;
  replies: Reply[];
  /** Resolves when the turn is where it is to be stopped. */
  there(saw: Saw): Promise<void>;
};
const silent = (at: "accepted" | "headers" | "reasoning" | "text" | "arguments" | "finish"): Reply => ({
  reasoning: "hm",
  text: "so far",
  calls: [shell("true")],
  fault: { silence: at },
});
const holding = async () => {
  await asked(1);
  await llm.requests[0]?.holding;
};

const POINTS: Record<string, Point> = {
  "at once, before anything was asked": { replies: [silent("accepted")], there: () => Promise.resolve() },
  "with the request made": { replies: [silent("accepted")], there: () => asked(1) },
  "before the headers": { replies: [silent("accepted")], there: holding },
  "after the headers": { replies: [silent("headers")], there: holding },
  "in the reasoning": { replies: [silent("reasoning")], there: holding },
  "in the text": { replies: [silent("text")], there: holding },
  "inside the arguments of a call": { replies: [silent("arguments")], there: holding },
  "with everything said but the end": { replies: [silent("finish")], there: holding },
  "in the wait after a 429": {
    replies: [{ fault: { status: 429, retryAfter: 30 } }],
    there: async () => {
      await asked(1);
      await llm.requests[0]?.closed;
    },
  },
  "in the wait after a reset": {
    replies: [
      { fault: { cut: "accepted" } },
      { fault: { cut: "accepted" } },
      { fault: { cut: "accepted" } },
      silent("accepted"),
    ],
    there: () => asked(2),
  },
  "in a tool": { replies: [{ calls: [shell(SLEEP)] }], there: () => until(() => sleeping() === 1) },
  "in a tool that does not want to die": {
    replies: [{ calls: [shell(`trap '' TERM; ${SLEEP}; ${SLEEP}`)] }],
    there: () => until(() => sleeping() === 1),
  },
  "in a tool that left its group": {
    replies: [{ calls: [shell(`setsid ${SLEEP}`)] }],
    there: () => until(() => sleeping() === 1),
  },
  "with one of two tools done": {
    replies: [{ calls: [shell("true"), shell(SLEEP)] }],
    there: async (saw) => {
      await saw("acted");
      await until(() => sleeping() === 1);
    },
  },
  "with a tool that waits for another": {
    replies: [{ calls: [shell(SLEEP), call("write_file", { path: "never.txt", content: "x" })] }],
    there: () => until(() => sleeping() === 1),
  },
  "while it is asked whether it may": {
    config: ask,
    replies: [{ calls: [shell("touch never.txt")] }],
    there: (saw) => saw("asked"),
  },
  "while a question waits": {
    replies: [{ calls: [call("clarify", { question: "which?" })] }],
    there: (saw) => saw("asked"),
  },
  "in a child that thinks": { replies: [{ calls: [delegate] }, silent("accepted")], there: () => asked(2) },
  "in a tool of a child": {
    replies: [{ calls: [delegate] }, { calls: [shell(SLEEP)] }],
    there: () => until(() => sleeping() === 1),
  },
  "in the second model call": { replies: [{ calls: [shell("true")] }, silent("text")], there: () => asked(2) },
  "while the conversation is summarised": {
    config: `${free}model: {context_length: 30000}\n`,
    text: LONG,
    replies: [{ text: "first answer" }, silent("text")],
    there: () => asked(2),
  },
};

describe("a stop", () => {
  it.each(Object.entries(POINTS))("%s", async (name, { config = free, text = "go", replies, there }) => {
    place.configure(`${config}agent: {max_iterations: 20}\n`);
    const env = { PATH: process.env["PATH"], HOME: place.dir, HERMES_HOME: place.home };
    const cwd = { flag: "--cwd", key: "terminal.cwd", value: place.dir };
    running = await openRuntime({
      env: { ...env, ...llm.env },
      flags: [cwd],
      logToStderr: false,
      mine: () => true,
    });
    const { engine } = running;
    const session = "s";
    const say = (words: string, key: string) =>
      engine.accept({ session, source: "t", key, text: words, mode: "queue", reply: "pull" });
    const seen: Entry[] = [];
    const leave = new AbortController();
    void (async () => {
      for await (const update of engine.follow(session, "0", leave.signal))
        if ("entry" in update) seen.push(update.entry);
    })();
    const over = (turn: string) => () => seen.some((entry) => entry.kind === "ended" && entry.turn === turn);

    let queue = [...replies];
    llm.script(() => queue.shift() ?? { text: "here I am" });
    if (name === "while the conversation is summarised") {
      const { id } = await say(LONG, "before");
      await until(over(id));
    }
    const { id } = await say(text, "first");
    await there((kind) => until(() => seen.some((entry) => entry.kind === kind)));
    expect(await engine.stop({ session, turn: id })).toBe("stopping");
    const requests = llm.requests.length;
    await until(over(id));
    expect(await engine.run(id)).toMatchObject({ status: "cancelled" });
    expect(sleeping()).toBe(0);
    expect(await engine.stop({ session, turn: id })).toBe("over");

    expect(llm.requests).toHaveLength(requests);
    queue = []; // what was not used is not for the next one
    const next = await say("are you there?", "second");
    await until(over(next.id));
    leave.abort();
    expect((await engine.run(next.id))?.status).toBe("completed");
    await until(() => llm.requests.every((request) => request.ending !== undefined));
  });
});

describe("kill -9", () => {
  /** The journal says the same there as "in the text": a model call was begun. What was heard of its answer is in no file. */
  const SAME_STATE = new Set([
    "with the request made",
    "before the headers",
    "after the headers",
    "in the reasoning",
    "inside the arguments of a call",
    "with everything said but the end",
  ]);
  const SHOWN = { asked: /\n\? /, acted: /✓ terminal ok/ };

  it.each(Object.entries(POINTS).filter(([name]) => !SAME_STATE.has(name)))(
    "%s: nothing is left, the turn is finished, and the next message is answered",
    async (name, point) => {
      const { config = free, text = "go", replies, there } = point;
      place.configure(config);
      let queue = [...replies];
      llm.script(() => queue.shift() ?? { text: "here I am" });
      if (name === "while the conversation is summarised") {
        const before = place.start(["run", "--session", "talk", LONG], llm.env);
        before.hangUp();
        expect(await before.exit).toBe(0);
      }
      const first = place.start(["chat", "--session", "talk"], llm.env);
      await first.prints(/Type a message/);
      first.type(`${text}\n`);
      await there((kind) => first.prints(SHOWN[kind]));
      first.kill("SIGKILL");
      expect(await first.exit).toBe("SIGKILL");
      queue = [];

      const second = place.start(["chat", "--session", "talk"], llm.env);
      await second.prints(/Type a message/);
      expect(sleeping()).toBe(0);
      if (name === "while it is asked whether it may" || name === "while a question waits") {
        await second.prints(/\n\? /);
        second.type("no\n");
      }
      second.type("/busy queue\nand now?\n");
      await until(() =>
        llm.requests.some((request) => request.raw.includes("and now?") && request.ending === "completed"),
      );
      second.hangUp();
      expect(await second.exit).toBe(0);
    },
  );
});
