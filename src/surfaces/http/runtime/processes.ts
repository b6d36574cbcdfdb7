// /api/processes: what runs in the background of any session, to look at and to end.
import type { RunningProcesses } from "../../../core/ports.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("sessions");

export const processRoutes = (processes: RunningProcesses, redact: (text: string) => string): Route[] => [
  route("GET", "/api/processes", {
    summary: "Background processes of all sessions, with the end of their output",
    answers: { 200: "A list" },
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
    summary: "End a background process with everything it started",
    answers: { 200: "It has ended", 404: "There is no such process" },
    async handle({ params: { id = "" } }) {
      if (!(await processes.end(id)))
        throw problem(404, "process_not_found", `There is no process ${JSON.stringify(id.slice(0, 60))} that runs.`);
      return ok({ id, deleted: true });
    },
  }),
];
