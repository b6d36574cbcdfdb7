// Jobs: what is to be said at certain times, as those see them who make, list and change them. A job that is bound to a session speaks in
// that conversation (a loop, a heartbeat, a goal); any other one has a session of its own.
import type { Unattended } from "./session.ts";
import { jobSession } from "./session-key.ts";

/** `every`: in milliseconds, counted from `from`. */
export type When = { cron: string; zone: string } | { at: number } | { every: number; from: number };

/** 0: no limit. `cost` in US dollars. */
export type GoalLimits = { turns: number; tokens: number; cost: number; seconds: number };
/** A goal is worked on turn after turn, until it is reached, a limit is hit or somebody stops it. */
export type Goal = {
  limits: GoalLimits;
  used: GoalLimits;
  /** The last step that was begun, and the last one whose end was counted. */
  step: number;
  counted: number;
  reached: boolean;
  /** Why it does not go on; how it was reached. */
  why: string;
};

export type Job = {
  id: string;
  name: string;
  text: string;
  when: When;
  /** The conversation that it speaks in. Null: a session of its own. */
  session: string | null;
  /** What is said is the standing text of HEARTBEAT.md; an answer that nothing is to be done is not delivered. */
  heartbeat: boolean;
  /** Its turns follow each other, instead of times. */
  goal: Goal | null;
  /** The session of the chat that gets the answers. Null: they are kept in the job's own session, to be read there. */
  route: string | null;
  model: string | null;
  /** How approvals of its turns are decided; a turn keeps what held when its slot began. Null: as in the conversation that it speaks in. */
  unattended: Exclude<Unattended, "client"> | null;
  /** What becomes of slots that were missed: the last of them runs late, or none does. */
  catchUp: "once" | "skip";
  enabled: boolean;
  createdBy: string;
  createdAt: number;
  /** The last slot that became a turn. */
  lastSlot: number | null;
  /** The first slot that was not looked at yet. Null: the job is over, and is deleted once its turn has ended. */
  nextAt: number | null;
};

export type Wish = {
  text: string;
  name?: string | undefined;
  /** One of these: again and again, at a time on the wall (`2026-11-20T09:00`), so long from now (`20m`, `3h`, `2d`), `every`. */
  cron?: string | undefined;
  at?: string | undefined;
  in?: string | undefined;
  /** Again and again, so long after each other (`45m`). */
  every?: string | undefined;
  /** Instead of a time. What is not given is as configured. */
  goal?: Partial<GoalLimits> | undefined;
  session?: string | null | undefined;
  heartbeat?: boolean | undefined;
  /** An IANA name; if not given, the zone of this machine. */
  zone?: string | undefined;
  route?: string | null;
  model?: string | null;
  unattended?: Job["unattended"] | undefined;
  catchUp?: Job["catchUp"] | undefined;
  createdBy: string;
  /** The same key again is the same job. */
  key?: string | undefined;
};
type JobEdit = Partial<Pick<Wish, "text" | "name" | "cron" | "at" | "in" | "every" | "zone" | "route" | "model">>;
export type JobRefused = { refused: "invalid" | "unknown" | "full" | "busy"; why: string };

export interface Jobs {
  add(wish: Wish): Promise<Job | JobRefused>;
  /** The job that runs next comes first. */
  list(): Promise<Job[]>;
  /** What is not given stays. */
  edit(id: string, change: JobEdit): Promise<Job | JobRefused>;
  /** The job is deleted once no turn of it runs. */
  remove(id: string): Promise<Job | JobRefused>;
  pause(id: string): Promise<Job | JobRefused>;
  /** The job runs again from its next slot on; slots that it missed while it was paused stay missed. */
  resume(id: string): Promise<Job | JobRefused>;
}
/** The jobs of a process that runs them. */
export interface RunningJobs extends Jobs {
  /** Runs it now, in addition to its slots. The same `key` again is the same run. */
  runNow(id: string, key?: string): Promise<{ turn: string } | JobRefused>;
  /** Whether answers can be delivered to this session. */
  delivers(session: string): boolean;
}

/** A job in the JSON of the API: times are seconds. */
export type JobJson = ReturnType<typeof jobToJson>;
export const jobToJson = ({ when, ...job }: Job) => ({
  id: job.id,
  object: "hermes.job",
  name: job.name,
  text: job.text,
  cron: "cron" in when ? when.cron : null,
  zone: "cron" in when ? when.zone : null,
  at: "at" in when ? when.at / 1_000 : null,
  every: "every" in when ? when.every / 1_000 : null,
  heartbeat: job.heartbeat,
  goal: job.goal,
  deliver_to: job.route,
  session_id: job.session ?? jobSession(job.id),
  model: job.model,
  unattended: job.unattended,
  catch_up: job.catchUp,
  enabled: job.enabled,
  created_by: job.createdBy,
  created_at: job.createdAt / 1_000,
  last_slot: job.lastSlot === null ? null : job.lastSlot / 1_000,
  next_at: job.nextAt === null ? null : job.nextAt / 1_000,
});

export const jobFromJson = (json: JobJson): Job => ({
  id: json.id,
  name: json.name,
  text: json.text,
  when: whenOf(json),
  session: json.session_id === jobSession(json.id) ? null : json.session_id,
  heartbeat: json.heartbeat,
  goal: json.goal,
  route: json.deliver_to,
  model: json.model,
  unattended: json.unattended,
  catchUp: json.catch_up,
  enabled: json.enabled,
  createdBy: json.created_by,
  createdAt: msOf(json.created_at),
  lastSlot: json.last_slot === null ? null : msOf(json.last_slot),
  nextAt: json.next_at === null ? null : msOf(json.next_at),
});
function whenOf({ cron, zone, every, at, created_at }: JobJson): When {
  if (cron !== null) return { cron, zone: zone ?? "UTC" };
  return every === null ? { at: msOf(at ?? 0) } : { every: msOf(every), from: msOf(created_at) };
}
const msOf = (seconds: number) => Math.round(seconds * 1_000);
