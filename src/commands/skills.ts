// hermes skills: what the agent can look up.
import type { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { env, print } from "./shared.ts";

export function addSkills(program: Command): void {
  const skills = program.command("skills").description("what the agent can look up: SKILL.md folders");
  skills
    .command("list")
    .option("--json", "for programs", false)
    .action(async ({ json }: { json: boolean }) => {
      const { listSkills } = await import("../surfaces/cli/skills.ts");
      await listSkills({ skills: await ownSkills(), json, print });
    });
  skills
    .command("show")
    .argument("<name>")
    .argument("[file]", "another file of its folder")
    .action(async (name: string, file: string | undefined) => {
      const { showSkill } = await import("../surfaces/cli/skills.ts");
      process.exitCode = await showSkill({ skills: await ownSkills(), name, file, print });
    });
  skills
    .command("trust")
    .description("take in the skills of this directory too")
    .argument("[dir]")
    .action(async (dir = process.cwd()) => {
      const { trustSkills } = await import("../surfaces/cli/skills.ts");
      const { openTrust } = await import("../skills/trust.ts");
      process.exitCode = await trustSkills({ trust: openTrust(homeOf(env).dir), dir, print });
    });
  skills
    .command("untrust")
    .argument("[dir]")
    .action(async (dir = process.cwd()) => {
      const { untrustSkills } = await import("../surfaces/cli/skills.ts");
      const { openTrust } = await import("../skills/trust.ts");
      process.exitCode = await untrustSkills({ trust: openTrust(homeOf(env).dir), dir, print });
    });
}

async function ownSkills() {
  const { openSkills } = await import("../skills/open.ts");
  const { loadConfig } = await import("../config/config.ts");
  const { clock } = await import("../platform/clock.ts");
  const workspace = loadConfig({ env }).config.terminal.cwd ?? process.cwd();
  return openSkills({ home: homeOf(env).dir, workspace, clock, log: () => {} });
}
