// Jobs: what is to be said at certain times, as those see them who make, list and change them.
import type { Unattended } from "./session.ts";
import { jobSession } from "./session-key.ts";

export type When = { cron: string; zone: string } | { at: number };
export type Job = {
  id: string;
  name: string;
  text: string;
  when: When;
  /** The session of the chat that gets the answers. Null: they are kept in the job's own session, to be read there. */
  route: string | null;
  model: string | null;
  /** How approvals of its turns are decided; a turn keeps what held when its slot began. */
  unattended: Unattended;
  /** What becomes of slots that were missed: the last of them runs late, or none does. */
  catchUp: "once" | "skip";
  enabled: boolean;
  createdBy: string;
  createdAt: number;
  /** The last slot that became a turn. */
  lastSlot: number | null;
  /** The first slot that was not looked at yet. Null: it is over with this job, and it goes once its turn has ended. */
  nextAt: number | null;
};

export type Wish = {
  text: string;
  name?: string | undefined;
  /** One of these: again and again, at a time on the wall (`2026-11-20T09:00`), so long from now (`20m`, `3h`, `2d`). */
  cron?: string | undefined;
  at?: string | undefined;
  in?: string | undefined;
  /** An IANA name; not given: where this machine is. */
  zone?: string | undefined;
  route?: string | null;
  model?: string | null;
  unattended?: Job["unattended"] | undefined;
  catchUp?: Job["catchUp"] | undefined;
  createdBy: string;
  /** The same one again is the same job. */
  key?: string | undefined;
};
type JobEdit = Partial<Pick<Wish, "text" | "name" | "cron" | "at" | "in" | "zone" | "route" | "model">>;
export type JobRefused = { refused: "invalid" | "unknown" | "full" | "busy"; why: string };

export interface Jobs {
  add(wish: Wish): Promise<Job | JobRefused>;
  /** What is next first. */
  list(): Promise<Job[]>;
  /** What is not given stays. */
  edit(id: string, change: JobEdit): Promise<Job | JobRefused>;
  /** It goes once nothing of it is at work. */
  remove(id: string): Promise<Job | JobRefused>;
  pause(id: string): Promise<Job | JobRefused>;
  /** From the next slot on: what was missed meanwhile stays missed. */
  resume(id: string): Promise<Job | JobRefused>;
}
/** For where something runs them. */
export interface RunningJobs extends Jobs {
  /** Besides its slots. `key`: the same one again is the same run. */
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
  deliver_to: job.route,
  session_id: jobSession(job.id),
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
  when: json.cron === null ? { at: msOf(json.at ?? 0) } : { cron: json.cron, zone: json.zone ?? "UTC" },
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
const msOf = (seconds: number) => Math.round(seconds * 1_000);
