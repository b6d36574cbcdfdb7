// Judges commands in a worker thread with a deadline. A text that takes too long to read costs its sender a question,
// and delays nobody else. The thread starts with the first command, and again after one that overran.
import { Worker } from "node:worker_threads";
import { createPolicy, type PolicyOptions, unjudged } from "./policy.ts";
import type { NewRule, PolicyRule } from "./rules.ts";
import type { CommandPlace, Judgement } from "./types.ts";

export type JudgeRequest = { about: "judgement" | "rule"; command: string; place: CommandPlace };
export type JudgeReply = "began" | { judgement: Judgement } | { rule: NewRule | null };

/** The slowest text of 64 kB takes 0.2 s; the rest is for busy machines. */
const DEADLINE_MS = 2_000;
const START_MS = 30_000;
const MEMORY_MB = 256;
const LATE = "this command could not be judged in time";

/** Throws a ConfigError if an example of a rule is judged differently. */
export const openJudge = async (options: PolicyOptions & { deadlineMs?: number }) => {
  const { mode, sandbox, deadlineMs = DEADLINE_MS } = options;
  let policy = await checked(options);
  let worker: Worker | null = null;
  let closed = false;
  let last: Promise<unknown> = Promise.resolve();
  const ending = new Set<Promise<unknown>>();

  return {
    async judge(command: string, place: CommandPlace): Promise<Judgement> {
      const answer = await ask({ about: "judgement", command, place });
      return answer && "judgement" in answer ? answer.judgement : unjudged(LATE, command, mode);
    },
    /** Like `describeAlways` of the policy; also null for commands that cannot be judged in time. */
    async describeAlways(command: string, place: CommandPlace): Promise<NewRule | null> {
      const answer = await ask({ about: "rule", command, place });
      return answer && "rule" in answer ? answer.rule : null;
    },
    /** For all later commands. Throws a ConfigError as `openJudge` does, and then nothing changes. */
    async setRules(rules: readonly PolicyRule[]): Promise<void> {
      const changed = await checked({ rules, mode, sandbox });
      last = last.then(() => {
        policy = changed;
        if (worker) end(worker);
      });
      await last;
    },
    /** Ends the thread; a command that is being judged gets the same answer as if it had overrun. */
    async close() {
      closed = true;
      if (worker) end(worker);
      await Promise.all([last, ...ending]);
    },
  };

  /** One at a time, so that each has its own deadline; null if there is no answer. */
  function ask(question: JudgeRequest): Promise<Exclude<JudgeReply, "began"> | null> {
    const answer = last.then(() => answered(question));
    last = answer;
    return answer;
  }

  function answered(question: JudgeRequest): Promise<Exclude<JudgeReply, "began"> | null> {
    if (closed) return Promise.resolve(null);
    const mine = (worker ??= start());
    return new Promise((resolve) => {
      const done = (answer: Exclude<JudgeReply, "began"> | null) => {
        clearTimeout(timer);
        mine.off("message", hear).off("exit", gone).unref();
        resolve(answer);
      };
      const gone = () => done(null);
      const overrun = () => {
        end(mine);
        done(null);
      };
      let timer = setTimeout(overrun, START_MS);
      const hear = (answer: JudgeReply) => {
        if (answer !== "began") return done(answer);
        clearTimeout(timer);
        timer = setTimeout(overrun, deadlineMs);
      };
      mine.on("message", hear).on("exit", gone).ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      mine.postMessage(question);
    });
  }

  function start(): Worker {
    const made = new Worker(new URL("./judge-worker.ts", import.meta.url), {
      execArgv: [],
      env: {},
      workerData: policy,
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    // A command that kills the thread, by memory or otherwise, ends it: the next one gets a new thread.
    made.on("error", () => {});
    made.on("exit", () => {
      if (worker === made) worker = null;
    });
    return made;
  }

  function end(mine: Worker): void {
    if (worker === mine) worker = null;
    const ended = mine.terminate();
    ending.add(ended);
    void ended.finally(() => ending.delete(ended));
  }
};

/** The examples are checked here, where the caller gets the error, and not again. */
const checked = async ({ rules, mode, sandbox }: PolicyOptions): Promise<PolicyOptions> => {
  if (rules.some(({ examples }) => examples.length > 0)) await createPolicy({ rules, mode, sandbox });
  return { rules: rules.map((rule) => ({ ...rule, examples: [] })), mode, sandbox };
};
