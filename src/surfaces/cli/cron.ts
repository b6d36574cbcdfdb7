// hermes cron: manages jobs, through the running gateway or directly in the store.
import { stateOf, timeOf } from "../../conversation/commands/cron.ts";
import type { Job, JobRefused, Jobs, RunningJobs, Wish } from "../../core/jobs.ts";
import { routeTo, timeText, wishedTime } from "../../core/schedule-text.ts";
import { wholeKey } from "../../core/session-key.ts";
import { printable } from "../../platform/logline.ts";

/** `runNow` is missing if no gateway runs. */
export type CronJobs = Jobs & Partial<Pick<RunningJobs, "runNow">>;
export type CronOptions = {
  jobs: CronJobs;
  print(text: string): Promise<void> | void;
  complain(line: string): void;
};
/** `to`: a chat's session, as in `telegram:dm:999`. */
export type AddFlags = Pick<Wish, "name" | "cron" | "at" | "in" | "every" | "zone" | "model"> & {
  to?: string;
  allow?: boolean;
  skipMissed?: boolean;
};

/** Each returns the exit code. */
export async function listJobs({ jobs, print }: CronOptions, json: boolean): Promise<number> {
  const all = await jobs.list();
  if (json) await print(all.map((job) => `${JSON.stringify(job)}\n`).join(""));
  else await print(all.length ? tableOf(all) : "There are no jobs. Add one with: hermes cron add\n");
  return 0;
}

export async function jobStatus({ jobs, print }: CronOptions): Promise<number> {
  const enabled = (await jobs.list()).filter((job) => job.enabled);
  const [next] = enabled;
  const about = next ? `The next is ${next.id}: ${printable(next.name)}, ${timeOf(next.nextAt)}.\n` : "";
  const how = jobs.runNow
    ? "The gateway runs them."
    : "No gateway runs, so none will run. Start it with: hermes gateway";
  await print(`${enabled.length} job(s) are active. ${how}\n${about}`);
  return 0;
}

export async function addJob(options: CronOptions, text: string, flags: AddFlags): Promise<number> {
  const { to, allow, skipMissed, ...when } = flags;
  const job = await options.jobs.add({
    ...when,
    text,
    route: to === undefined ? null : wholeKey(to),
    ...(allow && { unattended: "allow" }),
    ...(skipMissed && { catchUp: "skip" }),
    createdBy: "cli",
  });
  return told(options, job, ({ id, name, nextAt }) => `Added ${id}: ${printable(name)}, next ${timeOf(nextAt)}`);
}

type CreateFlags = { name?: string; deliver?: string; model?: string };

/** In the words of Hermes: `create "every 2h" "look" --deliver telegram:1001`. */
export async function createJob(
  options: CronOptions,
  schedule: string,
  prompt: string,
  { name, deliver = "local", model }: CreateFlags,
): Promise<number> {
  const given = timeAndPlace(schedule, deliver);
  if (typeof given === "string") return told(options, { refused: "invalid", why: given }, String);
  const job = await options.jobs.add({
    ...given,
    text: prompt || (name ?? ""),
    name,
    model: model ?? null,
    createdBy: "cli",
  });
  return told(options, job, ({ id, nextAt, ...one }) => {
    return `Created job: ${id}\n${printable(one.name)}, next ${timeOf(nextAt)}`;
  });
}

export async function editJob(
  options: CronOptions,
  id: string,
  { schedule, prompt, name, deliver, model }: CreateFlags & { schedule?: string; prompt?: string },
): Promise<number> {
  const given = timeAndPlace(schedule, deliver);
  if (typeof given === "string") return told(options, { refused: "invalid", why: given }, String);
  const change = { ...given, text: prompt, name, model };
  const job = await options.jobs.edit(
    id,
    Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)),
  );
  return told(options, job, (one) => `Changed ${one.id}: ${printable(one.name)}, next ${timeOf(one.nextAt)}`);
}

/** A string says what is wrong. */
function timeAndPlace(schedule: string | undefined, deliver: string | undefined) {
  const when = schedule === undefined ? {} : wishedTime(schedule);
  if (!when)
    return `${JSON.stringify(schedule)} is not a time such as 30m, "every 2h", "0 9 * * *" or 2026-11-20T09:00.`;
  if (deliver === undefined) return when;
  const route = routeTo(deliver, () => undefined);
  return route === undefined ? `${JSON.stringify(deliver)} is not a chat such as telegram:1001.` : { ...when, route };
}

export async function changeJob(options: CronOptions, verb: keyof typeof DONE, id: string): Promise<number> {
  return told(options, await options.jobs[verb](id), (job) => {
    return `${DONE[verb]} ${job.id}: ${printable(job.name)}${verb === "resume" ? `, next ${timeOf(job.nextAt)}` : ""}`;
  });
}

export async function runJob(options: CronOptions, id: string): Promise<number> {
  const { jobs, complain } = options;
  if (!jobs.runNow) {
    complain("No gateway runs, so no job can run. Start it with: hermes gateway");
    return 1;
  }
  return told(options, await jobs.runNow(id), ({ turn }) => `Started ${turn}`);
}

const DONE = { remove: "Removed", pause: "Paused", resume: "Resumed" };

/** Prints what was done, or why it was not. */
async function told<T extends object>(
  { print, complain }: CronOptions,
  result: T | JobRefused,
  text: (done: T) => string,
): Promise<number> {
  if ("refused" in result) complain(printable(result.why));
  else await print(`${text(result)}\n`);
  return "refused" in result ? 1 : 0;
}

function tableOf(jobs: readonly Job[]): string {
  const rows = jobs.map((job) => [job.id, stateOf(job), timeText(job), printable(job.name)]);
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => `${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ")}\n`).join("");
}
