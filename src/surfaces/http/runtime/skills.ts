// /v1/skills: what the agent can read up on, for clients that show it.
import { ok, type Route, route } from "../server/route.ts";

/** `openSkills` */
type SkillCatalog = {
  list(): Promise<{ skills: readonly { name: string; description: string; origin: "user" | "workspace" }[] }>;
};

export const skillRoutes = (skills: SkillCatalog): Route[] => [
  route({
    method: "GET",
    path: "/v1/skills",
    tag: "server",
    summary: "The skills that the agent has",
    answers: { 200: "A list" },
    async handle() {
      // Not where they lie on this machine.
      const data = (await skills.list()).skills.map(({ name, description, origin }) => ({
        name,
        description,
        source: origin,
      }));
      return ok({ object: "list", data });
    },
  }),
];
