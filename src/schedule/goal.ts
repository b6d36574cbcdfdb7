// A goal: what is said in each of its steps, what a step has used, and whether another one follows.
import type { Goal, GoalLimits, Job, JobRefused } from "../core/jobs.ts";
import { durationText } from "../core/schedule-text.ts";
import type { Outcome } from "../core/session.ts";
import { refused } from "./job.ts";

/** How a step ended. `used`: by this step alone. */
export type StepEnd = { outcome: Outcome | "withdrawn"; output: string; error: string; used: GoalLimits };

const LONGEST_WHY = 500;

/** For the system prompt of every step: a summary of the conversation may leave the goal out. */
export const goalInstructions = ({ text }: Job): string =>
  `This conversation has a goal, set by a person:
<goal>
${text}
</goal>
You work on it by yourself, step by step. After each answer you are asked to go on, and nobody reads it before that. Do in one step what belongs
together, and check what you did. Only an answer whose last line is one of these two ends the work:
GOAL: DONE <what shows it> (once the goal is reached and you have checked it)
GOAL: BLOCKED <what is missing> (if you cannot go on without a person)`;

/** The same step is the same input. */
export const stepKey = ({ id }: Job, step: number): string => `${id}@step/${step}`;

export function stepText({ text }: Job, goal: Goal): string {
  if (goal.step === 1) return text;
  const limit = limitReached(goal);
  return limit
    ? `The limit of this goal is reached (${limit}). Begin nothing new: say what is done and what is left.`
    : `Go on with the goal. This is step ${goal.step}.`;
}

/** The job after a step has ended. It goes on while it is enabled. */
export function afterStep(job: Job, goal: Goal, { outcome, output, error, used }: StepEnd): Job {
  const next = { ...goal, counted: goal.step, used: plus(goal.used, used) };
  const ended = (why: string, reached = false): Job => ({
    ...job,
    enabled: false,
    goal: { ...next, reached, why: why.slice(0, LONGEST_WHY) },
  });
  const { verdict, reason } = verdictIn(outcome === "completed" ? output : "");
  if (verdict === "done") return ended(reason, true);
  if (verdict === "blocked") return ended(`It is blocked: ${reason || "no reason was given"}`);
  if (outcome === "cancelled" || outcome === "withdrawn") return ended(STOPPED);
  if (outcome === "failed") return ended(`A step failed: ${error}`);
  const limit = limitReached(goal);
  return limit ? ended(`The limit is reached: ${limit}`) : { ...job, goal: next };
}

export const STOPPED = "It was stopped.";

/** After a limit, as much is allowed again. */
export function resumed(job: Job, goal: Goal): Job | JobRefused {
  if (goal.reached) return refused("invalid", "This goal is reached. Set a new one.");
  const used = overLimit(goal.limits, goal.used) ? { turns: 0, tokens: 0, cost: 0, seconds: 0 } : goal.used;
  return { ...job, enabled: true, goal: { ...goal, used, why: "" } };
}

/** The limit that makes the next step the last one: it only reports. Empty: there is none. */
const limitReached = ({ limits, used }: Goal) => overLimit(limits, { ...used, turns: used.turns + 1 });

function overLimit(limits: GoalLimits, used: GoalLimits): string {
  if (limits.turns && used.turns >= limits.turns) return `${limits.turns} turns`;
  if (limits.tokens && used.tokens >= limits.tokens) return `${limits.tokens.toLocaleString("en")} tokens`;
  if (limits.cost && used.cost >= limits.cost) return `$${limits.cost}`;
  if (limits.seconds && used.seconds >= limits.seconds) return durationText(limits.seconds * 1_000);
  return "";
}

const plus = (one: GoalLimits, other: GoalLimits): GoalLimits => ({
  turns: one.turns + other.turns,
  tokens: one.tokens + other.tokens,
  cost: one.cost + other.cost,
  seconds: one.seconds + other.seconds,
});

/** The last line of an answer decides; models put it into bold or quotes. */
function verdictIn(output: string): { verdict: "done" | "blocked" | null; reason: string } {
  const line = output.trim().split("\n").at(-1) ?? "";
  const [, word = "", reason = ""] = /^[\W_]*goal[\W_]+(done|reached|blocked)\b[\W_]*(.*?)[*_`]*$/i.exec(line) ?? [];
  const verdict = word ? (word.toLowerCase() === "blocked" ? "blocked" : "done") : null;
  return { verdict, reason: reason.trim() };
}
