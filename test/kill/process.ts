// A child process, as its parent sees it: what is asked of it and answered, what it is doing, and its death.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { AnswerTo, Command, Line } from "./wire.ts";

/** The process ended before it answered. */
export class Died extends Error {
  override readonly name = "Died";
}
/** Not a violation of an order but of the sense: the process said or did what must never happen. */
class Trouble extends Error {
  override readonly name = "Trouble";
}

export type Answer<T> = { value: T } | { refused: string };
export type Process = {
  ready: Promise<void>;
  ask<C extends Command>(command: C): Promise<Answer<AnswerTo[C["do"]]>>;
  /** Sessions with work in flight, sessions with calls that wait for a person, sessions whose model is in a round. */
  busy: ReadonlySet<string>;
  asking: ReadonlyMap<string, readonly string[]>;
  thinking: ReadonlyMap<string, number>;
  /** Lines it has said. */
  lines(): number;
  /** Resolves when it holds; looks whenever the process says something. */
  until(holds: () => boolean): Promise<void>;
  kill(): void;
  /** Ends it the friendly way. */
  end(): void;
  /** When it is gone and everything it said has been read. `killed`: by SIGKILL. Rejects for any other end but 0. */
  gone: Promise<{ killed: boolean }>;
};

const CHILD = fileURLToPath(new URL("./child.ts", import.meta.url));
/** Far more than any process lives here: one that is still there is stuck. */
const STUCK_MS = 30_000;
/** Compiled once for all: they start in a third of the time. Removed by the campaign. */
export const compileCache = join(tmpdir(), `hermes-kill-cache-${process.pid}`);

const running = new Set<ChildProcess>();
export function killAll() {
  for (const child of running) child.kill("SIGKILL");
}

export function start(dir: string, fate = ""): Process {
  const child = spawn(process.execPath, ["--no-warnings", CHILD, dir, fate], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
  });
  running.add(child);
  const askers = new Map<number, (line: Answer<unknown> | Error) => void>();
  const waiting = new Set<(over: Error | null) => void>();
  const busy = new Set<string>();
  const asking = new Map<string, string[]>();
  const thinking = new Map<string, number>();
  let asked = 0;
  let lines = 0;
  let ready = false;
  let over: Error | null = null;
  let trouble = "";
  let errors = "";

  const stuck = setTimeout(() => {
    trouble ||= `I24: stuck; busy: ${[...busy].join()}, asking: ${[...asking.keys()].join()}`;
    child.kill("SIGKILL");
  }, STUCK_MS);
  child.stdin.on("error", () => {}); // it has just died
  child.stderr.on("data", (text: Buffer) => {
    errors += text.toString();
  });
  createInterface({ input: child.stdout }).on("line", (text) => {
    lines++;
    hear(parsed(text));
    for (const look of waiting) look(null);
  });

  function hear(line: Line | null) {
    if (!line) return;
    if ("ready" in line) ready = true;
    else if ("thinking" in line) thinking.set(line.thinking, line.round);
    else if ("trouble" in line) trouble ||= line.trouble;
    else if ("seen" in line) {
      const { session } = line.seen;
      if (line.seen.active) busy.add(session);
      else busy.delete(session);
      if (line.seen.asking.length) asking.set(session, line.seen.asking);
      else asking.delete(session);
    } else {
      askers.get(line.id)?.(line);
      askers.delete(line.id);
    }
  }

  const gone = once(child, "close").then(([code, signal]) => {
    clearTimeout(stuck);
    running.delete(child);
    const killed = signal === "SIGKILL";
    const wrong = trouble || (killed || code === 0 ? "" : `it ended with ${code ?? signal}: ${errors.trim()}`);
    over = wrong ? new Trouble(wrong) : new Died("the process ended");
    for (const answer of askers.values()) answer(over);
    for (const look of waiting) look(over);
    if (wrong) throw over;
    return { killed };
  });
  gone.catch(() => {}); // whoever waits for it hears of it

  const until = (holds: () => boolean) =>
    new Promise<void>((resolve, reject) => {
      const look = (over: Error | null) => {
        if (!over && !holds()) return;
        waiting.delete(look);
        if (over) reject(over);
        else resolve();
      };
      waiting.add(look);
      look(over);
    });
  const isReady = until(() => ready);
  isReady.catch(() => {});

  return {
    ready: isReady,
    ask: <C extends Command>(command: C) =>
      new Promise<Answer<AnswerTo[C["do"]]>>((resolve, reject) => {
        if (over) return reject(over);
        const id = ++asked;
        askers.set(id, (line) => (line instanceof Error ? reject(line) : resolve(line as Answer<AnswerTo[C["do"]]>)));
        child.stdin.write(`${JSON.stringify({ id, ...command })}\n`);
      }),
    busy,
    asking,
    thinking,
    lines: () => lines,
    until,
    kill: () => void child.kill("SIGKILL"),
    end: () => void child.stdin.end(),
    gone,
  };
}

/** The last line of one that was killed may be half a line. */
function parsed(text: string): Line | null {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return null;
  }
}
