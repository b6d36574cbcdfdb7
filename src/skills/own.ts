// Changes the user's own skills, the folders in HERMES_HOME/skills.
import { mkdir, realpath, rm } from "node:fs/promises";
import { join, sep } from "node:path";
import { codeOf } from "../core/errors.ts";
import type { OwnSkills, Skill } from "../core/skills.ts";
import { MOST_BYTES, orMissing } from "./disk.ts";
import { isName, NAME } from "./header.ts";
import { writeWhole } from "./trust.ts";

/** `home`: HERMES_HOME. */
export function openOwnSkills(home: string): OwnSkills {
  const dir = join(home, "skills");

  async function has({ folder }: Skill): Promise<boolean> {
    const real = await realpath(dir).catch(orMissing);
    return real !== null && folder.startsWith(real + sep);
  }
  async function mustHave(skill: Skill): Promise<void> {
    if (!(await has(skill))) throw new Error(`${skill.name} is not in ${dir}. Change it in ${skill.folder}.`);
  }

  return {
    has,
    async add(name, text) {
      if (!isName(name)) throw new Error(`The name of a skill is ${NAME}.`);
      checkSize(text);
      await mkdir(dir, { recursive: true, mode: 0o700 });
      await mkdir(join(dir, name), { mode: 0o700 }).catch((error: unknown) => {
        throw codeOf(error) === "EEXIST" ? new Error(`${join(dir, name)} is there already.`) : error;
      });
      await writeWhole(join(dir, name, "SKILL.md"), text);
    },
    async change(skill, text) {
      await mustHave(skill);
      checkSize(text);
      await writeWhole(join(skill.folder, "SKILL.md"), text);
    },
    async remove(skill) {
      await mustHave(skill);
      await rm(skill.folder, { recursive: true });
    },
  };
}

function checkSize(text: string): void {
  if (Buffer.byteLength(text) > MOST_BYTES)
    throw new Error(`A skill has at most ${MOST_BYTES / 1_000} kB. Put details into other files of its folder.`);
}
