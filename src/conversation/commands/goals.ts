// Commands about what goes on in this conversation by itself: a goal, loops, a heartbeat. Each is a job that is bound to the session.
import type { GoalLimits, JobRefused } from "../../core/jobs.ts";
import { durationOf, durationText } from "../../core/schedule-text.ts";
import { firstGeneration } from "../../core/session-key.ts";
import type { Command, CommandContext, CommandJob, CommandJobs, CommandResult } from "./command.ts";
import { lineOf, timeOf } from "./cron.ts";
import { oneLine } from "./shown.ts";

const GOAL_VERBS = ["pause", "resume", "stop"] as const;
const USUAL_INTERVAL = "30m";
/** Of the job's name, which begins with the interval. */
const TITLE = 60;

export const goalCommands: readonly Command[] = [
  {
    name: "goal",
    on: "everywhere",
    argument: "[--turns 20 --time 2h --tokens 200k --cost 5] [TEXT | pause | resume | stop]",
    description: "work on a goal turn after turn",
    complete: GOAL_VERBS,
    once: "look",
    run: goal,
  },
  {
    name: "loop",
    on: "everywhere",
    argument: "[every 30m TEXT | stop [id]]",
    description: "repeat a message every so often",
    complete: ["every ", "stop"],
    once: "look",
    run: loop,
  },
  {
    name: "heartbeat",
    on: "everywhere",
    argument: "[every 30m | off]",
    description: "look by itself for what HEARTBEAT.md asks",
    complete: ["every 30m", "off"],
    once: "look",
    run: heartbeat,
  },
];

/** Those of this conversation, and of the ones before it in the same place. */
async function jobsHere({ jobs, session }: CommandContext): Promise<CommandJob[]> {
  const here = firstGeneration(session);
  return (await jobs().list()).filter((job) => job.session !== null && firstGeneration(job.session) === here);
}

// ── Goal ──────────────────────────────────────────────────────────────────────────────────────────────

async function goal(context: CommandContext, rest: string): Promise<CommandResult> {
  const { jobs, session, by, isAdmin } = context;
  const found = await goalIn(jobs(), session, true);
  const verb = GOAL_VERBS.find((one) => one === rest.toLowerCase());
  if (!rest || verb) {
    if (!found) return { text: "There is no goal. /goal and what is to be reached sets one." };
    if (!verb) return { text: goalText(found) };
    const changed = await jobs()[verb === "stop" ? "remove" : verb](found.id);
    return resultOf(changed, GOAL_DONE[verb]);
  }
  const { flags, text } = flagsIn(rest);
  const limits = limitsIn(flags);
  if (typeof limits === "string") return { refused: limits };
  if (flags.has("allow") && !isAdmin) return { refused: ONLY_ADMIN };
  if (!text) return { refused: "What is the goal? /goal and what is to be reached" };
  const added = await jobs().add({ text, goal: limits, session, ...allowedBy(flags), createdBy: by });
  return resultOf(added, "🎯 I work on it until it is reached. /goal shows how far it is, /stop pauses it.");
}

/** Without those that were reached, if not `all`. */
export async function goalIn(jobs: CommandJobs, session: string, all = false): Promise<CommandJob | null> {
  const found = (await jobs.list()).find(
    ({ goal: of, session: bound }) => of && bound === session && (all || !of.reached),
  );
  return found ?? null;
}

const GOAL_DONE = {
  pause: "The goal is paused: the running turn is the last one. /goal resume goes on.",
  resume: "🎯 The goal goes on.",
  stop: "⏹ The goal is given up.",
};

function goalText({ text, enabled, goal: progress }: CommandJob): string {
  if (!progress) return "";
  const { limits, used, step, reached, why } = progress;
  const parts = [
    `${part(used.turns, limits.turns)} turns`,
    `${part(used.tokens, limits.tokens)} tokens`,
    ...(used.cost ? [part(used.cost, limits.cost, (cost) => `$${Number(cost.toFixed(4))}`)] : []),
    part(used.seconds, limits.seconds, (seconds) =>
      seconds < 60 ? `${Math.round(seconds)}s` : durationText(seconds * 1_000),
    ),
  ];
  const state = reached ? "✅ Reached" : enabled ? `Step ${step} is under way` : "⏸ Paused";
  return [
    `🎯 ${oneLine(text, 500)}`,
    `${state}. Used: ${parts.join(", ")}.`,
    why,
    reached ? "" : enabled ? "/goal pause | stop" : "/goal resume | stop",
  ]
    .filter(Boolean)
    .join("\n");
}

const part = (used: number, limit: number, show = (value: number) => value.toLocaleString("en")) =>
  limit ? `${show(used)} of ${show(limit)}` : show(used);

const COUNTS: Readonly<Record<string, number>> = { k: 1_000, m: 1_000_000 };

