// /api/processes: what runs in the background of any session, to look at and to end.
import type { RunningProcesses } from "../../../core/ports.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("sessions");

export const processRoutes = (processes: RunningProcesses, redact: (text: string) => string): Route[] => [
  route("GET", "/api/processes", {
    summary: "List the background processes of all sessions, with the end of their output",
    answers: { 200: "The list" },
    handle: async () =>
      list(
        (await processes.list()).map(({ id, session, command, cwd, startedAt, output }) => ({
          id,
          object: "hermes.process",
          session_id: session,
          command,
          cwd,
          started_at: startedAt / 1_000,
          output: redact(output),
        })),
      ),
  }),
  route("DELETE", "/api/processes/:id", {
    summary: "Stop a background process and everything it started",
    answers: { 200: "Stopped", 404: "No process has this id" },
    async handle({ params: { id = "" } }) {
      if (!(await processes.end(id)))
        throw problem(404, "process_not_found", `There is no process ${JSON.stringify(id.slice(0, 60))} that runs.`);
      return ok({ id, deleted: true });
    },
  }),
];
