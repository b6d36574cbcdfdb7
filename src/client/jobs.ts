// The jobs of a running gateway, over its API.
import { type Job, type JobJson, type JobRefused, type Jobs, jobFromJson, type RunningJobs } from "../core/jobs.ts";
import { HermesError, type Wire } from "./wire.ts";

const REFUSED: Readonly<Record<string, JobRefused["refused"]>> = {
  invalid_job: "invalid",
  job_not_found: "unknown",
  too_many_jobs: "full",
  job_busy: "busy",
};

export function createRemoteJobs(wire: Wire): Jobs & Pick<RunningJobs, "runNow"> {
  async function ask<T>(method: string, path: string, body?: unknown): Promise<T | JobRefused> {
    try {
      return await wire.json<T>(method, `/api/jobs${path}`, { body });
    } catch (error) {
      if (!(error instanceof HermesError)) throw error;
      const kind = REFUSED[error.code ?? ""] ?? (error.status === 400 ? "invalid" : undefined);
      if (!kind) throw error;
      return { refused: kind, why: error.message };
    }
  }
  async function change(method: string, path: string, body?: unknown): Promise<Job | JobRefused> {
    const answer = await ask<JobJson>(method, path, body);
    return "refused" in answer ? answer : jobFromJson(answer);
  }
  const at = (id: string, verb = "") => `/${encodeURIComponent(id)}${verb}`;

  return {
    list: async () => (await wire.json<{ data: JobJson[] }>("GET", "/api/jobs")).data.map(jobFromJson),
    add({ text, name, cron, at: time, in: wait, every, goal, zone, route, model, unattended, catchUp, ...bound }) {
      const when = { cron, at: time, in: wait, every, goal, zone };
      const where = { deliver_to: route, session_id: bound.session, heartbeat: bound.heartbeat };
      const how = { name, model, unattended: unattended ?? undefined, catch_up: catchUp };
      return change("POST", "", { text: text || undefined, ...when, ...where, ...how });
    },
    edit: (id, { route, ...wish }) => change("PATCH", at(id), { ...wish, deliver_to: route }),
    remove: (id) => change("DELETE", at(id)),
    pause: (id) => change("POST", at(id, "/pause")),
    resume: (id) => change("POST", at(id, "/resume")),
    async runNow(id) {
      const begun = await ask<{ run_id: string }>("POST", at(id, "/run"));
      return "refused" in begun ? begun : { turn: begun.run_id };
    },
  };
}