/** A string says what is wrong. */
function limitsIn(flags: ReadonlyMap<string, string>): Partial<GoalLimits> | string {
  const limits: Partial<GoalLimits> = {};
  for (const [flag, value] of flags) {
    const [, number = "", unit = ""] = /^(\d+(?:\.\d+)?)([km])?$/i.exec(value) ?? [];
    const count = number ? Number(number) * (COUNTS[unit.toLowerCase()] ?? 1) : null;
    if (flag === "time") limits.seconds = (durationOf(value) ?? 0) / 1_000;
    else if (flag === "turns" || flag === "tokens" || flag === "cost") limits[flag] = count ?? 0;
    else if (flag !== "allow") return `--${flag} is not known. There are: ${LIMIT_FLAGS}.`;
    if (Object.values(limits).includes(0)) return `--${flag} ${value} is no limit. Write it like this: ${LIMIT_FLAGS}.`;
  }
  return limits;
}
const LIMIT_FLAGS = "--turns 20, --time 2h, --tokens 200k, --cost 5";

// ── Loops ─────────────────────────────────────────────────────────────────────────────────────────────

async function loop(context: CommandContext, rest: string): Promise<CommandResult> {
  const { jobs, session, by, isAdmin } = context;
  const loops = (await jobsHere(context)).filter((job) => !job.goal && !job.heartbeat);
  if (!rest) return { text: loops.map(lineOf).join("\n") || "There are no loops here. /loop every 30m and a text." };
  const [, which = ""] = /^stop(?:\s+(\S+))?$/i.exec(rest) ?? [];
  if (/^stop\b/i.test(rest)) {
    const [job, another] = which ? loops.filter(({ id }) => id.startsWith(which)) : loops;
    if (!job) return { refused: "There is no such loop. /loop lists them." };
    if (another) return { refused: `Which one? /loop stop and one of these:\n${loops.map(lineOf).join("\n")}` };
    return resultOf(await jobs().remove(job.id), `⏹ Stopped: ${oneLine(job.text, TITLE)}`);
  }
  const { flags, text: said } = flagsIn(rest);
  const { every, text } = intervalIn(said);
  if (flags.has("allow") && !isAdmin) return { refused: ONLY_ADMIN };
  if (!every || !text) return { refused: "Say how often and what: /loop every 30m look at the build" };
  const name = `every ${every}: ${oneLine(text, TITLE)}`;
  const wish = { text, name, every, session, ...allowedBy(flags), createdBy: by };
  return resultOf(await jobs().add(wish), `🔁 From now on every ${every}. /loop stop ends it.`);
}

async function heartbeat(context: CommandContext, rest: string): Promise<CommandResult> {
  const { jobs, session, by } = context;
  const found = (await jobsHere(context)).find((job) => job.heartbeat);
  if (!rest)
    return {
      text: found
        ? `💓 ${found.name}, next ${found.enabled ? timeOf(found.nextAt) : "never: it is paused"}. /heartbeat off ends it.`
        : `There is no heartbeat here. /heartbeat every ${USUAL_INTERVAL} starts one.`,
    };
  if (rest.toLowerCase() === "off")
    return found
      ? resultOf(await jobs().remove(found.id), "The heartbeat is off.")
      : { text: "There is no heartbeat here." };
  const every = rest.toLowerCase() === "on" ? USUAL_INTERVAL : intervalIn(rest).every;
  if (!every) return { refused: `Say /heartbeat every ${USUAL_INTERVAL}, or /heartbeat off.` };
  const wish = { text: "", name: `Heartbeat every ${every}`, every, heartbeat: true, session, createdBy: by };
  const added = await jobs().add(wish);
  if (found && !("refused" in added)) await jobs().remove(found.id);
  return resultOf(added, `💓 I look every ${every}, and say something only if there is something to say.`);
}

/** `every 30m TEXT`, `30m TEXT` */
function intervalIn(said: string): { every: string; text: string } {
  const [, interval = "", text = ""] = /^(?:every\s+)?(\d+\s?[a-z]+)(?:\s+([\s\S]+))?$/i.exec(said) ?? [];
  const ms = durationOf(interval);
  return { every: ms ? durationText(ms) : "", text };
}

// ── Both ──────────────────────────────────────────────────────────────────────────────────────────────

/** `--name value` before the text. */
function flagsIn(rest: string): { flags: Map<string, string>; text: string } {
  const flags = new Map<string, string>();
  let text = rest;
  for (;;) {
    const [whole = "", name = "", value = ""] =
      /^--(?:(allow)|([a-z]+)[\s=]+(\S+))(?:\s+|$)/i.exec(text)?.filter(Boolean) ?? [];
    if (!whole) return { flags, text };
    flags.set(name.toLowerCase(), value);
    text = text.slice(whole.length);
  }
}

/** Without it whoever talks here is asked, as always. */
const allowedBy = (flags: ReadonlyMap<string, string>) => (flags.has("allow") ? { unattended: "allow" as const } : {});
const ONLY_ADMIN = "Only an admin may use --allow.";

const resultOf = (result: { id: string } | JobRefused, text: string): CommandResult =>
  "refused" in result ? { refused: result.why } : { text };
