// /v1/skills: what the agent can read up on, for clients that show it.
import type { Skills } from "../../../core/skills.ts";
import { list, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

export const skillRoutes = (skills: Pick<Skills, "list">): Route[] => [
  route("GET", "/v1/skills", {
    summary: "List the skills of the agent",
    answers: { 200: "The list" },
    async handle() {
      // Not where they lie on this machine.
      const data = (await skills.list()).skills.map(({ name, description, origin }) => ({
        name,
        description,
        source: origin,
      }));
      return list(data);
    },
  }),
];
