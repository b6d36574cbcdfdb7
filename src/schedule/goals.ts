// Works on goals: when a step has ended, the next one begins, until the goal is reached or paused. The key of a step's input is the goal and
// the number of the step, and the note of the goal says which step is next before that step begins. So no kill loses or doubles one.

import type { GoalLimits, Job } from "../core/jobs.ts";
import type { Ambient } from "../core/ports.ts";
import { foldRun } from "../core/run.ts";
import type { Runtime, Whereabouts } from "../core/runtime.ts";
import type { Entry, Usage } from "../core/session.ts";
import { logFailure } from "../platform/log-failure.ts";
import { afterStep, goalInstructions, STOPPED, type StepEnd, stepKey, stepText } from "./goal.ts";
import type { KeptJobs } from "./jobs.ts";

/** `why`: it was refused. */
export type Begun = { turn: string } | { why: string };

export type GoalOptions = Ambient & {
  runtime: Pick<Runtime, "idOf" | "whereabouts" | "turn" | "stop">;
  jobs: KeptJobs;
  /** Begins a turn in the session of the job. */
  say(job: Job, key: string, text: string, instructions: string): Promise<Begun>;
  leaving(): boolean;
  /** Null: the price of that model is not known. */
  costOf?(model: string, usage: Usage): number | null;
};

const SOURCE = "schedule";
/** A goal that was reached is shown so long. */
const KEPT_MS = 7 * 86_400_000;

export function createGoals(options: GoalOptions) {
  const { runtime, jobs, say, leaving, clock, log, costOf = () => null } = options;
  /** The goal that each step under way belongs to, by turn. */
  const steps = new Map<string, string>();
  /** Sessions in which a step may begin. A stop in any other one has no goal to look for. */
  const watched = new Set<string>();
  const stopping = new Set<string>();

  const turnOf = (job: Job) => runtime.idOf(SOURCE, stepKey(job, job.goal?.step ?? 0));

  /** Counts the step that has ended, and begins the next one. */
  async function advance(job: Job): Promise<void> {
    const now = await counted(job);
    if (!now?.goal || !now.session) return;
    if (now.goal.reached && clock.now() - now.createdAt > KEPT_MS) return jobs.forget(now.id);
    if (!now.enabled || now.goal.step > now.goal.counted) return;
    const next = await change(now.id, (goal) => ({ step: goal.counted + 1 }));
    if (next) await begin(next);
  }

  /** Null: its step is still at work. */
  async function counted(job: Job): Promise<Job | null> {
    const { goal, session } = job;
    if (!goal || !session || goal.step === goal.counted) return job;
    const turn = turnOf(job);
    const where = await runtime.whereabouts(turn);
    if (!where) return job.enabled ? begin(job) : job; // a crash came between the note and the step
    if (where.at === "queued" || where.at === "taken") {
      watched.add(session);
      steps.set(turn, job.id);
      return null;
    }
    const end = stepEnd(where, await runtime.turn(turn));
    steps.delete(turn);
    const now = await jobs.update(job.id, (one) =>
      one.goal && one.goal.step === goal.step && one.goal.counted < goal.step ? afterStep(one, one.goal, end) : one,
    );
    if ("refused" in now) return null;
    const { used, why } = now.goal ?? goal;
    log("info", "goal.step", { job: job.id, session, step: goal.step, ...used, ...(!now.enabled && { why }) });
    return now;
  }

  async function begin(job: Job): Promise<null> {
    const { id, goal, session } = job;
    if (!goal || !session || leaving() || stopping.has(session)) return null;
    watched.add(session);
    steps.set(turnOf(job), id); // it may end before `say` returns
    const begun = await say(job, stepKey(job, goal.step), stepText(job, goal), goalInstructions(job));
    if ("why" in begun) await pause(id, begun.why);
    return null;
  }

  function stepEnd(where: Whereabouts, entries: Entry[]): StepEnd {
    const run = foldRun(entries);
    const seconds = ((entries.at(-1)?.at ?? 0) - (entries[0]?.at ?? 0)) / 1_000;
    const used: GoalLimits = { turns: 1, tokens: 0, cost: 0, seconds };
    for (const entry of entries) {
      if (entry.kind !== "thought") continue;
      used.tokens += entry.usage.input + entry.usage.output;
      used.cost += costOf(entry.model, entry.usage) ?? 0;
    }
    const outcome = where.at === "answered" ? where.outcome : "withdrawn";
    return { outcome, output: run?.output ?? "", error: run?.error ?? "", used };
  }

  async function change(id: string, make: (goal: NonNullable<Job["goal"]>) => object): Promise<Job | null> {
    const now = await jobs.update(id, (job) => (job.goal ? { ...job, goal: { ...job.goal, ...make(job.goal) } } : job));
    return "refused" in now ? null : now;
  }

  const pause = (id: string, why: string) =>
    jobs.update(id, (job) => (job.goal ? { ...job, enabled: false, goal: { ...job.goal, why } } : job));

  /** Its step is stopped, or never begins. */
  async function halt(job: Job): Promise<void> {
    if (job.session !== null) await runtime.stop({ session: job.session, turn: turnOf(job) });
  }

  return {
    advance,
    halt,
    watch: (session: string): void => void watched.add(session),
    observe(entries: readonly Entry[]): void {
      for (const { kind, turn } of entries) {
        const id = kind === "ended" || kind === "withdrawn" ? steps.get(turn) : undefined;
        if (id === undefined) continue;
        jobs
          .inLine(async () => {
            const job = await jobs.get(id);
            if (job) await advance(job);
          })
          // It is looked at again within a minute.
          .catch(logFailure(log, "warn", "goal.delayed", { job: id }));
      }
    },
    async stop(session: string): Promise<void> {
      if (!watched.has(session)) return;
      stopping.add(session);
      try {
        await jobs.inLine(async () => {
          for (const job of await jobs.all())
            if (job.goal && job.session === session && job.enabled) {
              await pause(job.id, STOPPED);
              await halt(job);
            }
        });
      } finally {
        stopping.delete(session);
      }
    },
  };
}
