// /v1/skills: what the agent can read up on, for clients that show it.
import type { Skills } from "../../../core/skills.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

export const skillRoutes = (skills: Pick<Skills, "list" | "view">): Route[] => [
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
  route("GET", "/v1/skills/:name", {
    summary: "The text of a skill, and the names of its files",
    answers: { 200: "The skill", 404: "There is no such skill" },
    async handle({ params: { name = "" } }) {
      const found = await skills.view(name);
      if ("refused" in found) throw problem(404, "skill_not_found", found.refused);
      const { skill, text, files } = found;
      return ok({ name: skill.name, description: skill.description, source: skill.origin, text, files });
    },
  }),
];
