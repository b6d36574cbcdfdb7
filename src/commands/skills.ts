// hermes skills: lists skills and manages trusted workspaces.
import type { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { env, print } from "./shared.ts";

export function addSkills(program: Command): void {
  const skills = program
    .command("skills")
    .description("list skills (folders with a SKILL.md) and manage trusted workspaces (docs/skills.md)");
  skills
    .command("list")
    .description("list skills, and say which were left out and why")
    .option("--json", "print JSON", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listSkills } = await import("../surfaces/cli/skills.ts");
      await listSkills({ skills: await ownSkills(), json, print });
    });
  skills
    .command("show")
    .description("show a skill, or another file of its folder")
    .argument("<name>", "name of the skill")
    .argument("[file]", "a file of its folder (default: SKILL.md)")
    .action(async (name: string, file: string | undefined) => {
      const { showSkill } = await import("../surfaces/cli/skills.ts");
      process.exitCode = await showSkill({ skills: await ownSkills(), name, file, print });
    });
  for (const [verb, description] of [
    ["trust", "use the skills of a workspace too"],
    ["untrust", "no longer use the skills of a workspace"],
  ] as const)
    skills
      .command(verb)
      .description(description)
      .argument("[dir]", "the workspace (default: the current directory)")
      .action(async (dir = process.cwd()) => {
        const { changeTrust } = await import("../surfaces/cli/skills.ts");
        const { openTrust } = await import("../skills/trust.ts");
        process.exitCode = await changeTrust({ verb, trust: openTrust(homeOf(env).dir), dir, print });
      });
}

async function ownSkills() {
  const { openSkills } = await import("../skills/open.ts");
  const { loadConfig } = await import("../config/config.ts");
  const { clock } = await import("../platform/clock.ts");
  const workspace = loadConfig({ env }).config.terminal.cwd ?? process.cwd();
  return openSkills({ home: homeOf(env).dir, workspace, clock, log: () => {} });
}
