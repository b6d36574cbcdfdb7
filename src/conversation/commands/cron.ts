// `/cron`: lists, pauses, resumes and removes jobs.
import type { CommandContext, CommandJob, CommandResult } from "./command.ts";
import { oneLine } from "./shown.ts";

export const CRON_VERBS = ["pause", "resume", "remove"] as const;
const DONE = { pause: "Paused", resume: "Resumed", remove: "Removed" };

/** `which` is an id, or as much of its beginning as no other one has. */
export async function cron({ jobs }: CommandContext, rest: string): Promise<CommandResult> {
  const [given = "", which = ""] = rest.toLowerCase().split(/\s+/);
  const all = await jobs().list();
  if (!given || given === "list") return { text: all.map(lineOf).join("\n") || "There are no jobs." };
  const verb = CRON_VERBS.find((one) => one === given);
  if (!verb) return { refused: `Say /cron, or /cron ${CRON_VERBS.join(" | ")} and the id of a job.` };
  const [job, another] = all.filter(({ id }) => which && id.startsWith(which));
  if (!job || another) return { refused: "Which job? /cron lists them with their ids." };
  const changed = await jobs()[verb](job.id);
  return "refused" in changed ? { refused: changed.why } : { text: `${DONE[verb]}: ${nameOf(job)}` };
}

export const lineOf = (job: CommandJob): string =>
  `- \`${job.id}\` ${job.goal ? "🎯 " : ""}${stateOf(job)} · ${nameOf(job)}`;
export const stateOf = ({ enabled, nextAt, goal }: Pick<CommandJob, "enabled" | "nextAt" | "goal">): string => {
  if (!enabled) return goal?.reached ? "reached" : "paused";
  return goal ? `step ${goal.step}` : timeOf(nextAt);
};
const nameOf = ({ name, text }: CommandJob): string => oneLine(name || text, 80);
/** In the time zone of this machine. */
export const timeOf = (at: number | null): string =>
  at === null ? "never" : new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short" }).format(at);
