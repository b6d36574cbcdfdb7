// /v1/skills: what the agent can read up on, to see and to change; /api/skill-trust: the workspaces whose skills are used.
import * as z from "zod";
import { messageOf } from "../../../core/errors.ts";
import type { OwnSkills, Skill, Skills, SkillTrust } from "../../../core/skills.ts";
import { problem } from "../server/problem.ts";
import { list, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("server");

type SkillDesk = { skills: Skills; own: OwnSkills; trust: SkillTrust; workspace: string };

const text = z.string().min(1).max(100_000).describe("The whole SKILL.md, at most 100 kB");
const newSkill = z.strictObject({ name: z.string().max(64).describe("1 to 64 of `a-z`, `0-9` and `-`"), text });
const changedSkill = z.strictObject({
  text,
  was: text.optional().describe("The text as it was read: another one is not overwritten"),
});
const trustChange = z.strictObject({
  dir: z.string().startsWith("/").max(4_000).describe("The directory of the workspace"),
  trusted: z.boolean().describe("`false`: its skills are no longer used"),
});
const MISSING = "There is no such skill";
const UNCHANGED = "It was not changed; the message says why";

export function skillRoutes({ skills, own, trust, workspace }: SkillDesk): Route[] {
  async function viewed(name: string) {
    const found = await skills.view(name);
    if ("refused" in found) throw problem(404, "skill_not_found", found.refused);
    return found;
  }
  // Not where they lie on this machine.
  const shown = async (skill: Skill) => ({
    name: skill.name,
    description: skill.description,
    source: skill.origin,
    own: await own.has(skill),
  });
  async function changing<T>(change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      throw problem(409, "skill_unchanged", messageOf(error));
    } finally {
      skills.lookAgain();
    }
  }

  return [
    route("GET", "/v1/skills", {
      summary: "List the skills of the agent",
      answers: { 200: "The list; `own`: it can be changed here" },
      handle: async () => list(await Promise.all((await skills.list()).skills.map(shown))),
    }),
    route("POST", "/v1/skills", {
      summary: "Add a skill to HERMES_HOME",
      body: newSkill,
      example: { name: "release", text: "How we release.\n\n1. Read the checklist." },
      answers: { 201: "Added", 409: UNCHANGED },
      async handle({ body }) {
        await changing(own.add(body.name, body.text));
        return { status: 201, body: { name: body.name } };
      },
    }),
    route("GET", "/v1/skills/:name", {
      summary: "The text of a skill, and the names of its files",
      answers: { 200: "The skill", 404: MISSING },
      async handle({ params: { name = "" } }) {
        const { skill, text: all, files } = await viewed(name);
        return ok({ ...(await shown(skill)), text: all, files });
      },
    }),
    route("PATCH", "/v1/skills/:name", {
      summary: "Change the text of a skill in HERMES_HOME",
      body: changedSkill,
      example: { text: "How we release.\n\n1. Read the checklist." },
      answers: { 200: "Changed", 404: MISSING, 409: UNCHANGED },
      async handle({ params: { name = "" }, body }) {
        const found = await viewed(name);
        if (body.was !== undefined && body.was !== found.text)
          throw problem(409, "skill_unchanged", "Somebody else has changed it meanwhile. Read it again.");
        await changing(own.change(found.skill, body.text));
        return ok({ name });
      },
    }),
    route("DELETE", "/v1/skills/:name", {
      summary: "Remove a skill of HERMES_HOME, with its folder",
      answers: { 200: "Removed", 404: MISSING, 409: UNCHANGED },
      async handle({ params: { name = "" } }) {
        await changing(own.remove((await viewed(name)).skill));
        return ok({ name, deleted: true });
      },
    }),
    route("GET", "/api/skill-trust", {
      summary: "The workspaces whose skills are used, and which skills are left out and why",
      answers: { 200: "The directories, the workspace of this server, and notes" },
      async handle() {
        const { notes } = await skills.list();
        return ok({ trusted: await trust.list().catch(() => []), workspace, notes });
      },
    }),
    route("POST", "/api/skill-trust", {
      summary: "Use the skills of a workspace, or no longer",
      body: trustChange,
      example: { dir: "/home/ada/project", trusted: true },
      answers: { 200: "The real path", 409: UNCHANGED },
      async handle({ body: { dir, trusted } }) {
        if (trusted) return ok({ dir: await changing(trust.add(dir)), trusted });
        await changing(trust.remove(dir));
        return ok({ dir, trusted });
      },
    }),
  ];
}
