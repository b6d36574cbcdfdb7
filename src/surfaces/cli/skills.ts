// hermes skills: lists and shows skills, and changes which workspaces are trusted.
import { messageOf } from "../../core/errors.ts";
import type { Skills, SkillTrust } from "../../core/skills.ts";
import { printable } from "../../platform/logline.ts";

type PrintSkills = (text: string) => Promise<void>;

export async function listSkills(looking: { skills: Skills; json: boolean; print: PrintSkills }): Promise<void> {
  const { skills, json, print } = looking;
  if (!json) return print(await skillLines(skills));
  for (const skill of (await skills.list()).skills) await print(`${JSON.stringify(skill)}\n`);
}

/** For people, also in a conversation. */
export async function skillLines(from: Pick<Skills, "list">): Promise<string> {
  const { skills, notes } = await from.list();
  const widest = Math.max(0, ...skills.map(({ name }) => name.length));
  const lines = skills.map(({ name, description, origin }) =>
    `${name.padEnd(widest)}  ${origin === "workspace" ? "(workspace) " : ""}${printable(description)}`.trimEnd(),
  );
  const none = "There are no skills yet. Put a folder with a SKILL.md into HERMES_HOME/skills.";
  return [...(lines.length > 0 ? lines : [none]), ...notes.map((note) => `! ${printable(note)}`), ""].join("\n");
}

type SkillView = { skills: Skills; name: string; file?: string | undefined; print: PrintSkills };

/** The exit code: 1 there is none, or it cannot be read. */
export async function showSkill({ skills, name, file, print }: SkillView): Promise<number> {
  const viewed = await skills.view(name, file);
  if ("refused" in viewed) {
    await print(`${printable(viewed.refused)}\n`);
    return 1;
  }
  await print(`${viewed.text.split(/\r?\n/).map(line).join("\n").trimEnd()}\n`);
  if (viewed.files.length > 0) await print(`\nOther files:\n${viewed.files.map((path) => `  ${path}\n`).join("")}`);
  return 0;
}

type TrustChange = { verb: "trust" | "untrust"; trust: SkillTrust; dir: string; print: PrintSkills };

/** The exit code: 1 if the directory was not trusted, or the list cannot be read. */
export async function changeTrust({ verb, trust, dir, print }: TrustChange): Promise<number> {
  try {
    if (verb === "trust") {
      const real = printable(await trust.add(dir));
      const where = `${real}/skills and ${real}/.hermes/skills`;
      await print(`hermes now uses the skills in ${where}, including those added later.\n`);
      return 0;
    }
    const was = await trust.remove(dir);
    const shown = printable(dir);
    await print(was ? `hermes no longer uses the skills in ${shown}.\n` : `${shown} was not trusted.\n`);
    return was ? 0 : 1;
  } catch (error) {
    await print(`${printable(messageOf(error))}\n`);
    return 1;
  }
}

const line = (text: string) => text.split("\t").map(printable).join("\t");
